"""The plain write: the op behind `x[region] = value`. Its region is the node's, not a parameter."""

from __future__ import annotations

from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.table.registry import op


@op("update", cases=lambda rng: [])
def _write(x: Spec, value: Spec) -> Call:
    """The next version of `x`: the same, but for the region that the node names."""
    axes = tuple(range(x.ndim))
    labels = tuple(range(x.ndim, x.ndim + value.ndim))
    form = AxisForm((*x.shape, *value.shape), (axes, labels), (axes,))
    return Call(form, (x,))

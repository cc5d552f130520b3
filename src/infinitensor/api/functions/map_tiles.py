"""`map_tiles`: the user's own function of tiles as an op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.convert.asarray import asarray
from infinitensor.api.functions.op_function import bound_call
from infinitensor.api.record.record import record
from infinitensor.api.tensor.tensor import fresh, session_of
from infinitensor.ir.op import Spec
from infinitensor.ops.user import map_tiles_op

if TYPE_CHECKING:
    from collections.abc import Callable


def map_tiles(
    fn: Callable[..., Any],
    *tensors: Any,
    form: str,
    combine: str | None = None,
    dtype: Any = None,
    sizes: Any = None,
    halo: Any = None,
    with_region: bool = False,
    scratch_bytes: int = 0,
) -> Any:
    """A pure function of tiles as an op: NumPy arrays in and out on CPUs, torch tensors on GPUs.

    What it gets it must not change: NumPy's arrays are read-only, a write to torch's is an error.

    `form` names the axes, as in "nd,kd->nk"; several outputs are written "nd->n;d". Labels that
    only inputs have are cut if `combine` ("sum", "min", "max" ...) says how partial results merge,
    and stay whole otherwise. `sizes` gives labels that only outputs have, `halo` widens what a tile
    reads: {"n": (1, 1)}. With `with_region` the function gets `region=`, the boxes it makes.

    A generator function is a loop: it yields between its steps and returns its result. Ctrl-C, or
    an error elsewhere, is heard between two steps; the task starts anew at the next need.

    >>> import infinitensor as it
    >>> x = it.arange(6.0).reshape(3, 2)
    >>> it.map_tiles(lambda tile: tile.sum(1), x, form="nd->n").tolist()
    [1.0, 5.0, 9.0]
    >>> def halved(tile):
    ...     while tile.max() > 1:
    ...         tile = tile / 2
    ...         yield
    ...     return tile
    >>> it.map_tiles(halved, x, form="nd->nd").tolist()
    [[0.0, 0.125], [0.25, 0.375], [0.5, 0.625]]
    """
    made = [asarray(t) for t in tensors]
    session = session_of(made)
    specs = tuple(Spec(t.shape, t.dtype) for t in made)

    def rule() -> Any:
        return map_tiles_op(
            fn, specs, form, combine, dtype, sizes, halo, with_region, scratch_bytes
        )

    settings = (combine, str(dtype), _frozen(sizes), _frozen(halo), with_region, scratch_bytes)
    op, call = bound_call(None, ("map_tiles", fn, specs, form, settings), rule)
    versions = record(session, op, call, [t._ref() for t in made])
    outs = [fresh(session, version) for version in versions]
    return outs[0] if len(outs) == 1 else tuple(outs)


def _frozen(mapping: Any) -> Any:
    return (
        None
        if mapping is None
        else tuple(sorted((k, tuple(np.atleast_1d(v))) for k, v in mapping.items()))
    )

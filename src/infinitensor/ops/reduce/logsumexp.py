"""The logarithm of a sum of exponentials, in partial results that can be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import kind_of
from infinitensor.ir.op import Call, Combine, Spec
from infinitensor.ops.forms.reduction import (
    mean_dtype,
    reduce_call,
    reduce_cases,
    reduced_axes,
    rows_of,
    to_dtype,
    wide,
)
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    Dtype = np.dtype[Any]


def _anchor(xp: Any, top: Any) -> Any:
    """The shift before exp: the maximum where it is finite."""
    return xp.where(xp.isfinite(top), top, xp.zeros_like(top))


def _logsumexp_kernel(xp: Any, x: Any, axes: Any, dtype: Dtype) -> tuple[Any, Any]:
    """(maximum, sum of exp(x - maximum)) of a tile."""
    x = to_dtype(xp, x, dtype)
    if xp is np:
        top = np.maximum.reduce(x, axis=axes, keepdims=True, initial=-np.inf)
        away = np.asarray(x - _anchor(np, top))
        np.exp(away, out=away)
        total = np.asarray(np.add.reduce(away, axis=axes))
        return np.asarray(top).reshape(total.shape), total
    rows = rows_of(x, axes)
    if rows.shape[-1] == 0:
        none = xp.zeros(rows.shape[:-1], dtype=rows.dtype, device=rows.device)
        return none - xp.inf, none
    top = rows.amax(-1)
    return top, (rows - _anchor(xp, top).unsqueeze(-1)).exp_().sum(-1)


def _merge_logsumexp(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
    top = xp.maximum(a[0], b[0])
    anchor = _anchor(xp, top)
    total = 0
    for part_top, part in (a, b):
        scale = xp.exp(_anchor(xp, part_top) - anchor)
        scale = xp.where(part_top == -xp.inf, xp.zeros_like(scale), scale)
        total = total + part * scale
    return top, total


def _logsumexp_finish(xp: Any, top: Any, total: Any, out: Any, dtype: Dtype) -> None:
    out[...] = xp.log(total) + _anchor(xp, top)


def _logsumexp_oracle(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    a = np.asarray(a)
    if a.dtype.kind == "c":
        raise TypeError("logsumexp: needs real numbers")
    kind = np.dtype(np.float64) if a.dtype.kind in "biu" else a.dtype
    reduce: Any = np.logaddexp.reduce
    found = reduce(a.astype(wide(kind)), axis=axis, keepdims=keepdims)
    return np.asarray(found, kind)


@op(
    "reduction",
    kernel=_logsumexp_kernel,
    combine=Combine("logsumexp", _merge_logsumexp, exact=False),
    finish=_logsumexp_finish,
    scratch_bytes=lambda ins, outs, params: (
        3 * ins[0].n_elements * params["dtype"].itemsize + 6 * 8 * outs[0].n_elements
    ),
    cost=10.0,
    cases=reduce_cases(kinds=(np.float64, np.int8)),
    oracle=_logsumexp_oracle,
    method=False,
)
def logsumexp(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
    """log(sum(exp(a))) over the axes, without overflow on the way; -inf over nothing.

    >>> import infinitensor as it
    >>> float(it.logsumexp(it.asarray([1000.0, -1000.0])))
    1000.0
    """
    kind = mean_dtype(a, None)
    if kind_of(kind) != "f":
        raise TypeError(f"logsumexp: needs real numbers, got {a.dtype}")
    loop = wide(kind)
    axes = reduced_axes("logsumexp", a, axis)
    return reduce_call(a, axes, keepdims, kind, (loop, loop), dtype=loop)

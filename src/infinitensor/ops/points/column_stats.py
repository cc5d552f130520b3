"""The columns of a matrix: mean, variance, least and greatest, in one pass over its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float64, int64
from infinitensor.ir.op import AxisForm, Call, Combine, Spec
from infinitensor.ops.backend.c_loops import is_for, loop
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = Any


def _kernel(xp: Any, x: Array, axes: Any) -> tuple[Array, ...]:
    """(count, sum, squared distances to the mean in all, least, greatest) of a tile."""
    n, d = x.shape
    if xp is not np:
        count = xp.full((d,), n, dtype=xp.int64, device=x.device)
        return count, x.sum(0), xp.var(x, 0, correction=0).double() * n, *xp.aminmax(x, dim=0)
    count, total = np.full(d, n, np.int64), np.add.reduce(x, axis=0)
    mean = total / np.float64(n)
    measure = loop("column_stats", "columns", x.dtype)
    if measure is None:
        return count, total, ((x - mean) ** 2).sum(0), x.min(0), x.max(0)
    away, low, high = np.empty(d), np.empty(d, x.dtype), np.empty(d, x.dtype)
    if measure(np.ascontiguousarray(x), n, d, mean, away, low, high) < 0:
        raise MemoryError(f"no memory for the sums of {d} columns")
    return count, total, away, low, high


def _merge(xp: Any, a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    """Chan's rule."""
    (n_a, total_a, away_a, low_a, high_a), (n_b, total_b, away_b, low_b, high_b) = a, b
    n = n_a + n_b
    delta = total_b / n_b - total_a / n_a
    away = away_a + away_b + delta * delta * (n_a * (n_b / n))
    return n, total_a + total_b, away, xp.minimum(low_a, low_b), xp.maximum(high_a, high_b)


def _finish(
    xp: Any, n: Array, total: Array, away: Array, low: Array, high: Array, out: Any
) -> None:
    for target, values in zip(out, (total / n, away / n, low, high), strict=True):
        target[...] = values


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """A copy in one piece, and a few sums a column."""
    if not is_for(ins[0].dtype):
        return _numpy_scratch(ins, outs, params)
    return ins[0].n_bytes + 512 * ins[0].shape[1] + 4096


def _numpy_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Three copies in float64, and a few sums a column."""
    return 24 * ins[0].n_elements + 512 * ins[0].shape[1] + 4096


def _on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """The sums of torch's blocks, for each column."""
    return ins[0].n_bytes // 8 + 2048 * ins[0].shape[1] + (1 << 16)


def _oracle(x: Array) -> tuple[Array, ...]:
    wide = np.asarray(x, np.float64)
    return wide.mean(0).astype(x.dtype), wide.var(0).astype(x.dtype), x.min(0), x.max(0)


@op(
    "reduction",
    kernel=_kernel,
    combine=Combine("columns", _merge, exact=False),
    finish=_finish,
    scratch_bytes=_scratch,
    scratches={"cuda": _on_gpu, "numpy": _numpy_scratch},
    cost=4.0,
    cases=lambda rng: [
        ((x.astype(dtype),), {})
        for x in (rng.normal(3, 2, (37, 5)), rng.normal(size=(26, 18)), rng.normal(size=(3, 2)))
        for dtype in (np.float32, np.float64)
    ],
    oracle=_oracle,
)
def _columns(x: Spec) -> Call:
    """The mean, the variance, the least and the greatest value of each column."""
    form = AxisForm(x.shape, ((0, 1),), ((1,),) * 4)
    parts = (int64, x.dtype, float64, x.dtype, x.dtype)
    return Call(form, (Spec(x.shape[1:], x.dtype),) * 4, (), (), parts)

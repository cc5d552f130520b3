"""The ops of a ufunc's `reduce` and `reduceat`: a word folded along axes, whatever the word is.

The words that NumPy calls reorderable are reductions: any axes, cut anywhere. Any other goes from
left to right along one axis, which is not cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.forms.gather import along, gather_form, is_empty
from infinitensor.ops.forms.reduction import (
    cpu_reduce,
    plain_combine,
    reduce_call,
    reduced_axes,
    rows_of,
)
from infinitensor.ops.table.registry import op
from infinitensor.ops.table.words import EAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}
"""Ufuncs whose `reduce` is a function of its own."""

_OTHERS = """
fmax fmin logical_xor bitwise_and bitwise_or bitwise_xor gcd logaddexp logaddexp2 hypot
"""
REORDERABLE = frozenset((*REDUCTIONS, *_OTHERS.split()))
"""Ufuncs whose operands may be bracketed in any way."""
ROUNDED = frozenset(("logaddexp", "logaddexp2", "hypot"))
UNSOUND = frozenset(("power", "arctan2"))
"""Ufuncs whose `reduce` and `reduceat` NumPy has wrong where it computes them with AVX-512: several
steps begin from the same value. Its `accumulate` of them is right."""
ACCUMULATED_ELEMENTS = 2048
"""Elements of these that are accumulated together."""


def fold_torch(word: str, rows: Any) -> Any:
    """The last axis of a torch tile folded: in halves where the order is free, else in order."""
    apply = EAGER["cuda"][word]
    if word not in REORDERABLE:
        total = rows[..., 0]
        for i in range(1, rows.shape[-1]):
            total = apply(total, rows[..., i])
        return total
    while (n := rows.shape[-1]) > 1:
        half = n // 2
        rows = rows.clone() if rows._is_view() else rows
        rows[..., :half] = apply(rows[..., :half], rows[..., n - half :])
        rows = rows[..., : n - half]
    return rows[..., 0]


def _torch_reduce(word: str) -> Callable[..., Any]:
    def kernel(xp: Any, x: Any, axes: Any, dtype: Any) -> tuple[Any]:
        return (fold_torch(word, rows_of(x, axes)) if axes else x,)

    return kernel


def _reduce_cases(kinds: str) -> Callable[..., Any]:
    def cases(rng: np.random.Generator) -> list[Any]:
        x = rng.integers(0, 9, (4, 3, 5))
        typed = [x.astype(kind) for kind in kinds]
        calls: list[Any] = [((one, (1,)), {}) for one in typed]
        calls += [((one, (0, 2), True), {}) for one in typed]
        return [*calls, ((typed[0], (0, 1, 2)), {}), ((typed[0], ()), {})]

    return cases


def _reduction(word: str) -> None:
    ufunc: np.ufunc = getattr(np, word)
    kinds = "f" if "ff->f" in ufunc.types else ""
    kinds += "".join(kind for kind in "?bH" if 2 * kind + "->" + kind in ufunc.types)

    def rule(x: Spec, axis: Any = None, keepdims: bool = False) -> Call:
        if 2 * x.dtype.char + "->" + x.dtype.char not in ufunc.types:
            raise TypeError(f"{word}: no loop computes in {x.dtype}")
        axes = reduced_axes(word, x, axis)
        return reduce_call(x, axes, keepdims, x.dtype, (x.dtype,), dtype=x.dtype)

    rule.__doc__ = f"`{word}` of all values over the axes; x has the dtype it is computed in."
    op(
        "reduction",
        name=f"_reduce_{word}",
        kernel=cpu_reduce(ufunc),
        kernels={"cuda": _torch_reduce(word)},
        combine=plain_combine(word, exact=word not in ROUNDED),
        scratch_bytes=lambda ins, outs, params: 48 * ins[0].n_elements + 64 * outs[0].n_elements,
        cases=_reduce_cases(kinds),
        oracle=lambda x, axis=None, keepdims=False: ufunc.reduce(
            x, axis=axis, keepdims=keepdims, dtype=x.dtype
        ),
        same="close" if word in ROUNDED else "equal",
        wide=True,
    )(rule)


for _word in _OTHERS.split():
    _reduction(_word)


# --- in order ---------------------------------------------------------------------------------


def fold_numpy(word: str, x: Any, axis: int, out: Any) -> None:
    """An axis of a NumPy array folded into `out`; it has at least one element."""
    ufunc = getattr(np, word)
    if word not in UNSOUND:
        ufunc.reduce(x, axis=axis, dtype=out.dtype, out=out)
        return
    lines = np.moveaxis(x, axis, 0)
    out[...] = lines[0]
    step = max(ACCUMULATED_ELEMENTS // max(out.size, 1), 1)
    for lo in range(1, len(lines), step):
        begun = np.concatenate([out[None], lines[lo : lo + step]])
        out[...] = ufunc.accumulate(begun, axis=0, dtype=out.dtype)[-1]


def _fold_kernel(xp: Any, x: Any, out: Any, axis: int, word: str) -> None:
    if xp is np:
        fold_numpy(word, x, axis, out)
    else:
        out[...] = fold_torch(word, xp.movedim(x, axis, -1))


@op(
    "mapped",
    kernel=_fold_kernel,
    scratch_bytes=lambda ins, outs, params: (
        64 * outs[0].n_elements + 32 * ACCUMULATED_ELEMENTS + 1024
    ),
    cases=lambda rng: [
        ((rng.normal(size=(4, 6)), 1, "subtract"), {}),
        ((rng.integers(1, 4, (3, 5, 2)), 0, "power"), {}),
        ((rng.normal(size=9).astype("f4"), 0, "divide"), {}),
        ((rng.integers(1, 9, (4, 0)), 0, "lcm"), {}),
    ],
    oracle=lambda x, axis, word: getattr(np, word).reduce(x, axis=axis, dtype=x.dtype),
    wide=True,
)
def _fold(x: Spec, axis: int, word: str) -> Call:
    """x[0] word x[1] word ... along an axis, from left to right; the axis is not cut."""
    labels = tuple(range(x.ndim))
    kept = tuple(label for label in labels if label != axis)
    form = AxisForm(x.shape, (labels,), (kept,), frozenset((axis,)))
    shape = tuple(x.shape[label] for label in kept)
    return call(form, Spec(shape, x.dtype), axis=axis, word=word)


# --- segments ---------------------------------------------------------------------------------


def segments(starts: Sequence[int], n: int, lo: int, hi: int) -> list[tuple[int, int]]:
    """The ranges that the indices lo..hi of `reduceat` fold: up to the next index, or one element.

    >>> segments((0, 4, 1), 6, 0, 3)
    [(0, 4), (4, 5), (1, 6)]
    """
    ends = (*starts[lo + 1 : hi + 1], n)
    return [(start, max(end, start + 1)) for start, end in zip(starts[lo:hi], ends, strict=False)]


def _segments_need(
    box: Box, specs: Sequence[Spec], *, axis: int, word: str, starts: tuple[int, ...]
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    mine = segments(starts, specs[0].shape[axis], *box[axis])
    span = (min(lo for lo, _ in mine), max(hi for _, hi in mine))
    return ((*box[:axis], span, *box[axis + 1 :]),)


def _segments_kernel(
    xp: Any, x: Any, out: Any, at: At, axis: int, word: str, starts: tuple[int, ...]
) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    first, last = source[axis]  # where the last segment ends the axis, it was read to its end
    mine = segments(starts, last, *at.outputs[0][axis])
    begins = np.array([start - first for start, _ in mine])
    is_ascending = bool((begins[1:] >= begins[:-1]).all())
    if xp is np and is_ascending and word not in UNSOUND:
        getattr(np, word).reduceat(x, begins, axis, dtype=out.dtype, out=out)
        return
    for k, (start, end) in enumerate(mine):
        part = x[along(axis, slice(start - first, end - first))]
        if xp is np:
            place = (*along(axis, k), ...)
            fold_numpy(word, part, axis, out[place])
        else:
            out[along(axis, k)] = fold_torch(word, xp.movedim(part, axis, -1))


@op(
    "gather",
    kernel=_segments_kernel,
    need=_segments_need,
    scratch_bytes=lambda ins, outs, params: 48 * ins[0].n_elements + 64 * outs[0].n_elements + 1024,
    cases=lambda rng: [
        ((rng.integers(0, 9, 23), 0, "add", (0, 4, 4, 9, 22)), {}),
        ((rng.normal(size=(5, 8)), 1, "maximum", (6, 1, 3)), {}),
        ((rng.normal(size=(5, 8)), 0, "subtract", (1, 4)), {}),
        ((rng.normal(size=(5, 8)), 0, "add", ()), {}),
    ],
    oracle=lambda x, axis, word, starts: getattr(np, word).reduceat(
        x, np.array(starts, np.int64), axis, dtype=x.dtype
    ),
    wide=True,
    same="close",
)
def _reduceat(x: Spec, axis: int, word: str, starts: tuple[int, ...]) -> Call:
    """`word` folded from each start to the next along an axis; a segment is not cut."""
    shape = (*x.shape[:axis], len(starts), *x.shape[axis + 1 :])
    form = gather_form((x,), shape)
    return call(form, Spec(shape, x.dtype), axis=axis, word=word, starts=starts)

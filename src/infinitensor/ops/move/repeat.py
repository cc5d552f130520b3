"""Copies of an array, or of each element, one after another."""

from __future__ import annotations

from itertools import accumulate, product
from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import can_cast
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.gather import along, gather_form, is_empty
from infinitensor.ops.move import moved_rows
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

    Axes = int | tuple[int, ...] | None


def _cyclic_need(
    box: Box, specs: Sequence[Spec], *, base: tuple[int, ...]
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    need = []
    for (lo, hi), n in zip(box, base, strict=True):
        first = lo % n
        need.append((first, first + hi - lo) if first + hi - lo <= n else (0, n))
    return (tuple(need),)


def _cyclic_kernel(xp: Any, x: Any, out: Any, at: At, base: tuple[int, ...]) -> None:
    """Copies the base's tile into all whole repetitions at once, and into parts of one at the ends.

    Whole repetitions are an axis of their own, over which the tile is broadcast.
    """
    if x is None:
        return
    source = at.inputs[0]
    assert source is not None
    spans = [
        _repetitions(lo, hi, first, n)
        for (lo, hi), (first, _), n in zip(at.outputs[0], source, base, strict=True)
    ]
    for places in product(*spans):
        part = x[(*(of for _, of, _ in places), ...)]
        split = [k for n, (_, _, count) in zip(part.shape, places, strict=True) for k in (count, n)]
        target = out[(*(to for to, _, _ in places), ...)].reshape(split)  # a view
        target[...] = part.reshape([k for n in part.shape for k in (1, n)])


def _repetitions(lo: int, hi: int, first: int, n: int) -> list[tuple[slice, slice, int]]:
    """The parts of the base along an axis of the output: where each stands, and how often in a
    row."""
    head = min(hi - lo, -lo % n)
    count, rest = divmod(hi - lo - head, n)
    found = [
        (slice(0, head), slice(lo % n - first, lo % n - first + head), 1),
        (slice(head, head + count * n), slice(-first, n - first), count),
        (slice(hi - lo - rest, hi - lo), slice(-first, rest - first), 1),
    ]
    return [(to, of, times) for to, of, times in found if to.stop > to.start]


@op(
    "gather",
    kernel=_cyclic_kernel,
    need=_cyclic_need,
    moves=True,
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), (2, 3)), {}),
        ((rng.standard_normal((3, 4)), (0, 3)), {}),
        ((rng.standard_normal((1, 4)), (5, 1)), {}),
        ((rng.standard_normal((0, 4)), (5, 1)), {}),
        ((np.float64(3), ()), {}),
    ],
    oracle=np.tile,
)
def _tile(x: Spec, reps: tuple[int, ...]) -> Call:
    """x beside itself, `reps` times along each of its axes."""
    shape = tuple(n * r for n, r in zip(x.shape, reps, strict=True))
    return call(gather_form((x,), shape), Spec(shape, x.dtype), base=x.shape)


@program(
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2), {}),
        ((rng.standard_normal((3, 4)), (2, 1)), {}),
        ((rng.standard_normal(4), (2, 3)), {}),
        ((np.float64(2), 3), {}),
    ],
    same="equal",
)
def tile(xp: Any, A: Array, reps: int | tuple[int, ...]) -> Any:
    """The array beside itself, `reps` times along each axis.

    Writes the result once; an axis longer than a block is joined from views of itself.

    >>> import infinitensor as it
    >>> it.tile(it.arange(2), 3).numpy().tolist()
    [0, 1, 0, 1, 0, 1]
    """
    counts = tuple(as_int(r) for r in np.atleast_1d(np.asarray(reps)).tolist())
    ndim = max(len(counts), len(A.shape))
    counts = (1,) * (ndim - len(counts)) + counts
    result = A.reshape((1,) * (ndim - len(A.shape)) + tuple(A.shape))
    if any(count < 0 for count in counts):
        raise ValueError("tile: negative dimensions are not allowed")
    short = [1 if n >= 2 * xp.block(n) else c for n, c in zip(result.shape, counts, strict=True)]
    for axis, (count, done) in enumerate(zip(counts, short, strict=True)):
        if count == 0:
            short[axis] = 0
        elif count != done:
            result = xp._concatenate([result] * count, axis)
    return xp._tile(result, tuple(short))


def _repeat_need(
    box: Box, specs: Sequence[Spec], *, axis: int, repeats: int, ends: tuple[int, ...]
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    first, last = _repeat_source(*box[axis], repeats, ends)
    return ((*box[:axis], (first, last), *box[axis + 1 :]),)


def _repeat_source(lo: int, hi: int, repeats: int, ends: tuple[int, ...]) -> tuple[int, int]:
    """The source elements that the output's range lo..hi repeats; `ends` where counts differ."""
    if not ends:
        return lo // repeats, (hi - 1) // repeats + 1
    first, last = np.searchsorted(ends, [lo, hi - 1], side="right").tolist()
    return first, last + 1


def _repeat_kernel(
    xp: Any, x: Any, out: Any, at: At, axis: int, repeats: int, ends: tuple[int, ...]
) -> None:
    if x is None:
        return
    source = at.inputs[0]
    assert source is not None
    lo, hi = at.outputs[0][axis]
    first, last = source[axis]
    if xp is not np and not ends:
        _repeat_torch(xp, x, out, axis, (lo, hi, first), repeats)
        return
    if ends:
        stops = np.minimum(ends[first:last], hi) - lo
    else:
        stops = np.minimum(np.arange(first + 1, last + 1) * repeats, hi) - lo
    counts = np.diff(stops, prepend=0)
    index = np.repeat(np.arange(last - first), counts)
    if xp is np and moved_rows.take(x, index, axis, out):
        return
    if xp is np and x.flags.c_contiguous:  # else `take` copies x
        np.take(x, index, axis=axis, out=out, mode="clip")
    elif xp is np:
        out[...] = x[along(axis, index)]
    else:
        at_ = xp.as_tensor(index, device=x.device)
        as_signed(out)[...] = xp.index_select(as_signed(x), axis, at_)


def _repeat_torch(
    xp: Any, x: Any, out: Any, axis: int, span: tuple[int, int, int], repeats: int
) -> None:
    """Each element as often as every other; nothing comes from the host."""
    lo, hi, first = span
    x, out = as_signed(x), as_signed(out)
    if lo % repeats or hi % repeats:  # a part of what is repeated
        index = xp.arange(lo, hi, device=x.device) // repeats - first
        out[...] = xp.index_select(x, axis, index)
    else:
        out.unflatten(axis, (x.shape[axis], repeats))[...] = x.unsqueeze(axis + 1)


@op(
    "gather",
    kernel=_repeat_kernel,
    need=_repeat_need,
    moves=True,
    scratch_bytes=lambda ins, outs, params: (
        32 * (outs[0].shape[params["axis"]] + 1) + 2 * outs[0].n_bytes
    ),
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2, 1), {}),
        ((rng.standard_normal((3, 4)), 0, 1), {}),
        ((rng.standard_normal((3, 4)), (2, 0, 5), 0), {}),
    ],
    oracle=lambda x, repeats, axis: np.repeat(x, repeats, axis),
)
def _repeat(x: Spec, repeats: int | tuple[int, ...], axis: int) -> Call:
    """Each element `repeats` times, or as often as its count says."""
    n = x.shape[axis]
    ends: tuple[int, ...] = ()
    if isinstance(repeats, tuple):
        ends = tuple(accumulate(repeats))
        total = ends[-1] if ends else 0
        repeats = 0
    else:
        total = n * repeats
    shape = (*x.shape[:axis], total, *x.shape[axis + 1 :])
    out = Spec(shape, x.dtype)
    return call(gather_form((x,), shape), out, axis=axis, repeats=repeats, ends=ends)


@program(
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2), {}),
        ((rng.standard_normal((3, 4)), 3), {"axis": 1}),
        ((rng.standard_normal((3, 4)), [1, 0, 2]), {"axis": 0}),
        ((np.float64(3), 3), {}),
    ],
    same="equal",
)
def repeat(xp: Any, a: Array, repeats: Any, axis: int | None = None) -> Any:
    """Each element several times in a row: a number, or a count for each index of the axis.

    Counts must be known on the host: they decide the shape; a tensor of them is computed.

    >>> import infinitensor as it
    >>> it.repeat(it.arange(3), [2, 0, 1]).numpy().tolist()
    [0, 0, 2]
    """
    if axis is None:
        a, axis = a.reshape(-1), 0
    elif not a.shape:  # to NumPy a 0-d array has one axis here
        a = a.reshape(1)
    axis = normalize_axis_index(axis, len(a.shape), "repeat")
    n = a.shape[axis]
    counts = np.asarray(repeats)
    if isinstance(repeats, list | tuple | float | str):  # NumPy asks only arrays for integers
        counts = counts.astype(np.int64)
    if not can_cast(counts.dtype, np.int64, "safe"):
        raise TypeError(
            f"repeat: cannot cast repeats from {counts.dtype!r} to dtype('int64') "
            "according to the rule 'safe'"
        )
    if counts.size and int(counts.min()) < 0:
        raise ValueError("repeat: repeats may not contain negative values.")
    if counts.ndim == 0 or counts.shape == (1,):
        return xp._repeat(a, int(counts.reshape(())), axis)
    if counts.shape != (n,):
        raise ValueError(
            f"repeat: operands could not be broadcast together with shape ({n},) {counts.shape}"
        )
    return xp._repeat(a, tuple(int(c) for c in counts), axis)

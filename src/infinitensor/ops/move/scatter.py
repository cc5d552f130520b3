"""Writing by index arrays.

Each tile of the base passes over all entries. Many entries of a line are first dealt, run by run,
into buckets of places, as in one step of a radix sort; a tile then reads its own buckets only, and
what it writes stays in cache. Either way entries are written in the order of the index.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64, to_torch
from infinitensor.ir.op import Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.gather import gather_form, is_empty
from infinitensor.ops.move import scatter_triton
from infinitensor.ops.move.take import check_bounds, check_selection, checked_index, selected_shape
from infinitensor.ops.sorting.sort import pieces, run_hull
from infinitensor.ops.table.registry import Array, op, program
from infinitensor.ops.table.words import EAGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


def _scatter_need(
    box: Box, specs: Sequence[Spec], *, axes: tuple[int, ...], position: int, **_: Any
) -> tuple[Box | None, ...]:
    """The tile, every index, and of the value whole index axes and the tile's box on the others."""
    value, ndim = specs[-1], specs[-2].ndim
    index = tuple((0, n) for n in value.shape[position : position + ndim])
    if is_empty(index):
        return (None,) * len(specs)
    if is_empty(box):  # nothing is written, but NumPy checks the index all the same
        return (None, *(index,) * len(axes), None)
    kept = [span for axis, span in enumerate(box) if axis not in axes]
    return (box, *(index,) * len(axes), (*kept[:position], *index, *kept[position:]))


def _scatter_kernel(
    xp: Any,
    *tiles: Any,
    out: Any,
    at: At,
    axes: tuple[int, ...],
    position: int,
    mode: str,
    sizes: tuple[int, ...],
    loop: np.dtype[Any] | None,
) -> None:
    """Applies, in the order of the index, the entries that fall into the tile."""
    *index, value = tiles[-len(axes) - 1 :]
    if index[0] is None:
        return
    if value is None:
        for i, n, axis in zip(index, sizes, axes, strict=True):
            checked_index(xp, i.reshape(-1), n, axis)
        return
    ndim = index[0].ndim
    are_kernels = xp is not np and _has_kernels(value, index, out, at, axes, position, mode, sizes)
    if are_kernels and scatter_triton.write(value, index, sizes, position, out, mode):
        return
    rows = xp.moveaxis(value, tuple(range(position, position + ndim)), tuple(range(ndim)))
    target = xp.moveaxis(out, axes, tuple(range(len(axes))))
    if xp is np:
        lows = [at.outputs[0][axis][0] for axis in axes]
        _write_numpy(target, index, rows, lows, axes, mode, sizes)
        return
    flats = [
        checked_index(xp, i.reshape(-1), n, axis)
        for i, n, axis in zip(index, sizes, axes, strict=True)
    ]
    where, inside = _within(flats, [at.outputs[0][axis] for axis in axes], sizes)
    rows = rows.reshape(len(flats[0]), *rows.shape[ndim:])
    # what kernels will add one after another is not added in another order before
    in_rounds = are_kernels and mode == "add" and out.is_floating_point()
    if mode == "set" or (mode == "add" and rows.dtype == out.dtype and not in_rounds):
        _write_torch(as_signed(target), where, as_signed(rows.to(out.dtype))[inside], mode)
    else:
        _apply_torch(target, where, rows[inside], mode, loop)


def _has_kernels(
    value: Any,
    index: Sequence[Any],
    out: Any,
    at: At,
    axes: tuple[int, ...],
    position: int,
    mode: str,
    sizes: tuple[int, ...],
) -> bool:
    """Whether generated kernels write these entries: axes are neighbours, and whole in the tile."""
    are_neighbours = axes == tuple(range(position, position + len(axes)))
    if not are_neighbours or 0 in (*out.shape, *value.shape):
        return False
    are_whole = all(at.outputs[0][k] == (0, n) for k, n in zip(axes, sizes, strict=True))
    return are_whole and scatter_triton.can_write(value, index, sizes, out, mode)


def _within(
    flats: Sequence[Any], ends: Sequence[tuple[int, int]], sizes: Sequence[int]
) -> tuple[tuple[Any, ...], Any]:
    """The places within a tile of the entries that fall into it, and which these are."""
    if all(end == (0, n) for end, n in zip(ends, sizes, strict=True)):
        return tuple(flats), slice(None)
    inside: Any = None
    for flat, (lo, hi) in zip(flats, ends, strict=True):
        within = (flat >= lo) & (flat < hi)
        inside = within if inside is None else inside & within
    places = (flat[inside] - lo for flat, (lo, _) in zip(flats, ends, strict=True))
    return tuple(places), inside


def _write_numpy(
    target: Any,
    index: Sequence[Any],
    rows: Any,
    lows: Sequence[int],
    axes: Sequence[int],
    mode: str,
    sizes: Sequence[int],
) -> None:
    """Entries in the order of the index: all at once by a loop in C, or run by run, so that what a
    run takes beside its operands is little. Nothing is written where an index is out of bounds."""
    ends = [(lo, lo + n) for lo, n in zip(lows, target.shape, strict=False)]
    write = _loop_for(index, rows, target, mode)
    if write and all(array.flags.c_contiguous for array in (*index, rows)):
        _write_by_loop(write, index, rows, target, ends, mode, sizes)
        return
    for i, n, axis in zip(index, sizes, axes, strict=True):
        check_bounds(i, n, axis)
    ndim = index[0].ndim
    for run in _runs(index[0].shape, MOST_AT_A_TIME // max(prod(rows.shape[ndim:]), 1)):
        some = [i[run].reshape(-1) for i in index]
        values = rows[run].reshape(some[0].size, *rows.shape[ndim:])
        if write:
            _write_by_loop(write, some, values, target, ends, mode, sizes)
            continue
        flats = [np.where(i < 0, i + n, i) for i, n in zip(some, sizes, strict=True)]
        where, inside = _within(flats, ends, sizes)
        _put(target, where, values[inside], mode)


def _put(target: Any, where: tuple[Any, ...], rows: Any, mode: str) -> None:
    if mode == "set":
        target[where] = rows
    else:
        ufunc: np.ufunc = getattr(np, mode)
        ufunc.at(target, where, *(rows,) * (ufunc.nin - 1))


MOST_AT_A_TIME = 1 << 13
"""Values that are written at a time where entries are brought together first."""


def _runs(shape: tuple[int, ...], most: int) -> Iterator[tuple[Any, ...]]:
    """Parts of an index of `most` entries or fewer (but one), in C order."""
    if not shape:
        yield (None,)
        return
    axis, inner = len(shape) - 1, 1
    while axis and inner * shape[axis] <= most:
        inner *= shape[axis]
        axis -= 1
    step = max(most // max(inner, 1), 1)
    for lead in np.ndindex(*shape[:axis]):
        for first in range(0, shape[axis], step):
            yield (*lead, slice(first, first + step))


def _loop_for(index: Sequence[Any], rows: Any, out: Any, mode: str) -> Any:
    """The loop in C that writes rows of this dtype by leading axes; None where there is none."""
    if rows.dtype != out.dtype or not out.flags.c_contiguous or not out.size:
        return None
    if not all(_has_loop(mode, out.dtype, i.dtype) for i in index):
        return None
    return loop("take", "write_rows" if len(index) == 1 else "write_points", out.dtype)


def _write_by_loop(
    write: Any,
    index: Sequence[Any],
    rows: Any,
    out: Any,
    ends: Sequence[tuple[int, int]],
    mode: str,
    sizes: Sequence[int],
) -> None:
    index, rows = [np.ascontiguousarray(i) for i in index], np.ascontiguousarray(rows)
    wrong, adds = np.zeros(2, np.int64), int(mode == "add")
    n, width = index[0].size, out.size // prod(hi - lo for lo, hi in ends)
    if len(index) == 1:
        done = write(out, width, index[0], n, sizes[0], *ends[0], rows, adds, wrong)
    else:
        begin = np.asarray([i.__array_interface__["data"][0] for i in index], np.int64)
        lows, highs = (np.asarray(edge, np.int64) for edge in zip(*ends, strict=True))
        lengths = np.asarray(sizes, np.int64)
        done = write(out, width, len(index), begin, n, lengths, lows, highs, rows, adds, wrong)
    if done < 0:
        raise _out_of_bounds(wrong[0], sizes[int(wrong[1])], int(wrong[1]))


def _has_loop(mode: str, dtype: Any, index: Any) -> bool:
    return mode in ("set", "add") and index == int64 and not (mode == "add" and dtype.kind == "b")


def _out_of_bounds(wrong: int, size: int, axis: int = 0) -> IndexError:
    return IndexError(f"index {wrong} is out of bounds for axis {axis} with size {size}")


def _by_place(target: Any, index: tuple[Any, ...]) -> Any:
    """The place of each entry as one number, sorted, and the order that sorts; equal ones stay."""
    key = torch.zeros_like(index[0])
    for i, n in zip(index, target.shape, strict=False):
        key = key * n + i
    return torch.sort(key, stable=True)


def _apply_torch(target: Any, index: tuple[Any, ...], rows: Any, word: str, loop: Any) -> None:
    """A word in rounds: the first entry of each place, then the second ones, and so on."""
    key, order = _by_place(target, index)
    _, n_equal = torch.unique_consecutive(key, return_counts=True)
    ends = n_equal.cumsum(0)
    turn = torch.arange(len(key), device=key.device) - (ends - n_equal).repeat_interleave(n_equal)
    apply = EAGER["cuda"][word]
    stored = as_signed(target)
    for k in range(int(n_equal.max()) if len(key) else 0):
        now = order[turn == k]
        place = tuple(i[now] for i in index)
        before = stored[place].view(target.dtype).to(to_torch(loop))
        others = (as_signed(rows)[now].view(rows.dtype),) * (getattr(np, word).nin - 1)
        stored.index_put_(place, as_signed(apply(before, *others).to(target.dtype)))


def _write_torch(target: Any, index: tuple[Any, ...], rows: Any, mode: str) -> None:
    """torch leaves open which of two equal indices wins: sort, keep the last of each.

    Its accumulating put sorts by index itself and adds in that order, so it repeats bit for bit on
    CUDA; on the CPU it adds one after another. Integers add up to the same in any order.
    """
    if mode == "add":
        is_exact = not (target.is_floating_point() or target.is_complex())
        if is_exact and len(index) == 1 and target.dtype != torch.bool:
            target.index_add_(0, index[0], rows)
        else:
            target.index_put_(index, rows, accumulate=True)
        return
    key, order = _by_place(target, index)
    last = torch.ones_like(key, dtype=torch.bool)
    last[:-1] = key[1:] != key[:-1]
    order = order[last]
    target.index_put_(tuple(i[order] for i in index), rows[order])


def _scatter_oracle(
    base: Any, indices: Any, value: Any, axes: Any, position: int, mode: str, loop: Any
) -> Any:
    result = base.copy()
    ndim = indices[0].ndim
    front = np.moveaxis(result, axes, range(len(axes)))
    rows = np.moveaxis(value, range(position, position + ndim), range(ndim))
    _put(front, tuple(indices), rows, mode)
    return result


def _scatter_cases(rng: Any) -> list[Any]:
    x = rng.integers(0, 9, (4, 5, 6))
    return [
        (
            (
                x,
                [rng.integers(0, n, (2, 3)) for axis, n in enumerate(x.shape) if axis in axes],
                rng.integers(0, 9, shape),
                axes,
                position,
                mode,
                x.dtype,
            ),
            {},
        )
        for mode in ("set", "add", "maximum", "negative")
        for axes, position, shape in (
            ((0,), 0, (2, 3, 5, 6)),
            ((1,), 1, (4, 2, 3, 6)),
            ((0, 1), 0, (2, 3, 6)),
            ((0, 2), 0, (2, 3, 5)),
            ((0, 1, 2), 0, (2, 3)),
        )
    ]


def _scratch(ins: Sequence[Spec], out: Spec, k: int) -> int:
    """Scratch bytes of a run of entries."""
    n, item = ins[-2].n_elements, max(ins[-1].dtype.itemsize, out.dtype.itemsize)
    width = -(-ins[-1].n_elements // max(n, 1))
    most = min(max(MOST_AT_A_TIME // max(width, 1), 1), n)
    return most * (48 * k + 4 + 6 * width * item) + (1 << 12)


def _on_gpu(ins: Sequence[Spec], out: Spec, k: int) -> int:
    return (
        7 * sum(spec.n_bytes + spec.n_elements for spec in ins[-1 - k : -1])
        + 6 * ins[-1].n_elements * max(ins[-1].dtype.itemsize, out.dtype.itemsize)
        + 4 * scatter_triton.PLACES_OF_ENTRY * ins[-2].n_elements
        + 256
    )


@op(
    "update",
    kernel=_scatter_kernel,
    need=_scatter_need,
    located=True,
    scratch_bytes=lambda ins, outs, params: _scratch(ins, outs[0], len(params["axes"])),
    scratches={"cuda": lambda ins, outs, params: _on_gpu(ins, outs[0], len(params["axes"]))},
    cases=_scatter_cases,
    oracle=_scatter_oracle,
)
def _scatter(
    base: Spec,
    indices: Sequence[Spec],
    value: Spec,
    axes: tuple[int, ...],
    position: int,
    mode: str = "set",
    loop: np.dtype[Any] | None = None,
) -> Call:
    """The base with base[..., i, ...] = value, or changed by the ufunc that `mode` names.

    `value` has the selection's shape (as `_take` would give it). Of equal indices the last one in
    C order is set; a ufunc is applied for every entry, in that order, in the dtype `loop`.
    """
    check_selection("scatter", base, indices, axes)
    selection = selected_shape(base.shape, axes, position, indices[0].shape)
    if value.shape != selection:
        raise ValueError(
            f"shape mismatch: value array of shape {value.shape} could not be broadcast to "
            f"indexing result of shape {selection}"
        )
    form = gather_form((base, *indices, value), base.shape)
    return call(
        form,
        Spec(base.shape, base.dtype),
        axes=tuple(axes),
        position=position,
        mode=mode,
        sizes=tuple(base.shape[axis] for axis in axes),
        loop=loop,
    )


# --- many entries -----------------------------------------------------------------------------

MOST_BUCKETS = 512
"""More streams than that do not stay in cache while entries are dealt."""
PLACE = np.dtype(np.uint32)


def _deal_need(
    box: Box, specs: Sequence[Spec], *, size: int, shift: int, run: int
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None, None)
    return ((run_hull(box[0], run, specs[0].shape[0]),),) * 2


def _deal_kernel(
    xp: Any, index: Any, rows: Any, out: Any, at: At, size: int, shift: int, run: int
) -> None:
    source = at.inputs[0]
    if index is None or source is None:
        return
    for whole, part, where in pieces(at.outputs[0][0], source[0], run):
        targets = tuple(target[where] for target in out)
        same = whole.stop - whole.start == part.stop - part.start
        if xp is np and same and _dealt_by_loop(index[whole], rows[whole], targets, size, shift):
            continue
        places = checked_index(xp, index[whole], size, 0)
        order = (places >> shift).argsort(stable=True)[part]
        targets[0][...] = places[order].astype(PLACE) if xp is np else places[order].to(xp.uint32)
        targets[1][...] = rows[whole][order]


def _dealt_by_loop(index: Any, rows: Any, out: tuple[Any, Any], size: int, shift: int) -> bool:
    deal = loop("take", "deal", rows.dtype)
    if deal is None:
        return False
    index, rows = np.ascontiguousarray(index), np.ascontiguousarray(rows)
    n_each, wrong = np.zeros((size >> shift) + 2, np.int64), np.zeros(1, np.int64)
    if deal(index, rows, len(index), size, shift, n_each, *out, wrong) < 0:
        raise _out_of_bounds(wrong[0], size)
    return True


def _deal_cases(rng: Any) -> list[Any]:
    return [
        ((rng.integers(-40, 40, 9), rng.normal(size=9), 40, 2, 4), {}),
        ((rng.integers(0, 40, 9), rng.normal(size=9) + 1j, 40, 3, 2), {}),
    ]


def _deal_oracle(index: Any, rows: Any, size: int, shift: int, run: int) -> Any:
    places = np.where(index < 0, index + size, index)
    order = np.lexsort((places >> shift, np.arange(len(index)) // run))
    return places[order].astype(PLACE), rows[order]


@op(
    "gather",
    kernel=_deal_kernel,
    need=_deal_need,
    scratch_bytes=lambda ins, outs, params: (
        48 * ins[0].n_elements + 2 * ins[1].n_bytes + 8 * (params["size"] >> params["shift"]) + 512
    ),
    cost=4.0,
    cases=_deal_cases,
    oracle=_deal_oracle,
)
def _deal(index: Spec, rows: Spec, size: int, shift: int, run: int) -> Call:
    """Places and rows, each run in the order of buckets of 2**shift places, else in its own."""
    outs = (Spec(index.shape, PLACE), Spec(index.shape, rows.dtype))
    form = gather_form((index, rows), index.shape, 2)
    return call(form, *outs, size=size, shift=shift, run=run)


def _dealt_need(box: Box, specs: Sequence[Spec], **_: Any) -> tuple[Box | None, ...]:
    n = specs[1].shape[0]
    return (None,) * 3 if is_empty(box) or not n else (box, ((0, n),), ((0, n),))


def _scatter_dealt_kernel(
    xp: Any, *tiles: Any, out: Any, at: At, shift: int, run: int, size: int, **params: Any
) -> None:
    places, rows = tiles[-2:]
    if places is None:
        return
    write = loop("take", "write_dealt", out.dtype) if xp is np else None
    if write is None or rows.dtype != out.dtype or not out.flags.c_contiguous:
        places = places if xp is np else places.to(xp.int64)
        _scatter_kernel(
            xp, places, rows, out=out, at=at, axes=(0,), position=0, sizes=(size,), **params
        )
        return
    places, rows = np.ascontiguousarray(places), np.ascontiguousarray(rows)
    n, adds = len(places), int(params["mode"] == "add")
    each = np.empty(-(-n // run), np.int64)
    write(out, *at.outputs[0][0], places, rows, n, run, shift, adds, each)


def _scatter_dealt_cases(rng: Any) -> list[Any]:
    return [
        ((rng.normal(size=40), *_deal_oracle(*args), *args[3:], mode, np.dtype(np.float64)), {})
        for args, _ in _deal_cases(rng)[:1]
        for mode in ("set", "add")
    ]


def _scatter_dealt_oracle(
    base: Any, places: Any, rows: Any, shift: int, run: int, mode: str, loop: Any
) -> Any:
    return _scatter_oracle(base, [places], rows, (0,), 0, mode, loop)


@op(
    "update",
    kernel=_scatter_dealt_kernel,
    need=_dealt_need,
    located=True,
    scratch_bytes=lambda ins, outs, params: (
        _scratch(ins, outs[0], 1) + 8 * -(-ins[-2].n_elements // params["run"])
    ),
    scratches={
        "cuda": lambda ins, outs, params: _on_gpu(ins, outs[0], 1) + 64 * ins[-2].n_elements
    },
    cases=_scatter_dealt_cases,
    oracle=_scatter_dealt_oracle,
)
def _scatter_dealt(
    base: Spec, places: Spec, rows: Spec, shift: int, run: int, mode: str, loop: np.dtype[Any]
) -> Call:
    """A line changed by entries that are dealt in runs; equal places in the order they come in."""
    return call(
        gather_form((base, places, rows), base.shape),
        Spec(base.shape, base.dtype),
        shift=shift,
        run=run,
        size=base.shape[0],
        mode=mode,
        loop=loop,
    )


@program(name="_scattered", cases=_scatter_cases, oracle=_scatter_oracle)
def _scatter_by_buckets(
    xp: Any,
    base: Array,
    indices: Sequence[Array],
    value: Array,
    axes: tuple[int, ...],
    position: int,
    mode: str = "set",
    loop: np.dtype[Any] | None = None,
) -> Any:
    """As `_scatter`; many entries of a long line are dealt into buckets first."""
    size, n = (*base.shape, 0)[0], prod(value.shape)
    bucket = max(xp.block(size), -(-size // MOST_BUCKETS))
    fits = len(base.shape) == 1 and 2 * bucket <= size < 1 << 32 and n >= bucket
    if not fits or not _has_loop(mode, base.dtype, indices[0].dtype):
        return xp._scatter(base, indices, value, axes, position, mode, loop)
    shift, run = (bucket - 1).bit_length(), xp.block(n)
    places, rows = xp._deal(indices[0].reshape(-1), value.reshape(-1), size, shift, run)
    return xp._scatter_dealt(base, places, rows, shift, run, mode, loop)

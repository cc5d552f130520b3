"""Sorting.

An axis of less than two blocks is sorted by one kernel. A longer one is sorted in runs of a block,
and each piece of the result is then merged from the parts of the runs that belong to its ranks; a
line by few threads as one task, in a run for each (`_sort_line`).
On CPUs both are loops in C (`sort.c`), or NumPy's sort where there is no compiler; where NumPy
sorts by vectors it sorts the runs (`sorted_lines.c`), and for their order numbers of a key and a
place. Short lines are sorted by a network, many at a time.
"""

from __future__ import annotations

from functools import cache
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import int64
from infinitensor.events import lane
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.native import address
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.gather import along, gather_form, is_empty
from infinitensor.ops.sorting import sorted_lines
from infinitensor.ops.sorting.external_sort import is_long, sort_long
from infinitensor.ops.sorting.sort_cuda import one_nan, sort_with_cupy
from infinitensor.ops.sorting.sort_triton import argsort_short_lines, sort_short_lines
from infinitensor.ops.table.registry import Array, op, program
from infinitensor.threads import n_sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


# --- what one kernel sorts --------------------------------------------------------------------


def torch_keys(x: Any) -> tuple[Any, ...]:
    """Tensors that torch sorts, most significant first, whose order is NumPy's order of x."""
    if x.is_complex():
        # NumPy puts numbers with NaN parts last: imaginary, then real, then both.
        real, imag = x.real, x.imag
        broken = real.isnan().to(torch.int8) * 2 + imag.isnan().to(torch.int8)
        return broken, one_nan(real), one_nan(imag)
    signed = as_signed(x)
    if signed is not x:
        return (signed ^ torch.iinfo(signed.dtype).min,)  # unsigned order with signed compares
    return (one_nan(x),)


def torch_argsort(x: Any, axis: int) -> Any:
    """Stable argsort on CUDA, for every dtype."""
    *more, last = torch_keys(x)
    order = last.sort(dim=axis, stable=True).indices
    for key in reversed(more):
        again = key.take_along_dim(order, axis).sort(dim=axis, stable=True).indices
        order = order.take_along_dim(again, axis)
    return order


def torch_sort(x: Any, axis: int) -> Any:
    """The sorted values on CUDA, for every dtype."""
    if not x.is_complex() and as_signed(x) is x:
        return one_nan(x).sort(dim=axis, stable=True).values
    return as_signed(x).take_along_dim(torch_argsort(x, axis), axis).view(x.dtype)


def lines_of(x: Array, axis: int) -> Array:
    """The lines along an axis as the last one, side by side."""
    return np.ascontiguousarray(np.moveaxis(x, axis, -1))


def sort_into(xp: Any, x: Any, out: Any, axis: int) -> None:
    """Equal values are the same (but for the sign of zero), so the fastest sort will do."""
    if xp is not np:
        if not (sort_short_lines(x, out, axis) or sort_with_cupy(x, out, axis)):
            out[...] = torch_sort(x, axis)
        return
    if x.shape[axis] < 2:
        out[...] = x
        return
    if _is_short(x, axis) and _sort_short(x, out, axis):
        return
    if _has_vectors(x.dtype) and sorted_lines.sort(x, axis, out, _threads_for(x)):
        return
    sort_lines = None if _has_vectors(x.dtype) else loop("sort", "sort_lines", x.dtype)
    if sort_lines is None:
        out[...] = x
        out.sort(axis=axis)
        return
    lines, target, n = lines_of(x, axis), np.moveaxis(out, axis, -1), x.shape[axis]
    made = target if target.flags.c_contiguous else np.empty_like(lines)
    n_lines = lines.size // max(n, 1)
    n_threads = max(min(_threads_for(x), n_lines), 1)
    spare = np.empty(n * n_threads, lines.dtype)
    sort_lines(lines, n_lines, n, made, spare, n_threads)
    if made is not target:
        target[...] = made


ELEMENTS_EACH = 1 << 14
"""Elements for each of the threads that share a sort: they take longer than to wake one."""


def _threads_for(x: Array) -> int:
    """Threads that sort the lines of an array: one in a task, beside which others run."""
    return 1 if lane.is_worker else max(1, min(n_sharing(), x.size // ELEMENTS_EACH))


MOST_EXCHANGED = 32
"""Elements of a line up to which a network sorts it, many at a time; as in `sort.c`."""
MOST_BESIDE_VECTORS = 12
"""The same of lines that NumPy would sort by vectors where they are: it begins anew with each."""


def _is_short(x: Array, axis: int) -> bool:
    """Whether a network sorts lines along an axis: short ones, but where NumPy sorts by vectors
    more of those that it would have to copy, along another axis than the last."""
    is_across = prod(x.shape[axis + 1 :]) > 1
    is_slow = is_across or not _has_vectors(x.dtype)
    return bool(1 < x.shape[axis] <= (MOST_EXCHANGED if is_slow else MOST_BESIDE_VECTORS))


def _sort_short(x: Array, out: Array, axis: int) -> bool:
    """Whether C has sorted short lines, where they are."""
    sort_short = loop("sort", "sort_short", x.dtype)
    if sort_short is None:
        return False
    shape = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
    given, made = (_as_tables(a, shape) for a in (x, out))
    steps = np.array([*given.strides[:2], *made.strides[:2]]) // x.itemsize
    sort_short(address(given), address(made), np.array(shape), steps, _threads_for(x))
    if not np.may_share_memory(made, out):
        out[...] = made.reshape(out.shape)
    return True


def _as_tables(x: Array, shape: tuple[int, int, int]) -> Array:
    """Tables whose columns are side by side: a view, or a copy where they are not."""
    tables, size = x.reshape(shape), x.itemsize
    is_plain = shape[2] == 1 or tables.strides[2] == size
    is_plain = is_plain and not any(step % size for step in tables.strides)
    return tables if is_plain else np.ascontiguousarray(tables)


def _has_vectors(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy sorts it by vectors on this machine (x86-simd-sort): faster than by radix."""
    return dtype.kind in "iuf" and dtype.itemsize in _vector_bytes()


@cache
def _vector_bytes() -> tuple[int, ...]:
    found: dict[str, bool] = attrgetter("_core._multiarray_umath.__cpu_features__")(np)
    if found.get("AVX512_ICL"):
        return 2, 4, 8
    return (4, 8) if found.get("AVX512_SKX") or found.get("AVX2") else ()


def _order_zeros(x: Array, axis: int) -> None:
    """Put -0.0 before 0.0 in sorted lines, in place: NumPy leaves it open, merging goes by bits."""
    if x.dtype.kind != "f":
        return
    lines = np.moveaxis(x, axis, -1)
    for one in np.ndindex(lines.shape[:-1]):
        line = lines[one]
        zero = line.dtype.type(0)  # for one of another dtype the line would be copied
        zeros = line[slice(*(np.searchsorted(line, zero, side) for side in ("left", "right")))]
        n_negative = np.count_nonzero(np.signbit(zeros))
        zeros[:n_negative], zeros[n_negative:] = -0.0, 0.0


def sorted_order(
    xp: Any, x: Any, axis: int, values: Any = None, first: int = 0, into: Any = None
) -> Any:
    """Where each value of the sorted line comes from, equal ones in their order, plus `first`.

    The sorted values are put into `values`, if given; the order is put into `into`, or is new.
    """
    argsort_lines = loop("sort", "argsort_lines", x.dtype) if xp is np else None
    if argsort_lines is None:
        order: Any = np.argsort(x, axis, kind="stable") if xp is np else torch_argsort(x, axis)
        if values is not None and xp is np:
            values[...] = np.take_along_axis(x, order, axis)
        elif values is not None:
            as_signed(values)[...] = as_signed(x).take_along_dim(order, axis)
        order = order + first if first else order
        return order if into is None else _put(order, into)
    lines, n = lines_of(x, axis), x.shape[axis]
    is_there = into is not None and axis == x.ndim - 1 and into.flags.c_contiguous
    order = into if is_there else np.empty(lines.shape, np.int64)
    made = None if values is None else np.empty_like(lines)
    by_vectors = _has_vectors(_NUMBER) and (lines.dtype.itemsize > 2 or n < LEAST_BY_DIGITS)
    if not (by_vectors and order_by_numbers(lines, made, order, first)):
        pairs = np.empty(4 * n, np.uint64 if x.dtype.itemsize == 8 else np.uint32)
        argsort_lines(lines, lines.size // max(n, 1), n, made, order, pairs, first)
    if made is not None:
        values[...] = np.moveaxis(made, -1, axis)
    if is_there:
        return order
    order = np.moveaxis(order, -1, axis)
    return order if into is None else _put(order, into)


def _put(order: Any, into: Any) -> Any:
    into[...] = order
    return into


LEAST_BY_DIGITS = 1 << 10
"""Elements of a line from which on keys of few digits are sorted faster by radix than by vectors
as numbers of key and place."""


def order_by_numbers(lines: Array, values: Array | None, order: Array, first: int = 0) -> bool:
    """Whether the order of lines was found by NumPy's sort of numbers of key and place.

    It is fast where that sort goes by vectors. Not where nothing is compiled, and not of lines of
    many keys that are alike but for their last bits.
    """
    n = lines.shape[-1]
    pack, unpack = (loop("sort", name, lines.dtype) for name in ("pack_lines", "unpack_lines"))
    if pack is None or unpack is None or not lines.size:
        return False
    if n == 1:
        order[...] = first
        if values is not None:
            values[...] = lines
        return True
    n_lines = lines.size // n
    numbers, is_exact = order.view(_NUMBER), np.empty(n_lines, np.uint8)
    pack(lines, n_lines, n, numbers, is_exact)
    axis = numbers.ndim - 1
    is_done = _is_short(numbers, axis) and _sort_short(numbers, numbers, axis)
    if not (is_done or sorted_lines.sort(numbers, axis, numbers, _threads_for(numbers))):
        numbers.sort(axis=-1)
    return bool(unpack(lines, n_lines, n, is_exact, values, order, first))


_NUMBER = np.dtype("i8")


def has_quick_order() -> bool:
    """Whether NumPy sorts numbers of key and place by vectors on this machine."""
    return _has_vectors(_NUMBER)


def _argsort_kernel(xp: Any, x: Any, out: Any, axis: int) -> None:
    if xp is np or not argsort_short_lines(x, out, axis):
        sorted_order(xp, x, axis, into=out)


def _sort_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Copies of lines and values, and what is sorted from and to in turns."""
    return 3 * ins[0].n_bytes + 1024


def _argsort_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Copies of lines, values and order, pairs of both twice; keys where torch needs them."""
    keyed = ins[0].n_bytes + 24 * ins[0].n_elements if ins[0].dtype.kind in "uc" else 0
    return 3 * ins[0].n_bytes + 40 * ins[0].n_elements + keyed + 1024


def _line_form(x: Spec, axis: int) -> AxisForm:
    labels = tuple(range(x.ndim))
    return AxisForm(x.shape, (labels,), (labels,), frozenset((axis,)))


def _lines(rng: Any) -> list[Any]:
    x = rng.integers(0, 5, (4, 6))
    holes = np.where(x == 2, np.nan, x)
    return [((x, 1), {}), ((holes, 0), {}), ((x.astype("u8"), 1), {}), ((holes + 1j * x, 1), {})]


@op(
    "mapped",
    kernel=sort_into,
    moves=True,
    scratch_bytes=_sort_scratch,
    scratches={"cuda": _argsort_scratch},
    cost=20.0,
    cases=_lines,
    oracle=np.sort,
    same="equal",
    wide=True,
)
def _sort_axis(x: Spec, axis: int) -> Call:
    """Sorted along an axis that is not cut."""
    return call(_line_form(x, axis), Spec(x.shape, x.dtype), axis=axis)


@op(
    "mapped",
    kernel=_argsort_kernel,
    scratch_bytes=_argsort_scratch,
    cost=40.0,
    cases=_lines,
    oracle=lambda x, axis: np.argsort(x, axis, kind="stable"),
    same="equal",
    wide=True,
)
def _argsort_axis(x: Spec, axis: int) -> Call:
    """The stable order along an axis that is not cut."""
    return call(_line_form(x, axis), Spec(x.shape, int64), axis=axis)


MOST_SHARED_RUNS = 4
"""Threads that sort a line as one task: each a run, which are merged once or twice. Where there are
more, blocks are sorted and merged."""


def _line_kernel(xp: Any, x: Any, out: Any, n_threads: int) -> None:
    is_plain = xp is np and x.size and out.flags.c_contiguous
    merge = loop("sort", "merge_shared", x.dtype) if is_plain else None
    if merge is None:
        sort_into(xp, x, out, 0)
        if xp is np:
            _order_zeros(out, 0)
        return
    runs = np.empty_like(out)
    run = _sort_parts(np.ascontiguousarray(x), runs, n_threads)
    n_runs = -(-x.size // run)
    spare = np.empty(x.size if n_runs > 2 else 0, out.dtype)
    merge(runs, x.size, run, out, spare, np.empty(5 * n_runs * n_threads, np.int64), n_threads)


MOST_BY_DIGITS = 1 << 17
"""Elements of a part that is sorted by radix: it stays in cache."""


def _sort_parts(x: Array, runs: Array, n_threads: int) -> int:
    """Sort a line in parts of as many elements as it answers, with -0.0 before 0.0."""
    n = int(x.size)
    run = -(-n // n_threads)
    if _has_vectors(x.dtype) and sorted_lines.sort(x, 0, runs, n_threads, run):
        for lo in range(0, n, run):
            _order_zeros(runs[lo : lo + run], 0)
        return run
    sort_lines = loop("sort", "sort_lines", x.dtype)
    assert sort_lines is not None  # it is in the same file
    run = min(max(n // n_threads, 1), MOST_BY_DIGITS)
    n_lines = n // run
    left = n - n_lines * run
    sort_lines(x, n_lines, run, runs, np.empty(run * n_threads, x.dtype), n_threads)
    if left:
        ends = x[-left:].copy(), runs[-left:]
        sort_lines(ends[0], 1, left, ends[1], np.empty(left, x.dtype), 1)
    return run


@op(
    "mapped",
    kernel=_line_kernel,
    moves=True,
    scratch_bytes=lambda ins, outs, params: 4 * ins[0].n_bytes + 4096,
    cost=20.0,
    cases=lambda rng: [
        ((x, n_threads), {})
        for n_threads in (2, 3)
        for x in (rng.normal(size=50), rng.integers(-9, 9, 33), rng.normal(size=2).astype("f4"))
    ],
    oracle=lambda x, n_threads: np.sort(x),
    same="equal",
    wide=True,
)
def _sort_line(x: Spec, n_threads: int) -> Call:
    """A line sorted as one task, by threads that share it."""
    return call(_line_form(x, 0), Spec(x.shape, x.dtype), n_threads=n_threads)


def _hands_for(xp: Any, a: Any) -> int:
    """Threads that sort a line as one task, or 0."""
    if len(a.shape) != 1 or a.dtype.kind not in "iuf" or a.dtype.itemsize < 4:
        return 0
    n_hands = int(xp.n_hands(4 * a.shape[0] * a.dtype.itemsize))
    return n_hands if 1 < n_hands <= MOST_SHARED_RUNS else 0


# --- runs -------------------------------------------------------------------------------------


def run_hull(span: tuple[int, int], run: int, n: int) -> tuple[int, int]:
    """The whole runs that hold a range of an axis.

    >>> run_hull((5, 7), 4, 10)
    (4, 8)
    """
    lo, hi = span
    return lo // run * run, min(-(-hi // run) * run, n)


def _runs_need(box: Box, specs: Sequence[Spec], *, axis: int, run: int) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    hull = run_hull(box[axis], run, specs[0].shape[axis])
    return ((*box[:axis], hull, *box[axis + 1 :]),)


def pieces(
    target: tuple[int, int], source: tuple[int, int], run: int
) -> Iterator[tuple[slice, slice, slice]]:
    """For each run in `source`: its part that is in `target`, as a region of each."""
    for start in range(source[0], source[1], run):
        stop = min(start + run, source[1])
        lo, hi = max(start, target[0]), min(stop, target[1])
        yield (
            slice(start - source[0], stop - source[0]),
            slice(lo - start, hi - start),
            slice(lo - target[0], hi - target[0]),
        )


def _sort_runs_kernel(xp: Any, x: Any, out: Any, at: At, axis: int, run: int) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    for whole, part, where in pieces(at.outputs[0][axis], source[axis], run):
        line, target = x[along(axis, whole)], out[along(axis, where)]
        values = target if line.shape == target.shape else xp.empty_like(line)
        sort_into(xp, line, values, axis)
        if xp is np:
            _order_zeros(values, axis)
        if values is not target:
            target[...] = values[along(axis, part)]


def _argsort_runs_kernel(xp: Any, x: Any, out: Any, at: At, axis: int, run: int) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    values, index = out
    for whole, part, where in pieces(at.outputs[0][axis], source[axis], run):
        line = x[along(axis, whole)]
        made = xp.empty_like(line)
        order = sorted_order(xp, line, axis, made, source[axis][0] + whole.start)
        target, chosen = values[along(axis, where)], made[along(axis, part)]
        if xp is not np:
            target, chosen = as_signed(target), as_signed(chosen)
        target[...] = chosen
        index[along(axis, where)] = order[along(axis, part)]


def _runs_cases(rng: Any) -> list[Any]:
    return [((*args, 4), kwargs) for args, kwargs in _lines(rng)]


def _by_runs(f: Callable[..., Any]) -> Callable[..., Any]:
    def oracle(x: Any, axis: int, run: int) -> Any:
        runs = np.split(x, range(run, x.shape[axis], run), axis)
        return np.concatenate([f(r, axis=axis, kind="stable") for r in runs], axis)

    return oracle


@op(
    "gather",
    kernel=_sort_runs_kernel,
    need=_runs_need,
    scratch_bytes=_sort_scratch,
    scratches={"cuda": _argsort_scratch},
    cost=20.0,
    cases=_runs_cases,
    oracle=_by_runs(np.sort),
    wide=True,
)
def _sort_runs(x: Spec, axis: int, run: int) -> Call:
    """Each run of `run` elements along the axis sorted for itself."""
    return call(gather_form((x,), x.shape), Spec(x.shape, x.dtype), axis=axis, run=run)


def _argsort_runs_oracle(x: Any, axis: int, run: int) -> Any:
    shape = [1] * x.ndim
    shape[axis] = -1
    first = (np.arange(x.shape[axis]) // run * run).reshape(shape)
    order = _by_runs(np.argsort)(x, axis, run) + first
    return np.take_along_axis(x, order, axis), order


@op(
    "gather",
    kernel=_argsort_runs_kernel,
    need=_runs_need,
    scratch_bytes=_argsort_scratch,
    cost=40.0,
    cases=_runs_cases,
    oracle=_argsort_runs_oracle,
    wide=True,
)
def _argsort_runs(x: Spec, axis: int, run: int) -> Call:
    """Each run sorted for itself: the values, and where they come from."""
    outs = (Spec(x.shape, x.dtype), Spec(x.shape, int64))
    return call(gather_form((x,), x.shape, 2), *outs, axis=axis, run=run)


# --- merging ----------------------------------------------------------------------------------


def split_positions(line: np.ndarray[Any, Any], run: int, rank: int) -> np.ndarray[Any, Any]:
    """How many elements of each sorted run are among the `rank` first of all.

    Equal elements go by run, then by position, so the split is exact and stable; NaN is last. Each
    round drops at least a quarter of what is undecided: a weighted median of the runs' middles.

    >>> split_positions(np.array([1, 4, 9, 2, 4, 5]), 3, 3).tolist()
    [2, 1]
    """
    starts = np.arange(0, len(line), run)
    lo = np.zeros(len(starts), np.int64)
    hi = np.minimum(run, len(line) - starts)
    while True:
        left = hi - lo
        if not left.any():
            return lo
        open_runs = np.flatnonzero(left)
        middle = (lo + left // 2)[open_runs]
        values = line[starts[open_runs] + middle]
        order = np.argsort(values, kind="stable")
        weight = np.cumsum(left[open_runs][order])
        pick = order[np.searchsorted(weight, (weight[-1] + 1) // 2)]
        pivot_run, pivot = open_runs[pick], values[pick]
        below = lo.copy()
        for i in open_runs:
            part = line[starts[i] + lo[i] : starts[i] + hi[i]]
            if i == pivot_run:
                below[i] = middle[pick]
            else:
                found = np.searchsorted(part, pivot, "right" if i < pivot_run else "left")
                below[i] = lo[i] + found
        if below.sum() >= rank:  # the pivot itself has that rank: it is not among the first
            hi = below
        else:
            lo = below
            lo[pivot_run] += 1


def _merge_need(box: Box, specs: Sequence[Spec], *, axis: int, run: int) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,) * len(specs)
    line = (*box[:axis], (0, specs[0].shape[axis]), *box[axis + 1 :])
    return (line,) * len(specs)


def _segments(line: np.ndarray[Any, Any], run: int, span: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Positions in the runs of the elements with ranks in `span`, run by run."""
    first, last = (split_positions(line, run, rank) for rank in span)
    starts = np.arange(0, len(line), run)
    return np.concatenate(
        [np.arange(s + a, s + b) for s, a, b in zip(starts, first, last, strict=True)]
    )


def _merge_kernel(xp: Any, values: Any, *index: Any, out: Any, at: At, axis: int, run: int) -> None:
    """Merges only the parts of the runs that fall into the tile's ranks, line by line."""
    if values is None:
        return
    name = "merge_index" if index else "merge_runs"
    merge = loop("sort", name, values.dtype)
    if merge is not None:
        _merge_lines(merge, values, *index, out=out, span=at.outputs[0][axis], axis=axis, run=run)
        return
    lines, targets = np.moveaxis(values, axis, -1), np.moveaxis(out, axis, -1)
    carried = np.moveaxis(index[0], axis, -1) if index else lines
    for one in np.ndindex(lines.shape[:-1]):
        line = lines[one]
        found = _segments(line, run, at.outputs[0][axis])
        if index:
            order = np.argsort(line[found], kind="stable")
            targets[one] = carried[one][found[order]]
        else:
            targets[one] = np.sort(line[found])


def _merge_lines(
    merge: Any, *inputs: Array, out: Array, span: tuple[int, int], axis: int, run: int
) -> None:
    lines, targets = [np.moveaxis(x, axis, -1) for x in inputs], np.moveaxis(out, axis, -1)
    n, n_here = inputs[0].shape[axis], span[1] - span[0]
    spare: tuple[Any, ...] = (np.empty(n_here, out.dtype),)
    if len(inputs) > 1:
        spare = (np.empty(2 * n_here, inputs[0].dtype), *spare)
    places = np.empty(5 * -(-n // run), np.int64)
    for one in np.ndindex(targets.shape[:-1]):
        target = np.ascontiguousarray(targets[one])
        runs = [np.ascontiguousarray(line[one]) for line in lines]
        merge(*runs, n, run, *span, target, *spare, places)
        if not np.shares_memory(target, targets[one]):
            targets[one] = target


def _merge_torch(xp: Any, values: Any, *index: Any, out: Any, at: At, axis: int, run: int) -> None:
    """CUDA tiles are large and its sort is fast: the whole line is sorted and the ranks cut out."""
    if values is None:
        return
    span = along(axis, slice(*at.outputs[0][axis]))
    if index:
        out[...] = index[0].take_along_dim(torch_argsort(values, axis)[span], axis)
    else:
        out[...] = torch_sort(values, axis)[span]


def _merge_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Twice the tile with its index; a line where it is strided; numbers for each run."""
    line = ins[0].shape[params["axis"]]
    copied = line * (ins[0].dtype.itemsize + 8) if outs[0].n_elements > outs[0].shape[-1] else 0
    n_runs: int = -(-line // params["run"])
    each = 4 * ins[0].dtype.itemsize + 48
    return each * outs[0].n_elements + copied + 256 * n_runs + 1024


def _merge_scratch_cuda(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 4 * ins[0].n_bytes + 48 * ins[0].n_elements + 1024


def _merge_cases(rng: Any) -> list[Any]:
    return [((_by_runs(np.sort)(*args), *args[1:]), kwargs) for args, kwargs in _runs_cases(rng)]


_MERGE: dict[str, Any] = {
    "kernel": _merge_kernel,
    "kernels": {"cuda": _merge_torch},
    "need": _merge_need,
    "scratch_bytes": _merge_scratch,
    "scratches": {"cuda": _merge_scratch_cuda},
}


@op("gather", cases=_merge_cases, oracle=lambda x, axis, run: np.sort(x, axis), **_MERGE, wide=True)
def _merge_runs(runs: Spec, axis: int, run: int) -> Call:
    """The sorted line from its sorted runs; each tile reads the whole line."""
    form = gather_form((runs,), runs.shape)
    return call(form, Spec(runs.shape, runs.dtype), axis=axis, run=run)


def _merge_index_cases(rng: Any) -> list[Any]:
    return [
        ((*_argsort_runs_oracle(*args), *args[1:]), kwargs) for args, kwargs in _runs_cases(rng)
    ]


def _merge_index_oracle(x: Any, i: Any, axis: int, run: int) -> Any:
    return np.take_along_axis(i, np.argsort(x, axis, kind="stable"), axis)


@op("gather", cases=_merge_index_cases, oracle=_merge_index_oracle, **_MERGE, wide=True)
def _merge_index_runs(runs: Spec, index: Spec, axis: int, run: int) -> Call:
    """The stable order of a line from its sorted runs and where their values come from."""
    form = gather_form((runs, index), runs.shape)
    return call(form, Spec(runs.shape, int64), axis=axis, run=run)


# --- public -----------------------------------------------------------------------------------


def _orders(rng: Any) -> list[Any]:
    x = rng.integers(0, 20, (5, 9))
    holes = np.where(x == 2, np.nan, x)
    return [
        ((rng.standard_normal(50),), {}),
        ((holes,), {"axis": 0}),
        ((x,), {"axis": None}),
        ((holes,), {}),
        ((x.astype("u2"),), {"axis": -1}),
        ((np.zeros((3, 0)),), {}),
    ]


def check_fields(order: Any) -> None:
    """Refuse names of fields to sort by: no dtype here has fields."""
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")


def _kind(name: str, kind: str | None, stable: bool | None) -> None:
    if kind is not None and not isinstance(kind, str):
        raise TypeError(f"{name}: sort kind must be str, not {type(kind).__name__}")
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
        raise ValueError(f"{name}: sort kind must be one of 'quick', 'heap', or 'stable'")
    if kind is not None and stable is not None:
        raise ValueError("`kind` and keyword parameters can't be provided at the same time.")


def _with_axis_last(xp: Any, order: Any, a: Any, axis: int) -> Any:
    """Whether a long axis is merged: where its elements are contiguous; every tile reads all of
    it."""
    return xp._copy(xp.moveaxis(order(xp.moveaxis(a, axis, -1), -1), -1, axis))


@program(cases=_orders, same="equal", method=False, wide=True)
def sort(
    xp: Any,
    a: Array,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Any:
    """The values in rising order along an axis; `descending=True`: in falling order. NaN is last.

    An axis of less than two blocks is sorted in one go. A longer one is sorted in runs and merged:
    two passes, and a piece of the result reads the whole axis of the runs. A line that is longer
    than memory is sorted in parts, three passes of which two run when `sort` is called.

    >>> import infinitensor as it
    >>> it.sort(it.asarray([3, 1, 2])).numpy().tolist()
    [1, 2, 3]
    """
    _kind("sort", kind, stable)
    check_fields(order)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, len(a.shape), "sort")
    if descending and a.dtype.kind in "fc":  # NaN stays last
        return xp.negative(xp.sort(xp.negative(a), axis))
    n = a.shape[axis]
    run = xp.block(n)
    if is_long(xp, a, run):
        result = sort_long(xp, a)
    elif n < 2 * run:
        result = xp._sort_axis(a, axis)
    elif n_hands := _hands_for(xp, a):
        result = xp._sort_line(a, n_hands)
    elif axis != len(a.shape) - 1:
        result = _with_axis_last(xp, xp.sort, a, axis)
    else:
        result = xp._merge_runs(xp._sort_runs(a, axis, run), axis, run)
    return xp._copy(result[along(axis, slice(None, None, -1))]) if descending else result


@program(
    cases=_orders,
    same="equal",
    oracle=lambda a, axis=-1: np.argsort(a, axis, kind="stable"),
    wide=True,
)
def argsort(
    xp: Any,
    a: Array,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Any:
    """The indices that sort an axis; equal values keep their order, always.

    Costs what `sort` costs, with an index carried beside each value.

    >>> import infinitensor as it
    >>> it.argsort(it.asarray([3, 1, 2])).numpy().tolist()
    [1, 2, 0]
    """
    _kind("argsort", kind, stable)
    check_fields(order)
    if axis is None:
        a, axis = a.reshape(-1), 0
    if not len(a.shape):
        normalize_axis_index(axis, 1, "argsort")  # NumPy takes 0-d arrays here as one element
        return xp.argsort(a.reshape(1), 0)
    axis = normalize_axis_index(axis, len(a.shape), "argsort")
    if descending and a.dtype.kind in "fc":  # NaN stays last
        return xp.argsort(xp.negative(a), axis)
    backwards = along(axis, slice(None, None, -1))
    x = a[backwards] if descending else a
    n = x.shape[axis]
    run = xp.block(n)
    if n < 2 * run:
        found = xp._argsort_axis(x, axis)
    elif axis != len(x.shape) - 1:
        found = _with_axis_last(xp, xp.argsort, x, axis)
    else:
        values, index = xp._argsort_runs(x, axis, run)
        found = xp._merge_index_runs(values, index, axis, run)
    return (n - 1) - found[backwards] if descending else found

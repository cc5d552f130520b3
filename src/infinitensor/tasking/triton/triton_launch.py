"""Launches of generated Triton: how the axes of tiles are walked, in how many programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from infinitensor.dtypes import kind_of, to_torch
from infinitensor.jit import Launch, Launches, picker
from infinitensor.ops.backend.compile_beside import can_start
from infinitensor.tasking.c.rolled_steps import refuse_long
from infinitensor.tasking.triton.triton_reduce import chunk_source, merge_source
from infinitensor.tasking.triton.triton_source import framed_source, map_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from infinitensor.ir.region import Box
    from infinitensor.tasking.triton.triton_reduce import Reduction
    from infinitensor.tasking.triton.triton_source import Group

PROGRAM_LANES = 1024
"""Lanes of a program."""
MANY_STEPS = 16
"""Steps of a group from which its lanes hold so much that a program has half as many."""
MANY_DIVISIONS = 2
"""Divisions and roots of float32 from which such a group checks all of them together."""
MOST_KERNELS = 4
"""Kernels of a group from which none is made for another choice of numbers that are alike."""
LATE_BLOCK = 256
"""Lanes of a program that does so, all of them in one warp: without branches on the way a thread
computes several side by side, and no warp waits for another before it checks."""
SHORT_ROW = 256
"""Rows of fewer elements are not given programs of their own."""
SQUARE = 32
"""Rows and columns of a block of which some arrays store the rows side by side, others the columns:
of each as much as memory gives at a time."""
LEAST_SQUARE = 16
"""Fewer rows or columns are no block."""
FRAME_ROWS = 16
"""Rows of a block whose steps read their neighbours."""
MERGED = 512
"""Partial results that a program merges."""
LEAST_STEPS = 16
"""Blocks of rows that a chunk has at least, if its leaf has them."""
MOMENT_LANES, MOMENT_STEPS = 512, 128
"""Lanes and least steps for moments: lanes hold much, and merging them is work."""
FEW_STEPS, WANTED_PROGRAMS = 8, 1024
"""Where there are fewer programs than keep all processors of a device at work, chunks have so few
steps at least."""
LEAST_WIDE = 1 << 18
"""Columns from which a lane has one to itself: none is merged with others."""
MOST_PARTS = 1 << 16
"""Programs of a reduction, about, from which chunks are no shorter than leaves."""
LEAST_64_BIT_OFFSET = 1 << 31
"""Offsets below this take 32 bits."""
TORCH_ALIGNED_BYTES = 512
"""Bytes on which partial results begin: as torch aligns memory of its own."""


def merged_axes(
    shape: tuple[int, ...], tiles: Sequence[Any], reduced: Sequence[int] = ()
) -> list[tuple[int, list[int], bool]]:
    """(length, strides, whether it is reduced) of the axes of a space; those that have the same
    strides in all tiles, and have an equal fate, are one."""
    axes: list[tuple[int, list[int], bool]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        strides = [_stride(tile, axis - len(shape)) for tile in tiles]
        if axes:
            before, outer, fate = axes[-1]
            alike = all(s == t * n for s, t in zip(outer, strides, strict=True))
            if alike and fate == (axis in reduced):
                axes[-1] = (before * n, strides, fate)
                continue
        axes.append((n, strides, axis in reduced))
    return axes


def _stride(tile: Any, axis: int) -> int:
    """The step of an axis counted from the last; 0 where one value stands for all."""
    if -axis > tile.ndim or tile.shape[axis] == 1:
        return 0
    return int(tile.stride(axis))


def is_wide(axes: Sequence[tuple[int, list[int], bool]]) -> bool:
    """Whether an offset needs more than 32 bits."""
    far = [sum((n - 1) * abs(s[a]) for n, s, _ in axes) for a in range(len(axes[0][1]))]
    return max(prod(n for n, _, _ in axes), *far, 0) + 2 * PROGRAM_LANES >= LEAST_64_BIT_OFFSET


def _is_even(tiles: Sequence[Any]) -> bool:
    """Whether all arrays begin where four elements of 32 bits may be read at once, or none does."""
    return len({tile.data_ptr() % 16 == 0 for tile in tiles}) == 1


def power_above(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _power_below(n: int) -> int:
    return 1 << (max(n, 1).bit_length() - 1)


class _Numbers(NamedTuple):
    """The arguments of a kernel for its scalars, and the parts left out because of them."""

    values: list[Any]
    ones: frozenset[int]
    """Numerators that are one."""
    alike: tuple[tuple[int, int], ...]
    """Scalars, and those before them that they are as: in long groups, which hold many."""
    passed: list[Any]
    """The numbers of the other scalars."""


class Scalars:
    """The inputs of a group that are scalars, as Python's numbers.

    Where a line runs again they are the very objects of before (a program's constants): then they
    are numbers already.
    """

    def __init__(self, group: Group) -> None:
        kinds = [kind_of(group.inputs[k].dtype) for k in group.scalars]
        self._makers = [float if kind == "f" else int for kind in kinds]
        self._numerators = [(k, group.scalars.index(k)) for k in group.numerators]
        is_long = len(group.parts) >= MANY_STEPS
        self._compared = [(k, group.inputs[k].dtype) for k in group.scalars] if is_long else []
        self._last: tuple[Sequence[Any], _Numbers] | None = None

    def of(self, given: Sequence[Any]) -> _Numbers:
        """The numbers of these scalars."""
        if self._last is not None and all(map(is_, given, self._last[0])):
            return self._last[1]
        values = [make(x) for make, x in zip(self._makers, given, strict=True)]
        ones = frozenset([k for k, at in self._numerators if given[at] == 1])
        first: dict[Any, int] = {}
        alike = []
        passed = []
        for at, (k, dtype) in enumerate(self._compared):
            # zeros have signs, and what is no number is as nothing else
            value = values[at] or repr(values[at])
            before = first.setdefault((dtype, value), k) if value == value else k
            if before != k:
                alike.append((k, before))
            else:
                passed.append(values[at])
        self._last = (given, _Numbers(values, ones, tuple(alike), passed if alike else values))
        return self._last[1]


class MapKernel:
    """`kernel(ins, outs, shape)`: the steps of a group in one pass."""

    def __init__(self, group: Group) -> None:
        refuse_long(len(group.parts), group.loops)
        map_source(group, 1, True, False)  # refuse what cannot be generated now
        self.group = group
        self._arrays, self._numbers = picker(group.arrays), picker(group.scalars)
        self._scalars = Scalars(group)
        self._by_numbers: dict[tuple[Any, Any], Launches] = {}
        self._found: tuple[_Numbers, Launches, Sequence[Any]] | None = None

    def __call__(self, ins: Sequence[Any], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
        if 0 in shape:
            return
        tiles = (*self._arrays(ins), *outs)
        launch, numbers = self.launch_of(tiles, self._numbers(ins), shape)
        launch(tiles, numbers)

    def launch_of(
        self, tiles: Sequence[Any], given: Sequence[Any], shape: tuple[int, ...]
    ) -> tuple[Launch, Sequence[Any]]:
        """The launch of arrays and outputs, and the numbers as it takes them."""
        numbers = self._scalars.of(given)
        found = self._found
        if found is None or found[0] is not numbers:
            found = self._found = (numbers, *self._launches_of(numbers))
        return found[1].get(shape, tiles), found[2]

    def _launches_of(self, numbers: _Numbers) -> tuple[Launches, Sequence[Any]]:
        """The launches of a choice of numbers, and those that they take."""
        values, ones, alike, passed = numbers
        # 1 / x takes fewer instructions than y / x, and equal numbers fewer registers, but which
        # they are shows only now
        if (ones, alike) not in self._by_numbers and len(self._by_numbers) >= MOST_KERNELS:
            alike, passed = (), values
        launches = self._by_numbers.get((ones, alike))
        if launches is None:
            make = partial(_map_launch, replace(self.group, ones=ones, alike=alike))
            launches = self._by_numbers[ones, alike] = Launches(make)
        return launches, passed


def _map_launch(group: Group, shape: tuple[int, ...], tiles: Sequence[Any]) -> Launch:
    """How the steps of a group are launched over tiles."""
    is_long = len(group.parts) >= MANY_STEPS
    late = is_long and not group.fused and group.n_divisions >= MANY_DIVISIONS
    late &= not group.loops  # what is checked in the end would be held from turn to turn
    most = (
        LATE_BLOCK if late else PROGRAM_LANES // 2 if is_long and not group.fused else PROGRAM_LANES
    )
    axes = merged_axes(shape, tiles) or [(1, [0] * len(tiles), False)]
    lengths = [n for n, _, _ in axes]
    steps = [strides[a] for a in range(len(tiles)) for _, strides, _ in axes]
    across = _axis_across(axes)
    if across >= 0:
        rows = min(most // SQUARE, SQUARE)
        n_blocks = -(-lengths[across] // rows) * -(-lengths[-1] // SQUARE)
        n_blocks *= prod(lengths[:-1]) // lengths[across]
        wide, even = is_wide(axes), _is_even(tiles)
        source = map_source(group, len(axes), True, wide, even, across=across)
        how = {"ROWS": rows, "COLUMNS": SQUARE}
        return Launch(source, n_blocks, [*lengths, *steps], fused=group.fused, **how)
    last = lengths[-1]
    by_row = len(axes) == 1 or last >= SHORT_ROW
    block = most
    if by_row and len(axes) > 1:  # as little as possible beyond the end of a row
        block = min((most, most // 2, most // 4), key=lambda b: -(-last // b) * b)
    n_blocks = -(-last // block) * prod(lengths[:-1]) if by_row else -(-prod(lengths) // block)
    # where steps take as long as memory it counts that masks take steps too
    whole = is_long and (last if by_row else prod(lengths)) % block == 0
    late &= whole or len(axes) == 1 or not by_row  # beyond the end of a row nothing can be divided
    source = map_source(group, len(axes), by_row, is_wide(axes), _is_even(tiles), whole, late)
    n_warps = 1 if late else 4
    return Launch(source, n_blocks, [*lengths, *steps], n_warps, fused=group.fused, BLOCK=block)


def _axis_across(axes: Sequence[tuple[int, list[int], bool]]) -> int:
    """The axis along which some array is stored that is read with gaps along the last one.

    -1: there is none.
    """
    n_last, last, _ = axes[-1]
    if n_last >= LEAST_SQUARE:
        for d, (n, strides, _) in enumerate(axes[:-1]):
            stored = [s == 1 and abs(step) > 1 for s, step in zip(strides, last, strict=True)]
            if n >= LEAST_SQUARE and any(stored):
                return d
    return -1


def framed_kernel(group: Group, box: Box) -> Callable[[Sequence[Any], Any, Any], None]:
    """`run(ins, new, old)`: the steps of a group make a box of a tile; around it stays what was."""
    framed_source(group, 1, False)  # refuse what cannot be generated now
    borders = [lo for lo, _ in box] + [hi for _, hi in box]
    arrays, numbers, scalars = picker(group.arrays), picker(group.scalars), Scalars(group)

    def make(shape: tuple[int, ...], tiles: Sequence[Any]) -> Launch:
        n_axes = len(shape)
        strides = [[_stride(tile, d - n_axes) for d in range(n_axes)] for tile in tiles]
        axes = [(n, [s[d] for s in strides], False) for d, n in enumerate(shape)]
        source = framed_source(group, n_axes, is_wide(axes), _is_even(tiles))
        rows = min(FRAME_ROWS, power_above(shape[-2])) if n_axes > 1 else 1
        columns = PROGRAM_LANES // rows
        n_blocks = -(-shape[-1] // columns) * prod(shape[:-2])
        n_blocks *= -(-shape[-2] // rows) if n_axes > 1 else 1
        steps = [step for each in strides for step in each]
        how = {"ROWS": rows, "COLUMNS": columns}
        sizes = [*shape, *borders, *steps]
        return Launch(source, n_blocks, sizes, fused=group.fused, **how)

    launches = Launches(make)

    def run(ins: Sequence[Any], new: Any, old: Any) -> None:
        tiles = (*arrays(ins), new, old)
        launches.get(tuple(new.shape), tiles)(tiles, scalars.of(numbers(ins)).values)

    return run


@dataclass(frozen=True, slots=True)
class Cut:
    """How a reduction is cut: from the whole tensor, so that every tile is cut alike."""

    leaf_rows: int
    """Rows of a leaf: what is merged by index, whatever the tile."""
    n_rows: int
    n_kept: int
    """Elements that are left, in all."""


@dataclass(frozen=True, slots=True)
class _Chunked:
    """The launches of one reduction, and the places of the partial results between them."""

    launches: tuple[Launch, ...]
    """Of chunks, then of merges."""
    shapes: tuple[tuple[int, ...], ...]
    """Of the partial results before each merge."""
    places: tuple[tuple[int, ...], ...]
    """Of each of these, where what is held begins in a common block."""
    n_bytes: int
    """Of that block."""

    def partial(self, n_done: int, block: Any, dtypes: Sequence[Any]) -> list[Any]:
        """The outputs of a launch: tensors for Triton to look at, later their addresses."""
        places = self.places[n_done]
        if self.launches[n_done].is_ready and self.launches[n_done + 1].is_ready:
            start = block.data_ptr()
            return [start + place for place in places]
        shape = self.shapes[n_done]
        return [
            block[place : place + prod(shape) * dtype.itemsize].view(dtype).view(shape)
            for place, dtype in zip(places, dtypes, strict=True)
        ]


class ReduceKernel:
    """`kernel(ins, kept, parts, shape)`: the steps of a group and its reductions in one pass.

    `parts()` makes contiguous tensors for what each reduction holds, one after another: asked for
    when the first kernel runs already, if there are several. Gives False, and does nothing, where
    the axes are not those of (outer, rows, columns).
    """

    def __init__(
        self,
        group: Group,
        reductions: Sequence[Reduction],
        reduced: Sequence[int],
        cut: Callable[..., Cut],
    ) -> None:
        chunk_source(group, reductions, 2, 2, False)
        merge_source(reductions, 2, 2)
        self._arrays, self._given = picker(group.arrays), picker(group.scalars)
        self._scalars = Scalars(group)
        self._dtypes = [to_torch(dtype) for reduction in reductions for dtype in reduction.held]

        def make(shape: tuple[int, ...], tiles: Sequence[Any]) -> _Chunked | None:
            axes = merged_axes(shape, tiles, reduced)
            return _chunked(group, reductions, axes, cut(shape), _is_even(tiles))

        self._launches = Launches(make)

    def __call__(
        self,
        ins: Sequence[Any],
        kept: Sequence[Any],
        parts: Callable[[], Sequence[Any]],
        shape: tuple[int, ...],
    ) -> bool:
        found = self._find(ins, kept, shape)
        if found is None:
            return False
        for launch, tiles, numbers in self._calls(found, ins, kept, parts):
            launch(tiles, numbers)
        return True

    def can_start(
        self,
        ins: Sequence[Any],
        kept: Sequence[Any],
        parts: Callable[[], Sequence[Any]],
        shape: tuple[int, ...],
    ) -> bool:
        """Whether it waits for no compiler; once asked, its kernels are compiled beside."""
        found = self._find(ins, kept, shape)
        if found is None or all(launch.is_ready for launch in found.launches):
            return True
        return all([can_start(*call) for call in self._calls(found, ins, kept, parts)])

    def _find(
        self, ins: Sequence[Any], kept: Sequence[Any], shape: tuple[int, ...]
    ) -> _Chunked | None:
        if 0 in shape:
            return None
        made: _Chunked | None = self._launches.get(shape, (*self._arrays(ins), *kept))
        return made

    def _calls(
        self,
        found: _Chunked,
        ins: Sequence[Any],
        kept: Sequence[Any],
        parts: Callable[[], Sequence[Any]],
    ) -> Iterator[tuple[Launch, Sequence[Any], Sequence[Any]]]:
        """Its launches, with their tiles and numbers."""
        import torch

        before: Sequence[Any] = (*self._arrays(ins), *kept)
        # one block for all partial results: to ask torch for each takes the host longer
        block = None
        if found.n_bytes:
            block = torch.empty(found.n_bytes, dtype=torch.uint8, device=before[0].device)
        numbers: Sequence[Any] = self._scalars.of(self._given(ins)).values
        for n_done, launch in enumerate(found.launches):
            is_last = n_done == len(found.shapes)
            outs = parts() if is_last else found.partial(n_done, block, self._dtypes)
            yield launch, [*before, *outs], numbers
            before, numbers = outs, ()


def _chunked(
    group: Group,
    reductions: Sequence[Reduction],
    axes: list[tuple[int, list[int], bool]],
    cut: Cut,
    even: bool,
) -> _Chunked | None:
    """Blocks and chunks of a tile whose axes are (outer, rows, columns); None: they are not.

    Rows may be those of two axes; where no axis follows them the outer one is the columns.
    """
    nothing = (1, [0] * group.n_arrays, False)
    across = [axis for axis in axes if axis[2]]
    first = next((k for k, axis in enumerate(axes) if axis[2]), 0)
    before, after = axes[:first], axes[first + len(across) :]
    if len(before) > 1 or len(after) > 1 or len(across) > 2 or any(axis[2] for axis in after):
        return None
    rows, split = (across or [nothing])[-1], len(across) == 2
    n_rows = prod(n for n, _, _ in across)
    outer, columns = (before or [nothing])[0], (after or [nothing])[0]
    if not after:
        outer, columns = nothing, outer
    moments = any(reduction.kind == "moments" for reduction in reductions)
    lanes, least = (MOMENT_LANES, MOMENT_STEPS) if moments else (PROGRAM_LANES, LEAST_STEPS)
    if after:
        widest = lanes if cut.n_kept >= LEAST_WIDE else 128
        width = min(power_above(columns[0]), widest)
        height = lanes // width
    else:
        height = min(power_above(cut.leaf_rows), lanes)
        width = min(lanes // height, power_above(columns[0]))
    n_leaves_all = -(-cut.n_rows // cut.leaf_rows)
    n_blocks_all = -(-cut.n_kept // width)
    n_whole = n_blocks_all * n_leaves_all
    n_long = min(cut.leaf_rows // (least * height), MOST_PARTS // n_whole)
    n_short = min(cut.leaf_rows // (FEW_STEPS * height), WANTED_PROGRAMS // n_whole)
    n_chunks = _power_below(max(n_long, n_short))
    n_parts = -(-n_rows // cut.leaf_rows) * n_chunks
    chunk_rows = -(-cut.leaf_rows // n_chunks)
    wide = is_wide(axes or [nothing])
    sizes = [n_rows, columns[0], cut.leaf_rows, chunk_rows, n_chunks, n_parts]
    walked = [outer, rows, columns]
    if split:
        sizes.append(rows[0])
        walked.append(across[0])
    steps = [axis[1][a] for a in range(group.n_arrays) for axis in walked]
    source = chunk_source(group, reductions, height, width, wide, split, even, n_parts == 1)
    chunks = Launch(
        source,
        outer[0] * -(-columns[0] // width) * n_parts,
        [*sizes, *steps],
        fused=group.fused,
    )
    merges = []
    shapes = []
    while n_parts > 1:
        shapes.append((outer[0], n_parts, columns[0]))
        height = min(power_above(n_parts), MERGED)
        width = min(power_above(columns[0]), max(PROGRAM_LANES // height, 1))
        n_groups = -(-n_parts // height)
        n_programs = outer[0] * n_groups * -(-columns[0] // width)
        source = merge_source(reductions, height, width, n_groups == 1, group.fused)
        merges.append(Launch(source, n_programs, [columns[0], n_parts, n_rows]))
        n_parts = n_groups
    places = []
    n_bytes = 0
    for shape in shapes:
        begins = []
        for dtype in (dtype for reduction in reductions for dtype in reduction.held):
            begins.append(n_bytes)
            n_bytes += -(-prod(shape) * dtype.itemsize // TORCH_ALIGNED_BYTES) * TORCH_ALIGNED_BYTES
        places.append(tuple(begins))
    return _Chunked((chunks, *merges), tuple(shapes), tuple(places), n_bytes)

"""Triton source of rows that are reduced and used again: softmax, layer norm, x / norm.

A program has whole rows in registers, several of them where they are short. Steps over rows,
reductions of them and steps over what these find follow one another; rows are read once and what
is between is never stored. In which order lanes of a row are merged is Triton's choice, by how it
gives a block to threads. So alignments and strides are not looked at, and bits depend on the row
alone. Variances are of the distances from the mean, which is there by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.jit import Launch, Launches, picker
from infinitensor.ops.table.words import WORDS
from infinitensor.tasking.triton.triton_division import Division
from infinitensor.tasking.triton.triton_launch import (
    PROGRAM_LANES,
    Scalars,
    is_wide,
    merged_axes,
    power_above,
)
from infinitensor.tasking.triton.triton_source import (
    HEADER,
    Writer,
    function,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from infinitensor.tasking.c.expressions import GroupStep
    from infinitensor.tasking.triton.triton_reduce import Reduction
    from infinitensor.tasking.triton.triton_source import Group

THREAD_LANES = 8
"""Lanes of a thread, about: each may hold several values."""
MOST_WARPS = 16
HELD_ROW = 1 << 12
"""Elements of a row that is held in registers."""
ENDS = ("mean", "var", "std")
"""Reductions whose sums are divided in the end."""


@dataclass(frozen=True, slots=True)
class RowReduction:
    """A reduction of whole rows; sources are as those of steps."""

    of: Reduction
    dtype: np.dtype[Any]
    """Of the result."""
    stored: int
    end: str = ""
    """ "mean", "var" or "std": what becomes of a sum, or of squared distances."""
    ddof: float = 0.0


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Steps and reductions, in order: ("step", k) is what number k of them makes.

    `group` has the inputs, and how it rounds; `kinds` says of each array, read or stored, what a
    row has of it: "full", "shared" (what all rows have), one value: "narrow", or "lead" where there
    is no last axis of length 1.
    """

    group: Group
    parts: tuple[GroupStep | RowReduction, ...]
    kinds: tuple[str, ...]


def rows_source(rows: RowGroup, n_axes: int, height: int, width: int, wide: bool) -> str:
    """A kernel over blocks of `height` rows, along `n_axes` axes, in `width` lanes each.

    `wide`: offsets take 64 bits.
    """
    group, n_arrays = rows.group, len(rows.kinds)
    sizes = [f"n{d}" for d in range(n_axes)]
    steps = [[f"s{a}_{d}" for d in range(n_axes + 1)] for a in range(n_arrays)]
    lines = [
        f"pid = tl.program_id(0){'.to(tl.int64)' if wide else ''}",
        f"rest = pid * {height} + tl.arange(0, {height})[:, None]",
        f"there = rest < {' * '.join(sizes)}",
        f"c = tl.arange(0, {width})[None, :]{'.to(tl.int64)' if wide else ''}",
        "inside = c < n_columns",
        "mask = there & inside",
    ]
    for d in range(n_axes - 1, -1, -1):
        lines += [f"r{d} = rest % n{d}", f"rest = rest // n{d}"] if d else ["r0 = rest"]
    masks = {"full": "mask", "shared": "inside", "narrow": "there", "lead": "there"}
    places = []
    for a, kind in enumerate(rows.kinds):
        terms = [] if kind == "shared" else [f"r{d} * {steps[a][d]}" for d in range(n_axes)]
        if kind not in ("narrow", "lead"):
            # what is said of neighbours orders lanes along rows, whatever the step is: as nothing
            # is known of alignment, no two elements are read at once
            terms += [f"tl.max_contiguous(c * {steps[a][n_axes]}, [1, {width}])"]
        places.append(f"p{a} + ({' + '.join(terms)})")
    lines += group.scalar_lines()
    for a, k in enumerate(group.arrays):
        type_of(group.inputs[k].dtype)
        lines.append(f"x{k} = tl.load({places[a]}, mask={masks[rows.kinds[a]]}, other=0)")
    writer = Writer(Division.FUSED if group.fused else Division.EXACT)
    made: list[tuple[str, np.dtype[Any]]] = []
    first_out = len(group.arrays)
    for part in rows.parts:
        if isinstance(part, RowReduction):
            where, k = part.of.source
            given = (f"x{k}", group.inputs[k].dtype) if where == "in" else made[k]
            name = _reduction_name(writer, part, *given)
        else:
            args = [
                (f"x{k}", group.inputs[k].dtype) if where == "in" else made[k]
                for where, k in part.sources
            ]
            name = writer.step(part, args)
        made.append((name, part.dtype))
        if part.stored >= 0:
            a = first_out + part.stored
            writer.lines.append(f"tl.store({places[a]}, {name}, mask={masks[rows.kinds[a]]})")
    lines += writer.lines
    arguments = [
        *(f"p{a}" for a in range(n_arrays)),
        *group.numbers(),
        *sizes,
        "n_columns",
        *(step for each in steps for step in each),
    ]
    merges = dict.fromkeys(
        _sums(part.of).merge() for part in rows.parts if isinstance(part, RowReduction)
    )
    return HEADER + "".join(merges) + function("rows", arguments, lines, alike=True)


def _sums(reduction: Reduction) -> Reduction:
    """What lanes are merged by: of moments, sums."""
    return replace(reduction, kind="sum") if reduction.kind == "moments" else reduction


def _reduction_name(writer: Writer, part: RowReduction, name: str, dtype: np.dtype[Any]) -> str:
    """A name for the result of a reduction, one value a row."""
    of, kind = _sums(part.of), part.of.kind
    held = of.held[0]

    def merge_lanes(value: str) -> str:
        """Lanes of each row merged to one."""
        nothing = f"tl.full((1, 1), {of.identity()}, {type_of(held)})"
        there = writer.let(f"tl.where(inside, {value}, {nothing})")
        return writer.let(f"tl.reduce({there}, 1, {of.name})[:, None]")

    if kind in ("count", "any", "all"):
        value = writer.let(f"({name} != 0).to({type_of(held)})")
    else:
        value = writer.cast(name, dtype, of.dtype)
    if of.finds:
        nothing = f"tl.full((1, 1), {of.identity()}, {type_of(held)})"
        there = writer.let(f"tl.where(inside, {value}, {nothing})")
        place = writer.let(f"tl.broadcast_to(c, {there}.shape)")
        best = writer.let(f"tl.reduce(({there}, {place}), 1, {of.name})")
        return writer.let(f"{best}[1][:, None]")
    made = merge_lanes(value)
    if not part.end:
        return writer.cast(made, held, part.dtype)
    n = writer.let(f"tl.cast(n_columns, {type_of(held)})")
    made = writer.word(WORDS["divide"], [made, n], held)
    if kind == "moments":
        away = writer.let(f"{value} - {made}")
        squares = merge_lanes(writer.let(f"{away} * {away}"))
        degrees = writer.let(f"tl.maximum(n_columns - {part.ddof!r}, 0.0)")
        degrees = writer.let(f"tl.cast({degrees}, {type_of(held)})")
        made = writer.word(WORDS["divide"], [squares, degrees], held)
    if part.end == "std":
        made = writer.word(WORDS["sqrt"], [made], held)
    return writer.cast(made, held, part.dtype)


class RowsKernel:
    """`kernel(ins, outs, shape)`: rows are along the last axis of a space of this shape."""

    def __init__(self, rows: RowGroup) -> None:
        rows_source(rows, 1, 2, 2, False)  # refuse what cannot be generated now
        self.group = rows.group
        self._arrays, self._given = picker(rows.group.arrays), picker(rows.group.scalars)
        self._scalars = Scalars(rows.group)
        self._launches = Launches(partial(_rows_launch, rows))

    def __call__(self, ins: Sequence[Any], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
        if 0 in shape:
            return
        tiles = (*self._arrays(ins), *outs)
        launch, numbers = self.launch_of(tiles, self._given(ins), shape)
        launch(tiles, numbers)

    def launch_of(
        self, tiles: Sequence[Any], given: Sequence[Any], shape: tuple[int, ...]
    ) -> tuple[Launch, Sequence[Any]]:
        """The launch of arrays and outputs, and the numbers as it takes them."""
        return self._launches.get(shape, tiles), self._scalars.of(given).values


class RowsRun:
    """`run(ins, outs, i)`: a family as one launch; `leads` are the axes of the rows of each task,
    `outs` the places of what it stores among those of a task, if not in that order.

    It is also said how it is started again (`OneLaunch`), where there is one task.
    """

    def __init__(
        self,
        kernel: RowsKernel,
        taken: Sequence[int],
        leads: Sequence[tuple[int, ...]],
        n: int,
        outs: Sequence[int] = (),
    ) -> None:
        self._kernel, self._shapes = kernel, [(*lead, n) for lead in leads]
        self._taken = picker(taken)
        self.arrays: Sequence[int] = [taken[k] for k in kernel.group.arrays]
        self.numbers: Sequence[int] = [taken[k] for k in kernel.group.scalars]
        self.outs: Sequence[int] = outs or range(kernel.group.n_outs)
        self._stored = picker(self.outs)
        self.is_one_launch = len(leads) == 1

    def __call__(self, ins: list[Any], outs: list[Any], i: int) -> None:
        self._kernel(self._taken(ins), self._stored(outs), self._shapes[i])

    def launch_of(
        self, tiles: Sequence[Any], given: Sequence[Any], shape: tuple[int, ...]
    ) -> tuple[Launch, Sequence[Any]]:
        """The launch of arrays and outputs, and the numbers as it takes them; `shape` is that of
        the last output, which may be one value a row."""
        return self._kernel.launch_of(tiles, given, self._shapes[0])


def row_kind(seen: tuple[int, ...]) -> str:
    """What a row has of an array that is seen in a shape."""
    if not seen or seen[-1] == 1:
        return "narrow"
    return "shared" if all(length == 1 for length in seen[:-1]) else "full"


def _rows_launch(rows: RowGroup, shape: tuple[int, ...], tiles: Sequence[Any]) -> Launch:
    """How blocks of rows are launched over tiles."""
    *lead, n = shape
    aligned = [
        tile.unsqueeze(-1) if kind == "lead" else tile
        for tile, kind in zip(tiles, rows.kinds, strict=True)
    ]
    # the last axis stays by itself: it is as if rows were reduced
    *axes, (_, along, _) = merged_axes(shape, aligned, reduced=(len(lead),))
    axes = axes or [(1, [0] * len(tiles), False)]
    width = power_above(n)
    height = max(PROGRAM_LANES // width, 1)
    n_warps = min(max(height * width // (32 * THREAD_LANES), 4), MOST_WARPS)
    wide = is_wide([*axes, (n, along, True)])
    source = rows_source(rows, len(axes), height, width, wide)
    lengths = [length for length, _, _ in axes]
    steps = [step for a in range(len(tiles)) for step in (*(s[a] for _, s, _ in axes), along[a])]
    n_programs = -(-prod(lengths) // height)
    fused = rows.group.fused
    return Launch(source, n_programs, [*lengths, n, *steps], n_warps=n_warps, fused=fused)

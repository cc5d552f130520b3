"""Tasks as a run needs them: what each reads and writes, looked up in the columns once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from infinitensor.ir.region import relative, whole_box
from infinitensor.ir.view import Look, empty_like

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from infinitensor.ir.region import Box
    from infinitensor.ir.tasks import Column, Family, Program, TileSet

KEPT_STEPS = 4096
"""Tasks of a program up to which their steps are kept for its next run."""

SCALAR, NOTHING, TILE, SPAN = range(4)


class Read(NamedTuple):
    """One operand: a scalar by number, nothing, a tile, or the piece that holds several; and the
    part of it that is meant (None: all)."""

    how: int
    tile: int = -1
    look: Callable[[Any], Any] | None = None
    span: Span | None = None


class Span(NamedTuple):
    """The tiles of a piece that are read, and how they are seen in any array that holds them."""

    tiles: tuple[int, ...]
    held: TileSet
    look: Callable[[Box], Callable[[Any], Any]]


class Out(NamedTuple):
    """One output: its tile, its box, and how it is made from its slab or piece."""

    tile: int
    slot: int
    device: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    tiles: TileSet
    part: tuple[slice, ...] | None
    """Its box in its piece; None if it is all of it."""


class Step(NamedTuple):
    """One task."""

    task: int
    family: Family
    i: int
    device: int
    many: tuple[int, ...]
    reads: tuple[Read, ...]
    outs: tuple[Out, ...]

    def sources(self) -> list[int]:
        """The tiles that it reads."""
        found = list(self.many)
        for read in self.reads:
            if read.span is not None:
                found += read.span.tiles
            elif read.how == TILE:
                found.append(read.tile)
        return found

    def operands(
        self,
        scalars: Sequence[Any],
        array: Callable[[int], Any],
        across: Callable[[Span, Callable[[Any], Any]], Any],
    ) -> list[Any]:
        """Its arguments: `array` finds the values of a tile, `across` what is seen of
        those of several."""
        ins: list[Any] = [array(tile) for tile in self.many]
        for how, tile, look, span in self.reads:
            if how == TILE:
                values = array(tile)
                ins.append(values if look is None else look(values))
            elif how == SCALAR:
                ins.append(scalars[tile])
            elif how == NOTHING:
                ins.append(None)
            else:
                assert span is not None
                assert look is not None
                ins.append(across(span, look))
        return ins


class Steps:
    """The steps of a program; kept where they are few."""

    def __init__(self, program: Program, is_null: bool) -> None:
        self._program = program
        self._is_null = is_null
        self._graph = program.graph
        n = program.graph.n_tasks
        self._kept: list[Step | None] | None = [None] * n if n <= KEPT_STEPS else None

    def __getitem__(self, task: int) -> Step:
        if self._kept is None:
            return self._step(task)
        step = self._kept[task]
        if step is None:
            step = self._kept[task] = self._step(task)
        return step

    def _step(self, task: int) -> Step:
        family, i = self._graph.family_of(task)
        many = tuple(family.many_of(i))
        reads = tuple([self._read(column, i) for column in family.reads])
        outs = tuple([self.out(int(writes[i])) for writes in family.writes])
        return Step(task, family, i, int(family.devices[i]), many, reads, outs)

    def _read(self, column: Column, i: int) -> Read:
        tile = int(column.tiles[i])
        if column.scalar:
            return Read(SCALAR, tile)
        if tile < 0:
            return Read(NOTHING)
        if column.span is None and (column.boxes is None or self._is_null):
            return Read(TILE, tile)
        assert column.boxes is not None
        box = tuple([(lo, hi) for lo, hi in column.boxes[i].tolist()])
        if column.span is None:
            origin = self._graph.box_of(tile)
            is_all = column.access is None and box == origin
            return Read(TILE, tile, None if is_all else look_of(column, box, origin))
        tiles = self._graph.set_with(tile)
        origin = whole_box(tiles.boxes[:, :, 1].max(axis=0).tolist())
        span = Span(tuple(column.touched_by(i)), tiles, partial(look_of, column, box))
        return Read(SPAN, tile, span.look(origin), span)

    def out(self, tile: int) -> Out:
        """How a tile is made."""
        tiles = self._graph.set_with(tile)
        box = tiles.box(tile)
        shape = tuple([hi - lo for lo, hi in box])
        part = None
        if tiles.whole and tiles.n > 1:
            part = tuple([slice(lo, hi) for lo, hi in box])
        device = int(tiles.devices[tile - tiles.first])
        slot = int(self._program.slots[tile])
        return Out(tile, slot, device, tiles.dtype, shape, tiles, part)


def look_of(column: Column, box: Box, origin: Box) -> Callable[[Any], Any]:
    """The part of an array, which holds `origin`, that a task reads."""
    if column.access is not None:
        return Look(column.access, box, origin)
    if any(hi <= lo for lo, hi in box):
        return lambda values: empty_like(values, box)
    index = relative(box, origin)
    return lambda values: values[index]

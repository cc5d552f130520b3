"""Edges between tasks: by tile where it is written once, by region where it is written to again."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.region import box_shape
from infinitensor.ir.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.graph import Node
    from infinitensor.ir.tasks import Column, Family, TileSet


class Edges:
    """Collects (source, target) columns while families are made, in order."""

    def __init__(self, add_family: Callable[..., Family], written: set[int]) -> None:
        self._add_family = add_family
        self.written = written
        self.sources: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []
        self.producers = np.full(1024, -1, np.int64)
        self.firsts: list[int] = []
        self.sets: list[TileSet] = []
        self.trackers: dict[int, Tracker] = {}
        self.tracked: list[bool] = []
        self.n_tracked = 0

    def new_tiles(self, tiles: TileSet) -> None:
        """Make room for the producers of new tiles."""
        if tiles.first + tiles.n > len(self.producers):
            grown = np.full(max(2 * len(self.producers), tiles.first + tiles.n), -1, np.int64)
            grown[: len(self.producers)] = self.producers
            self.producers = grown
        self.firsts.append(tiles.first)
        self.sets.append(tiles)
        tracked = tiles.value in self.written
        self.tracked.append(tracked)
        self.n_tracked += tracked

    def set_with(self, tile: int) -> TileSet:
        """The tile set a tile belongs to."""
        return self.sets[bisect_right(self.firsts, tile) - 1]

    def is_tracked(self, tile: int) -> bool:
        """Whether a tile is written to after it is made."""
        return self.tracked[bisect_right(self.firsts, tile) - 1]

    def add(self, sources: np.ndarray, targets: np.ndarray) -> None:
        """Edges where the source is a task (-1: none)."""
        real = sources >= 0
        if real.all():
            self.sources.append(sources)
            self.targets.append(targets)
        elif real.any():
            self.sources.append(sources[real])
            self.targets.append(targets[real])

    def of_columns(self, family: Family) -> None:
        """Edges of a family with a fixed number of operands, and who makes its tiles."""
        tasks = np.arange(family.first, family.first + family.n, dtype=np.int64)
        for column in family.reads:
            self.read_column(column, tasks)
        self.add_writes(family, tasks)

    def read_column(self, column: Column, tasks: np.ndarray) -> None:
        """A column's reads, in the order of tasks."""
        places, tiles = column.touched()
        if not len(tiles):
            return
        if not self.n_tracked or not any(self.is_tracked(int(t)) for t in np.unique(tiles)):
            self.add(self.producers[tiles], tasks[places])
            return
        for i, tile in zip(places.tolist(), tiles.tolist(), strict=True):
            self.read_one(tile, int(tasks[i]), self.region(column, i))

    def region(self, column: Column, i: int) -> Any:
        """The base region task i reads, or None for the whole tile."""
        if column.boxes is None:
            return None
        box = tuple(map(tuple, column.boxes[i].tolist()))
        if any(hi <= lo for lo, hi in box):
            return ()
        if column.access is None:
            return tuple((lo, hi, 1) for lo, hi in box)
        return column.access.base_region(box)

    def read_one(self, tile: int, task: int, region: Any) -> None:
        """One task reads a region of one tile."""
        inside = self.inside(tile, region) if self.is_tracked(tile) else None
        if inside is not None:
            self.link(self.tracker(tile).read(task, inside), task)
        elif self.producers[tile] >= 0:  # maybe no element is read, but the tile has to be there
            self.link([int(self.producers[tile])], task)

    def inside(self, tile: int, region: Any) -> Any:
        """The part of a region that is in a tile; None if no element is."""
        box = self.set_with(tile).box(tile)
        if region is None:
            return None if any(hi <= lo for lo, hi in box) else tuple((lo, hi, 1) for lo, hi in box)
        if region == () and box:
            return None
        clipped = []
        for (lo, hi, step), (tlo, thi) in zip(region, box, strict=True):
            first = lo if lo >= tlo else lo + -(-(tlo - lo) // step) * step
            if first >= min(hi, thi):
                return None
            clipped.append((first, min(hi, thi), step))
        return tuple(clipped)

    def tracker(self, tile: int) -> Tracker:
        """The accesses of a tile so far."""
        tracker = self.trackers.get(tile)
        if tracker is None:
            shape = box_shape(self.set_with(tile).box(tile))
            tracker = self.trackers[tile] = Tracker(shape, self.new_join)
            if self.producers[tile] >= 0:
                whole = self.inside(tile, None)
                if whole is not None:
                    tracker.write(int(self.producers[tile]), whole)
        return tracker

    def new_join(self, nodes: list[int]) -> int:
        """A task that does nothing but wait."""
        family = self._add_family(
            op="join",
            site=None,
            devices=np.zeros(1, np.int16),
            run=nothing,
            reads=(),
            writes=(),
        )
        self.link(nodes, family.first)
        return int(family.first)

    def link(self, sources: list[int], target: int) -> None:
        """Edges from some tasks to one."""
        real = [s for s in sources if s != target]
        if real:
            self.sources.append(np.asarray(real, np.int64))
            self.targets.append(np.full(len(real), target, np.int64))

    def add_writes(self, family: Family, tasks: np.ndarray) -> None:
        """The family makes its tiles."""
        for tiles in family.writes:
            self.producers[tiles] = tasks

    def of_many(self, family: Family, boxes: np.ndarray | None) -> None:
        """Edges of a family with a varying number of inputs; `boxes`: what a task reads of them."""
        assert family.many is not None
        borders, sources = family.many
        tasks = np.repeat(
            np.arange(family.first, family.first + family.n, dtype=np.int64), np.diff(borders)
        )
        if self.n_tracked and any(self.is_tracked(int(t)) for t in np.unique(sources)):
            for tile, task in zip(sources.tolist(), tasks.tolist(), strict=True):
                region = None
                if boxes is not None:
                    region = tuple((lo, hi, 1) for lo, hi in boxes[task - family.first].tolist())
                self.read_one(tile, task, region)
        else:
            self.add(self.producers[sources], tasks)
        self.add_writes(family, np.arange(family.first, family.first + family.n, dtype=np.int64))

    def of_update(self, family: Family, node: Node, written: np.ndarray | None) -> None:
        """Edges of writes: reads first, then the region each task writes in its tile."""
        tasks = np.arange(family.first, family.first + family.n, dtype=np.int64)
        for column in family.reads:
            self.read_column(column, tasks)
        for i, tile in enumerate(family.writes[0].tolist()):
            region: Any = None
            if written is not None and node.region is not None:
                box = tuple(map(tuple, written[i].tolist()))
                if any(hi <= lo for lo, hi in box):
                    continue
                region = node.region.base_region(box)
            inside = self.inside(tile, region)
            if inside is not None:
                self.link(self.tracker(tile).write(int(tasks[i]), inside), int(tasks[i]))
            elif self.producers[tile] >= 0:
                self.link([int(self.producers[tile])], int(tasks[i]))

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """All edges."""
        if not self.sources:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(self.sources), np.concatenate(self.targets)


def nothing(ins: list[Any], outs: list[Any], i: int) -> None:
    """The kernel of a join."""

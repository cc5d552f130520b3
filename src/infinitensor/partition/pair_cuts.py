"""Cuts of reductions over pairs of points: y against x, tile by tile.

Where y is more than memory holds, it streams by while a part of x stays: each part of x costs one
pass over y. So that part is as large as the budget allows, and y comes in small tiles.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.layout import HOST
from infinitensor.ir.op import Spec
from infinitensor.ir.region import cut_evenly, grid_shape
from infinitensor.ir.slab import slab_bytes
from infinitensor.ops.table.numpy_kernels import combine_scratch, task_scratch
from infinitensor.partition.tile_shape import halve_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.op import Labels
    from infinitensor.ir.region import Cuts
    from infinitensor.ir.space import Space
    from infinitensor.partition.operand_cuts import Bounds, Reads

Y, X = 0, 1
"""The labels of the points of each set: those of y are contracted."""

PAIR_TILES = 64
"""A reduction over pairs may have tiles this much larger: the more of them a task sees, the more it
may leave out."""
FEW_ROWS = 256
"""Points below which a tile of pairs is not cut for the sake of more tasks."""

SPARE_BUDGET_PART = 32
"""The part of the budget that is left: with a byte too few, parts of x would come and go."""
RING = 3
"""Tiles of y that are there at a time: lanes work on one or two, the next is being read."""
SHARE_OF_Y = 8
"""The part of the budget that these, and the scratch that they cost, may take."""
MOST_Y_BYTES = 64 << 20
"""Of a tile of y: more would only delay the first task."""
LEAST_Y_POINTS = 32
"""Points that a tile of y has at least: leaves of a search have as many."""


def cut_pairs(space: Space, bound: int, mesh: Mesh, tile_elements: int, n_parts: int) -> Cuts:
    """Operands within the bound, and a piece for every worker.

    The second set of points (label 1) is cut first: a task then sees all of the other.
    """
    lengths = [max(n, 1) for n in space.sizes]
    volumes = [tuple(label for label in r.labels if label is not None) for r in space.reads]
    free = [label for label in range(len(lengths)) if label not in space.uncut]
    limit = tile_elements or min(bound, mesh.devices[0].tile_elements) * PAIR_TILES
    halve_until(lengths, volumes, limit, [], free)
    n_parts *= 1 if mesh.kind == "cuda" else 2
    while _pieces(space.sizes, lengths) < n_parts and lengths[X] >= 2 * FEW_ROWS:
        lengths[X] = -(-lengths[X] // 2)
    return tuple(
        (0, size) if label in space.uncut else cut_evenly(size, lengths[label])
        for label, size in enumerate(space.sizes)
    )


def _pieces(sizes: tuple[int, ...], lengths: list[int]) -> int:
    return prod(-(-n // step) for n, step in zip(sizes, lengths, strict=True))


def cut_streamed_pairs(space: Space, reads: Reads, bounds: Bounds) -> Cuts | None:
    """A part of x for every lane that is as large as memory allows, and small tiles of y.

    Lanes work on parts of x that are contiguous, so one pass over y serves all of them. None
    where y is not streamed, or most of it has room: then it is not read again and again anyway.
    """
    y = next((read for read in space.reads if read.place == 0), None)
    mesh, dtypes = bounds.mesh, reads.dtypes
    budget = bounds.room_bytes - bounds.room_bytes // SPARE_BUDGET_PART
    read = {r.operand.value: prod(r.shape) * dtypes[r].itemsize for r in reads.streamed}
    if y is None or y not in reads.streamed or mesh.is_one_memory:
        return None
    if 2 * sum(read.values()) <= budget:
        return None
    room = _Room(space, reads, mesh)
    width = max(prod(y.shape[1:]), 1)
    most = max(bounds.tile_elements // width, 1) if bounds.tile_elements else max(space.sizes)
    n_y = min(space.sizes[Y], most, max(MOST_Y_BYTES // (width * dtypes[y].itemsize), 1))
    while n_y > LEAST_Y_POINTS and SHARE_OF_Y * room.of_y(n_y) > budget:
        n_y = max(n_y // 2, LEAST_Y_POINTS)
    n_lanes = mesh.n_devices * mesh.n_concurrent
    n_x = _largest(
        min(-(-space.sizes[X] // n_lanes), most), lambda n: room.of_all(n_y, n) <= budget
    )
    if not n_x:
        return None
    n_passes = -(-space.sizes[X] // (n_x * n_lanes))
    n_x = -(-space.sizes[X] // (n_passes * n_lanes))
    borders = reads.borders(y, Y) or (0, space.sizes[Y])
    cuts = {Y: _parts(borders, n_y), X: cut_evenly(space.sizes[X], n_x)}
    return tuple(cuts.get(label, (0, size)) for label, size in enumerate(space.sizes))


def in_lanes(cuts: Cuts, mesh: Mesh) -> np.ndarray:
    """The device of each piece: parts of x go round the lanes of all devices."""
    n_y, n_x, *_ = grid_shape(cuts)
    of_x = np.arange(n_x) // mesh.n_concurrent % mesh.n_devices
    return np.tile(of_x, n_y).astype(np.int16)


class _Room:
    """Bytes that tasks over tiles of some lengths need."""

    def __init__(self, space: Space, reads: Reads, mesh: Mesh) -> None:
        self.space, self.mesh = space, mesh
        self.dtypes = dtypes = reads.dtypes
        at_home = {
            r for r in space.reads if mesh.kind != "cuda" and {*reads.layouts[r].owners} == {HOST}
        }
        self.counted = {*space.reads} - at_home
        """Reads that take memory of a device: a CPU reads the host's own arrays in place."""
        self.held = sum(prod(r.shape) * dtypes[r].itemsize for r in self.counted - reads.streamed)
        """Bytes held all the time (an operand of both sets counts twice: it is cut twice)."""

    def specs(self, n_y: int, n_x: int) -> tuple[tuple[Spec, ...], tuple[Spec, ...]]:
        """The tiles of a task: what it reads, what it makes."""
        lengths = [*self.space.sizes]
        lengths[Y], lengths[X] = n_y, n_x

        def shape(labels: Labels) -> tuple[int, ...]:
            return tuple(1 if label is None else lengths[label] for label in labels)

        ins = tuple(Spec(shape(read.labels), self.dtypes[read]) for read in self.space.reads)
        made = zip(self.space.outs, self.space.last.call.outs, strict=True)
        return ins, tuple(Spec(shape(labels), spec.dtype) for (_, labels), spec in made)

    def scratch(self, n_y: int, n_x: int) -> int:
        """Bytes that the tasks that run at a time allocate."""
        ins, outs = self.specs(n_y, n_x)
        need = task_scratch(self.space.last, ins, outs, self.mesh.target)
        if X in self.space.contracted:  # lanes have results of their own, which are combined
            largest = max(spec.n_bytes for spec in outs)
            n_lanes = self.mesh.n_devices * self.mesh.n_concurrent
            need = max(need, combine_scratch(n_lanes, len(outs) * largest))
        return self.mesh.n_concurrent * need

    def of_y(self, n_y: int) -> int:
        """The tiles of y that are there at a time, with the scratch that they cost."""
        tiles = self._tiles(Y, n_y, 1)
        return RING * tiles + self.scratch(n_y, 1)

    def of_all(self, n_y: int, n_x: int) -> int:
        """All that a device has to hold while y streams by."""
        _, outs = self.specs(n_y, n_x)
        lane = self._tiles(X, n_y, n_x) + sum(int(slab_bytes(spec.n_bytes)) for spec in outs)
        tiles = self.mesh.n_concurrent * lane + RING * self._tiles(Y, n_y, n_x)
        return self.held + tiles + self.scratch(n_y, n_x)

    def _tiles(self, label: int, n_y: int, n_x: int) -> int:
        ins, _ = self.specs(n_y, n_x)
        named = zip(self.space.reads, ins, strict=True)
        return sum(
            int(slab_bytes(spec.n_bytes))
            for read, spec in named
            if label in read.labels and read in self.counted
        )


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `most` that fits, if all below it do; 0: none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _parts(borders: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Borders with pieces of at most a length: tiles in equal parts, or several together.

    >>> _parts((0, 8, 16, 20), 4), _parts((0, 8, 16, 20), 16)
    ((0, 4, 8, 12, 16, 20), (0, 16, 20))
    """
    taken = [0]
    for lo, hi in pairwise(borders):
        n_parts = -(-(hi - lo) // most)
        step = -(-(hi - lo) // max(n_parts, 1)) or 1
        for border in (*range(lo + step, hi, step), hi):
            if len(taken) > 1 and border - taken[-2] <= most:
                taken.pop()
            taken.append(border)
    return tuple(taken)

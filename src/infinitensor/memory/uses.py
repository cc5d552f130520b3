"""The uses of tiles by the tasks of a graph: which tiles, how large, where, and who uses each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.slab import slab_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.tasks import Family, TaskGraph

FOREVER = np.iinfo(np.int64).max


class Uses:
    """Tiles by number: bytes, device, producer, users, last use; and which tasks are needed."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        n = graph.n_tiles
        self.tile_bytes = np.zeros(n, np.int64)
        self.n_elements = np.zeros(n, np.int64)
        self.itemsizes = np.zeros(n, np.int8)
        self.devices = np.zeros(n, np.int16)
        self.producers = np.full(n, -1, np.int64)
        self.in_piece = np.zeros(n, np.bool_)
        for tiles in graph.tiles:
            span = tiles.span
            lengths = tiles.boxes[:, :, 1] - tiles.boxes[:, :, 0]
            elements = lengths.prod(axis=1) if lengths.shape[1] else np.ones(tiles.n, np.int64)
            self.tile_bytes[span] = slab_bytes(elements * tiles.dtype.itemsize)
            self.n_elements[span] = elements
            self.itemsizes[span] = tiles.dtype.itemsize
            self.devices[span] = tiles.devices
            if tiles.whole:
                self.in_piece[span] = True
                self.tile_bytes[span] = parts_of(elements * tiles.dtype.itemsize)
        self.needed = self.find_needed()
        self.find_uses()

    def find_needed(self) -> np.ndarray:
        """Tasks that some kept tile is made from; the others never run (a slice of a large result
        needs only the tiles it touches)."""
        needed = np.ones(self.graph.n_tasks, np.bool_)
        wanted = np.zeros(self.graph.n_tiles, np.bool_)
        for first, layout in self.graph.held.values():
            wanted[first : first + layout.n_tiles] = True
        for family in reversed(self.graph.families):
            if not family.writes:
                continue
            mine = np.zeros(family.n, np.bool_)
            for writes in family.writes:
                mine |= wanted[writes]
            needed[family.span] = mine
            for places, tiles in family.read():
                wanted[tiles[mine[places]]] = True
        return needed

    def find_uses(self) -> None:
        """Which tasks touch each tile, and the last of them."""
        tasks: list[np.ndarray] = []
        tiles: list[np.ndarray] = []
        for family in self.graph.families:
            own = np.arange(family.first, family.first + family.n, dtype=np.int64)
            for places, read in family.read():
                tasks.append(own[places])
                tiles.append(read)
            for writes in family.writes:
                tasks.append(own)
                tiles.append(writes)
                if not family.updates:
                    self.producers[writes] = own
        all_tasks = np.concatenate(tasks) if tasks else np.zeros(0, np.int64)
        all_tiles = np.concatenate(tiles) if tiles else np.zeros(0, np.int32)
        if not self.needed.all():
            used = self.needed[all_tasks]
            all_tasks, all_tiles = all_tasks[used], all_tiles[used]
        self.last_use = np.full(self.graph.n_tiles, -1, np.int64)
        np.maximum.at(self.last_use, all_tiles, all_tasks)
        order = np.argsort(all_tiles, kind="stable")
        self.users = all_tasks[order]
        self.user_borders = np.searchsorted(all_tiles[order], np.arange(self.graph.n_tiles + 1))
        for first, layout in self.graph.held.values():
            self.last_use[first : first + layout.n_tiles] = FOREVER

    def tile_in_place(
        self, family: Family, i: int, out: int, may_take: Callable[[int], bool]
    ) -> int:
        """A tile that a task reads, as a whole only, with the elements of what it makes, on the
        same device; -1: none."""
        alike = (self.n_elements, self.itemsizes, self.devices)
        columns = [column for column in family.reads if not column.scalar]
        seen_in_part = {int(c.tiles[i]) for c in columns if c.boxes is not None}
        for tile in (int(column.tiles[i]) for column in columns):
            if (
                tile >= 0
                and tile not in seen_in_part
                and not self.in_piece[tile]
                and all(column[tile] == column[out] for column in alike)
                and may_take(tile)
            ):
                return tile
        return -1

    def tiles_by_task(self) -> tuple[np.ndarray, np.ndarray]:
        """The tiles each needed task touches, task by task, and where each task's begin."""
        n_users = np.diff(self.user_borders)
        tiles = np.repeat(np.arange(self.graph.n_tiles), n_users)
        order = np.argsort(self.users, kind="stable")
        borders = np.searchsorted(self.users[order], np.arange(self.graph.n_tasks + 1))
        return tiles[order], borders


def successors(
    sources: np.ndarray, targets: np.ndarray, n_tasks: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(borders, after, waits) of a Program: where the successors of each task begin, these, and how
    many tasks each task waits for."""
    order = np.argsort(sources, kind="stable")
    borders = np.searchsorted(sources[order], np.arange(n_tasks + 1)).astype(np.int64)
    waits = np.bincount(targets, minlength=n_tasks).astype(np.int32)
    return borders, targets[order].astype(np.int32), waits


def scratch_bytes(families: Sequence[Family], n_devices: int, n_concurrent: int) -> list[int]:
    """Scratch bytes of each device that the tasks of families that run at a time may take.

    That is at most what the largest of them take: a thread may keep what its tasks work in.
    """
    largest: list[list[int]] = [[] for _ in range(n_devices)]
    for family in families:
        if family.scratch_bytes:
            devices, n_tasks = np.unique(family.devices, return_counts=True)
            for device, n in zip(devices.tolist(), n_tasks.tolist(), strict=True):
                largest[device] += [family.scratch_bytes] * min(n, n_concurrent)
    return [sum(sorted(sizes, reverse=True)[:n_concurrent]) for sizes in largest]


def parts_of(n_bytes: np.ndarray) -> np.ndarray:
    """Bytes of each tile in the slab that holds all of them; the last one has the rest."""
    parts = n_bytes.copy()
    parts[-1] += int(slab_bytes(int(n_bytes.sum()))) - int(n_bytes.sum())
    return parts

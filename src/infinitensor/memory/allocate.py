"""Static buffers: every tile gets a slot before anything runs.

Tasks are walked in their serial order. A tile that no later task uses gives its slot back; a tile
that takes a used slot makes its writer wait for all users of the tile before (a memory edge), so
the peak holds in whatever order events come. A slot is left to rest for a few tasks before it is
used again, unless the budget asks for it, so that memory edges do not hold up what runs in
parallel.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.errors import DoesNotFit
from infinitensor.ir.layout import HOST
from infinitensor.ir.region import box_size, overlap
from infinitensor.ir.slab import slab_bytes
from infinitensor.ir.tasks import COMPUTE, Program, TaskGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.region import Box
    from infinitensor.ir.tasks import Family

FOREVER = np.iinfo(np.int64).max


def allocate(
    graph: TaskGraph,
    budgets: Sequence[int],
    donated: Sequence[bool],
    n_concurrent: int,
    moved: dict[tuple[int, int], int],
) -> Program:
    """A Program whose peak on every device is within its budget, or `DoesNotFit`.

    `donated[leaf]` says whose tiles may be used up. `n_concurrent` tasks may run at a time on a
    device, each with its scratch.
    """
    return _Allocation(graph, budgets, donated, n_concurrent).program(moved)


class _Allocation:
    def __init__(
        self, graph: TaskGraph, budgets: Sequence[int], donated: Sequence[bool], n_concurrent: int
    ) -> None:
        self.graph = graph
        self.budgets = budgets
        self.n_concurrent = n_concurrent
        n = graph.n_tiles
        self.slots = np.full(n, -1, np.int32)
        self.tile_bytes = np.zeros(n, np.int64)
        self.n_elements = np.zeros(n, np.int64)
        self.itemsizes = np.zeros(n, np.int8)
        self.devices = np.zeros(n, np.int16)
        self.producers = np.full(n, -1, np.int64)
        self.slot_bytes: list[int] = []
        self.slot_devices: list[int] = []
        self.slot_leaves: dict[int, tuple[int, int]] = {}
        self.used = [0] * len(budgets)
        self.free: dict[tuple[int, int], deque[tuple[int, int, int]]] = {}
        self.extra_sources: list[int] = []
        self.extra_targets: list[int] = []
        self.external = np.zeros(n, np.bool_)
        for tiles in graph.tiles:
            span = slice(tiles.first, tiles.first + tiles.n)
            lengths = tiles.boxes[:, :, 1] - tiles.boxes[:, :, 0]
            elements = lengths.prod(axis=1) if lengths.shape[1] else np.ones(tiles.n, np.int64)
            self.tile_bytes[span] = slab_bytes(elements * tiles.dtype.itemsize)
            self.n_elements[span] = elements
            self.itemsizes[span] = tiles.dtype.itemsize
            self.devices[span] = tiles.devices
            if tiles.leaf >= 0:
                self.enter_leaf(tiles, donated[tiles.leaf])
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
            needed[family.first : family.first + family.n] = mine
            for column in family.reads:
                if not column.scalar:
                    tiles = column.tiles[mine]
                    wanted[tiles[tiles >= 0]] = True
            if family.many is not None:
                borders, sources = family.many
                wanted[sources[np.repeat(mine, np.diff(borders))]] = True
        return needed

    def enter_leaf(self, tiles: object, donated: bool) -> None:
        first, n, leaf = tiles.first, tiles.n, tiles.leaf  # type: ignore[attr-defined]
        for k in range(n):
            device = int(self.devices[first + k])
            if device != HOST:
                self.used[device] += int(self.tile_bytes[first + k])
            if donated and device != HOST:
                self.slots[first + k] = self.new_slot(device, int(self.tile_bytes[first + k]), True)
                self.slot_leaves[int(self.slots[first + k])] = (leaf, k)
            else:
                self.external[first + k] = True

    def find_uses(self) -> None:
        """Which tasks touch each tile, and the last of them."""
        tasks: list[np.ndarray] = []
        tiles: list[np.ndarray] = []
        for family in self.graph.families:
            own = np.arange(family.first, family.first + family.n, dtype=np.int64)
            for column in family.reads:
                if not column.scalar:
                    real = column.tiles >= 0
                    tasks.append(own if real.all() else own[real])
                    tiles.append(column.tiles if real.all() else column.tiles[real])
            for writes in family.writes:
                tasks.append(own)
                tiles.append(writes)
                if not family.updates:
                    self.producers[writes] = own
            if family.many is not None:
                borders, sources = family.many
                tasks.append(np.repeat(own, np.diff(borders)))
                tiles.append(sources)
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

    def new_slot(self, device: int, n_bytes: int, counted: bool = False) -> int:
        if not counted:
            self.used[device] += n_bytes
        self.slot_bytes.append(n_bytes)
        self.slot_devices.append(device)
        return len(self.slot_bytes) - 1

    def program(self, moved: dict[tuple[int, int], int]) -> Program:
        self.scratch = [0] * len(self.budgets)
        for family in self.graph.families:
            if family.scratch_bytes:
                need = self.n_concurrent * family.scratch_bytes
                for device in np.unique(family.devices):
                    self.scratch[device] = max(self.scratch[device], need)
        for family in self.graph.families:
            self.walk(family)
        for device, need in enumerate(self.used):
            if need + self.scratch[device] > self.budgets[device]:
                family = max(self.graph.families, key=lambda f: f.scratch_bytes)
                self.refuse(family, device, 0)
        sources = np.concatenate([self.graph.sources, np.asarray(self.extra_sources, np.int64)])
        targets = np.concatenate([self.graph.targets, np.asarray(self.extra_targets, np.int64)])
        if not self.needed.all():
            real = self.needed[sources] & self.needed[targets]
            sources, targets = sources[real], targets[real]
        order = np.argsort(sources, kind="stable")
        waits = np.bincount(targets, minlength=self.graph.n_tasks).astype(np.int32)
        borders = np.searchsorted(sources[order], np.arange(self.graph.n_tasks + 1)).astype(
            np.int64
        )
        return Program(
            self.graph,
            self.slots,
            np.asarray(self.slot_bytes, np.int64),
            np.asarray(self.slot_devices, np.int16),
            self.slot_leaves,
            borders,
            targets[order].astype(np.int32),
            waits,
            {d: used + self.scratch[d] for d, used in enumerate(self.used)},
            self.last_use,
            self.producers,
            self.needed,
            moved if self.needed.all() else self.moved_by_needed(),
        )

    def moved_by_needed(self) -> dict[tuple[int, int], int]:
        """Bytes that cross devices in the moves that are really made."""
        firsts = [tiles.first for tiles in self.graph.tiles]

        def box_of(tile: int) -> Box:
            tiles = self.graph.tiles[bisect_right(firsts, tile) - 1]
            return tuple((lo, hi) for lo, hi in tiles.boxes[tile - tiles.first].tolist())

        moved: dict[tuple[int, int], int] = {}
        for family in self.graph.families:
            if family.many is None or family.lane == COMPUTE:
                continue
            borders, sources = family.many
            for i in range(family.n):
                if not self.needed[family.first + i]:
                    continue
                target = int(family.writes[0][i])
                for source in sources[borders[i] : borders[i + 1]].tolist():
                    way = (int(self.devices[source]), int(self.devices[target]))
                    common = overlap(box_of(source), box_of(target))
                    if way[0] != way[1] and common is not None:
                        n_bytes = box_size(common) * int(self.itemsizes[source])
                        moved[way] = moved.get(way, 0) + n_bytes
        return moved

    def walk(self, family: Family) -> None:
        """Slots for what a family makes, slots back from what it uses last."""
        n = family.n
        own = np.arange(family.first, family.first + n, dtype=np.int64)
        touched = [c.tiles for c in family.reads if not c.scalar]
        touched += list(family.writes)
        # few tasks: looking whether they can be treated at once costs more than they do
        frees = n < 8 or any((self.last_use[t] == own).any() for t in touched if len(t))
        if family.many is not None:
            frees = True
        fresh = [w for w in family.writes if not family.updates]
        if not frees and all((self.last_use[w] == FOREVER).all() for w in fresh):
            for writes in fresh:
                self.bulk(family, writes)
            return
        for i in range(n):
            task = family.first + i
            if not self.needed[task]:
                continue
            for writes in fresh:
                tile = int(writes[i])
                if self.slots[tile] < 0:
                    self.slots[tile] = self.take(family, i, task, tile)
            self.release(family, i, task, touched)

    def bulk(self, family: Family, writes: np.ndarray) -> None:
        """Slots of tiles that all stay."""
        for device in np.unique(self.devices[writes]):
            mine = writes[self.devices[writes] == device]
            n_bytes = self.tile_bytes[mine]
            self.used[device] += int(n_bytes.sum())
            if self.used[device] + self.scratch[device] > self.budgets[device]:
                self.refuse(family, int(device), 0)
            self.slots[mine] = np.arange(len(self.slot_bytes), len(self.slot_bytes) + len(mine))
            self.slot_bytes.extend(n_bytes.tolist())
            self.slot_devices.extend([int(device)] * len(mine))

    def take(self, family: Family, i: int, task: int, tile: int) -> int:
        device = int(self.devices[tile])
        n_bytes = int(self.tile_bytes[tile])
        if family.in_place:
            slot = self.in_place(family, i, task, tile)
            if slot >= 0:
                return slot
        resting = self.free.get((device, n_bytes))
        if resting and resting[0][2] < task - 4 * self.n_concurrent:
            return self.again(resting, task)
        fits = self.used[device] + n_bytes + self.scratch[device] <= self.budgets[device]
        if fits:
            return self.new_slot(device, n_bytes)
        if resting:
            return self.again(resting, task)
        self.refuse(family, device, n_bytes)
        raise AssertionError

    def refuse(self, family: Family, device: int, more_bytes: int) -> None:
        need = self.used[device] + self.scratch[device] + more_bytes
        raise DoesNotFit(family.op, need, self.budgets[device], device, family.site)

    def again(self, resting: deque[tuple[int, int, int]], task: int) -> int:
        slot, before, _ = resting.popleft()
        self.wait_for_users(before, task)
        return slot

    def wait_for_users(self, tile: int, task: int) -> None:
        users = self.users[self.user_borders[tile] : self.user_borders[tile + 1]]
        for user in users.tolist():
            if user != task:
                self.extra_sources.append(user)
                self.extra_targets.append(task)

    def in_place(self, family: Family, i: int, task: int, out: int) -> int:
        """The slot of an input that dies here and has the output's elements, or -1."""
        for column in family.reads:
            if column.scalar or column.boxes is not None:
                continue
            tile = int(column.tiles[i])
            if tile < 0 or self.external[tile] or self.last_use[tile] != task:
                continue
            if self.n_elements[tile] != self.n_elements[out]:
                continue
            if self.itemsizes[tile] != self.itemsizes[out]:
                continue
            if self.devices[tile] != self.devices[out]:
                continue
            if any(
                c.boxes is not None and c.tiles[i] == tile for c in family.reads if not c.scalar
            ):
                continue
            self.wait_for_users(tile, task)
            self.last_use[tile] = task - 1
            return int(self.slots[tile])
        return -1

    def release(self, family: Family, i: int, task: int, touched: list[np.ndarray]) -> None:
        tiles = {int(t[i]) for t in touched}
        if family.many is not None:
            borders, sources = family.many
            tiles.update(sources[borders[i] : borders[i + 1]].tolist())
        for tile in sorted(tiles):
            if tile >= 0 and self.last_use[tile] == task and not self.external[tile]:
                key = (int(self.devices[tile]), int(self.tile_bytes[tile]))
                self.free.setdefault(key, deque()).append((int(self.slots[tile]), tile, task))

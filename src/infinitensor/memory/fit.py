"""Programs larger than memory: a serial order is walked, and what does not fit is evicted.

Each task in turn gets its tiles: one that is not there is loaded, and to make room the tile whose
eviction costs least for the longest time goes. A tile that can be read or made again, or whose copy
in a lower tier is still good, goes without a byte being written. What comes back is a new tile in
another slot, so any ready task may run at any time: that a slot has a new tile is an edge from all
users of the one before, and the peak holds whatever the order of events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from infinitensor.errors import DoesNotFit
from infinitensor.ir.layout import DISK, HOST
from infinitensor.ir.tasks import LOAD, Program, TaskGraph, TileSet, Traffic
from infinitensor.memory.lower import Extra, families_with
from infinitensor.memory.stay import Stayers, staying
from infinitensor.memory.uses import FOREVER
from infinitensor.price import tier_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.tasks import Family
    from infinitensor.memory.uses import Uses

RECENT = 4
"""Tasks for each worker within which a tile was used just now: a load that takes its place would
wait for them."""
WAIT = 3
"""What such a wait counts, as a factor of what the eviction costs."""


RING_SHARE = 8
"""The part of the room for what stays that slots to read into may take before they are fewer."""


class Freed(NamedTuple):
    """A slot (or those of a piece) that can be used again, once the users of what it held are
    done."""

    slots: tuple[int, ...]
    users: list[int]
    at: int


def fit(
    uses: Uses,
    order: np.ndarray,
    budgets: Sequence[int],
    donated: Sequence[bool],
    mesh: Mesh,
    moved: dict[tuple[int, int], int],
    ahead: int | None = 3,
) -> Program:
    """A Program whose peak is within every budget, with what has to be evicted and loaded.

    What was read from below stays for the next run where there is room: beside what is computed
    with there are `ahead` slots to read into on a GPU; None: all there is, and nothing stays.

    `DoesNotFit` where a task's own tiles are more than a budget, or the lower tiers are full.
    Takes time linear in tasks, and in tiles that fit for each eviction.
    """
    return _Walk(uses, order, budgets, donated, mesh, ahead).program(moved)


class _Walk:
    def __init__(
        self,
        uses: Uses,
        order: np.ndarray,
        budgets: Sequence[int],
        donated: Sequence[bool],
        mesh: Mesh,
        ahead: int | None,
    ) -> None:
        self.uses = uses
        self.n_ahead = ahead
        self.graph = uses.graph
        self.order = order.tolist()
        self.mesh = mesh
        self.budgets = budgets
        self.scratch = uses.scratch_bytes(len(budgets), mesh.n_concurrent)
        self.limit = {d: budget - self.scratch[d] for d, budget in enumerate(budgets)}
        self.limit[HOST] = mesh.host_bytes
        self.limit[DISK] = mesh.disk_bytes
        self.recent = RECENT * mesh.n_concurrent
        n = self.graph.n_tiles
        self.tile_bytes: list[int] = uses.tile_bytes.tolist()
        self.devices: list[int] = uses.devices.tolist()
        self.slots = [-1] * n
        self.now = [-1] * n
        """Tile -> the tile that has its values in device memory, or -1."""
        self.lower = [-1] * n
        """Tile -> the tile in a lower tier that has the same values, or -1."""
        self.evicted_by: dict[int, int] = {}
        self.loaded_by: dict[int, int] = {}
        self.users: dict[int, list[int]] = {}
        self.writers: dict[int, list[int]] = {}
        self.used_at = np.full(n, -1, np.int64)
        self.next_at = np.zeros(n, np.int64)
        self.seconds = np.zeros(n)
        self.is_here = [np.zeros(n, np.bool_) for _ in budgets]
        """By device: the tiles there that could be evicted."""
        self.used = {d: 0 for d in (*range(len(budgets)), HOST, DISK)}
        self.peak = dict(self.used)
        self.is_idle = bytearray(n)
        """Tiles that only the next run would read."""
        self.free: dict[tuple[int, int, bool], deque[Freed]] = {}
        """By device, size, and whether what was there had been read from below by a GPU."""
        self.slot_bytes: list[int] = []
        self.slot_devices: list[int] = []
        self.slot_leaves: dict[int, tuple[int, int]] = {}
        self.slot_pieces: dict[int, int] = {}
        self.piece_bytes: list[int] = []
        self.piece_left: dict[int, int] = {}
        self.free_pieces: dict[int, deque[Freed]] = {}
        self.free_bytes: dict[int, int] = {}
        self.retires: dict[int, tuple[int, ...]] = {}
        self.last_retired: dict[int, int] = {}
        self.drops: dict[int, list[int]] = {}
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.serial: list[int] = []
        self.patches: dict[int, dict[int, int]] = {}
        self.extras: list[Extra] = []
        self.new_tiles: list[TileSet] = []
        self.origins: dict[int, int] = {}
        self.pinned: set[int] = set()
        self.is_pinned = np.zeros(n, np.bool_)
        self.loaded = self.evicted = 0
        self.site: object = None
        self.op = ""
        self.is_held = (uses.last_use == FOREVER).tolist()
        self._find_positions()
        self._find_again()
        self.is_external = bytearray(n)
        for tiles in self.graph.tiles:
            if tiles.leaf >= 0:
                self._enter_leaf(tiles, donated[tiles.leaf])
        self.ahead = self._room_ahead() if self.is_streamed else {}
        """By device: bytes of slots for what is read from below; the rest needs the others."""
        self.read_slots: set[int] = set()
        self.read_bytes = dict.fromkeys(self.ahead, 0)
        """Bytes of the slots that were last given to what is read from below."""

    # what is known before

    def _find_positions(self) -> None:
        """For every tile, when in the order it is used."""
        uses = self.uses
        rank = np.full(self.graph.n_tasks, -1, np.int64)
        rank[self.order] = np.arange(len(self.order))
        at = rank[uses.users]
        tiles = np.repeat(np.arange(self.graph.n_tiles), np.diff(uses.user_borders))
        self.at: list[int] = at[np.lexsort((at, tiles))].tolist()
        self.next: list[int] = uses.user_borders[:-1].tolist()
        self.end: list[int] = uses.user_borders[1:].tolist()
        touched, borders = uses.tiles_by_task()
        self.touched: list[int] = touched.tolist()
        self.touched_at: list[int] = borders.tolist()
        self.family_firsts = [family.first for family in self.graph.families]
        self.at_now = 0

    def _find_again(self) -> None:
        """Tiles that a task makes from nothing that has to be kept: seconds to make them again."""
        self.again: dict[int, float] = {}
        self.is_streamed = False
        """Whether a GPU reads from below while it computes: there one task runs at a time."""
        self.from_below: set[int] = set()
        """Those of them that are read from a lower tier."""
        changed: set[int] = set()
        for family in self.graph.families:
            if family.updates:
                changed.update(family.writes[0].tolist())
        for family in self.graph.families:
            if family.updates or len(family.writes) != 1:
                continue
            read = [column.touched()[1] for column in family.reads]
            if family.many is not None:
                read.append(family.many[1])
            if any((self.uses.devices[tiles] >= 0).any() for tiles in read):
                continue
            for tile in family.writes[0].tolist():
                if tile not in changed and not self.uses.in_piece[tile]:
                    self.again[tile] = self._seconds(family, tile)
                    if family.lane == LOAD:
                        self.from_below.add(tile)
        self.last_below = max((self.at[self.end[tile] - 1] for tile in self.from_below), default=-1)
        """When the last of them is read."""
        self.is_streamed = self.mesh.kind == "cuda" and bool(self.from_below)
        self.stays = {}
        if self.n_ahead is not None:
            self.stays = staying(self.uses, sorted(self.from_below))
        """Of those that may stay when this is over: bytes of all that stay before, and of it."""
        self.ring = dict.fromkeys(range(len(self.budgets)), 0)
        """Bytes of slots for what is computed with, and what is read meanwhile."""
        self._find_ring()
        self.stayers = [
            Stayers(
                {tile: n for tile, n in self.stays.items() if self.devices[tile] == device},
                self.tile_bytes,
                partial(self.left_bytes, device),
                partial(self.ring_bytes, device),
            )
            for device in range(len(self.budgets))
        ]

    def _find_ring(self) -> None:
        """Slots of the largest tile that may stay; on a GPU of the size most bytes are read in."""
        n_slots = 2 * self.mesh.n_concurrent + 1
        if self.is_streamed and self.n_ahead is not None:
            n_slots = self.n_ahead
        by_size: dict[tuple[int, int], int] = {}
        for tile in self.stays:
            key = (self.devices[tile], self.tile_bytes[tile])
            by_size[key] = by_size.get(key, 0) + key[1]
        # what lies at the end is what is left
        for device, n_bytes in sorted(
            by_size, key=lambda key: by_size[key] if self.is_streamed else key[1]
        ):
            self.ring[device] = n_slots * n_bytes

    def _room_ahead(self) -> dict[int, int]:
        """What tiles that are not read from below leave of each device where they take most."""
        uses, n = self.uses, len(self.order)
        is_other = (np.diff(uses.user_borders) > 0) & (uses.devices >= 0)
        is_other[list(self.from_below)] = False
        tiles = np.flatnonzero(is_other & (np.frombuffer(self.is_external, np.int8) == 0))
        at = np.asarray(self.at, np.int64)
        begins = at[uses.user_borders[tiles]]
        begins[np.asarray(self.slots)[tiles] >= 0] = 0  # leaves
        ends = np.where(uses.last_use[tiles] == FOREVER, n, at[uses.user_borders[tiles + 1] - 1])
        begins += np.isin(tiles, self._taking_over())
        is_held = np.frombuffer(self.is_external, np.bool_)
        room = {}
        for device, limit in enumerate(self.budgets):
            here = uses.devices[tiles] == device
            sizes = uses.tile_bytes[tiles[here]]
            change = np.bincount(begins[here], sizes, minlength=n + 2)
            change -= np.bincount(ends[here] + 1, sizes, minlength=n + 2)
            held = int(uses.tile_bytes[is_held & (uses.devices == device)].sum())
            room[device] = limit - self.scratch[device] - held - int(change.cumsum().max())
        return room

    def _taking_over(self) -> list[int]:
        """Tiles that take the memory of one that is used last where they are made."""
        return [
            int(tile)
            for family in self.graph.families
            if family.in_place and family.reads and not family.reads[0].scalar
            for before, tile in zip(family.reads[0].tiles, family.writes[0], strict=True)
            if before >= 0 and self.end[before] - self.next[before] == 2
        ]

    def _seconds(self, family: Family, tile: int) -> float:
        if family.lane != LOAD:
            return family.seconds
        assert family.many is not None
        is_disk = bool((self.uses.devices[family.many[1]] == DISK).any())
        return tier_seconds(self.tile_bytes[tile], is_disk, self.mesh)

    def _enter_leaf(self, tiles: TileSet, donated: bool) -> None:
        if tiles.whole and donated:
            self.new_piece(tiles)
        for k in range(tiles.n):
            tile = tiles.first + k
            device = self.devices[tile]
            self.now[tile] = tile
            self.users[tile] = []
            self.writers[tile] = []
            if device >= 0:
                self.count(device, self.tile_bytes[tile])
            if not donated or device < 0:
                self.is_external[tile] = 1
                continue
            if not tiles.whole:
                self.slots[tile] = self.new_slot(device, self.tile_bytes[tile])
                self.is_here[device][tile] = True
                self.weigh(tile)
            self.slot_leaves[self.slots[tile]] = (tiles.leaf, k)

    # the walk

    def program(self, moved: dict[tuple[int, int], int]) -> Program:
        uses = self.uses
        for at, task in enumerate(self.order):
            self.step(at, task)
        for device, limit in enumerate(self.budgets):
            if self.peak[device] > self.limit[device]:  # leaves and scratch together
                family = max(self.graph.families, key=lambda f: f.scratch_bytes)
                need = self.peak[device] + self.scratch[device]
                raise DoesNotFit(family.op, need, limit, device, family.site)
        final, cached = self.end_places()
        number = {self.graph.n_tasks + k: extra for k, extra in enumerate(self.extras)}
        families, renamed, n_tasks = families_with(
            self.graph, self.patches, number, self.graph.n_tasks
        )
        n_tiles = len(self.slots)
        names = np.arange(n_tasks, dtype=np.int64)
        for before, after in renamed.items():
            names[before] = after
        needed = np.ones(n_tasks, np.bool_)
        needed[: len(uses.needed)] = uses.needed
        sources = np.concatenate([self.graph.sources, names[np.asarray(self.sources, np.int64)]])
        targets = np.concatenate([self.graph.targets, names[np.asarray(self.targets, np.int64)]])
        real = needed[sources] & needed[targets]
        sources, targets = sources[real], targets[real]
        by_source = np.argsort(sources, kind="stable")
        producers = np.full(n_tiles, -1, np.int64)
        producers[: self.graph.n_tiles] = uses.producers
        for family in families[len(self.graph.families) :]:
            producers[family.writes[0]] = np.arange(family.first, family.first + family.n)
        last_use = np.full(n_tiles, FOREVER, np.int64)
        last_use[: self.graph.n_tiles] = uses.last_use
        graph = TaskGraph(
            families,
            (*self.graph.tiles, *self.new_tiles),
            sources,
            targets,
            n_tasks,
            n_tiles,
            self.graph.held,
        )
        return Program(
            graph,
            np.asarray(self.slots, np.int32),
            np.asarray(self.slot_bytes, np.int64),
            np.asarray(self.slot_devices, np.int16),
            self.slot_leaves,
            np.searchsorted(sources[by_source], np.arange(n_tasks + 1)).astype(np.int64),
            targets[by_source].astype(np.int32),
            np.bincount(targets, minlength=n_tasks).astype(np.int32),
            {d: self.peak[d] + self.scratch[d] for d in range(len(self.budgets))},
            last_use,
            producers,
            needed,
            self.slot_pieces,
            tuple(self.piece_bytes),
            moved,
            order=names[np.asarray(self.serial, np.int64)],
            final=final,
            retires=self.retires,
            origins=self.origins,
            drops={int(names[task]): tuple(tiles) for task, tiles in self.drops.items()},
            cached=cached,
            traffic=Traffic(self.loaded, self.evicted, self.peak[HOST], self.peak[DISK]),
        )

    def step(self, at: int, task: int) -> None:
        """Give one task its tiles; take back what it uses last."""
        family = self.graph.families[bisect_right(self.family_firsts, task) - 1]
        i = task - family.first
        self.op, self.site, self.at_now = family.op, family.site, at
        touched = set(self.touched[self.touched_at[task] : self.touched_at[task + 1]])
        fresh = [] if family.updates else [int(writes[i]) for writes in family.writes]
        self.pin(touched)
        for tile in touched:
            if self.now[tile] < 0 and tile not in fresh and self.devices[tile] >= 0:
                self.bring_back(tile, at)
        for tile in fresh:
            if self.now[tile] < 0:
                self.make(family, i, task, tile, at)
        if family.lane == LOAD:
            self.loaded += sum(self.tile_bytes[tile] for tile in fresh)
        self.serial.append(task)
        for stayers in self.stayers:
            for tile in stayers.leaving():
                if self.is_idle[tile]:
                    self.let_go(tile, at)
        for tile in touched:
            place = self.now[tile]
            if place < 0:
                continue
            if place != tile:
                self.patches.setdefault(task, {})[tile] = place
                self.edge(self.loaded_by[place], task)
            self.users[place].append(task)
            self.used_at[tile] = at
            if family.updates and tile == int(family.writes[0][i]):
                self.writers[place].append(task)
                self.forget_copy(tile, task)
        for tile in touched:
            self.use_up(tile, task, at)

    def pin(self, tiles: set[int]) -> None:
        """These tiles stay until others are pinned."""
        self.is_pinned[list(self.pinned)] = False
        self.is_pinned[list(tiles)] = True
        self.pinned = tiles

    def use_up(self, tile: int, task: int, at: int) -> None:
        """A use is over; after the last one the slot is free, or kept while nobody needs it."""
        n, end = self.next[tile], self.end[tile]
        while n < end and self.at[n] <= at:
            n += 1
        self.next[tile] = n
        self.weigh(tile)
        if n < end or self.is_external[tile] or self.is_held[tile] or self.now[tile] < 0:
            return
        if tile in self.stays and tile in self.stayers[self.devices[tile]]:
            self.rest(tile)
            return
        self.forget_copy(tile, task)
        if self.uses.in_piece[tile]:
            self.leave_piece(tile, at)
        else:
            self.let_go(tile, at)

    def left_bytes(self, device: int) -> int:
        """Bytes of a device that no tile has now."""
        return self.limit[device] - self.used[device] + self.free_bytes.get(device, 0)

    def ring_bytes(self, device: int, room: int) -> int:
        """Bytes of slots for what is read while what was read before is computed with.

        As many tiles as there may be tasks at a time, twice, and one; where that is much of the
        room, only once (what is computed with is counted as busy): more stays, and less is read.
        None once nothing is read any more.
        """
        if self.at_now > self.last_below:
            return 0
        full, at_a_time = self.ring[device], self.mesh.n_concurrent
        if self.mesh.kind != "cpu" or RING_SHARE * full <= room:
            return full
        return max(full * at_a_time // (2 * at_a_time + 1), room // RING_SHARE)

    def rest(self, tile: int) -> None:
        """A tile stays though nothing here reads it any more; of those the last ones go first."""
        self.is_idle[tile] = 1
        self.next_at[tile] = 2 * len(self.order) + self.stays[tile] // self.tile_bytes[tile]

    def let_go(self, tile: int, at: int) -> None:
        """The slot of a tile is free."""
        place, device = self.now[tile], self.devices[tile]
        self.is_idle[tile] = 0
        self.now[tile] = -1
        if device >= 0:
            self.stayers[device].leave(tile)
        self.is_here[device][tile] = False
        is_read = self.is_streamed and tile in self.from_below
        key = (device, self.tile_bytes[tile], is_read)
        self.release(key, Freed((self.slots[place],), self.users.pop(place), at))

    def resting(self, device: int, n_bytes: int, is_read: bool = False) -> deque[Freed] | None:
        """Free slots of a size: those of tiles of the same kind, if there are any. What is computed
        would else take turns with what is read, and one wait for the other."""
        alike = self.free.get((device, n_bytes, is_read))
        return alike or self.free.get((device, n_bytes, not is_read))

    def release(self, key: tuple[int, int, bool], freed: Freed) -> None:
        self.free.setdefault(key, deque()).append(freed)
        self.free_bytes[key[0]] = self.free_bytes.get(key[0], 0) + key[1]

    def forget_copy(self, tile: int, task: int) -> None:
        """The copy in a lower tier is worth nothing from now on."""
        copy = self.lower[tile]
        if copy < 0:
            return
        self.lower[tile] = -1
        self.weigh(tile)
        tier, n_bytes = self.devices[copy], self.tile_bytes[tile]
        if tier == DISK:
            self.drops.setdefault(task, []).append(copy)
            self.used[DISK] -= n_bytes
        else:
            users = [*self.users.pop(copy, ()), task]
            freed = Freed((self.slots[copy],), users, int(self.used_at[tile]))
            self.release((HOST, n_bytes, False), freed)

    # making and bringing back

    def make(self, family: Family, i: int, task: int, tile: int, at: int) -> None:
        """A slot for a tile that a task makes."""
        device = self.devices[tile]
        self.users[tile] = []
        self.writers[tile] = [task]
        if self.uses.in_piece[tile]:
            tiles = self.uses.set_with(tile)
            if self.slots[tile] < 0:
                self.make_piece(tiles, task, at)
            self.now[tile] = tile
            return
        slot = self.in_place(family, i, task, tile) if family.in_place else -1
        if slot < 0 and self.is_streamed and tile in self.from_below:
            slot = self.take_ahead(tile, task, at)
        elif slot < 0:
            # what is read goes ahead of what is computed as far as there is memory
            is_ahead = self.mesh.kind == "cpu" and tile in self.from_below
            rests = len(self.order) if is_ahead else -1 if self.is_streamed else self.recent
            slot = self.take(device, self.tile_bytes[tile], task, at, rests)
            self.leave_ahead(slot)
        self.slots[tile] = slot
        self.now[tile] = tile
        self.is_here[device][tile] = True
        self.stayers[device].enter(tile)

    def in_place(self, family: Family, i: int, task: int, out: int) -> int:
        """The slot of an input that dies here and has the output's elements, or -1."""
        uses = self.uses
        columns = [column for column in family.reads if not column.scalar]
        for column in columns:
            tile = int(column.tiles[i])
            if (
                column.boxes is None
                and tile >= 0
                and self.now[tile] >= 0
                and not (self.is_external[tile] or self.is_held[tile] or uses.in_piece[tile])
                and tile not in self.from_below
                and self.at[self.end[tile] - 1] == self.at[self.next[tile]]
                and uses.n_elements[tile] == uses.n_elements[out]
                and uses.itemsizes[tile] == uses.itemsizes[out]
                and uses.devices[tile] == uses.devices[out]
                and not any(c.boxes is not None and c.tiles[i] == tile for c in columns)
            ):
                place = self.now[tile]
                self.wait_for(self.users[place], task)
                if place != tile:
                    self.patches.setdefault(task, {})[tile] = place
                    self.edge(self.loaded_by[place], task)
                self.forget_copy(tile, task)
                self.is_here[self.devices[tile]][tile] = False
                self.now[tile] = -1
                return self.slots[place]
        return -1

    def bring_back(self, tile: int, at: int) -> None:
        """A task that has a tile's values in device memory again, as a new tile."""
        device, n_bytes = self.devices[tile], self.tile_bytes[tile]
        copy = self.lower[tile]
        place = self.new_tile(tile, device)
        if copy >= 0:
            task = self.new_task(Extra("load", copy, place, device, self.op, self.site))
            self.edge(self.evicted_by[copy], task)
            before = self.loaded_by.get(copy)
            if before is not None:
                self.edge(before, task)
            self.loaded_by[copy] = task
            if copy in self.users:
                self.users[copy].append(task)
            self.loaded += n_bytes
        else:
            assert tile in self.again, "a tile that is nowhere"
            producer = int(self.uses.producers[tile])
            task = self.new_task(Extra("again", producer, place, device, self.op, self.site))
            if tile in self.from_below:
                self.loaded += n_bytes
        self.loaded_by[place] = task
        self.origins[place] = tile
        if self.is_streamed and tile in self.from_below:
            self.slots[place] = self.take_ahead(tile, task, at)
        else:
            self.slots[place] = self.take(device, n_bytes, task, at)
        self.serial.append(task)
        self.users[place] = [task]
        self.writers[place] = [task]
        self.now[tile] = place
        self.is_here[device][tile] = True
        self.stayers[device].enter(tile)
        self.weigh(tile)

    # room

    def take(self, device: int, n_bytes: int, task: int, at: int, rests: int = 0) -> int:
        """A slot: one that has rested, a new one, one that has not, or what others give way to."""
        resting = self.resting(device, n_bytes)
        if resting and resting[0].at < at - (rests or self.recent):
            return self.again_slot(resting, task)
        if self.used[device] + n_bytes > self.limit[device]:
            while True:
                resting = self.resting(device, n_bytes)
                if resting:
                    return self.again_slot(resting, task)
                gone = self.retire(device, n_bytes, task)
                if gone is not None:
                    break
                self.evict_for(device, n_bytes, at)
            self.retires[len(self.slot_bytes)] = gone
        self.grow(device, n_bytes, task)
        return self.new_slot(device, n_bytes)

    def take_ahead(self, tile: int, task: int, at: int) -> int:
        """A slot for what is read from below: a new one while the others leave room for it, so that
        it waits for nobody; then the one that was free first."""
        device, n_bytes = self.devices[tile], self.tile_bytes[tile]
        resting = self.resting(device, n_bytes, is_read=True)
        is_room = self.read_bytes[device] + n_bytes <= self.ahead[device]
        if resting and not (is_room and self.used[device] + n_bytes <= self.limit[device]):
            slot = self.again_slot(resting, task)
        else:
            slot = self.take(device, n_bytes, task, at, len(self.order))
        if slot not in self.read_slots:
            self.read_slots.add(slot)
            self.read_bytes[device] += n_bytes
        return slot

    def leave_ahead(self, slot: int) -> None:
        """A slot is not one for what is read from below any more."""
        if slot in self.read_slots:
            self.read_slots.discard(slot)
            self.read_bytes[self.slot_devices[slot]] -= self.slot_bytes[slot]

    def grow(self, device: int, n_bytes: int, task: int) -> None:
        """A task takes new memory: after all that was given back before, some of which it gets."""
        if device in self.last_retired:
            self.edge(self.last_retired[device], task)
        self.count(device, n_bytes)

    def again_slot(self, resting: deque[Freed], task: int) -> int:
        freed = resting.popleft()
        self.free_bytes[self.slot_devices[freed.slots[0]]] -= self.slot_bytes[freed.slots[0]]
        self.wait_for(freed.users, task)
        return freed.slots[0]

    def retire(self, device: int, n_bytes: int, task: int) -> tuple[int, ...] | None:
        """Give back free slots of other sizes until there is room; None if they are too few."""
        lacking = self.used[device] + n_bytes - self.limit[device]
        if self.free_bytes.get(device, 0) < lacking:
            return None
        gone: list[int] = []
        rests = [(rest, key[1]) for key, rest in self.free.items() if key[0] == device and rest]
        if device == 0:
            rests += [(rest, size) for size, rest in self.free_pieces.items() if rest]
        while lacking > 0:
            rest, size = min(
                (found for found in rests if found[0]), key=lambda found: found[0][0].at
            )
            one = rest.popleft()
            lacking -= size
            self.used[device] -= size
            self.free_bytes[device] -= size
            self.wait_for(one.users, task)
            gone += one.slots
            for slot in one.slots:
                self.leave_ahead(slot)
        if gone:
            if device in self.last_retired:
                self.edge(self.last_retired[device], task)
            self.last_retired[device] = task
        return tuple(gone)

    def evict_for(self, device: int, n_bytes: int, at: int) -> None:
        """Evict the tiles that cost least, for the bytes and the time they make room for."""
        tiles = np.flatnonzero(self.is_here[device]) if device >= 0 else np.zeros(0, np.int64)
        if len(tiles):
            sizes = self.uses.tile_bytes[tiles]
            wait = np.maximum(self.next_at[tiles] - at, 1)
            cost = self.seconds[tiles] * np.maximum(n_bytes / sizes, 1.0) / wait
            cost[at - self.used_at[tiles] < self.recent] *= WAIT
            cost[self.is_pinned[tiles]] = np.inf
            best = np.argsort(cost, kind="stable")
            lacking = self.used[device] + n_bytes - self.limit[device]
            lacking -= self.free_bytes.get(device, 0)
            for k in best.tolist():
                if not np.isfinite(cost[k]):
                    break
                self.evict(int(tiles[k]), at)
                lacking -= int(sizes[k])
                if lacking <= 0 or sizes[k] == n_bytes:
                    return
            if self.free_bytes.get(device, 0) + self.limit[device] - self.used[device] >= n_bytes:
                return
        raise self.misfit(device, n_bytes)

    def weigh(self, tile: int) -> None:
        """Note when a tile is used next, and the seconds that its eviction costs."""
        n = self.next[tile]
        is_over = n == self.end[tile]
        if not is_over:
            self.next_at[tile] = self.at[n]
        elif self.is_held[tile]:
            self.next_at[tile] = 2 * len(self.order)
        else:  # the next run begins with the first use of this one
            self.next_at[tile] = len(self.order) + self.at[self.uses.user_borders[tile]]
        again = self.again.get(tile)
        if again is not None and not (self.is_held[tile] and is_over):
            self.seconds[tile] = again
            return
        copying = tier_seconds(self.tile_bytes[tile], self.limit[HOST] <= 0, self.mesh)
        self.seconds[tile] = copying * ((not is_over) + (self.lower[tile] < 0))

    def evict(self, tile: int, at: int) -> None:
        """Free the slot of a tile; its values are written below if they are nowhere else."""
        n, n_bytes = self.next[tile], self.tile_bytes[tile]
        is_over = n == self.end[tile]
        can_again = tile in self.again and not (self.is_held[tile] and is_over)
        if self.lower[tile] < 0 and not can_again:
            place = self.now[tile]
            tier = self.tier_for(tile)
            copy = self.new_tile(tile, tier)
            task = self.new_task(
                Extra("evict", place, copy, self.devices[tile], self.op, self.site)
            )
            for writer in self.writers[place]:
                self.edge(writer, task)
            if tier == HOST:
                self.slots[copy] = self.take(HOST, n_bytes, task, at)
                self.users[copy] = [task]
            else:
                self.count(DISK, n_bytes)
            self.serial.append(task)
            self.users[place].append(task)
            self.lower[tile] = copy
            self.evicted_by[copy] = task
            self.evicted += n_bytes
        self.let_go(tile, at)

    def tier_for(self, tile: int) -> int:
        """The lower tier with room for a tile: the host's memory first."""
        n_bytes = self.tile_bytes[tile]
        if self.used[HOST] + n_bytes <= self.limit[HOST] or self.resting(HOST, n_bytes):
            return HOST
        if self.used[DISK] + n_bytes <= self.limit[DISK]:
            return DISK
        raise self.misfit(self.devices[tile], n_bytes)

    def misfit(self, device: int, n_bytes: int) -> DoesNotFit:
        """Why a task cannot have its tiles: what it needs at least, on which device."""
        held = sum(
            self.tile_bytes[t]
            for tiles in self.graph.tiles
            if tiles.leaf >= 0
            for t in range(tiles.first, tiles.first + tiles.n)
            if self.is_external[t] and self.devices[t] == device and t not in self.pinned
        )
        pinned = sum(self.tile_bytes[t] for t in self.pinned if self.devices[t] == device)
        need = held + pinned + self.scratch[device]
        if self.scratch[device] > self.budgets[device]:
            family = max(self.graph.families, key=lambda f: f.scratch_bytes)
            self.op, self.site = family.op, family.site
        if need <= self.budgets[device]:  # the lower tiers are full, or pieces take all there is
            need = self.budgets[device] + n_bytes
        return DoesNotFit(self.op, need, self.budgets[device], device, self.site)

    # slots, tiles, tasks, edges

    def count(self, device: int, n_bytes: int) -> None:
        self.used[device] += n_bytes
        self.peak[device] = max(self.peak[device], self.used[device])

    def new_slot(self, device: int, n_bytes: int) -> int:
        self.slot_bytes.append(n_bytes)
        self.slot_devices.append(device)
        return len(self.slot_bytes) - 1

    def new_piece(self, tiles: TileSet) -> int:
        """Slots for all tiles of a piece; the first of them."""
        first = len(self.slot_bytes)
        sizes = self.tile_bytes[tiles.first : tiles.first + tiles.n]
        for k, n_bytes in enumerate(sizes):
            slot = self.slots[tiles.first + k] = self.new_slot(0, n_bytes)
            self.slot_pieces[slot] = len(self.piece_bytes)
        self.piece_bytes.append(sum(sizes))
        return first

    def make_piece(self, tiles: TileSet, task: int, at: int) -> None:
        """Memory for all tiles of a piece; the task is the first that writes to it."""
        n_bytes = sum(self.tile_bytes[tiles.first : tiles.first + tiles.n])
        gone = self.retire(0, n_bytes, task)
        while gone is None:
            self.evict_for(0, n_bytes, at)
            gone = self.retire(0, n_bytes, task)
        self.grow(0, n_bytes, task)
        first = self.new_piece(tiles)
        if gone:
            self.retires[first] = gone
            makers = self.uses.producers[tiles.first : tiles.first + tiles.n].tolist()
            for maker in makers:  # any of them may be the first to run
                if maker >= 0 and maker != task and self.uses.needed[maker]:
                    self.edge(task, maker)

    def leave_piece(self, tile: int, at: int) -> None:
        """A tile of a piece is used no more; the piece is free with the last one."""
        tiles = self.uses.set_with(tile)
        span = range(tiles.first, tiles.first + tiles.n)
        self.now[tile] = -1
        if tiles.first not in self.piece_left:
            used = [self.end[t] > int(self.uses.user_borders[t]) for t in span]
            self.piece_left[tiles.first] = sum(used)
        self.piece_left[tiles.first] -= 1
        if not self.piece_left[tiles.first]:
            users = [user for t in span for user in self.users.pop(t, ())]
            slots = tuple(self.slots[t] for t in span)
            size = sum(self.tile_bytes[t] for t in span)
            self.free_pieces.setdefault(size, deque()).append(Freed(slots, users, at))
            self.free_bytes[0] = self.free_bytes.get(0, 0) + size

    def new_tile(self, tile: int, device: int) -> int:
        """The number of a tile with the values of another one, elsewhere."""
        tiles = self.uses.set_with(tile)
        number = len(self.slots)
        box = tiles.boxes[tile - tiles.first : tile - tiles.first + 1]
        where = np.asarray([device], np.int16)
        self.new_tiles.append(TileSet(number, tiles.dtype, box, where, tiles.value))
        self.slots.append(-1)
        self.devices.append(device)
        return number

    def new_task(self, extra: Extra) -> int:
        self.extras.append(extra)
        return self.graph.n_tasks + len(self.extras) - 1

    def edge(self, source: int, target: int) -> None:
        if source != target:
            self.sources.append(source)
            self.targets.append(target)

    def wait_for(self, users: list[int], task: int) -> None:
        for user in users:
            self.edge(user, task)

    def end_places(self) -> tuple[dict[int, int], tuple[int, ...]]:
        """Where kept tiles are in the end, and what was read from below and is still there."""
        final = {}
        for first, layout in self.graph.held.values():
            for tile in range(first, first + layout.n_tiles):
                place = self.now[tile] if self.now[tile] >= 0 else self.lower[tile]
                if place >= 0 and place != tile:
                    final[tile] = place
        return final, self.worth_keeping()

    def worth_keeping(self) -> tuple[int, ...]:
        """Of what was read from below and is still there: as much as leaves the next run the room
        that this one needed."""
        return tuple(
            self.now[tile]
            for tile in self.stays
            if self.is_idle[tile] and tile in self.stayers[self.devices[tile]]
        )

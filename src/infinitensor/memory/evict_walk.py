"""Programs larger than memory: a serial order is walked, and what does not fit is evicted.

Each task in turn gets its tiles: one that is not there is loaded, and to make room the tile whose
eviction costs least for the longest time goes. A tile that can be read or made again, or whose copy
in a lower tier is still good, goes without a byte being written. What comes back is a new tile in
another slot, so any ready task may run at any time: that a slot has a new tile is an edge from all
users of the one before, and the peak holds whatever the order of events.

What is known before the walk is in `foresight`, the slots of each memory are in `slots`. Where
tiles are is in `tile_places`, and which of them go first in `victims`. The tasks, tiles and edges
that the walk adds are in `added_tasks`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.layout import DISK, HOST
from infinitensor.ir.tasks import LOAD, Misfit, Program, TileSet, Traffic
from infinitensor.memory.added_tasks import Additions, Extra
from infinitensor.memory.foresight import Foresight
from infinitensor.memory.misfit import MisfitError, program_or_misfit
from infinitensor.memory.residency import Stayers
from infinitensor.memory.slots import Freed, Room
from infinitensor.memory.tile_places import Places
from infinitensor.memory.uses import FOREVER, scratch_bytes, successors
from infinitensor.memory.victims import Victims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.tasks import Family
    from infinitensor.memory.uses import Uses

RING_SHARE = 8
"""The part of the room for what stays that slots to read into may take before they are fewer."""


def fit(
    uses: Uses,
    order: np.ndarray,
    budgets: Sequence[int],
    donated: Sequence[bool],
    mesh: Mesh,
    moved: dict[tuple[int, int], int],
    ahead: int | None = 3,
) -> Program | Misfit:
    """A Program whose peak is within every budget, with what has to be evicted and loaded.

    Tiles read from a lower tier stay for the next run where there is room: beside what is computed
    with there are `ahead` slots to read into on a GPU; None: all there is, and nothing stays.

    A `Misfit` where a task's own tiles are more than a budget, or the lower tiers are full.
    Takes time linear in tasks, and in tiles that fit for each eviction.
    """
    return program_or_misfit(
        lambda: _Walk(uses, order, budgets, donated, mesh, ahead).program(moved)
    )


class _Walk:
    """Tasks one after another: each gets its tiles, and what it uses last gives back its slot.

    `known` is what can be said of the order before, `room` has the slots of every memory, `places`
    says where tiles are, `victims` which of them go first, `stayers` what may stay for the next
    run, and `added` collects the tasks, tiles and edges that evictions and loads are.
    """

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
        self.graph = uses.graph
        self.mesh = mesh
        self.budgets = budgets
        self.scratch = scratch_bytes(uses.graph.families, len(budgets), mesh.n_concurrent)
        self.known = Foresight(uses, order, len(budgets), mesh, ahead)
        self.added = Additions(uses)
        limits = {d: budget - self.scratch[d] for d, budget in enumerate(budgets)}
        limits |= {HOST: mesh.host_bytes, DISK: mesh.disk_bytes}
        self.victims = Victims(self.known, len(budgets), mesh)
        self.room = Room(limits, self.added, self.evict_for, self.victims.recent)
        n = self.graph.n_tiles
        self.places = Places(n, self.added)
        self.tile_bytes = self.known.tile_bytes
        self.is_idle = bytearray(n)
        """Tiles that only the next run would read."""
        self.is_external = bytearray(n)
        """Tiles of leaves that are not ours to use up."""
        self.slot_leaves: dict[int, tuple[int, int]] = {}
        self.piece_left: dict[int, int] = {}
        self.drops: dict[int, list[int]] = {}
        self.loaded = self.evicted = 0
        self.at_now = 0
        self.site: object = None
        self.op = ""
        devices = uses.devices.tolist()
        self.stayers = [
            Stayers(
                {
                    tile: until
                    for tile, until in self.known.stays.items()
                    if devices[tile] == device
                },
                self.tile_bytes,
                partial(self.room.left_bytes, device),
                partial(self.ring_bytes, device),
            )
            for device in range(len(budgets))
        ]
        for tiles in self.graph.tiles:
            if tiles.leaf >= 0:
                self._enter_leaf(tiles, donated[tiles.leaf])
        if self.known.is_streamed:
            own = [limits[device] for device in range(len(budgets))]
            self.room.ahead = self.known.room_ahead(own, self.is_external, self.places.slots)

    def _enter_leaf(self, tiles: TileSet, donated: bool) -> None:
        if tiles.whole and donated:
            self.enter_piece(tiles, self.room.new_piece(self.sizes(tiles)))
        for k in range(tiles.n):
            tile = tiles.first + k
            device = self.added.devices[tile]
            self.places.now[tile] = tile
            self.places.enter(tile)
            if device >= 0:
                self.room.count(device, self.tile_bytes[tile])
            if not donated or device < 0:
                self.is_external[tile] = 1
                continue
            if not tiles.whole:
                self.places.slots[tile] = self.room.new_slot(device, self.tile_bytes[tile])
                self.victims.is_here[device][tile] = True
                self.weigh(tile)
            self.slot_leaves[self.places.slots[tile]] = (tiles.leaf, k)

    # the walk

    def program(self, moved: dict[tuple[int, int], int]) -> Program:
        """Every task in turn, and what came of it."""
        for at, task in enumerate(self.known.order):
            self.step(at, task)
        room = self.room
        for device, limit in enumerate(self.budgets):
            if room.peak[device] > room.limit[device]:  # leaves and scratch together
                family = max(self.graph.families, key=lambda f: f.scratch_bytes)
                need = room.peak[device] + self.scratch[device]
                raise MisfitError(Misfit(family.op, need, limit, device, family.site))
        final, cached = self.end_places()
        graph, names, needed, producers = self.added.lower()
        last_use = np.full(graph.n_tiles, FOREVER, np.int64)
        last_use[: self.graph.n_tiles] = self.uses.last_use
        return Program(
            graph,
            np.asarray(self.places.slots, np.int32),
            np.asarray(room.slot_bytes, np.int64),
            np.asarray(room.slot_devices, np.int16),
            self.slot_leaves,
            *successors(graph.sources, graph.targets, graph.n_tasks),
            {d: room.peak[d] + self.scratch[d] for d in range(len(self.budgets))},
            last_use,
            producers,
            needed,
            room.slot_pieces,
            tuple(room.piece_bytes),
            moved,
            order=names[np.asarray(self.added.serial, np.int64)],
            final=final,
            retires=room.retires,
            origins=self.added.origins,
            drops={int(names[task]): tuple(tiles) for task, tiles in self.drops.items()},
            cached=cached,
            traffic=Traffic(self.loaded, self.evicted, room.peak[HOST], room.peak[DISK]),
        )

    def step(self, at: int, task: int) -> None:
        """Give one task its tiles; take back what it uses last."""
        family, i = self.graph.family_of(task)
        self.op, self.site, self.at_now = family.op, family.site, at
        touched = self.known.touched(task)
        fresh = [] if family.updates else [int(writes[i]) for writes in family.writes]
        self.victims.pin(touched)
        for tile in touched:
            if self.places.now[tile] < 0 and tile not in fresh and self.added.devices[tile] >= 0:
                self.bring_back(tile, at)
        for tile in fresh:
            if self.places.now[tile] < 0:
                self.make(family, i, task, tile, at)
        if family.lane == LOAD:
            self.loaded += sum(self.tile_bytes[tile] for tile in fresh)
        self.added.serial.append(task)
        for stayers in self.stayers:
            for tile in stayers.leaving():
                if self.is_idle[tile]:
                    self.let_go(tile, at)
        for tile in touched:
            place = self.places.now[tile]
            if place < 0:
                continue
            self.places.read(task, tile)
            self.places.users[place].append(task)
            self.victims.used_at[tile] = at
            if family.updates and tile == int(family.writes[0][i]):
                self.places.writers[place].append(task)
                self.forget_copy(tile, task)
        for tile in touched:
            self.use_up(tile, task, at)

    def use_up(self, tile: int, task: int, at: int) -> None:
        """A use is over; after the last one the slot is free, or kept while nobody needs it."""
        self.victims.pass_uses(tile, at)
        self.weigh(tile)
        is_kept = self.is_external[tile] or self.known.is_held[tile]
        if not self.victims.is_used_up(tile) or is_kept or self.places.now[tile] < 0:
            return
        if tile in self.known.stays and tile in self.stayers[self.added.devices[tile]]:
            self.is_idle[tile] = 1
            self.victims.rest(tile)
            return
        self.forget_copy(tile, task)
        if self.uses.in_piece[tile]:
            self.leave_piece(tile, at)
        else:
            self.let_go(tile, at)

    def ring_bytes(self, device: int, room: int) -> int:
        """Bytes of slots for what is read while what was read before is computed with.

        As many tiles as there may be tasks at a time, twice, and one; where that is much of the
        room, only once (what is computed with is counted as busy): more stays, and less is read.
        None once nothing is read any more.
        """
        if self.at_now > self.known.last_streamed:
            return 0
        full, at_a_time = self.known.ring[device], self.mesh.n_concurrent
        if self.mesh.kind != "cpu" or RING_SHARE * full <= room:
            return full
        return max(full * at_a_time // (2 * at_a_time + 1), room // RING_SHARE)

    def let_go(self, tile: int, at: int) -> None:
        """The slot of a tile is free."""
        place, device = self.places.now[tile], self.added.devices[tile]
        self.is_idle[tile] = 0
        self.places.now[tile] = -1
        if device >= 0:
            self.stayers[device].leave(tile)
        self.victims.is_here[device][tile] = False
        is_read = self.known.is_streamed and tile in self.known.from_lower_tier
        freed = Freed((self.places.slots[place],), self.places.users.pop(place), at)
        self.room.release(device, self.tile_bytes[tile], freed, is_read)

    def forget_copy(self, tile: int, task: int) -> None:
        """The copy in a lower tier is worth nothing from now on."""
        copy = self.places.lower[tile]
        if copy < 0:
            return
        self.places.lower[tile] = -1
        self.weigh(tile)
        tier, n_bytes = self.added.devices[copy], self.tile_bytes[tile]
        if tier == DISK:
            self.drops.setdefault(task, []).append(copy)
            self.room.used[DISK] -= n_bytes
        else:
            users = [*self.places.users.pop(copy, ()), task]
            freed = Freed((self.places.slots[copy],), users, int(self.victims.used_at[tile]))
            self.room.release(HOST, n_bytes, freed)

    # making and bringing back

    def make(self, family: Family, i: int, task: int, tile: int, at: int) -> None:
        """A slot for a tile that a task makes."""
        device = self.added.devices[tile]
        self.places.enter(tile, task)
        if self.uses.in_piece[tile]:
            tiles = self.uses.graph.set_with(tile)
            if self.places.slots[tile] < 0:
                self.make_piece(tiles, task, at)
            self.places.now[tile] = tile
            return
        slot = self.in_place(family, i, task, tile) if family.in_place else -1
        if slot < 0 and self.known.is_streamed and tile in self.known.from_lower_tier:
            slot = self.take_ahead(tile, task, at)
        elif slot < 0:
            # what is read goes ahead of what is computed as far as there is memory
            is_ahead = self.mesh.kind == "cpu" and tile in self.known.from_lower_tier
            rests = -1 if self.known.is_streamed else self.victims.recent
            rests = len(self.known.order) if is_ahead else rests
            slot = self.room.take(device, self.tile_bytes[tile], task, at, rests)
            self.room.leave_ahead(slot)
        self.places.slots[tile] = slot
        self.places.now[tile] = tile
        self.victims.is_here[device][tile] = True
        self.stayers[device].enter(tile)

    def in_place(self, family: Family, i: int, task: int, out: int) -> int:
        """The slot of an input that dies here and has the output's elements, or -1."""

        def dies(tile: int) -> bool:
            is_kept = self.is_external[tile] or self.known.is_held[tile]
            is_read = tile in self.known.from_lower_tier
            is_here = self.places.now[tile] >= 0
            return is_here and not (is_kept or is_read) and self.victims.is_last_use(tile)

        tile = self.uses.tile_in_place(family, i, out, dies)
        if tile < 0:
            return -1
        place = self.places.now[tile]
        self.added.wait_for(self.places.users[place], task)
        self.places.read(task, tile)
        self.forget_copy(tile, task)
        self.victims.is_here[self.added.devices[tile]][tile] = False
        self.places.now[tile] = -1
        return self.places.slots[place]

    def bring_back(self, tile: int, at: int) -> None:
        """A task that has a tile's values in device memory again, as a new tile."""
        device, n_bytes = self.added.devices[tile], self.tile_bytes[tile]
        copy = self.places.lower[tile]
        place = self.places.new_tile(tile, device)
        if copy >= 0:
            task = self.added.new_task(Extra("load", copy, place, device, self.op, self.site))
            self.added.edge(self.places.evicted_by[copy], task)
            before = self.places.loaded_by.get(copy)
            if before is not None:
                self.added.edge(before, task)
            self.places.loaded_by[copy] = task
            if copy in self.places.users:
                self.places.users[copy].append(task)
            self.loaded += n_bytes
        else:
            assert tile in self.known.again, "a tile that is nowhere"
            producer = int(self.uses.producers[tile])
            task = self.added.new_task(Extra("again", producer, place, device, self.op, self.site))
            if tile in self.known.from_lower_tier:
                self.loaded += n_bytes
        self.places.loaded_by[place] = task
        self.added.origins[place] = tile
        if self.known.is_streamed and tile in self.known.from_lower_tier:
            self.places.slots[place] = self.take_ahead(tile, task, at)
        else:
            self.places.slots[place] = self.room.take(device, n_bytes, task, at)
        self.added.serial.append(task)
        self.places.enter(place, task)
        self.places.users[place].append(task)
        self.places.now[tile] = place
        self.victims.is_here[device][tile] = True
        self.stayers[device].enter(tile)
        self.weigh(tile)

    def take_ahead(self, tile: int, task: int, at: int) -> int:
        """A slot for a tile that a GPU reads from a lower tier."""
        device, n_bytes = self.added.devices[tile], self.tile_bytes[tile]
        return self.room.take_ahead(device, n_bytes, task, at, len(self.known.order))

    # evicting

    def evict_for(self, device: int, n_bytes: int, at: int) -> None:
        """Evict tiles until there is room for so many bytes, or one has gone of just that size."""
        lacking = n_bytes - self.room.left_bytes(device)
        for tile in self.victims.cheapest(device, n_bytes, at):
            self.evict(tile, at)
            lacking -= self.tile_bytes[tile]
            if lacking <= 0 or self.tile_bytes[tile] == n_bytes:
                return
        if self.room.left_bytes(device) < n_bytes:
            raise self.misfit(device, n_bytes)

    def weigh(self, tile: int) -> None:
        """Note what the eviction of a tile costs from now on."""
        self.victims.weigh(tile, has_copy=self.places.lower[tile] >= 0)

    def evict(self, tile: int, at: int) -> None:
        """Free the slot of a tile; its values are written to a lower tier if they are nowhere
        else."""
        n_bytes = self.tile_bytes[tile]
        if self.places.lower[tile] < 0 and not self.victims.is_made_again(tile):
            place = self.places.now[tile]
            tier = self.tier_for(tile)
            copy = self.places.new_tile(tile, tier)
            task = self.added.new_task(
                Extra("evict", place, copy, self.added.devices[tile], self.op, self.site)
            )
            for writer in self.places.writers[place]:
                self.added.edge(writer, task)
            if tier == HOST:
                self.places.slots[copy] = self.room.take(HOST, n_bytes, task, at)
                self.places.users[copy] = [task]
            else:
                self.room.count(DISK, n_bytes)
            self.added.serial.append(task)
            self.places.users[place].append(task)
            self.places.lower[tile] = copy
            self.places.evicted_by[copy] = task
            self.evicted += n_bytes
        self.let_go(tile, at)

    def tier_for(self, tile: int) -> int:
        """The lower tier with room for a tile: the host's memory first."""
        n_bytes = self.tile_bytes[tile]
        if self.room.used[HOST] + n_bytes <= self.room.limit[HOST] or self.room.resting(
            HOST, n_bytes
        ):
            return HOST
        if self.room.used[DISK] + n_bytes <= self.room.limit[DISK]:
            return DISK
        raise self.misfit(self.added.devices[tile], n_bytes)

    def misfit(self, device: int, n_bytes: int) -> MisfitError:
        """Why a task cannot have its tiles: what it needs at least, on which device."""
        devices, pinned = self.added.devices, self.victims.pinned
        held = sum(
            self.tile_bytes[t]
            for tiles in self.graph.tiles
            if tiles.leaf >= 0
            for t in range(tiles.first, tiles.first + tiles.n)
            if self.is_external[t] and devices[t] == device and t not in pinned
        )
        own = sum(self.tile_bytes[t] for t in pinned if devices[t] == device)
        need = held + own + self.scratch[device]
        if self.scratch[device] > self.budgets[device]:
            family = max(self.graph.families, key=lambda f: f.scratch_bytes)
            self.op, self.site = family.op, family.site
        if need <= self.budgets[device]:  # the lower tiers are full, or pieces take all there is
            need = self.budgets[device] + n_bytes
        return MisfitError(Misfit(self.op, need, self.budgets[device], device, self.site))

    # pieces

    def sizes(self, tiles: TileSet) -> list[int]:
        """Bytes of each tile of a set."""
        return self.tile_bytes[tiles.first : tiles.first + tiles.n]

    def enter_piece(self, tiles: TileSet, first: int) -> None:
        """The tiles of a piece have the slots from the first on."""
        self.places.slots[tiles.first : tiles.first + tiles.n] = range(first, first + tiles.n)

    def make_piece(self, tiles: TileSet, task: int, at: int) -> None:
        """Memory for all tiles of a piece; the task is the first that writes to it."""
        first, gone = self.room.take_piece(self.sizes(tiles), task, at)
        self.enter_piece(tiles, first)
        if gone:
            makers = self.uses.producers[tiles.first : tiles.first + tiles.n].tolist()
            for maker in makers:  # any of them may be the first to run
                if maker >= 0 and maker != task and self.uses.needed[maker]:
                    self.added.edge(task, maker)

    def leave_piece(self, tile: int, at: int) -> None:
        """A tile of a piece is used no more; the piece is free with the last one."""
        tiles = self.uses.graph.set_with(tile)
        span = range(tiles.first, tiles.first + tiles.n)
        self.places.now[tile] = -1
        if tiles.first not in self.piece_left:
            used = [self.known.end[t] > self.known.first[t] for t in span]
            self.piece_left[tiles.first] = sum(used)
        self.piece_left[tiles.first] -= 1
        if not self.piece_left[tiles.first]:
            users = [user for t in span for user in self.places.users.pop(t, ())]
            slots = tuple(self.places.slots[t] for t in span)
            self.room.release_piece(sum(self.sizes(tiles)), Freed(slots, users, at))

    # the end

    def end_places(self) -> tuple[dict[int, int], tuple[int, ...]]:
        """The final places of kept tiles, and of tiles read from a lower tier that are still
        there."""
        final = {}
        for first, layout in self.graph.held.values():
            for tile in range(first, first + layout.n_tiles):
                now = self.places.now[tile]
                place = now if now >= 0 else self.places.lower[tile]
                if place >= 0 and place != tile:
                    final[tile] = place
        return final, self.worth_keeping()

    def worth_keeping(self) -> tuple[int, ...]:
        """Of tiles read from a lower tier that are still there: as many as leave the next run the
        room that this one needed."""
        return tuple(
            self.places.now[tile]
            for tile in self.known.stays
            if self.is_idle[tile] and tile in self.stayers[self.added.devices[tile]]
        )

"""Static buffers: every tile gets a slot before anything runs.

Tasks are walked in their serial order. A tile that no later task uses gives its slot back; a tile
that takes a used slot makes its writer wait for all users of the tile before (a memory edge), so
the peak holds in whatever order events come. A slot is left to rest for a few tasks before it is
used again, unless the budget asks for it, so that memory edges do not hold up what runs in
parallel. Steps of a stencil alternate between two buffers while half of the budget is enough for
that. Tiles that are parts of one piece get their slots together, and give them back together.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.region import box_size, overlap
from infinitensor.ir.tasks import COMPUTE, Misfit, Program, TaskGraph
from infinitensor.memory.misfit import MisfitError, program_or_misfit
from infinitensor.memory.uses import FOREVER, Uses, scratch_bytes, successors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.tasks import Family, TileSet


def allocate(
    graph: TaskGraph,
    budgets: Sequence[int],
    donated: Sequence[bool],
    n_concurrent: int,
    moved: dict[tuple[int, int], int],
) -> Program | Misfit:
    """A Program whose peak on every device is within its budget, or why there is none.

    `donated[leaf]` says whose tiles may be used up. `n_concurrent` tasks may run at a time on a
    device, each with its scratch.
    """
    return program_or_misfit(
        lambda: _Allocation(graph, budgets, donated, n_concurrent).program(moved)
    )


class _Allocation(Uses):
    def __init__(
        self, graph: TaskGraph, budgets: Sequence[int], donated: Sequence[bool], n_concurrent: int
    ) -> None:
        super().__init__(graph)
        self.budgets = budgets
        self.n_concurrent = n_concurrent
        self.scratch = scratch_bytes(graph.families, len(budgets), n_concurrent)
        n = graph.n_tiles
        self.slots = np.full(n, -1, np.int32)
        self.slot_bytes: list[int] = []
        self.slot_devices: list[int] = []
        self.slot_leaves: dict[int, tuple[int, int]] = {}
        self.used = [0] * len(budgets)
        self.free: dict[tuple[int, int], deque[tuple[int, int, int]]] = {}
        self.resting: dict[int, int] = {}
        """Slot -> the tile it held, of those that wait to be used again."""
        self.resting_at: dict[Any, tuple[int, int]] = {}
        """(slot, tile) by the tile's index among tiles of the same shape."""
        self.alternates = False
        """Whether steps write to the memory of the step before the last."""
        self.slot_pieces: dict[int, int] = {}
        self.piece_bytes: list[int] = []
        self.n_dead: dict[int, int] = {}
        """By the first tile of each piece: how many of its tiles nobody uses any more."""
        self.free_pieces: dict[Any, deque[tuple[TileSet, int]]] = {}
        self.extra_sources: list[int] = []
        self.extra_targets: list[int] = []
        self.external = np.zeros(n, np.bool_)
        for tiles in graph.tiles:
            if tiles.leaf >= 0:
                self.enter_leaf(tiles, donated[tiles.leaf])

    def enter_leaf(self, tiles: TileSet, donated: bool) -> None:
        first, leaf = tiles.first, tiles.leaf
        if tiles.whole and donated:
            self.new_piece(tiles, counted=True)
        for k in range(tiles.n):
            device = int(self.devices[first + k])
            if device >= 0:
                self.used[device] += int(self.tile_bytes[first + k])
            if donated and device >= 0:
                if not tiles.whole:
                    n_bytes = int(self.tile_bytes[first + k])
                    self.slots[first + k] = self.new_slot(device, n_bytes, counted=True)
                self.slot_leaves[int(self.slots[first + k])] = (leaf, k)
            else:
                self.external[first + k] = True

    def new_slot(self, device: int, n_bytes: int, counted: bool = False) -> int:
        if not counted:
            self.used[device] += n_bytes
        self.slot_bytes.append(n_bytes)
        self.slot_devices.append(device)
        return len(self.slot_bytes) - 1

    def program(self, moved: dict[tuple[int, int], int]) -> Program:
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
        if self.alternates:  # what it waits for to use memory again it mostly waits for anyway
            pairs = np.unique(sources * self.graph.n_tasks + targets)
            sources, targets = np.divmod(pairs, self.graph.n_tasks)
        return Program(
            self.graph,
            self.slots,
            np.asarray(self.slot_bytes, np.int64),
            np.asarray(self.slot_devices, np.int16),
            self.slot_leaves,
            *successors(sources, targets, self.graph.n_tasks),
            {d: used + self.scratch[d] for d, used in enumerate(self.used)},
            self.last_use,
            self.producers,
            self.needed,
            self.slot_pieces,
            tuple(self.piece_bytes),
            moved if self.needed.all() else self.moved_by_needed(),
        )

    def moved_by_needed(self) -> dict[tuple[int, int], int]:
        """Bytes that cross devices in the moves that are really made."""
        box_of = self.graph.box_of
        moved: dict[tuple[int, int], int] = {}
        for family in self.graph.families:
            if family.many is None or family.lane == COMPUTE:
                continue
            for i in np.flatnonzero(self.needed[family.span]).tolist():
                target = int(family.writes[0][i])
                for source in family.many_of(i):
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
        fresh = [w for w in family.writes if not family.updates]
        for writes in fresh:
            if len(writes) and self.in_piece[writes[0]] and self.slots[writes[0]] < 0:
                self.place_piece(family, self.graph.set_with(int(writes[0])), writes, own)
        # few tasks: looking whether they can be treated at once costs more than they do
        frees = n < 8 or family.many is not None or self.frees_any(family, own)
        fresh = [w for w in fresh if not len(w) or not self.in_piece[w[0]]]
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
            self.release(family, i, task)

    def frees_any(self, family: Family, own: np.ndarray) -> bool:
        """Whether a task of the family is the last to use some tile."""
        for column in family.reads:
            places, tiles = column.touched()
            if (self.last_use[tiles] == own[places]).any():
                return True
        return any((self.last_use[writes] == own).any() for writes in family.writes)

    # tiles in one piece

    def new_piece(self, tiles: TileSet, counted: bool = False) -> None:
        """Memory for all tiles of a piece."""
        n_bytes = self.tile_bytes[tiles.first : tiles.first + tiles.n].tolist()
        for k, size in enumerate(n_bytes):
            slot = self.slots[tiles.first + k] = self.new_slot(0, size, counted)
            self.slot_pieces[int(slot)] = len(self.piece_bytes)
        self.piece_bytes.append(sum(n_bytes))

    def place_piece(
        self, family: Family, tiles: TileSet, writes: np.ndarray, own: np.ndarray
    ) -> None:
        """Slots of a piece: those of an operand that dies here, of a piece at rest, or new ones."""
        span = slice(tiles.first, tiles.first + tiles.n)
        before = self.dying_piece(family, tiles, writes, own)
        resting = self.free_pieces.get(likeness(tiles))
        n_bytes = int(self.tile_bytes[span].sum())
        fits = self.used[0] + n_bytes + self.scratch[0] <= self.budgets[0]
        if before is not None:
            self.last_use[before.first : before.first + before.n] = -1  # it is not free for others
        elif resting and (resting[0][1] < family.first - 4 * self.n_concurrent or not fits):
            before, _ = resting.popleft()
        elif fits:
            self.new_piece(tiles)
            return
        else:
            self.refuse(family, 0, n_bytes)
        assert before is not None
        self.slots[span] = self.slots[before.first : before.first + before.n]
        for k in range(tiles.n):
            writer = int(self.producers[tiles.first + k])
            if writer >= 0 and self.needed[writer]:
                self.wait_for_users(before.first + k, writer)

    def dying_piece(
        self, family: Family, tiles: TileSet, writes: np.ndarray, own: np.ndarray
    ) -> TileSet | None:
        """The operand in one piece whose every tile is used last by the task that makes ours."""
        if not family.in_place or not self.needed[own].all():
            return None
        for column in family.reads:
            if column.scalar or column.boxes is not None or not self.in_piece[column.tiles[0]]:
                continue
            before = self.graph.set_with(int(column.tiles[0]))
            if (
                likeness(before) == likeness(tiles)
                and np.array_equal(column.tiles - before.first, writes - tiles.first)
                and not self.external[column.tiles].any()
                and (self.last_use[column.tiles] == own).all()
                and len(own) == tiles.n
                and not any(
                    c.boxes is not None and self.graph.set_with(int(c.tiles[0])) is before
                    for c in family.reads
                    if not c.scalar
                )
            ):
                return before
        return None

    # tiles apart

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
        need = self.used[device] + n_bytes + self.scratch[device]
        if family.renews:
            slot = self.before_last(tile, task)
            if slot >= 0:
                return slot
            if 2 * need <= self.budgets[device]:
                return self.new_slot(device, n_bytes)
        resting = self.rested(device, n_bytes)
        if resting and resting[0][2] < task - 4 * self.n_concurrent:
            return self.again(resting, task)
        if need <= self.budgets[device]:
            return self.new_slot(device, n_bytes)
        if resting:
            return self.again(resting, task)
        self.refuse(family, device, n_bytes)
        raise AssertionError

    def place_of(self, tile: int) -> Any:
        """The place of a tile: its device, its box, its bytes."""
        tiles = self.graph.set_with(tile)
        box = tiles.boxes[tile - tiles.first].tobytes()
        return (int(self.devices[tile]), box, int(self.tile_bytes[tile]))

    def before_last(self, tile: int, task: int) -> int:
        """The slot of the tile that was there two steps before, or -1.

        Its users are those that the task waits for anyway, so steps alternate between two buffers
        and no memory edge holds up who runs ahead.
        """
        slot, before = self.resting_at.pop(self.place_of(tile), (-1, -1))
        if slot < 0 or self.resting.get(slot) != before:
            return -1
        del self.resting[slot]
        self.alternates = True
        self.wait_for_users(before, task)
        return slot

    def rested(self, device: int, n_bytes: int) -> deque[tuple[int, int, int]] | None:
        """Slots of a size that wait to be used again, the first to be free first."""
        found = self.free.get((device, n_bytes))
        while found and self.resting.get(found[0][0]) != found[0][1]:
            found.popleft()  # it was taken by its place
        return found

    def refuse(self, family: Family, device: int, more_bytes: int) -> None:
        need = self.used[device] + self.scratch[device] + more_bytes
        raise MisfitError(Misfit(family.op, need, self.budgets[device], device, family.site))

    def again(self, resting: deque[tuple[int, int, int]], task: int) -> int:
        slot, before, _ = resting.popleft()
        del self.resting[slot]
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

        def dies(tile: int) -> bool:
            return bool(self.last_use[tile] == task and not self.external[tile])

        tile = self.tile_in_place(family, i, out, dies)
        if tile < 0:
            return -1
        self.wait_for_users(tile, task)
        self.last_use[tile] = task - 1
        return int(self.slots[tile])

    def release(self, family: Family, i: int, task: int) -> None:
        tiles = {int(writes[i]) for writes in family.writes}
        tiles.update(*(column.touched_by(i) for column in family.reads), family.many_of(i))
        for tile in sorted(tiles):
            if tile < 0 or self.last_use[tile] != task or self.external[tile]:
                continue
            if self.in_piece[tile]:
                self.leave_piece(self.graph.set_with(tile), task)
            else:
                key = (int(self.devices[tile]), int(self.tile_bytes[tile]))
                slot = int(self.slots[tile])
                self.free.setdefault(key, deque()).append((slot, tile, task))
                self.resting[slot] = tile
                if family.renews:
                    self.resting_at[self.place_of(tile)] = (slot, tile)

    def leave_piece(self, tiles: TileSet, task: int) -> None:
        """A tile of a piece is used no more; the piece is free with the last one."""
        dead = self.n_dead[tiles.first] = self.n_dead.get(tiles.first, 0) + 1
        if dead == np.count_nonzero(self.last_use[tiles.first : tiles.first + tiles.n] >= 0):
            self.free_pieces.setdefault(likeness(tiles), deque()).append((tiles, task))


def likeness(tiles: TileSet) -> Any:
    """Pieces that are alike can follow each other in the same memory, tile by tile."""
    return (tiles.boxes.tobytes(), tiles.boxes.shape, tiles.dtype.itemsize)

"""The slots of every memory while an order is walked: which are free, and what a task waits for
before it may use one again.

A slot is used again at once where its size fits; slots of other sizes are given back for a new one
only where there is no room for it. Whoever takes a slot waits for all users of what it held: that
is an edge, so the peak holds whatever the order of events.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.memory.added_tasks import Additions


class Freed(NamedTuple):
    """A slot (or those of a piece) that can be used again, once the users of what it held are
    done."""

    slots: tuple[int, ...]
    users: list[int]
    at: int


class Room:
    """Bytes and slots by device and tier. `make_room(device, n_bytes, at)` evicts something there,
    or raises; a free slot has rested after `recent` tasks: to take it makes nobody wait."""

    def __init__(
        self,
        limits: dict[int, int],
        additions: Additions,
        make_room: Callable[[int, int, int], None],
        recent: int,
    ) -> None:
        self.limit = limits
        self.used = dict.fromkeys(limits, 0)
        self.peak = dict(self.used)
        self.slot_bytes: list[int] = []
        self.slot_devices: list[int] = []
        self.slot_pieces: dict[int, int] = {}
        self.piece_bytes: list[int] = []
        self.retires: dict[int, tuple[int, ...]] = {}
        """New slot -> the slots that were given back for it."""
        self.ahead: dict[int, int] = {}
        """By device: bytes of slots for tiles read from a lower tier; the rest needs the others."""
        self._additions = additions
        self._make_room = make_room
        self._recent = recent
        self._free: dict[tuple[int, int, bool], deque[Freed]] = {}
        """By device, size, and whether the tile there was read from a lower tier by a GPU."""
        self._free_pieces: dict[int, deque[Freed]] = {}
        self._free_bytes = dict.fromkeys(limits, 0)
        self._last_retired: dict[int, int] = {}
        self._read_slots: set[int] = set()
        """Slots that were last given to tiles read from a lower tier."""
        self._read_bytes = dict.fromkeys(limits, 0)

    def count(self, device: int, n_bytes: int) -> None:
        """So many bytes more are used."""
        self.used[device] += n_bytes
        self.peak[device] = max(self.peak[device], self.used[device])

    def left_bytes(self, device: int) -> int:
        """Bytes of a device that no tile has now."""
        return self.limit[device] - self.used[device] + self._free_bytes[device]

    # taking

    def take(self, device: int, n_bytes: int, task: int, at: int, rests: int = 0) -> int:
        """A slot: one that has rested, a new one, one that has not, or what others give way to."""
        resting = self.resting(device, n_bytes)
        if resting and resting[0].at < at - (rests or self._recent):
            return self._again_slot(resting, task)
        if self.used[device] + n_bytes > self.limit[device]:
            while True:
                resting = self.resting(device, n_bytes)
                if resting:
                    return self._again_slot(resting, task)
                gone = self._retire(device, n_bytes, task)
                if gone is not None:
                    break
                self._make_room(device, n_bytes, at)
            self.retires[len(self.slot_bytes)] = gone
        self._grow(device, n_bytes, task)
        return self.new_slot(device, n_bytes)

    def take_ahead(self, device: int, n_bytes: int, task: int, at: int, rests: int) -> int:
        """A slot for a tile read from a lower tier: a new one while the others leave room, so that
        it waits for nobody; then the one that was free first."""
        resting = self.resting(device, n_bytes, is_read=True)
        is_room = self._read_bytes[device] + n_bytes <= self.ahead[device]
        if resting and not (is_room and self.used[device] + n_bytes <= self.limit[device]):
            slot = self._again_slot(resting, task)
        else:
            slot = self.take(device, n_bytes, task, at, rests)
        if slot not in self._read_slots:
            self._read_slots.add(slot)
            self._read_bytes[device] += n_bytes
        return slot

    def take_piece(self, sizes: Sequence[int], task: int, at: int) -> tuple[int, tuple[int, ...]]:
        """Slots for all tiles of a piece: the first of them, and those given back for them."""
        n_bytes = sum(sizes)
        gone = self._retire(0, n_bytes, task)
        while gone is None:
            self._make_room(0, n_bytes, at)
            gone = self._retire(0, n_bytes, task)
        self._grow(0, n_bytes, task)
        first = self.new_piece(sizes)
        if gone:
            self.retires[first] = gone
        return first, gone

    def leave_ahead(self, slot: int) -> None:
        """A slot is no longer one for tiles read from a lower tier."""
        if slot in self._read_slots:
            self._read_slots.discard(slot)
            self._read_bytes[self.slot_devices[slot]] -= self.slot_bytes[slot]

    def _grow(self, device: int, n_bytes: int, task: int) -> None:
        """A task takes new memory: after all that was given back before, some of which it gets."""
        if device in self._last_retired:
            self._additions.edge(self._last_retired[device], task)
        self.count(device, n_bytes)

    def _again_slot(self, resting: deque[Freed], task: int) -> int:
        freed = resting.popleft()
        slot = freed.slots[0]
        self._free_bytes[self.slot_devices[slot]] -= self.slot_bytes[slot]
        self._additions.wait_for(freed.users, task)
        return slot

    def _retire(self, device: int, n_bytes: int, task: int) -> tuple[int, ...] | None:
        """Give back free slots of other sizes until there is room; None if they are too few."""
        lacking = self.used[device] + n_bytes - self.limit[device]
        if self._free_bytes[device] < lacking:
            return None
        gone: list[int] = []
        rests = [(rest, key[1]) for key, rest in self._free.items() if key[0] == device and rest]
        if device == 0:
            rests += [(rest, size) for size, rest in self._free_pieces.items() if rest]
        while lacking > 0:
            rest, size = min(
                (found for found in rests if found[0]), key=lambda found: found[0][0].at
            )
            one = rest.popleft()
            lacking -= size
            self.used[device] -= size
            self._free_bytes[device] -= size
            self._additions.wait_for(one.users, task)
            gone += one.slots
            for slot in one.slots:
                self.leave_ahead(slot)
        if gone:
            if device in self._last_retired:
                self._additions.edge(self._last_retired[device], task)
            self._last_retired[device] = task
        return tuple(gone)

    # free and new

    def resting(self, device: int, n_bytes: int, is_read: bool = False) -> deque[Freed] | None:
        """Free slots of a size: those of tiles of the same kind, if there are any. What is computed
        would else take turns with what is read, and one wait for the other."""
        alike = self._free.get((device, n_bytes, is_read))
        return alike or self._free.get((device, n_bytes, not is_read))

    def release(self, device: int, n_bytes: int, freed: Freed, is_read: bool = False) -> None:
        """A slot is free."""
        self._free.setdefault((device, n_bytes, is_read), deque()).append(freed)
        self._free_bytes[device] += n_bytes

    def release_piece(self, n_bytes: int, freed: Freed) -> None:
        """The slots of a piece are free, all at once."""
        self._free_pieces.setdefault(n_bytes, deque()).append(freed)
        self._free_bytes[0] += n_bytes

    def new_slot(self, device: int, n_bytes: int) -> int:
        """A slot that was not there before; its bytes are not counted here."""
        self.slot_bytes.append(n_bytes)
        self.slot_devices.append(device)
        return len(self.slot_bytes) - 1

    def new_piece(self, sizes: Sequence[int]) -> int:
        """New slots one after another, in one piece; the first of them."""
        first = len(self.slot_bytes)
        for n_bytes in sizes:
            self.slot_pieces[self.new_slot(0, n_bytes)] = len(self.piece_bytes)
        self.piece_bytes.append(sum(sizes))
        return first

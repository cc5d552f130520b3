"""Slots of a memory: taken again where they fit, given back where there is no room, after all who
used them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from infinitensor.memory.slots import Freed, Room


class Noted:
    """The edges that were added."""

    def __init__(self) -> None:
        self.edges: list[tuple[int, int]] = []

    def edge(self, source: int, target: int) -> None:
        if source != target:
            self.edges.append((source, target))

    def wait_for(self, users: list[int], task: int) -> None:
        self.edges += [(user, task) for user in users]


def full(device: int, n_bytes: int, at: int) -> None:
    raise MemoryError(f"{n_bytes} bytes of device {device} at {at}")


def room(limit: int, recent: int = 0) -> tuple[Room, Noted]:
    noted = Noted()
    additions: Any = noted
    return Room({0: limit, 1: limit}, additions, full, recent), noted


def test_a_free_slot_of_the_size_is_taken_again_after_all_its_users() -> None:
    rooms, noted = room(1000)
    slot = rooms.take(0, 100, 0, 0)
    rooms.release(0, 100, Freed((slot,), [0, 1, 2], 2))
    assert rooms.take(0, 100, 5, 5) == slot
    assert noted.edges == [(0, 5), (1, 5), (2, 5)]
    assert (rooms.used[0], rooms.peak[0]) == (100, 100)
    assert rooms.used[1] == 0


def test_a_slot_that_has_not_rested_is_left_while_there_is_room() -> None:
    rooms, noted = room(200, recent=3)
    slot = rooms.take(0, 100, 0, 0)
    rooms.release(0, 100, Freed((slot,), [0], 4))
    new = rooms.take(0, 100, 5, 5)
    assert new != slot
    assert noted.edges == []
    assert rooms.take(0, 100, 6, 6) == slot  # no room for one more
    assert noted.edges == [(0, 6)]
    assert rooms.peak[0] == 200


def test_slots_of_other_sizes_are_given_back_oldest_first_only_where_there_is_no_room() -> None:
    rooms, noted = room(300)
    old, young = rooms.take(0, 100, 0, 0), rooms.take(0, 150, 1, 1)
    rooms.release(0, 150, Freed((young,), [1], 2))
    rooms.release(0, 100, Freed((old,), [0], 1))
    first = rooms.take(0, 50, 2, 3)
    assert first not in rooms.retires
    second = rooms.take(0, 80, 3, 4)
    assert rooms.retires == {second: (old,)}
    assert (0, 3) in noted.edges
    assert rooms.used[0] == 50 + 80 + 150
    third = rooms.take(0, 20, 4, 5)  # its memory may be some that was given back
    assert third not in rooms.retires
    assert (3, 4) in noted.edges


def test_where_nothing_is_free_somebody_has_to_make_room() -> None:
    rooms, _ = room(100)
    rooms.take(1, 100, 0, 0)
    with pytest.raises(MemoryError, match="60 bytes of device 1 at 7"):
        rooms.take(1, 60, 1, 7)


def test_a_piece_has_slots_one_after_another_that_are_free_together() -> None:
    rooms, noted = room(300)
    first, gone = rooms.take_piece([64, 64, 72], 0, 0)
    assert gone == ()
    assert rooms.slot_bytes[first : first + 3] == [64, 64, 72]
    assert {rooms.slot_pieces[first + k] for k in range(3)} == {0}
    assert rooms.piece_bytes == [200]
    rooms.release_piece(200, Freed((first, first + 1, first + 2), [4, 5], 1))
    assert rooms.left_bytes(0) == 300
    slot = rooms.take(0, 256, 9, 9)
    assert rooms.retires == {slot: (first, first + 1, first + 2)}
    assert noted.edges == [(4, 9), (5, 9)]


def test_tiles_read_ahead_take_new_slots_up_to_their_share_then_the_first_free() -> None:
    rooms, _ = room(1000)
    rooms.ahead = {0: 200}
    slots = [rooms.take_ahead(0, 100, k, k, 1) for k in range(2)]
    for k, slot in enumerate(slots):
        rooms.release(0, 100, Freed((slot,), [k], k), is_read=True)
    assert rooms.take_ahead(0, 100, 8, 1, 1) == slots[0]
    rooms.leave_ahead(slots[1])  # its share is free for one more
    assert rooms.take_ahead(0, 100, 9, 1, 9) == len(rooms.slot_bytes) - 1 == 2


@pytest.mark.parametrize("seed", range(20))
def test_no_more_than_the_limit_is_ever_used_and_no_slot_is_in_two_hands(seed: int) -> None:
    rng = random.Random(seed)
    rooms, noted = room(1000, recent=rng.randint(0, 4))
    held: dict[int, int] = {}
    last: dict[int, int] = {}
    for task in range(200):
        size = rng.choice([64, 128, 200])
        if rooms.left_bytes(0) >= size and rng.random() < 0.6:
            slot = rooms.take(0, size, task, task)
            assert slot not in held
            assert rooms.slot_bytes[slot] == size
            if slot in last:
                assert (last[slot], task) in noted.edges
            for old in rooms.retires.get(slot, ()) if slot not in last else ():
                assert (last[old], task) in noted.edges
                assert old not in held
            held[slot] = size
        elif held:
            slot = rng.choice(sorted(held))
            rooms.release(0, held.pop(slot), Freed((slot,), [task], task))
            last[slot] = task
        assert sum(held.values()) <= rooms.used[0] <= 1000
        assert rooms.left_bytes(0) == 1000 - sum(held.values())

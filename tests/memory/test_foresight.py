"""An order seen as a whole: when tiles are used, and what can be read or made again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.memory.task_graphs import task_graph

from infinitensor.ir.layout import DISK
from infinitensor.ir.mesh import DeviceRates, Mesh
from infinitensor.ir.slab import slab_bytes
from infinitensor.ir.tasks import COMPUTE, LOAD, TaskGraph
from infinitensor.memory.foresight import Foresight
from infinitensor.memory.uses import Uses
from infinitensor.price import tier_seconds

MESH = Mesh((DeviceRates("cpu", "cpu:0", 1 << 30, 1e9, 1e10, 1e-5, 1 << 15),), workers=2)
# tile 0 is in a file: 1 is read from it; 2 = f(1), 3 = f(2, 1); 4 is made from nothing; 5 = f(3, 4)
TASKS = [((0,), 1), ((1,), 2), ((2, 1), 3), ((), 4), ((3, 4), 5)]
LENGTHS = [100, 100, 100, 100, 100, 10]


def streamed() -> TaskGraph:
    lanes = [LOAD, *[COMPUTE] * 4]
    devices = [DISK, 0, 0, 0, 0, 0]
    graph = task_graph(TASKS, LENGTHS, [5], lanes, devices)
    many = (np.asarray([0, 1]), np.asarray([0], np.int32))
    read = replace(graph.families[0], reads=(), many=many)
    return replace(graph, families=(read, *graph.families[1:]))


def seen(order: list[int], ahead: int | None = 3) -> Foresight:
    return Foresight(Uses(streamed()), np.asarray(order), 1, MESH, ahead)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 1, 2, 4]])
def test_uses_of_a_tile_are_places_in_the_order(order: list[int]) -> None:
    known = seen(order)
    for tile in range(6):
        users = [k for k, (reads, made) in enumerate(TASKS) if tile in (*reads, made)]
        found = known.at[known.first[tile] : known.end[tile]]
        assert found == sorted(order.index(task) for task in users)


def test_what_a_task_touches_and_what_is_kept() -> None:
    known = seen([0, 1, 2, 3, 4])
    assert known.touched(2) == {1, 2, 3}
    assert known.touched(0) == {0, 1}
    assert known.is_held == [False] * 5 + [True]


def test_what_is_made_from_nothing_that_has_to_be_kept_can_be_made_again() -> None:
    known = seen([0, 1, 2, 3, 4])
    assert known.again.keys() == {1, 4}
    assert known.from_lower_tier == {1}
    assert known.again[1] == tier_seconds(slab_bytes(800), True, MESH)
    assert known.last_streamed == 2


def test_a_tile_that_is_written_to_later_cannot_be_made_again() -> None:
    graph = streamed()
    update = replace(graph.families[2], writes=(np.asarray([4], np.int32),), updates=True)
    families = (*graph.families[:2], update, *graph.families[3:])
    changed = Uses(replace(graph, families=families))
    assert 4 not in Foresight(changed, np.arange(5), 1, MESH, 3).again


def test_the_room_ahead_is_what_the_others_leave_where_they_take_most() -> None:
    known = seen([0, 1, 2, 3, 4])
    slab = int(slab_bytes(800))
    left = known.room_ahead([10_000], bytearray(6), [-1] * 6)
    most = 2 * slab + int(slab_bytes(80))  # when 5 is made from 3 and 4
    assert left == {0: 10_000 - most}
    external = bytearray(6)
    external[2] = 1  # counts all the time
    assert known.room_ahead([10_000], external, [-1] * 6) == {0: 10_000 - most - slab}

"""Which tiles tasks use: how large they are, who makes and reads them, and who is needed at all."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict
from tests.memory.task_graphs import task_graph
from tests.tasking.programs import recorded

from infinitensor.ir.slab import slab_bytes
from infinitensor.memory.uses import FOREVER, Uses, parts_of, scratch_bytes

# 0 is there; 1 = f(0), 2 = f(1), 3 = f(0), 4 = f(1, 2); only 4 is kept
TASKS = [((0,), 1), ((1,), 2), ((0,), 3), ((1, 2), 4)]
LENGTHS = [100, 100, 8, 50, 100]


def users_of(uses: Uses, tile: int) -> list[int]:
    return list(uses.users[uses.user_borders[tile] : uses.user_borders[tile + 1]].tolist())


def test_tasks_that_no_kept_tile_is_made_from_are_not_needed() -> None:
    uses = Uses(task_graph(TASKS, LENGTHS, [4]))
    assert uses.needed.tolist() == [True, True, False, True]
    assert Uses(task_graph(TASKS, LENGTHS, [3, 4])).needed.all()


def test_users_producers_and_last_uses_are_those_of_needed_tasks() -> None:
    uses = Uses(task_graph(TASKS, LENGTHS, [4]))
    assert [sorted(users_of(uses, t)) for t in range(5)] == [[0], [0, 1, 3], [1, 3], [], [3]]
    assert uses.producers.tolist() == [-1, 0, 1, 2, 3]
    assert uses.last_use.tolist() == [0, 3, 3, -1, FOREVER]
    tiles, borders = uses.tiles_by_task()
    by_task = [sorted(tiles[a:b].tolist()) for a, b in pairwise(borders)]
    assert by_task == [[0, 1], [1, 2], [], [1, 2, 4]]


def test_a_tile_takes_its_slab_and_parts_of_a_piece_take_one_together() -> None:
    graph = task_graph(TASKS, LENGTHS, [4])
    uses = Uses(graph)
    assert uses.tile_bytes.tolist() == [slab_bytes(8 * n) for n in LENGTHS]
    assert uses.n_elements.tolist() == LENGTHS
    assert graph.set_with(3) is graph.tiles[3]
    parts = parts_of(np.asarray([100, 100, 30]))
    assert parts[:2].tolist() == [100, 100]
    assert parts.sum() == slab_bytes(230)


@pytest.mark.parametrize(("n_concurrent", "need"), [(1, 70), (2, 120), (3, 160), (9, 160)])
def test_scratch_is_that_of_the_largest_tasks_that_can_run_at_a_time(
    n_concurrent: int, need: int
) -> None:
    graph = task_graph(TASKS, LENGTHS, [4])
    sizes = (70, 50, 40, 0)
    families = [replace(f, scratch_bytes=n) for f, n in zip(graph.families, sizes, strict=True)]
    assert scratch_bytes(families, 2, n_concurrent) == [need, 0]


@pytest.mark.parametrize("seed", range(8))
def test_every_tile_that_a_needed_task_reads_is_there_or_made_by_a_needed_one(seed: int) -> None:
    with strict("null*2") as session:
        tensors = recorded(seed)
        if not tensors:
            return
        graph = prepared(session, *tensors).program.graph
    uses = Uses(graph)
    leaves = {t for s in graph.tiles if s.leaf >= 0 for t in range(s.first, s.first + s.n)}
    for tile in range(graph.n_tiles):
        users = users_of(uses, tile)
        assert all(uses.needed[task] for task in users)
        if users and tile not in leaves:
            assert uses.needed[uses.producers[tile]]
        if uses.last_use[tile] != FOREVER:
            assert uses.last_use[tile] == max(users, default=-1)

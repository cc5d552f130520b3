"""Serial orders: each has every needed task once, after what it waits for."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.memory.task_graphs import task_graph

from infinitensor.ir.tasks import COMPUTE, LOAD
from infinitensor.memory.order import (
    ORDERS,
    PLANNED,
    STREAMING,
    depth_first,
    forward,
    in_turn,
    layers,
    least_growth,
)
from infinitensor.memory.uses import Uses

if TYPE_CHECKING:
    from tests.memory.task_graphs import Task

EVERY = {**ORDERS, **PLANNED, **STREAMING}

# two chains 0 -> 1 -> 2 and 3 -> 4 -> 5 of leaves 0 and 1, all firsts before all seconds
CHAINS: list[Task] = [((0,), 2), ((1,), 3), ((2,), 4), ((3,), 5), ((4,), 6), ((5,), 7)]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("seed", range(10))
def test_every_order_has_each_needed_task_once_after_those_it_waits_for(
    name: str, seed: int
) -> None:
    rng = random.Random(seed)
    tasks: list[Task] = []
    for k in range(30):
        tasks.append((tuple(rng.sample(range(3 + k), rng.randint(1, 3))), 3 + k))
    lengths = [rng.randint(1, 200) for _ in range(33)]
    uses = Uses(task_graph(tasks, lengths, rng.sample(range(3, 33), 4)))
    order = EVERY[name](uses).tolist()
    assert sorted(order) == np.flatnonzero(uses.needed).tolist()
    at = {task: k for k, task in enumerate(order)}
    for source, target in zip(uses.graph.sources, uses.graph.targets, strict=True):
        if uses.needed[target]:
            assert at[source] < at[target]


def test_layers_are_as_lowered_and_depth_first_ends_one_chain_before_the_next() -> None:
    uses = Uses(task_graph(CHAINS, [8] * 8, [6, 7]))
    assert layers(uses).tolist() == [0, 1, 2, 3, 4, 5]
    assert depth_first(uses).tolist() == [0, 2, 4, 1, 3, 5]


def test_forward_uses_what_was_read_at_once() -> None:
    loads = [LOAD, LOAD, *[COMPUTE] * 4]
    uses = Uses(task_graph(CHAINS, [8] * 8, [6, 7], loads))
    assert forward(uses).tolist() == [0, 2, 4, 1, 3, 5]
    uses = Uses(task_graph([((0,), 1), ((1,), 2), ((1,), 3)], [8] * 4, [2, 3], [LOAD, 0, 0]))
    assert forward(uses).tolist() == [0, 1, 2]  # readers as they are numbered


def test_the_task_that_grows_memory_least_comes_first() -> None:
    # both make as much, but the second is the last to read the large leaf 0
    uses = Uses(task_graph([((1,), 3), ((0,), 2), ((2, 3), 4)], [1000, 8, 1000, 1000, 8], [4]))
    assert least_growth(uses).tolist() == [1, 0, 2]


def test_tasks_that_were_put_in_order_come_so_with_what_they_need_just_before() -> None:
    graph = task_graph(CHAINS, [8] * 8, [6, 7])
    families = [replace(f, in_turn=k in (2, 5)) for k, f in enumerate(graph.families)]
    uses = Uses(replace(graph, families=tuple(families)))
    assert in_turn(uses).tolist() == [0, 2, 1, 3, 5, 4]


def test_a_graph_in_which_nothing_is_kept_has_empty_orders() -> None:
    uses = Uses(task_graph(CHAINS, [8] * 8, []))
    for order in EVERY.values():
        assert order(uses).tolist() == []

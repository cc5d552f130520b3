"""When no further serial order is walked for a program that does not fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infinitensor.ir.tasks import COMPUTE, LOAD
from infinitensor.memory.best_order import is_near_least


@pytest.mark.parametrize(
    ("evicted", "loaded", "is_near"),
    [(0, 400, True), (50, 400, True), (51, 400, False), (0, 450, True), (30, 430, False)],
)
def test_what_moves_an_eighth_beside_one_read_of_all_is_near_the_least(
    evicted: int, loaded: int, is_near: bool
) -> None:
    reads = SimpleNamespace(lane=LOAD, writes=(np.arange(4),))
    makes = SimpleNamespace(lane=COMPUTE, writes=(np.arange(4, 9),))
    graph = SimpleNamespace(families=[reads, makes])
    uses: Any = SimpleNamespace(graph=graph, tile_bytes=np.full(9, 100))
    program: Any = SimpleNamespace(traffic=SimpleNamespace(evicted=evicted, loaded=loaded))
    assert is_near_least(program, uses) == is_near
    graph.families = [makes]  # nothing is read: what is evicted can be much
    assert not is_near_least(program, uses)

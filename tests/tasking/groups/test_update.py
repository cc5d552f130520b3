"""Updates write into the tiles of the version before: each task the part in its tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it

if TYPE_CHECKING:
    from infinitensor.ir.tasks import Family, TaskGraph

A = np.arange(60.0).reshape(10, 6)
REGIONS: list[Any] = [np.s_[3], np.s_[2:7], np.s_[::2, 1:4], np.s_[8:2:-3], np.s_[:, 5], np.s_[4:4]]


def updates(graph: TaskGraph) -> list[Family]:
    return [family for family in graph.families if family.updates]


def written(region: Any) -> Any:
    x = it.sort(it.asarray(A), axis=1)
    x[region] = -it.asarray(A)[region]
    return x


def test_tasks_write_the_tiles_of_the_first_version_and_make_none() -> None:
    with strict("null*2") as session:
        graph = prepared(session, written(np.s_[2:7])).program.graph
    (family,) = updates(graph)
    (first, layout), *_ = graph.held.values()
    tiles = set(range(first, first + layout.n_tiles))
    assert set(family.writes[0].tolist()) <= tiles
    assert family.scratch_bytes == 0
    made = [f for f in graph.families if not f.updates and set(f.writes[0].tolist()) & tiles]
    assert len(made) == 1  # what sorts


@pytest.mark.parametrize("devices", ["null", "null*2"])
def test_only_tiles_that_the_region_meets_are_written(devices: str) -> None:
    with strict(devices, 6) as session:
        graph = prepared(session, written(np.s_[2:5])).program.graph
    (family,) = updates(graph)
    (first, layout), *_ = graph.held.values()
    assert layout.n_tiles == 10
    assert sorted(family.writes[0] - first) == [2, 3, 4]


@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_values_are_numpys_in_and_around_the_region(devices: str, region: Any) -> None:
    wanted = np.sort(A, axis=1)
    wanted[region] = -A[region]
    with strict(devices, compile="never"):
        np.testing.assert_array_equal(written(region).numpy(), wanted)


@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
def test_updates_by_index_see_where_their_tile_is(devices: str) -> None:
    rows = np.asarray([9, 0, 4, 4])
    wanted = A.copy()
    wanted[rows] = np.arange(24.0).reshape(4, 6)
    wanted[:, 1][wanted[:, 0] > 20] = 5
    with strict(devices, compile="never"):
        x = it.asarray(A) * 1
        x[it.asarray(rows)] = it.asarray(np.arange(24.0).reshape(4, 6))
        x[:, 1][x[:, 0] > 20] = 5
        np.testing.assert_array_equal(x.numpy(), wanted)

"""Searches by Euclidean distance: ties, radii, sparse points, tensors and files."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.neighbors.datasets import CUTS, SETS, TIED, assert_same_rows, radius_of

from infinitensor.neighbors import NearestNeighbors


@pytest.mark.parametrize("name", TIED)
def test_ties_go_to_the_smaller_index(name: str) -> None:
    x = np.asarray(TIED[name](), float)
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    order = np.lexsort((np.broadcast_to(np.arange(len(x)), squares.shape), squares))[:, :7]
    apart, number = NearestNeighbors(n_neighbors=7).fit(x).kneighbors(x)
    np.testing.assert_array_equal(number, order)
    np.testing.assert_allclose(apart, np.sqrt(np.take_along_axis(squares, order, 1)), rtol=1e-14)


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("name", SETS)
def test_all_within_a_radius_are_found(name: str, devices: str, tile: int, small: int) -> None:
    x = np.asarray(SETS[name](), float)
    radius = radius_of(x, 0.05)
    squares = np.zeros((len(x), len(x)))
    for feature in x.T:
        squares += (feature[:, None] - feature) ** 2
    near = squares <= radius * radius
    with strict(devices, tile, small_elements=small):
        found, number = NearestNeighbors(radius=radius).fit(x).radius_neighbors(x)
    assert_same_rows(number, [np.flatnonzero(row) for row in near])
    assert_same_rows(found, [np.sqrt(row[k]) for row, k in zip(squares, near, strict=True)])


def test_rows_are_sorted_by_distance_on_request() -> None:
    x = SETS["grid"]()
    model = NearestNeighbors(radius=2.0).fit(x)
    for apart, number in zip(*model.radius_neighbors(sort_results=True), strict=True):
        keys = list(zip(apart, number, strict=True))
        assert keys == sorted(keys)


def test_each_query_may_have_its_own_radius() -> None:
    x = SETS["d3"]()
    radii = np.linspace(0.5, 4, 10)
    ours = NearestNeighbors().fit(x).radius_neighbors(x[:10], radii, return_distance=False)
    for i, found in enumerate(ours):
        one = NearestNeighbors().fit(x).radius_neighbors(x[i : i + 1], radii[i])[1][0]
        np.testing.assert_array_equal(found, one)

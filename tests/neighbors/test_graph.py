"""Graphs of neighbours are scikit-learn's."""

from __future__ import annotations

import pytest
import sklearn.neighbors as theirs
from tests.neighbors.datasets import SETS

from infinitensor.neighbors import kneighbors_graph, radius_neighbors_graph


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_graphs_are_scikit_learns(mode: str) -> None:
    x = SETS["moons"]()
    for ours, exact in (
        (kneighbors_graph(x, 5, mode=mode), theirs.kneighbors_graph(x, 5, mode=mode)),
        (
            radius_neighbors_graph(x, 0.2, mode=mode),
            theirs.radius_neighbors_graph(x, 0.2, mode=mode),
        ),
    ):
        assert abs(ours - exact).max() < 1e-12

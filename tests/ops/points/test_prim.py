"""Prim's tree: as light as SciPy's, from points, rows of distances or a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import cdist

from infinitensor.ops.points import prim
from infinitensor.ops.points.prim import tree_of, tree_of_graph, tree_of_rows

RNG = np.random.default_rng(24)


@pytest.fixture(params=["c", "numpy"], autouse=True)
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are loops in C, and where there are none."""
    if request.param == "numpy":
        monkeypatch.setattr(prim, "loop", lambda *names: None)


def _reach(x: Any, core: Any, alpha: float) -> Any:
    return np.maximum(np.maximum(cdist(x, x) / alpha, core), core[:, None])


def _is_tree(n: int, a: Any, b: Any) -> bool:
    graph = csr_array((np.ones(n - 1), (a, b)), (n, n))
    return len(a) == n - 1 and connected_components(graph, directed=False)[0] == 1


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("n", [2, 9, 40])
def test_the_tree_joins_all_points_and_none_is_lighter(n: int, alpha: float) -> None:
    x, core = RNG.normal(size=(n, 3)), RNG.random(n)
    a, b, weight = tree_of(x, core, np.arange(n), alpha, previous=False)
    reach = _reach(x, core, alpha)
    assert _is_tree(n, a, b)
    np.testing.assert_allclose(weight, reach[a, b], 1e-12)
    np.testing.assert_allclose(weight.sum(), minimum_spanning_tree(reach).sum(), 1e-12)


def test_points_in_another_order_have_the_same_tree_by_their_numbers() -> None:
    x, core, turn = RNG.normal(size=(25, 2)), RNG.random(25), RNG.permutation(25)
    wants = tree_of(x, core, np.arange(25), 1.0, previous=False)
    founds = tree_of(x[turn], core[turn], turn, 1.0, previous=False)
    for found, want in zip(founds, wants, strict=True):
        np.testing.assert_allclose(found, want, 1e-13)


def test_rows_of_distances_make_the_tree_of_the_points() -> None:
    x, core = RNG.normal(size=(20, 2)), RNG.random(20)
    for previous in (False, True):
        wants = tree_of(x, core, np.arange(20), 1.0, previous)
        founds = tree_of_rows(lambda i: cdist(x[i : i + 1], x)[0], core, previous)
        for found, want in zip(founds, wants, strict=True):
            np.testing.assert_allclose(found, want, 1e-12)


def test_with_previous_an_edge_comes_from_the_point_that_joined_before() -> None:
    x, core = RNG.normal(size=(20, 2)), np.zeros(20)
    a, b, _ = tree_of(x, core, np.arange(20), 1.0, previous=True)
    assert a[0] == 0
    np.testing.assert_array_equal(a[1:], b[:-1])


def test_the_tree_of_a_graph_has_its_edges_and_least_weight() -> None:
    n = 15
    a, b = np.nonzero(np.triu(RNG.random((n, n)) < 0.4, 1))
    a, b = np.append(a, np.arange(n - 1)), np.append(b, np.arange(1, n))
    pairs = np.unique(np.stack([a, b], 1), axis=0)
    a, b = pairs[:, 0], pairs[:, 1]
    weight = RNG.random(len(a)) + 0.1
    start, end, found = tree_of_graph(n, a, b, weight)
    assert _is_tree(n, start, end)
    assert {tuple(sorted(edge)) for edge in zip(start, end, strict=True)} <= set(
        zip(a, b, strict=True)
    )
    want = minimum_spanning_tree(csr_array((weight, (a, b)), (n, n))).sum()
    np.testing.assert_allclose(found.sum(), want, 1e-12)

"""Trees of mutual reachability: one weight, however the points are cut, and scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from tests.ir.sessions import strict
from tests.neighbors.datasets import CONTINUOUS

import infinitensor as it
from infinitensor.neighbors._euclidean import Ordered
from infinitensor.neighbors._tree import grouped_tree, prim_tree

K = 5
NAMES = sorted(CONTINUOUS)[:4]


def points(name: str) -> Any:
    return np.ascontiguousarray(CONTINUOUS[name](), float)[:90]


def reachability(x: Any, alpha: float) -> tuple[Any, Any]:
    """Core distances, and the distances of all pairs that are no nearer than both cores."""
    far = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    core = np.sort(far, 1)[:, K - 1]
    return core, np.maximum(far / alpha, np.maximum(core[:, None], core))


def check_tree(edges: Any, x: Any, alpha: float) -> None:
    """A tree over all points of the least weight that there is."""
    source, target, weight = edges
    n = len(x)
    assert len(weight) == n - 1
    joined = coo_array((np.ones(n - 1), (source, target)), shape=(n, n))
    assert connected_components(joined, directed=False)[0] == 1
    _, mutual = reachability(x, alpha)
    np.testing.assert_allclose(weight, mutual[source, target], rtol=1e-9)
    least = minimum_spanning_tree(mutual).sum()
    np.testing.assert_allclose(weight.sum(), least, rtol=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 0.7])
@pytest.mark.parametrize("name", NAMES)
def test_prims_tree_is_one_of_least_weight(name: str, alpha: float) -> None:
    x = points(name)
    core, _ = reachability(x, alpha)
    check_tree(prim_tree(Ordered(x), core, alpha, False), x, alpha)


@pytest.mark.parametrize(("devices", "tile"), [("cpu", 0), ("cpu*3", 300), ("cpu*2", 1000)])
@pytest.mark.parametrize("name", NAMES)
def test_a_tree_by_groups_is_prims_under_every_cut(name: str, devices: str, tile: int) -> None:
    x = points(name)
    with it.init("cpu"):
        core, _ = reachability(x, 1.0)
        _, _, wanted = prim_tree(Ordered(x), core, 1.0, False)
    with strict(devices, tile):
        edges = grouped_tree(Ordered(it.asarray(x)), K, 1.0)
    check_tree(edges, x, 1.0)
    np.testing.assert_allclose(np.sort(edges[2]), np.sort(wanted), rtol=1e-9)


def test_copies_of_points_are_joined_by_nothing() -> None:
    x = np.repeat(np.arange(6.0)[:, None] * [[1.0, 2.0]], K, 0)
    edges = grouped_tree(Ordered(x), K, 1.0)
    weight = np.sort(edges[2])
    assert (weight[: 6 * (K - 1)] == 0).all()
    np.testing.assert_allclose(weight[6 * (K - 1) :], np.sqrt(5.0), rtol=1e-12)


def test_two_points_have_one_edge() -> None:
    x = np.array([[0.0, 0.0], [3.0, 4.0]])
    source, target, weight = grouped_tree(Ordered(x), 1, 1.0)
    assert {int(source[0]), int(target[0])} == {0, 1}
    assert weight.tolist() == [5.0]

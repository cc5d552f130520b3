"""HDBSCAN's labels, probabilities and tree are scikit-learn's bit for bit, ties too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster as theirs
from tests.ir.sessions import strict
from tests.neighbors.datasets import CONTINUOUS, CUTS, SETS, TIED, sample, thinned, with_missing

import infinitensor as it
from infinitensor.cluster import HDBSCAN


def assert_same(ours: Any, exact: Any) -> None:
    np.testing.assert_array_equal(ours.labels_, exact.labels_)
    np.testing.assert_array_equal(ours.probabilities_, exact.probabilities_)
    np.testing.assert_array_equal(ours._single_linkage_tree_, exact._single_linkage_tree_)
    assert ours.labels_.dtype == exact.labels_.dtype


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("name", SETS)
def test_the_tree_is_scikit_learns(name: str, devices: str, tile: int, small: int) -> None:
    x = SETS[name]()
    exact = theirs.HDBSCAN(algorithm="kd_tree", copy=False).fit(x)
    with strict(devices, tile, small_elements=small):
        assert_same(HDBSCAN(copy=False).fit(x), exact)


@pytest.mark.parametrize("name", ["moons", "d8", "grid", "iris"])
@pytest.mark.parametrize(
    "named",
    [
        {"min_samples": 3, "min_cluster_size": 9},
        {"alpha": 0.7, "cluster_selection_method": "leaf"},
        {"cluster_selection_epsilon": 0.05},
        {"allow_single_cluster": True},
        {"max_cluster_size": 60},
        {"metric": "manhattan"},
        {"metric": "minkowski", "metric_params": {"p": 3}},
    ],
    ids=str,
)
def test_parameters_mean_what_they_mean_there(name: str, named: dict[str, Any]) -> None:
    x = SETS[name]()
    exact = theirs.HDBSCAN(copy=False, **named).fit(x)
    ours = HDBSCAN(copy=False, **named).fit(x)
    np.testing.assert_array_equal(ours.labels_, exact.labels_)
    np.testing.assert_allclose(ours.probabilities_, exact.probabilities_, rtol=1e-9)


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("name", sample(SETS))
def test_rows_that_are_not_finite_have_labels_of_their_own(
    name: str, devices: str, tile: int, small: int
) -> None:
    x = with_missing(name)
    exact = theirs.HDBSCAN(algorithm="kd_tree", copy=False).fit(x)
    assert {-2, -3} <= set(exact.labels_)
    with strict(devices, tile, small_elements=small):
        assert_same(HDBSCAN(copy=False).fit(x), exact)


@pytest.mark.parametrize("name", ["moons", "cube"])
def test_given_distances(name: str) -> None:
    x = SETS[name]()
    apart = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    before = apart.copy()
    ours = HDBSCAN(metric="precomputed", copy=True).fit(apart)
    np.testing.assert_array_equal(apart, before)
    assert_same(ours, theirs.HDBSCAN(metric="precomputed", copy=True).fit(apart))
    graph = scipy.sparse.csr_array(apart)
    ours = HDBSCAN(metric="precomputed", copy=True).fit(graph)
    assert_same(ours, theirs.HDBSCAN(metric="precomputed", copy=True).fit(graph))


@pytest.mark.parametrize("name", sample(SETS))
def test_sparse_points(name: str) -> None:
    x = thinned(name)
    ours = HDBSCAN(copy=False).fit(x)
    exact = theirs.HDBSCAN(copy=False).fit(x)
    mine, true = (np.sort(one._single_linkage_tree_["value"]) ** 2 for one in (ours, exact))
    np.testing.assert_allclose(mine, true, rtol=1e-9, atol=1e-14 * abs(x).max() ** 2)
    if name in CONTINUOUS:
        np.testing.assert_array_equal(ours.labels_, exact.labels_)


def test_centres() -> None:
    x = SETS["d8"]()
    ours = HDBSCAN(store_centers="both", copy=False).fit(x)
    exact = theirs.HDBSCAN(store_centers="both", copy=False).fit(x)
    np.testing.assert_allclose(ours.centroids_, exact.centroids_, rtol=1e-12)
    np.testing.assert_array_equal(ours.medoids_, exact.medoids_)
    cut = ours.dbscan_clustering(2.0), exact.dbscan_clustering(2.0)
    np.testing.assert_array_equal(*cut)


def test_centres_of_points_with_rows_that_are_missing() -> None:
    x = SETS["d3"]().copy()
    x[7, 1] = np.nan
    ours = HDBSCAN(store_centers="centroid", copy=False).fit(x)
    whole = HDBSCAN(store_centers="centroid", copy=False).fit(np.delete(x, 7, axis=0))
    np.testing.assert_array_equal(ours.centroids_, whole.centroids_)


@pytest.mark.parametrize("alpha", [1.0, 0.7])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_tensor_is_clustered_tile_by_tile(name: str, alpha: float) -> None:
    x = np.ascontiguousarray(CONTINUOUS[name]())
    exact = theirs.HDBSCAN(algorithm="kd_tree", copy=False, alpha=alpha).fit(x)
    with strict("cpu*2", 1500):
        ours = HDBSCAN(copy=False, alpha=alpha).fit(it.asarray(x))
        assert not it.stats()["sklearn_fallbacks"]
    np.testing.assert_array_equal(ours.labels_, exact.labels_)
    np.testing.assert_array_equal(ours.probabilities_, exact.probabilities_)


@pytest.mark.parametrize("name", TIED)
def test_a_tensor_full_of_ties_has_a_tree_of_the_same_weight(name: str) -> None:
    x = np.asarray(TIED[name](), float)
    exact = theirs.HDBSCAN(algorithm="kd_tree", copy=False).fit(x)._single_linkage_tree_["value"]
    with strict("cpu*2", 1500):
        ours = HDBSCAN(copy=False).fit(it.asarray(x))._single_linkage_tree_["value"]
    np.testing.assert_allclose(np.sort(ours), np.sort(exact), rtol=1e-15)


def test_asymmetric_distances_are_refused() -> None:
    apart = np.random.default_rng(0).uniform(size=(20, 20))
    with pytest.raises(ValueError, match="values appear to be asymmetric"):
        HDBSCAN(metric="precomputed", copy=True).fit(apart)

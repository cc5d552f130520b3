"""Metrics, their parameters, dtypes, paths: what is refused, and what is as in scikit-learn."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.cluster as their_cluster
import sklearn.metrics as their_metrics
import sklearn.neighbors as theirs
from sklearn.exceptions import DataConversionWarning

import infinitensor as it
from infinitensor import cluster, metrics, neighbors

rng = np.random.default_rng(0)
X = rng.standard_normal((30, 3))
LABELS = np.arange(30) % 3
GRID = rng.integers(0, 3, (30, 3)).astype(float)


@pytest.mark.parametrize(("metric", "name"), [("seuclidean", "V"), ("mahalanobis", "VI")])
def test_nearest_needs_the_spread_of_points(metric: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' parameter is required for the {metric}"):
        metrics.pairwise_distances_argmin(np.zeros((4, 3)), np.zeros((2, 3)), metric=metric)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("seuclidean", {"V": np.ones(2)}, r"seuclidean: V has shape \(2,\), points of 3"),
    ("mahalanobis", {"VI": np.eye(2)}, r"mahalanobis: VI has shape \(2, 2\), points of 3"),
    ("minkowski", {"w": np.ones(2), "p": 3}, r"minkowski: w has shape \(2,\), points of 3"),
    ("minkowski", {"w": -np.ones(3), "p": 3}, "non-negative"),
    ("haversine", {}, "Haversine distance only valid in 2 dimensions"),
]


@pytest.mark.parametrize(("metric", "params", "text"), WRONG)
def test_parameters_that_misfit_are_refused(metric: str, params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        metrics.pairwise_distances(X, metric=metric, **params)
    with pytest.raises(ValueError, match=text):
        metrics.pairwise_distances_argmin(X, X[:5], metric=metric, metric_kwargs=params)
    with pytest.raises(ValueError, match=text):
        metrics.silhouette_score(X, LABELS, metric=metric, **params)
    p = params.get("p", 2)
    model = neighbors.NearestNeighbors(
        metric=metric, p=p, metric_params={k: v for k, v in params.items() if k != "p"}
    ).fit(X)
    with pytest.raises(ValueError, match=text):
        model.kneighbors(X)


@pytest.mark.parametrize("algorithm", ["brute", "ball_tree"])
def test_bray_curtis_of_searches_is_over_sums_of_sizes(algorithm: Any) -> None:
    named = {"metric": "braycurtis", "algorithm": algorithm, "n_neighbors": 4}
    found = neighbors.NearestNeighbors(**named).fit(X).kneighbors(X)
    wanted = theirs.NearestNeighbors(**named).fit(X).kneighbors(X)
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-12)
    np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize("algorithm", ["brute", "ball_tree"])
def test_bray_curtis_of_hdbscan(algorithm: str) -> None:
    named = {"metric": "braycurtis", "algorithm": algorithm, "min_cluster_size": 3, "copy": True}
    found = cluster.HDBSCAN(**named).fit(X)
    wanted = their_cluster.HDBSCAN(**named).fit(X)
    np.testing.assert_allclose(
        found._single_linkage_tree_["value"], wanted._single_linkage_tree_["value"], rtol=1e-9
    )


@pytest.mark.parametrize("metric", ["euclidean", "nan_euclidean"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_silhouettes_of_squared_distances(metric: str, dtype: Any) -> None:
    x = X.astype(dtype)
    found = metrics.silhouette_samples(x, LABELS, metric=metric, squared=True)
    wanted = their_metrics.silhouette_samples(x, LABELS, metric=metric, squared=True)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_silhouettes_of_sets_say_what_is_converted() -> None:
    with pytest.warns(DataConversionWarning, match="converted to boolean for metric jaccard"):
        found = metrics.silhouette_score(GRID, LABELS, metric="jaccard")
    assert found == pytest.approx(
        metrics.silhouette_score(GRID != 0, LABELS, metric="jaccard"), abs=1e-12
    )


@pytest.mark.parametrize("kind", [str, Path])
def test_functions_take_paths(tmp_path: Path, kind: Any) -> None:
    np.save(tmp_path / "x.npy", X)
    path = kind(tmp_path / "x.npy")
    np.testing.assert_array_equal(cluster.dbscan(path, 0.7)[1], cluster.dbscan(X, 0.7)[1])
    for function, reach in ((neighbors.kneighbors_graph, 3), (neighbors.radius_neighbors_graph, 1)):
        for include_self in (False, True):
            found = function(path, reach, include_self=include_self).toarray()
            wanted = function(X, reach, include_self=include_self).toarray()
            np.testing.assert_array_equal(found, wanted)
    named = {"n_clusters": 3, "random_state": 0}
    np.testing.assert_allclose(cluster.k_means(path, **named)[0], cluster.k_means(X, **named)[0])
    seeds = cluster.kmeans_plusplus(path, **named)[1]
    np.testing.assert_array_equal(seeds, cluster.kmeans_plusplus(X, **named)[1])


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i4", "longdouble"])
def test_dtypes_of_other_machines(dtype: str) -> None:
    x = np.round(X * 8).astype(dtype)
    plain = np.asarray(x, "f4" if dtype == ">f4" else "f8")
    found = neighbors.NearestNeighbors(n_neighbors=3).fit(x).kneighbors(x)
    wanted = neighbors.NearestNeighbors(n_neighbors=3).fit(plain).kneighbors(plain)
    np.testing.assert_array_equal(found[0], wanted[0])
    labels = cluster.DBSCAN(eps=6, min_samples=3).fit(x).labels_
    np.testing.assert_array_equal(labels, cluster.DBSCAN(eps=6, min_samples=3).fit(plain).labels_)
    score = metrics.calinski_harabasz_score(x, LABELS)
    assert score == pytest.approx(their_metrics.calinski_harabasz_score(plain, LABELS), rel=1e-6)


GIVEN: list[Any] = [
    lambda: theirs.KDTree(X, metric="manhattan"),
    lambda: theirs.BallTree(X, metric="minkowski", p=3),
    lambda: theirs.KDTree(X),
    lambda: theirs.NearestNeighbors(metric="chebyshev", algorithm="kd_tree").fit(X),
    lambda: theirs.NearestNeighbors(metric="chebyshev", algorithm="brute").fit(X),
]


@pytest.mark.parametrize("number", range(len(GIVEN)))
def test_what_was_fitted_keeps_its_metric(number: int) -> None:
    wanted = theirs.NearestNeighbors(n_neighbors=4).fit(GIVEN[number]()).kneighbors(X[:7] + 0.1)
    model = neighbors.NearestNeighbors(n_neighbors=4).fit(GIVEN[number]())
    again = neighbors.NearestNeighbors(n_neighbors=4).fit(model)
    for one in (model, again, pickle.loads(pickle.dumps(model))):
        found = one.kneighbors(X[:7] + 0.1)
        np.testing.assert_allclose(found[0], wanted[0], atol=1e-12)
        np.testing.assert_array_equal(found[1], wanted[1])


def test_our_own_fitted_keeps_its_metric() -> None:
    first = neighbors.NearestNeighbors(n_neighbors=4, metric="manhattan").fit(X)
    found = neighbors.NearestNeighbors(n_neighbors=4).fit(first).kneighbors(X)
    np.testing.assert_array_equal(found[0], first.kneighbors(X)[0])


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_nothing_is_within_less_than_nothing(metric: str) -> None:
    model = neighbors.NearestNeighbors(metric=metric).fit(X)
    for asked in (None, X[:5]):
        apart, number = model.radius_neighbors(asked, radius=-1.0)
        assert len(number) == (30 if asked is None else 5)
        assert all(len(row) == 0 for row in (*apart, *number))


def test_hdbscan_of_a_tensor_whose_squares_overflow() -> None:
    labels = []
    for x in (it.asarray(X * 1e200), X * 1e200):
        with pytest.warns(UserWarning, match="edge weights with value infinity"):
            labels.append(cluster.HDBSCAN(min_cluster_size=3, copy=True).fit(x).labels_)
    np.testing.assert_array_equal(*labels)

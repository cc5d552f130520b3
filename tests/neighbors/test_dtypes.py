"""Every output has the dtype it has in scikit-learn, for every metric and dtype of points.

Values are compared too, to what float32 keeps: a product in the points' own integers, or a distance
made in another precision, shows here.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster
import sklearn.metrics
import sklearn.neighbors
from tests.neighbors.datasets import ALL

from infinitensor import cluster, metrics, neighbors

EVERY = ["float64", "float32", "float16", "int64", "uint8", "bool"]
DTYPES = EVERY if ALL else ["float32", "int64"]
NAMES = sorted(set(sklearn.neighbors.VALID_METRICS["brute"]) | {"infinity", "p", "sokalmichener"})
SPARSE = ["euclidean", "l2", "l1", "cosine", "minkowski"]
LABELS = np.arange(40) % 3
RNG = np.random.default_rng(0)
POINTS = RNG.integers(0, 9, (40, 4)) + RNG.integers(1, 8, (40, 4)) / 8  # exact in float16
N, M, C = ((neighbors, sklearn.neighbors), (metrics, sklearn.metrics), (cluster, sklearn.cluster))


def points(metric: str, dtype: str) -> Any:
    if metric == "precomputed":
        return np.abs(POINTS[:, :1] - POINTS[:, 0]).astype(dtype)
    return (POINTS[:, :2] if metric == "haversine" else POINTS).astype(dtype)


def params_of(metric: str) -> dict[str, Any]:
    known = {"mahalanobis": {"VI": np.diag([1.0, 2, 3, 4])}, "seuclidean": {"V": POINTS.var(0)}}
    return dict(known.get(metric, {}))


def described(value: Any) -> Any:
    """Types and dtypes, through tuples, sparse matrices and rows of different lengths."""
    if isinstance(value, tuple):
        return tuple(map(described, value))
    if scipy.sparse.issparse(value):
        return type(value), value.dtype, value.indices.dtype, value.indptr.dtype
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {row.dtype for row in value}
    return type(value), getattr(value, "dtype", None)


def flat(value: Any) -> Any:
    """Distances, in an order in which ties do not show; what counts places is left out."""
    if isinstance(value, tuple):
        return [number for one in value for number in flat(one)]
    if scipy.sparse.issparse(value):
        return np.sort(value.toarray(), axis=1).ravel().tolist()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.sort(np.concatenate(value).astype(float)).tolist()
    value = np.asarray(value)
    return [] if value.dtype.kind != "f" else np.sort(value.astype(float), axis=-1).ravel().tolist()


def assert_alike(ask: Any, *arguments: Any, values: bool = True) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sets, semi-metrics: said by both, tested elsewhere
        ours, theirs = (ask(which, *arguments) for which in (0, 1))
    assert described(ours) == described(theirs)
    if values:
        np.testing.assert_allclose(flat(ours), flat(theirs), rtol=1e-4, atol=1e-3)


def of_search(which: int, x: Any, asked: Any, named: dict[str, Any]) -> Any:
    model = N[which].NearestNeighbors(n_neighbors=3, radius=1.3, **named).fit(x)
    return (
        model.kneighbors(asked),
        model.kneighbors(),
        model.radius_neighbors(asked),
        model.radius_neighbors(asked, sort_results=True),
        model.kneighbors_graph(asked, mode="distance"),
        model.kneighbors_graph(asked),
        model.radius_neighbors_graph(asked, mode="distance"),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", NAMES)
def test_searches(metric: str, dtype: str) -> None:
    x = points(metric, dtype)
    brute = sklearn.neighbors.VALID_METRICS["brute"]
    for algorithm in ("auto", "brute") if metric in brute else ("auto",):
        named = {"metric": metric, "metric_params": params_of(metric), "algorithm": algorithm}
        assert_alike(of_search, x, x, named)
        if metric != "precomputed":
            assert_alike(of_search, x, x[:7].astype("f4"), named)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", sorted(sklearn.neighbors.VALID_METRICS["brute"]))
def test_distances(metric: str, dtype: str) -> None:
    x, params = points(metric, dtype), params_of(metric)

    def of_pairs(which: int) -> Any:
        module = M[which]
        found = (
            module.pairwise_distances(x, metric=metric, **params),
            module.silhouette_samples(x, LABELS, metric=metric, **params),
        )
        if metric == "precomputed":
            return found
        named = {"metric": metric, "metric_kwargs": params}
        other = x[:9].astype("f4")
        return (
            *found,
            module.pairwise_distances(x, other, metric=metric, **params),
            module.pairwise_distances_argmin(x, x[:9], **named),
            module.pairwise_distances_argmin_min(x, x[:9], **named),
            module.pairwise_distances_argmin_min(x, other, **named),
        )

    assert_alike(of_pairs)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "float16"])
@pytest.mark.parametrize("metric", SPARSE)
def test_sparse_points(metric: str, dtype: str) -> None:
    x = scipy.sparse.csr_matrix(np.where(POINTS > 4, POINTS, 0).astype(dtype))
    assert_alike(of_search, x, x, {"metric": metric})
    if metric == "minkowski":
        return
    assert_alike(lambda which: M[which].pairwise_distances(x, metric=metric))
    assert_alike(lambda which: M[which].pairwise_distances_argmin_min(x, x[:9], metric=metric))
    assert_alike(lambda which: M[which].silhouette_samples(x, LABELS, metric=metric))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sparse_graphs(dtype: str) -> None:
    apart = np.abs(POINTS[:, :1] - POINTS[:, 0])
    graph = scipy.sparse.csr_matrix(np.where(apart < 6, apart, 0).astype(dtype))
    x = sklearn.neighbors.sort_graph_by_row_values(graph, copy=True, warn_when_not_sorted=False)

    def of_graph(which: int) -> Any:
        model = N[which].NearestNeighbors(radius=2.0, metric="precomputed").fit(x)
        return model.kneighbors(x, 2), model.radius_neighbors(x)

    assert_alike(of_graph)


@pytest.mark.parametrize("metric", ["sqeuclidean", "minkowski", "canberra"])
def test_metrics_without_sparse_points_are_refused(metric: str) -> None:
    x = scipy.sparse.csr_matrix(POINTS)
    text = "scipy distance metrics do not support sparse matrices"
    with pytest.raises(TypeError, match=text):
        metrics.pairwise_distances(x, metric=metric)
    with pytest.raises(TypeError, match=text):
        metrics.silhouette_score(x, LABELS, metric=metric)
    with pytest.raises(TypeError, match=text):
        cluster.HDBSCAN(metric=metric, copy=True).fit(x)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_fitted(dtype: str, sparse: bool) -> None:
    if sparse and dtype == "float16":
        return  # SciPy has none
    x = (scipy.sparse.csr_matrix if sparse else np.asarray)(POINTS.astype(dtype))

    def of_centres(which: int, kind: str) -> Any:
        model = getattr(C[which], kind)(3, random_state=0).fit(x)
        names = ("cluster_centers_", "labels_", "inertia_", "n_iter_", "n_steps_")
        found = tuple(getattr(model, name, None) for name in names)
        return (*found, model.predict(x), model.transform(x), model.score(x))

    for kind in ("KMeans", "MiniBatchKMeans", "BisectingKMeans"):
        assert_alike(of_centres, kind, values=False)
    how: dict[str, Any] = {"random_state": 0, "return_n_iter": True}
    assert_alike(lambda which: C[which].k_means(x, 3, **how), values=False)
    if "float" in dtype:  # scikit-learn's overflows, or refuses, whole numbers
        assert_alike(lambda which: C[which].kmeans_plusplus(x, 3, random_state=0), values=False)
    assert_alike(lambda which: C[which].dbscan(x, 3.0), values=False)

    def of_density(which: int) -> Any:
        near = C[which].DBSCAN(eps=3.0).fit(x)
        deep = C[which].HDBSCAN(min_cluster_size=4, copy=True).fit(x)
        tree = deep._single_linkage_tree_
        found = near.labels_, near.core_sample_indices_, near.components_
        return (*found, deep.labels_, deep.probabilities_, tree)

    assert_alike(of_density, values=False)


@pytest.mark.parametrize("dtype", ["int64", "bool", "float32"])
def test_points_of_zeros_are_at_no_distance_from_themselves(dtype: str) -> None:
    x = np.vstack([np.zeros((2, 3)), np.eye(3), np.ones((2, 3))]).astype(dtype)
    for metric in ("cosine", "correlation", "dice", "russellrao"):
        assert_alike(of_search, x, x, {"metric": metric, "algorithm": "brute"})

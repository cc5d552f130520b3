"""HDBSCAN: core distances and the tree over pairs of points; the rest is scikit-learn's own."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.cluster as theirs
from sklearn.base import _fit_context
from sklearn.cluster._hdbscan._linkage import MST_edge_dtype
from sklearn.cluster._hdbscan._reachability import mutual_reachability_graph
from sklearn.cluster._hdbscan._tree import tree_to_labels
from sklearn.cluster._hdbscan.hdbscan import (
    _OUTLIER_ENCODING,
    FAST_METRICS,
    _brute_mst,
    _get_finite_row_indices,
    _process_mst,
    remap_single_linkage_tree,
)
from sklearn.neighbors import BallTree, KDTree
from sklearn.utils.validation import _allclose_dense_sparse

import infinitensor as it
from infinitensor.cluster._stable_clusters import stable_labels
from infinitensor.estimators.metric_names import check_sparse_metric
from infinitensor.estimators.points import on_host, points
from infinitensor.neighbors import NearestNeighbors
from infinitensor.neighbors._blocks import Given, Metric
from infinitensor.neighbors._search import Euclidean
from infinitensor.neighbors._tree import grouped_tree, prim_tree
from infinitensor.ops.points.prim import tree_of_rows

Array = Any

LEAST_GPU_TREE_POINTS = 4096
"""Points from which on a GPU finds the tree: of fewer the host finds Prim's in milliseconds."""


class HDBSCAN(theirs.HDBSCAN):  # type: ignore[misc]
    """scikit-learn's HDBSCAN on tiles: same parameters, labels, probabilities and tree.

    Core distances and the tree are those of scikit-learn's trees: direct differences in float64,
    ties to the smaller index. `leaf_size` and `n_jobs` are checked and change nothing.

    >>> import numpy as np
    >>> from infinitensor.cluster import HDBSCAN
    >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> HDBSCAN(min_cluster_size=3, copy=False).fit(x).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None) -> HDBSCAN:
        """Find the clusters of X, points or a matrix of distances (`metric="precomputed"`)."""
        if self.copy == "warn":
            text = "The default value of `copy` will change from False to True in 1.10."
            text += " Explicitly set a value for `copy` to silence this warning."
            warnings.warn(text, FutureWarning, stacklevel=3)
        if self.metric == "precomputed" and self.store_centers is not None:
            raise ValueError("Cannot store centers when using a precomputed distance matrix.")
        self._metric_params = self.metric_params or {}
        values = self._validate_points(X)
        finite = None
        if self.metric != "precomputed":
            self._raw_data = values
            finite = None if isinstance(values, it.Tensor) else _finite_rows(values)
        clustered = values if finite is None else values[finite]
        n = clustered.shape[0]
        if n == 1:
            raise ValueError("n_samples=1 while HDBSCAN requires more than one sample")
        self._min_samples = self.min_samples or self.min_cluster_size
        if self._min_samples > n:
            raise ValueError(
                f"min_samples ({self._min_samples}) must be at most the number of samples in X "
                f"({n})"
            )
        self._check_algorithm(clustered)
        self._single_linkage_tree_ = self._linkage(clustered)
        self.labels_, self.probabilities_ = self._labels()
        if finite is not None:
            self._add_rows_that_are_not_finite(values, finite)
        if self.store_centers:
            self._weighted_cluster_center(clustered)
        return self

    def _labels(self) -> tuple[Array, Array]:
        """Labels and probabilities of the single linkage tree."""
        tree, most = self._single_linkage_tree_, self.max_cluster_size
        if self.cluster_selection_method == "eom" and self.cluster_selection_epsilon == 0:
            return stable_labels(tree, self.min_cluster_size, self.allow_single_cluster, most)
        return tree_to_labels(  # type: ignore[no-any-return]
            tree,
            self.min_cluster_size,
            self.cluster_selection_method,
            self.allow_single_cluster,
            self.cluster_selection_epsilon,
            most,
        )

    def _validate_points(self, X: Any) -> Array:
        """Points that may have rows that are not finite, or a matrix of distances."""
        named: dict[str, Any] = {"dtype": np.float64, "accept_sparse": ["csr", "lil"]}
        if self.metric != "precomputed":
            named["ensure_all_finite"] = False
        elif not scipy.sparse.issparse(X):
            named = {"dtype": np.float64, "ensure_all_finite": False}
        given = points(X, self, **named)
        values: Any = given.sparse if given.dense is None else given.host
        if values is None:
            values = given.tensor if self._stays(given.tensor) else given.tensor.numpy()
        if self.metric == "precomputed" and given.dense is not None and np.isnan(values).any():
            raise ValueError("np.nan values found in precomputed-dense")
        return values

    def _stays(self, tensor: it.Tensor) -> bool:
        """Whether a tensor is clustered where it is: tile by tile, never in one memory."""
        names = (
            ("euclidean", "l2") if self.store_centers is None and self.algorithm != "brute" else ()
        )
        if self.metric not in names:
            return False
        return self._squares(tensor)

    @staticmethod
    def _squares(values: Array) -> bool:
        """Whether squares of distances do not overflow."""
        most = max(float(values.max()), -float(values.min()))
        return bool(4 * values.shape[1] * most * most < sys.float_info.max)

    def _by_groups(self, values: Array) -> bool:
        """Whether the tree is found by joining groups.

        So it is for what is not on the host, and on GPUs: Prim's steps are too small for them.
        """
        if isinstance(values, it.Tensor):
            return True
        if self.algorithm == "brute":
            return False
        many = it.Mesh.current().kind == "cuda" and len(values) > LEAST_GPU_TREE_POINTS
        return many and self.metric in ("euclidean", "l2") and self._squares(values)

    def _check_algorithm(self, values: Array) -> None:
        for algorithm, name, tree in (
            ("kd_tree", "KDTree", KDTree),
            ("ball_tree", "BallTree", BallTree),
        ):
            if self.algorithm == algorithm and self.metric not in tree.valid_metrics:
                raise ValueError(
                    f"{self.metric} is not a valid metric for a {name}-based algorithm. Please "
                    "select a different metric."
                )
        sparse = self.metric != "precomputed" and scipy.sparse.issparse(values)
        if sparse and self.algorithm not in ("auto", "brute"):
            raise ValueError("Sparse data matrices only support algorithm `brute`.")
        if sparse and isinstance(self.metric, str):
            check_sparse_metric(self.metric)

    def _linkage(self, values: Array) -> Array:
        """The single linkage tree."""
        sparse = scipy.sparse.issparse(values)
        brute = self.algorithm == "brute" or (
            self.algorithm == "auto" and (sparse or self.metric not in FAST_METRICS)
        )
        if self.metric == "precomputed":
            _check_distances(values)
            if sparse:
                return _process_mst(_checked_weights(self._sparse_tree(values)))
            search: Any = Given(values / self.alpha)
            core = _core_distances(search, self._min_samples)
            edges = tree_of_rows(lambda i: search.fitted[i], core, True)
            return _process_mst(_checked_weights(_as_edges(*edges)))
        params = {k: v for k, v in self._metric_params.items() if k != "max_distance"}
        model = NearestNeighbors(
            n_neighbors=self._min_samples,
            algorithm="brute" if brute else "auto",
            metric=self.metric,
            metric_params=params,
            p=params.get("p", 2),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # p is in both places
            search = model.fit(values)._make_search(by_pairs=brute)
        if isinstance(search, Euclidean) and self._by_groups(values):
            tree = grouped_tree(search.points, self._min_samples, self.alpha)
            return _process_mst(_as_edges(*tree))
        core = _core_distances(search, self._min_samples)
        if brute:
            core = core / self.alpha
        if isinstance(search, Euclidean) and not search.squared:
            edges = prim_tree(search.points, core, self.alpha, brute)
        else:
            edges = tree_of_rows(lambda i: _row(search, i) / self.alpha, core, brute)
        return _process_mst(_checked_weights(_as_edges(*edges)))

    def _sparse_tree(self, graph: Array) -> Array:
        """The tree of a sparse graph of distances, by SciPy."""
        graph = (graph / self.alpha).tocsr()
        most = self._metric_params.get("max_distance", 0.0)
        reach = mutual_reachability_graph(graph, min_samples=self._min_samples, max_distance=most)
        return _brute_mst(reach, min_samples=self._min_samples)

    def _add_rows_that_are_not_finite(self, values: Array, finite: Array) -> None:
        """They join the tree last, and have labels of their own."""
        total = np.asarray(values.sum(axis=1)).reshape(-1)
        labels = np.empty(values.shape[0], np.int32)
        probabilities = np.zeros(values.shape[0])
        labels[finite], probabilities[finite] = self.labels_, self.probabilities_
        rows = {"infinite": np.isinf(total), "missing": np.isnan(total)}
        for kind, at in rows.items():
            labels[at] = _OUTLIER_ENCODING[kind]["label"]
            probabilities[at] = _OUTLIER_ENCODING[kind]["prob"]
        self.labels_, self.probabilities_ = labels, probabilities
        places = np.hstack([np.flatnonzero(at) for at in rows.values()])
        self._single_linkage_tree_ = remap_single_linkage_tree(
            self._single_linkage_tree_, dict(enumerate(finite)), non_finite=set(places)
        )

    def _weighted_cluster_center(self, X: Array) -> None:
        """Centroids weighted by probability, medoids by the weighted distances of their cluster."""
        labels = (
            self.labels_ if len(self.labels_) == X.shape[0] else self.labels_[self.labels_ > -2]
        )
        strength = self.probabilities_
        if len(strength) != len(labels):
            strength = strength[self.labels_ > -2]
        n_clusters = int(labels.max(initial=-1)) + 1
        shape = (n_clusters, X.shape[1])
        if self.store_centers in ("centroid", "both"):
            self.centroids_ = np.empty(shape)
        if self.store_centers in ("medoid", "both"):
            self.medoids_ = np.empty(shape)
        for label in range(n_clusters):
            of_label = labels == label
            members, weight = X[of_label], strength[of_label]
            if self.store_centers in ("centroid", "both"):
                self.centroids_[label] = np.average(members, weights=weight, axis=0)
            if self.store_centers in ("medoid", "both"):
                self.medoids_[label] = members[self._medoid(members, weight)]

    def _medoid(self, members: Array, weight: Array) -> int:
        search = Metric(members, self.metric, self._metric_params, by_pairs=True)
        total = np.concatenate([block.numpy() @ weight for _, block in search.blocks(None)])
        return int(np.argmin(total))


def _finite_rows(values: Array) -> Array | None:
    """Places of the rows that are finite; None if all are."""
    entries = values.data if scipy.sparse.issparse(values) else values
    if scipy.sparse.issparse(values) and values.format == "lil":
        entries = values.tocsr().data
    return None if np.isfinite(entries).all() else _get_finite_row_indices(values)


def _check_distances(values: Array) -> None:
    if values.shape[0] != values.shape[1]:
        raise ValueError(
            "The precomputed distance matrix is expected to be symmetric, however it has shape "
            f"{values.shape}. Please verify that the distance matrix was constructed correctly."
        )
    if not _allclose_dense_sparse(values, values.T):
        raise ValueError(
            "The precomputed distance matrix is expected to be symmetric, however its values "
            "appear to be asymmetric. Please verify that the distance matrix was constructed "
            "correctly."
        )


def _core_distances(search: Any, k: int) -> Array:
    """The distance of each point to its k-th nearest, itself counted."""
    apart, _ = search.nearest(None, k)
    return np.ascontiguousarray(apart[:, -1])


def _row(search: Metric | Euclidean, i: int) -> Array:
    """Distances of one point to all."""
    if isinstance(search, Euclidean):  # squared ones
        rows = on_host(search.points.rows)
        place = search.points.order
        mine = rows[np.flatnonzero(place == i)[0]]
        return search.points.as_given(((rows - mine) ** 2).sum(1))
    return search.row(i)


def _as_edges(source: Array, target: Array, weight: Array) -> Array:
    edges = np.empty(len(weight), MST_edge_dtype)
    edges["current_node"], edges["next_node"], edges["distance"] = source, target, weight
    return edges


def _checked_weights(edges: Array) -> Array:
    if np.isinf(edges["distance"]).any():
        warnings.warn(
            "The minimum spanning tree contains edge weights with value infinity. Potentially, you "
            "are missing too many distances in the initial distance matrix for the given "
            "neighborhood size.",
            UserWarning,
            stacklevel=4,
        )
    return edges

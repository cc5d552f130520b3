"""DBSCAN: counts, components and borders as ops over pairs of points."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.cluster as theirs
from scipy.sparse.csgraph import connected_components
from sklearn.base import _fit_context
from sklearn.neighbors import sort_graph_by_row_values
from sklearn.utils.validation import _check_sample_weight

import infinitensor as it
from infinitensor.estimators.checked_functions import like
from infinitensor.estimators.points import points
from infinitensor.neighbors import NearestNeighbors
from infinitensor.neighbors._euclidean import density_labels
from infinitensor.neighbors._search import Euclidean

Array = Any


class DBSCAN(theirs.DBSCAN):  # type: ignore[misc]
    """scikit-learn's DBSCAN on tiles: same parameters, same labels.

    Memory grows with the points, not with their pairs, for Euclidean distances of dense points:
    these are compared as d*d <= eps*eps, in float64 by direct differences, as scikit-learn's trees
    do. `algorithm`, `leaf_size` and `n_jobs` are checked and change nothing.

    >>> import numpy as np
    >>> from infinitensor.cluster import DBSCAN
    >>> DBSCAN(eps=1.5, min_samples=2).fit_predict(np.array([[0.0], [1.0], [9.0]])).tolist()
    [0, 0, -1]
    """

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DBSCAN:
        """Find the clusters of X, points or a matrix of distances (`metric="precomputed"`)."""
        given = points(X, self, dtype="numeric", accept_sparse="csr")
        values: Any = given.sparse if given.dense is None else given.host
        values = given.dense if values is None else values
        weight = None
        if sample_weight is not None:
            stand_in = np.empty((given.n, 0)) if given.host is None else values
            weight = _check_sample_weight(sample_weight, stand_in)
        if self.metric == "precomputed" and given.dense is None:
            values = _with_diagonal(values)
        model = NearestNeighbors(
            radius=self.eps,
            algorithm=self.algorithm,
            leaf_size=self.leaf_size,
            metric=self.metric,
            metric_params=self.metric_params,
            p=self.p,
            n_jobs=self.n_jobs,
        ).fit(values)
        search = model._make_search()
        if isinstance(search, Euclidean) and not search.squared:
            limit = float(self.eps) * float(self.eps)
            self.labels_, cores = density_labels(search.points, limit, self.min_samples, weight)
        else:
            asked = values if self.metric == "precomputed" else None
            starts, number, _ = search.within(asked, self.eps, False)
            self.labels_, cores = _labels_of_graph(starts, number, self.min_samples, weight)
        self.core_sample_indices_ = cores
        self.components_ = _rows(values, cores) if len(cores) else np.empty((0, given.d))
        return self


def _rows(values: Array, chosen: Array) -> Array:
    """Some rows as a host array, a few at a time where they come from elsewhere."""
    if not isinstance(values, it.Tensor):
        return values[chosen].copy()
    step = max((1 << 16) // max(values.shape[1], 1), 1)
    parts = []
    for lo in range(0, values.shape[0], step):
        mine = chosen[(chosen >= lo) & (chosen < lo + step)]
        if len(mine):
            parts.append(values[lo : lo + step].numpy()[mine - lo])
    return np.concatenate(parts)


def _with_diagonal(graph: Array) -> Array:
    """A sparse graph of distances in which each point is its own neighbour, sorted in rows."""
    graph = graph.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.sparse.SparseEfficiencyWarning)
        graph.setdiag(graph.diagonal())
        return sort_graph_by_row_values(graph, warn_when_not_sorted=False)


def _labels_of_graph(
    starts: Array, number: Array, least: float, weight: Array | None
) -> tuple[Array, Array]:
    """Labels and core points from the neighbours of each point."""
    n = len(starts) - 1
    row = np.repeat(np.arange(n), np.diff(starts))
    if weight is None:
        total: Array = np.diff(starts)
    else:
        total = np.bincount(row, weights=weight[number], minlength=n)
    is_core = total >= least
    from_core = is_core[row]
    both = from_core & is_core[number]
    edges = scipy.sparse.coo_array(
        (np.ones(int(both.sum()), np.int8), (row[both], number[both])), shape=(n, n)
    )
    _, component = connected_components(edges, directed=False)
    labels = np.full(n, -1, np.intp)
    cores = np.flatnonzero(is_core)
    _, first, member = np.unique(component[cores], return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    labels[cores] = rank[member]
    border = np.full(n, np.iinfo(np.intp).max)
    reached = from_core & ~is_core[number]
    np.minimum.at(border, number[reached], labels[row[reached]])
    taken = border < np.iinfo(np.intp).max
    labels[taken] = border[taken]
    return labels, cores


@like(theirs.dbscan, "X", asks=True)
def dbscan(
    X: Any,
    eps: float = 0.5,
    *,
    min_samples: int = 5,
    metric: Any = "minkowski",
    metric_params: dict[str, Any] | None = None,
    algorithm: str = "auto",
    leaf_size: int = 30,
    p: float | None = 2,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> tuple[Array, Array]:
    """The core points and the labels of DBSCAN.

    >>> from infinitensor.cluster import dbscan
    >>> dbscan([[1, 2], [2, 2], [2, 3], [25, 80]], eps=3, min_samples=2)[1].tolist()
    [0, 0, 0, -1]
    """
    model = DBSCAN(
        eps=eps,
        min_samples=min_samples,
        metric=metric,
        metric_params=metric_params,
        algorithm=algorithm,
        leaf_size=leaf_size,
        p=p,
        n_jobs=n_jobs,
    )
    model.fit(X, sample_weight=sample_weight)
    return model.core_sample_indices_, model.labels_

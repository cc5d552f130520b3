"""Graphs of neighbours, as functions."""

from __future__ import annotations

from typing import Any

import sklearn.neighbors as theirs
from sklearn.neighbors._graph import _check_params, _query_include_self

from infinitensor.estimators.checked_functions import like
from infinitensor.neighbors._nearest import NearestNeighbors


def _fit(X: Any, kind: type, metric: Any, p: float, params: Any, **how: Any) -> Any:
    """An estimator of the right kind as it is, or one of ours fitted to points."""
    if isinstance(X, kind):
        _check_params(X, metric, p, params)
        return X
    return NearestNeighbors(metric=metric, p=p, metric_params=params, **how).fit(X)


@like(theirs.kneighbors_graph, "X", asks=True)
def kneighbors_graph(
    X: Any,
    n_neighbors: int,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: Any = False,
    n_jobs: int | None = None,
) -> Any:
    """The graph of the nearest neighbours of each point, as a sparse matrix in rows.

    >>> from infinitensor.neighbors import kneighbors_graph
    >>> kneighbors_graph([[0.0], [3.0], [1.0]], 1).toarray().tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    how = {"n_neighbors": n_neighbors, "n_jobs": n_jobs}
    fitted = _fit(X, theirs._base.KNeighborsMixin, metric, p, metric_params, **how)
    query = _query_include_self(fitted._fit_X, include_self, mode)
    return fitted.kneighbors_graph(X=query, n_neighbors=n_neighbors, mode=mode)


@like(theirs.radius_neighbors_graph, "X", asks=True)
def radius_neighbors_graph(
    X: Any,
    radius: float,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: Any = False,
    n_jobs: int | None = None,
) -> Any:
    """The graph of the neighbours of each point within a radius, as a sparse matrix in rows.

    >>> from infinitensor.neighbors import radius_neighbors_graph
    >>> radius_neighbors_graph([[0.0], [3.0], [1.0]], 1.5).toarray().tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    how = {"radius": radius, "n_jobs": n_jobs}
    fitted = _fit(X, theirs._base.RadiusNeighborsMixin, metric, p, metric_params, **how)
    query = _query_include_self(fitted._fit_X, include_self, mode)
    return fitted.radius_neighbors_graph(query, radius, mode)

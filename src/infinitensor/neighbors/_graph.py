"""Graphs of neighbours, as functions."""

from __future__ import annotations

import os
from typing import Any

import sklearn.neighbors as theirs
from sklearn.neighbors._graph import _check_params, _query_include_self
from sklearn.utils._param_validation import validate_params

from infinitensor.neighbors._nearest import NearestNeighbors


def _with_paths(function: Any) -> dict[str, Any]:
    """What scikit-learn's function takes, and paths of files as points."""
    known: dict[str, Any] = function._skl_parameter_constraints
    return {**known, "X": [*known["X"], str, os.PathLike]}


_constraints_k = _with_paths(theirs.kneighbors_graph)
_constraints_radius = _with_paths(theirs.radius_neighbors_graph)


@validate_params(_constraints_k, prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
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
    if isinstance(X, theirs._base.KNeighborsMixin):
        _check_params(X, metric, p, metric_params)
    else:
        X = NearestNeighbors(
            n_neighbors=n_neighbors, metric=metric, p=p, metric_params=metric_params, n_jobs=n_jobs
        ).fit(X)
    query = _query_include_self(X._fit_X, include_self, mode)
    return X.kneighbors_graph(X=query, n_neighbors=n_neighbors, mode=mode)


@validate_params(_constraints_radius, prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
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
    if isinstance(X, theirs._base.RadiusNeighborsMixin):
        _check_params(X, metric, p, metric_params)
    else:
        X = NearestNeighbors(
            radius=radius, metric=metric, p=p, metric_params=metric_params, n_jobs=n_jobs
        ).fit(X)
    query = _query_include_self(X._fit_X, include_self, mode)
    return X.radius_neighbors_graph(query, radius, mode)

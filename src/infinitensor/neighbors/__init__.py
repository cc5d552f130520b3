"""scikit-learn's nearest neighbours on tiles.

`docs/clustering.md` says which names run here and which run scikit-learn's own code. Its compiled
trees (`KDTree`, `BallTree`) are not here.
"""

from __future__ import annotations

from typing import Any

import sklearn.neighbors as _theirs

from infinitensor.estimators.fallback import fallbacks as _fallbacks
from infinitensor.neighbors._graph import kneighbors_graph, radius_neighbors_graph
from infinitensor.neighbors._nearest import NearestNeighbors

__all__ = [
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "KernelDensity",
    "LocalOutlierFactor",
    "NearestCentroid",
    "NearestNeighbors",
    "NeighborhoodComponentsAnalysis",
    "RadiusNeighborsClassifier",
    "RadiusNeighborsRegressor",
    "RadiusNeighborsTransformer",
    "kneighbors_graph",
    "radius_neighbors_graph",
    "sort_graph_by_row_values",
]
globals().update(_fallbacks(__name__, _theirs, [name for name in __all__ if name not in globals()]))


def __getattr__(name: str) -> Any:  # for type checkers: the names are made above
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

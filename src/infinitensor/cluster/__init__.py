"""scikit-learn's clustering on tiles: every public name of `sklearn.cluster`.

`docs/clustering.md` says which run here and which run scikit-learn's own code.
"""

from __future__ import annotations

from typing import Any

import sklearn.cluster as _theirs

from infinitensor.cluster._dbscan import DBSCAN as DBSCAN
from infinitensor.cluster._dbscan import dbscan as dbscan
from infinitensor.cluster._hdbscan import HDBSCAN as HDBSCAN
from infinitensor.cluster.bisecting import BisectingKMeans as BisectingKMeans
from infinitensor.cluster.kmeans import KMeans as KMeans
from infinitensor.cluster.kmeans import k_means as k_means
from infinitensor.cluster.kmeans import kmeans_plusplus as kmeans_plusplus
from infinitensor.cluster.minibatch import MiniBatchKMeans as MiniBatchKMeans
from infinitensor.estimators.fallback import fallbacks as _fallbacks

__all__ = sorted(_theirs.__all__)
globals().update(_fallbacks(__name__, _theirs, [name for name in __all__ if name not in globals()]))


def __getattr__(name: str) -> Any:  # for type checkers: the names are made above
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

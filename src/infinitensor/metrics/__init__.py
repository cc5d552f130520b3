"""scikit-learn's clustering scores and pairwise distances on tiles.

`docs/clustering.md` says which names run here and which run scikit-learn's own code.
"""

from __future__ import annotations

from typing import Any

import sklearn.metrics as _theirs

from infinitensor.estimators.fallback import fallbacks as _fallbacks
from infinitensor.metrics._pairwise import (
    pairwise_distances,
    pairwise_distances_argmin,
    pairwise_distances_argmin_min,
)
from infinitensor.metrics._supervised import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    completeness_score,
    consensus_score,
    contingency_matrix,
    entropy,
    expected_mutual_information,
    fowlkes_mallows_score,
    homogeneity_completeness_v_measure,
    homogeneity_score,
    mutual_info_score,
    normalized_mutual_info_score,
    pair_confusion_matrix,
    rand_score,
    v_measure_score,
)
from infinitensor.metrics._unsupervised import (
    calinski_harabasz_score,
    davies_bouldin_score,
    silhouette_samples,
    silhouette_score,
)

__all__ = [
    "adjusted_mutual_info_score",
    "adjusted_rand_score",
    "calinski_harabasz_score",
    "completeness_score",
    "consensus_score",
    "contingency_matrix",
    "davies_bouldin_score",
    "entropy",
    "euclidean_distances",
    "expected_mutual_information",
    "fowlkes_mallows_score",
    "homogeneity_completeness_v_measure",
    "homogeneity_score",
    "mutual_info_score",
    "nan_euclidean_distances",
    "normalized_mutual_info_score",
    "pair_confusion_matrix",
    "pairwise_distances",
    "pairwise_distances_argmin",
    "pairwise_distances_argmin_min",
    "pairwise_distances_chunked",
    "pairwise_kernels",
    "rand_score",
    "silhouette_samples",
    "silhouette_score",
    "v_measure_score",
]
globals().update(_fallbacks(__name__, _theirs, [name for name in __all__ if name not in globals()]))


def __getattr__(name: str) -> Any:  # for type checkers: the names are made above
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

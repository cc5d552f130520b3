"""Sparse points: the k-means family finds scikit-learn's labels on every set, thinned."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster
from tests.cluster.sets import CONTINUOUS, sample

import infinitensor as it
import infinitensor.cluster

pytestmark = pytest.mark.filterwarnings("error")
FEW = ("two axes", "d = 15", "d = 16", "sparse, d = 300")
OPTIONS = {
    "KMeans": {"n_clusters": 5},
    "MiniBatchKMeans": {"n_clusters": 4, "batch_size": 100},
    "BisectingKMeans": {"n_clusters": 4},
}


def thinned(name: str, dtype: str) -> scipy.sparse.csr_matrix:
    """Half of the values of a set, about their mean; some rows have none."""
    x = CONTINUOUS[name]()
    if scipy.sparse.issparse(x):
        return x.astype(dtype)
    x = x - x.mean(0)
    kept = np.random.default_rng(1).random(x.shape) < 0.5
    kept[::29] = False
    return scipy.sparse.csr_matrix(np.where(kept, x, 0).astype(dtype))


@pytest.mark.parametrize("estimator", OPTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sample(CONTINUOUS, FEW))
def test_labels_of_sparse_points_are_scikit_learns(name: str, dtype: str, estimator: str) -> None:
    x = thinned(name, dtype)
    weights = np.random.default_rng(0).random(x.shape[0])
    for weighed in (None, weights):
        ours, theirs = (
            getattr(module, estimator)(random_state=2, **OPTIONS[estimator])
            for module in (infinitensor.cluster, sklearn.cluster)
        )
        ours.fit(x, sample_weight=weighed)
        theirs.fit(x, sample_weight=weighed)
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        rtol = 1e-7 if dtype == "float64" else 1e-3
        atol = rtol * np.abs(theirs.cluster_centers_).max()
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol, atol)
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=10 * rtol)
    assert it.stats()["sklearn_fallbacks"] == 0

"""Distances of pairs and the nearest by them are scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.metrics as theirs
from numpy.testing import assert_allclose, assert_array_equal
from tests.metrics.sets import SETS, near

from infinitensor import metrics as ours

METRICS = (
    "euclidean", "cityblock", "cosine", "sqeuclidean", "correlation", "chebyshev", "canberra",
    "minkowski", "hamming", "seuclidean", "mahalanobis", "nan_euclidean",
)  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["iris", "blobs d=15", "float32 d=3", "grid", "integers"])
def test_distances_are_scikit_learns(name: str, metric: str, cut: Any) -> None:
    x = SETS[name][0][:80]
    y = SETS[name][0][100:150]
    got, want = (module.pairwise_distances(x, metric=metric) for module in (ours, theirs))
    assert got.dtype == want.dtype
    assert_allclose(got, want, rtol=near(x), atol=1e-5 if x.dtype == np.float32 else 2e-7)
    if metric in ("seuclidean", "mahalanobis"):
        with pytest.raises(ValueError, match=f"required for the {metric} metric when Y is passed"):
            ours.pairwise_distances(x, y, metric=metric)
        return
    got, want = (module.pairwise_distances(x, y, metric=metric) for module in (ours, theirs))
    assert_allclose(got, want, rtol=near(x), atol=1e-5 if x.dtype == np.float32 else 2e-7)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "sqeuclidean", "chebyshev", "cosine"])
@pytest.mark.parametrize("name", ["wine", "blobs d=16", "float32 d=40", "offset", "iris", "digits"])
def test_the_nearest_are_scikit_learns(name: str, metric: str, cut: Any) -> None:
    x = SETS[name][0]
    y = x[::7] + np.asarray(0.01, x.dtype)
    for axis in (0, 1):
        got, want = (
            module.pairwise_distances_argmin_min(x, y, axis=axis, metric=metric)
            for module in (ours, theirs)
        )
        for mine, their in zip(got, want, strict=True):
            assert mine.dtype == their.dtype or metric == "cosine"
        assert_allclose(got[1], want[1], rtol=near(x), atol=1e-6)
        if name not in ("iris", "digits"):  # there scikit-learn's products decide ties
            assert_array_equal(got[0], want[0])
        again = ours.pairwise_distances_argmin(x, y, axis=axis, metric=metric)
        assert_array_equal(again, got[0])


def test_a_metric_that_is_a_function() -> None:
    x, labels = SETS["iris"]

    def far(a: Any, b: Any) -> float:
        return float(np.abs(a - b).max())

    got, want = (module.silhouette_samples(x, labels, metric=far) for module in (ours, theirs))
    assert_allclose(got, want)
    assert_array_equal(
        ours.pairwise_distances(x[:20], metric=far), theirs.pairwise_distances(x[:20], metric=far)
    )


def test_second_points_are_taken_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from infinitensor.estimators import metric_names

    x, labels = SETS["blobs d=15"]
    want = ours.pairwise_distances(x), ours.silhouette_samples(x, labels)
    nearest = ours.pairwise_distances_argmin_min(x, x[::3])
    monkeypatch.setattr(metric_names, "CHUNK_ELEMENTS", 15 * 64)
    got = ours.pairwise_distances(x), ours.silhouette_samples(x, labels)
    for mine, whole in zip((*got, *ours.pairwise_distances_argmin_min(x, x[::3])),
                           (*want, *nearest), strict=True):  # fmt: skip
        assert_allclose(mine, whole, rtol=1e-9, atol=1e-6)

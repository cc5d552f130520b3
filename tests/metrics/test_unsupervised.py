"""Scores of points and labels are scikit-learn's, and never n by n."""

from __future__ import annotations

from typing import Any

import pytest
import sklearn.metrics as theirs
from numpy.testing import assert_allclose
from tests.metrics.sets import SETS, blobs, near

import infinitensor as it
from infinitensor import metrics as ours

UNSUPERVISED = ("silhouette_score", "calinski_harabasz_score", "davies_bouldin_score")


@pytest.mark.parametrize("name", SETS)
def test_scores_of_points_are_scikit_learns(name: str, cut: Any) -> None:
    x, labels = SETS[name]
    for score in UNSUPERVISED:
        got, want = (getattr(module, score)(x, labels) for module in (ours, theirs))
        assert type(got) is float
        assert_allclose(got, want, rtol=near(x), err_msg=score)
    got, want = (module.silhouette_samples(x, labels) for module in (ours, theirs))
    assert got.dtype == want.dtype
    assert_allclose(got, want, rtol=near(x), atol=near(x))
    assert it.stats()["sklearn_fallbacks"] == 0


@pytest.mark.parametrize("metric", ["cityblock", "cosine", "jaccard", "correlation", "precomputed"])
def test_silhouettes_by_any_metric(metric: str, cut: Any) -> None:
    x, labels = SETS["wine"]
    x = x > x.mean(0) if metric == "jaccard" else x
    x = theirs.pairwise_distances(x) if metric == "precomputed" else x
    got, want = (module.silhouette_samples(x, labels, metric=metric) for module in (ours, theirs))
    assert_allclose(got, want, rtol=1e-7, atol=1e-9)


def test_a_silhouette_is_never_n_by_n(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = blobs(6000, 4, 5)
    with it.init("cpu", memory="24MiB"):
        got = ours.silhouette_score(x, labels)
        assert max(it.stats()["peak_bytes"].values()) < 24 << 20 < 6000 * 6000 * 8
    assert_allclose(got, theirs.silhouette_score(x, labels))

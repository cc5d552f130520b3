"""Scores and distances equal scikit-learn's: many data sets, tilings, 1 to 3 devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.sparse
import sklearn.metrics as theirs
from numpy.testing import assert_allclose
from tests.metrics.sets import SETS

import infinitensor as it
from infinitensor import metrics as ours

if TYPE_CHECKING:
    from pathlib import Path


UNSUPERVISED = ("silhouette_score", "calinski_harabasz_score", "davies_bouldin_score")


def test_files_tensors_and_lazy_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = SETS["blobs d=16"]
    np.save(tmp_path / "x.npy", x)
    for given in (it.asarray(x), tmp_path / "x.npy", str(tmp_path / "x.npy")):
        for score in UNSUPERVISED:
            got = getattr(ours, score)(given, labels)
            assert_allclose(got, getattr(theirs, score)(x, labels))
        assert_allclose(
            ours.pairwise_distances(given, metric="cityblock"),
            theirs.pairwise_distances(x, metric="cityblock"),
        )
    codes = it.asarray(labels)
    assert ours.adjusted_rand_score(codes, codes) == 1.0
    assert ours.silhouette_score(it.asarray(x), codes, sample_size=50, random_state=3) == (
        pytest.approx(theirs.silhouette_score(x, labels, sample_size=50, random_state=3))
    )
    monkeypatch.setattr(it.config, "lazy_results", True)
    found = ours.pairwise_distances(it.asarray(x))
    assert isinstance(found, it.Tensor)
    assert_allclose(found.numpy(), theirs.pairwise_distances(x), atol=1e-6)
    assert isinstance(ours.pairwise_distances_argmin(x, x[:9]), it.Tensor)
    assert isinstance(ours.silhouette_samples(x, labels), it.Tensor)


def test_errors_are_scikit_learns() -> None:
    x, labels = SETS["iris"]
    with pytest.raises(ValueError, match=r"Number of labels is 1\. Valid values are 2 to"):
        ours.silhouette_score(x, np.zeros(150))
    with pytest.raises(ValueError, match="Found input variables with inconsistent numbers"):
        ours.davies_bouldin_score(x, labels[:-1])
    with pytest.raises(ValueError, match="Found input variables with inconsistent numbers"):
        ours.davies_bouldin_score(it.asarray(x), labels[:-1])
    with pytest.raises(ValueError, match="Incompatible dimension for X and Y matrices"):
        ours.pairwise_distances(it.asarray(x), x[:, :2])
    with pytest.raises(ValueError, match=r"The 'metric' parameter of pairwise_distances must be"):
        ours.pairwise_distances(x, metric="nothing")
    with pytest.raises(ValueError, match="non-zero elements on the diagonal"):
        ours.silhouette_samples(np.ones((9, 9)), np.arange(9) % 3, metric="precomputed")
    with pytest.raises(TypeError, match="scipy distance metrics do not support sparse"):
        ours.pairwise_distances(scipy.sparse.csr_array(x), metric="canberra")

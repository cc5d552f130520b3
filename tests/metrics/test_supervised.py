"""Scores against true labels are scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.metrics as theirs
from numpy.testing import assert_allclose, assert_array_equal
from tests.metrics.sets import SETS

from infinitensor import metrics as ours

SUPERVISED = (
    "adjusted_mutual_info_score", "adjusted_rand_score", "completeness_score",
    "fowlkes_mallows_score", "homogeneity_score", "mutual_info_score",
    "normalized_mutual_info_score", "rand_score", "v_measure_score",
)  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_scores_against_the_truth_are_scikit_learns(name: str, cut: Any) -> None:
    _, labels = SETS[name]
    rng = np.random.default_rng(len(labels))
    found = np.where(rng.uniform(size=len(labels)) < 0.7, np.unique(labels, return_inverse=True)[1],
                     rng.integers(0, 4, len(labels)))  # fmt: skip
    for score in SUPERVISED:
        got, want = (getattr(module, score)(labels, found) for module in (ours, theirs))
        assert type(got) is float
        assert_allclose(got, want, rtol=1e-12, atol=1e-14, err_msg=score)
    for exact in ("contingency_matrix", "pair_confusion_matrix"):
        got, want = (getattr(module, exact)(labels, found) for module in (ours, theirs.cluster))
        assert got.dtype == want.dtype
        assert_array_equal(got, want)
    assert_array_equal(
        ours.contingency_matrix(labels, found, sparse=True).toarray(),
        ours.contingency_matrix(labels, found),
    )

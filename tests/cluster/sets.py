"""Data sets on which results are compared with scikit-learn's, small enough to be many."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs

ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"


def blobs(n: int, d: int, k: int, seed: int, spread: float = 1.0) -> Any:
    return make_blobs(n, d, centers=k, cluster_std=spread, random_state=seed)[0]


def _even(n: int, d: int, seed: int) -> Any:
    return np.random.default_rng(seed).random((n, d))


def _with_copies(seed: int) -> Any:
    x = blobs(300, 6, 5, seed)
    return np.concatenate([x, x[:100], x[:50]])


def _sparse(n: int, d: int, seed: int) -> Any:
    x = np.random.default_rng(seed).random((n, d))
    x[x < 0.7] = 0
    x[: n // 50] = 0  # rows without entries
    return scipy.sparse.csr_matrix(x)


CONTINUOUS: dict[str, Any] = {
    "one axis": lambda: blobs(700, 1, 4, 0),
    "two axes": lambda: blobs(900, 2, 5, 1),
    "three axes": lambda: blobs(1500, 3, 8, 2, 3.0),
    "d = 15": lambda: blobs(800, 15, 6, 3),
    "d = 16": lambda: blobs(800, 16, 6, 4),
    "d = 17, mixed": lambda: blobs(800, 17, 6, 5, 8.0),
    "d = 64": lambda: blobs(600, 64, 7, 6, 5.0),
    "d = 200": lambda: blobs(300, 200, 4, 7),
    "even": lambda: _even(1200, 2, 8),
    "even, d = 10": lambda: _even(1000, 10, 9),
    "even, d = 33": lambda: _even(700, 33, 10),
    "far from the origin": lambda: blobs(700, 5, 6, 11) + 1e4,
    "unlike scales": lambda: blobs(700, 4, 6, 12) * [1e-3, 1.0, 1e3, 1e2],
    "a constant column": lambda: np.c_[blobs(600, 3, 5, 13), np.full(600, 7.0)],
    "copies of points": lambda: _with_copies(14),
    "iris": lambda: load_iris().data + np.random.default_rng(15).normal(0, 1e-3, (150, 4)),
    "wine": lambda: load_wine().data,
    "breast cancer": lambda: load_breast_cancer().data,
    "Fortran order": lambda: np.asfortranarray(blobs(700, 7, 5, 16)),
    "every other row": lambda: blobs(1400, 7, 5, 17)[::2],
    "few points": lambda: blobs(12, 3, 3, 18),
    "sparse": lambda: _sparse(800, 30, 19),
    "sparse, d = 300": lambda: _sparse(400, 300, 20),
}
"""Sets without ties: labels are equal."""

TIED: dict[str, Any] = {
    "digits": lambda: load_digits().data,
    "grid": lambda: np.random.default_rng(21).integers(0, 4, (500, 3)).astype(float),
    "a line of integers": lambda: np.arange(400.0).reshape(-1, 1),
    "two values": lambda: np.repeat([[0.0, 0], [1, 1]], 50, axis=0),
}
"""Sets full of ties, which scikit-learn itself decides by its last bits."""


def uncentred(few: tuple[str, ...]) -> list[tuple[str, str]]:
    """Sets and dtypes for estimators that do not take the mean off.

    Far from the origin scikit-learn's products in float32 keep too few digits to decide labels.
    """
    lost = ("far from the origin", "float32")
    pairs = [(name, dtype) for name in sample(CONTINUOUS, few) for dtype in ("float64", "float32")]
    return [pair for pair in pairs if pair != lost]


def sample(names: Any, few: tuple[str, ...]) -> list[str]:
    """All names, or a few in continuous integration."""
    return list(names) if ALL else [name for name in names if name in few]


def agrees(ours: Any, theirs: Any, dtype: Any) -> None:
    """The acceptance level L1: labels and iterations equal, numbers close."""
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.labels_.dtype == theirs.labels_.dtype
    assert ours.n_iter_ == theirs.n_iter_
    rtol = 1e-7 if dtype == "float64" else 1e-4
    scale = np.abs(theirs.cluster_centers_).max()
    np.testing.assert_allclose(
        ours.cluster_centers_, theirs.cluster_centers_, rtol, atol=rtol * scale
    )
    assert ours.cluster_centers_.dtype == theirs.cluster_centers_.dtype
    assert isinstance(ours.inertia_, float)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-9 if rtol == 1e-7 else 1e-4)

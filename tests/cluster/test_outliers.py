"""One value far larger than the others: centres, inertia and seeds stay those of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.cluster as theirs

import infinitensor as it
from infinitensor.cluster import KMeans, kmeans_plusplus
from infinitensor.cluster.dense_rows import DenseRows
from infinitensor.ops.points import centres

INIT = np.array([[0.0, 0], [50, 50], [1, 1]])


def blobs(big: float, n: int = 20_000) -> tuple[Any, Any, Any, float]:
    """Two blobs of spread one and one row at `big`; the centres and the inertia of these."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(n // 2, 2)), 50 + rng.normal(size=(n // 2, 2))])
    halves = (X[: n // 2], X[n // 2 :])
    means = np.stack([half.mean(0) for half in halves])
    inertia = sum(((half - mean) ** 2).sum() for half, mean in zip(halves, means, strict=True))
    init = INIT.copy()
    init[2] = big
    return np.concatenate([X, [[big, big]]]), init, means, inertia


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("big", [1e9, 1e12, 1e13])
def test_an_outlier_leaves_the_other_centres_and_the_inertia(big: float, weighted: bool) -> None:
    X, init, means, inertia = blobs(big)
    weights = np.full(len(X), 0.75) if weighted else None
    ours = KMeans(3, init=init, n_init=1).fit(X, sample_weight=weights)
    peer = theirs.KMeans(3, init=init, n_init=1).fit(X, sample_weight=weights)
    assert np.array_equal(ours.labels_, peer.labels_)
    # taking off the mean rounds a row by up to this, in both libraries
    rounding = 4 * np.spacing(big / len(X))
    assert np.abs(ours.cluster_centers_[:2] - means).max() < 1e-9 + rounding
    assert ours.inertia_ == pytest.approx(inertia * (0.75 if weighted else 1), rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_finer_sums_are_the_same_bits_for_every_tiling_and_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, weighted: bool
) -> None:
    X, init, _, _ = blobs(1e13, 2_000)
    weights = np.random.default_rng(1).uniform(size=len(X)) if weighted else None

    def totals() -> tuple[Any, Any]:
        rows = DenseRows(it.asarray(X), X, X.mean(0), weights)
        state = rows.start(3)
        state.follow(init - X.mean(0))
        assert state.left is not None
        return state.totals()[0], rows.inertia(init - X.mean(0), state.labels)

    whole = totals()
    monkeypatch.setattr(it.config, "small_elements", 0)
    monkeypatch.setattr(it.config, "tile_elements", 500)
    cut = totals()
    monkeypatch.setattr(it.config, "compile", "never")
    plain = totals()
    for other in (cut, plain):
        np.testing.assert_array_equal(whole[0], other[0])
        np.testing.assert_allclose(whole[1], other[1], rtol=1e-14)


def test_ordinary_points_need_one_unit_only() -> None:
    X = np.random.default_rng(0).normal(size=(5_000, 4))
    assert DenseRows(it.asarray(X), X, X.mean(0), None).start(3).left is None
    X[7] = 1e9
    assert DenseRows(it.asarray(X), X, X.mean(0), None).start(3).left is not None


def test_seeds_of_values_whose_products_overflow_float32() -> None:
    X = np.random.default_rng(1).normal(size=(400, 6)) * 2.0**64
    ours = kmeans_plusplus(X, 12, random_state=0)[1]
    assert np.array_equal(ours, theirs.kmeans_plusplus(X, 12, random_state=0)[1])


def test_a_loop_without_memory_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centres, "loop", lambda *names: lambda *given: -1)
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(MemoryError, match="no memory for the centres"):
        kmeans_plusplus(X, 3, random_state=0)


@pytest.mark.parametrize(("fitted", "given"), [("f8", "f4"), ("f4", "f8"), ("f4", "f4")])
def test_distances_have_the_wider_dtype_of_points_and_centres(fitted: str, given: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    how: dict[str, Any] = {"n_clusters": 3, "n_init": 1, "random_state": 0}
    ours = KMeans(**how).fit(X.astype(fitted)).transform(X.astype(given))
    peer = theirs.KMeans(**how).fit(X.astype(fitted)).transform(X.astype(given))
    assert ours.dtype == peer.dtype
    np.testing.assert_allclose(ours, peer, rtol=1e-5 if fitted == "f4" else 1e-7, atol=1e-6)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("small_elements", [0, 65_536])
def test_squares_that_overflow_have_an_infinite_inertia(small_elements: int) -> None:
    x = np.random.default_rng(0).normal(size=(500, 4)) * 1e200
    expected = theirs.KMeans(3, random_state=0, n_init=1).fit(x)
    it.config.small_elements = small_elements
    ours = KMeans(3, random_state=0, n_init=1).fit(x)
    assert ours.inertia_ == expected.inertia_ == np.inf
    assert ours.n_iter_ == expected.n_iter_

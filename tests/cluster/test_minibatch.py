"""MiniBatchKMeans: scikit-learn's batches, steps and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sklearn.cluster
from tests.cluster.sets import CONTINUOUS, blobs, uncentred

import infinitensor as it
from infinitensor.cluster import MiniBatchKMeans
from infinitensor.cluster.minibatch import Draws, positions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("error")
FEW = ("two axes", "d = 16", "unlike scales", "copies of points", "sparse")


def both(x: Any, weights: Any = None, **options: Any) -> tuple[Any, Any]:
    ours, theirs = (
        one(random_state=3, **options).fit(x, sample_weight=weights)
        for one in (MiniBatchKMeans, sklearn.cluster.MiniBatchKMeans)
    )
    return ours, theirs


@pytest.mark.parametrize(("name", "dtype"), uncentred(FEW))
def test_steps_and_labels_are_scikit_learns(name: str, dtype: str) -> None:
    x = CONTINUOUS[name]().astype(dtype)
    weights = np.random.default_rng(0).random(x.shape[0])
    for options, weighed in (
        ({"n_clusters": 3, "batch_size": 100}, None),
        ({"n_clusters": 6, "batch_size": 64, "n_init": 2, "reassignment_ratio": 0.1}, weights),
        ({"n_clusters": 4, "init": "random", "tol": 1e-3, "compute_labels": False}, None),
    ):
        ours, theirs = both(x, weighed, **options)
        assert ours.n_steps_ == theirs.n_steps_
        assert ours.n_iter_ == theirs.n_iter_
        rtol = 1e-7 if dtype == "float64" else 1e-3
        atol = rtol * np.abs(theirs.cluster_centers_).max()
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol, atol)
        assert ours.cluster_centers_.dtype == dtype
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=10 * rtol)
        if hasattr(theirs, "labels_"):
            np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert it.stats()["sklearn_fallbacks"] == 0


def test_partial_fits_are_scikit_learns() -> None:
    x = blobs(900, 5, 6, 1)
    ours, theirs = (
        one(6, random_state=0) for one in (MiniBatchKMeans, sklearn.cluster.MiniBatchKMeans)
    )
    for lo in range(0, 900, 100):
        ours.partial_fit(x[lo : lo + 100])
        theirs.partial_fit(x[lo : lo + 100])
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-9)
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.n_steps_ == theirs.n_steps_ == 9


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_draws_are_those_of_choice(uneven: bool, dtype: str) -> None:
    weights = np.random.default_rng(0).random(5000) ** 4 if uneven else np.ones(5000)
    p = weights.astype(dtype)
    p /= p.sum()
    ours = Draws(np.random.RandomState(1), p.copy(), 300)
    theirs = np.random.RandomState(1)
    for _ in range(20):
        np.testing.assert_array_equal(ours.next(), theirs.choice(5000, 300, p=p))


def test_positions_on_the_borders_are_those_of_searchsorted() -> None:
    sums = np.array([0.0, 0.25, 0.25, 0.5, 1.0])
    values = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.99])
    np.testing.assert_array_equal(positions(sums, values), np.searchsorted(sums, values, "right"))


def test_a_file_gives_what_an_array_gives(tmp_path: Path) -> None:
    x = blobs(5000, 6, 8, 2, 3.0)
    np.save(tmp_path / "x.npy", x)
    found = [
        MiniBatchKMeans(8, random_state=0, batch_size=256, max_iter=2).fit(given)
        for given in (x, str(tmp_path / "x.npy"), it.asarray(x))
    ]
    for one in found[1:]:
        np.testing.assert_array_equal(one.labels_, found[0].labels_)
        np.testing.assert_array_equal(one.cluster_centers_, found[0].cluster_centers_)


def test_without_a_compiler_steps_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = blobs(700, 5, 6, 9, 4.0)
    compiled = MiniBatchKMeans(6, random_state=0, batch_size=64).fit(x)
    monkeypatch.setattr(it.config, "compile", "never")
    plain = MiniBatchKMeans(6, random_state=0, batch_size=64).fit(x)
    np.testing.assert_array_equal(plain.labels_, compiled.labels_)
    np.testing.assert_allclose(plain.cluster_centers_, compiled.cluster_centers_, rtol=1e-12)

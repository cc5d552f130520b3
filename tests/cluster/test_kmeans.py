"""KMeans: scikit-learn's labels on many sets, the same bits however the points are cut."""

from __future__ import annotations

import pickle
import warnings
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
import sklearn.cluster
from sklearn.exceptions import ConvergenceWarning
from tests.cluster.sets import ALL, CONTINUOUS, TIED, agrees, blobs, sample

import infinitensor as it
from infinitensor.cluster import KMeans, k_means
from infinitensor.cluster import kmeans as kmeans_module

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("error")
FEW = ("two axes", "d = 16", "far from the origin", "copies of points", "Fortran order", "sparse")
CUTS = [("cpu", 0), ("cpu*2", 1 << 17), ("cpu*3", 1 << 18), ("cpu*3", 1 << 13)]
"""Devices and tiles; the last are smaller than leaves, and promise values."""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sample(CONTINUOUS, FEW))
def test_labels_are_scikit_learns(name: str, dtype: str) -> None:
    x = CONTINUOUS[name]().astype(dtype)
    weights = np.random.default_rng(0).random(x.shape[0])
    for k, options, weighed in ((3, {}, None), (8, {"n_init": 3}, None), (5, {}, weights)):
        ours, theirs = (
            one(k, random_state=7, **options).fit(x, sample_weight=weighed)
            for one in (KMeans, sklearn.cluster.KMeans)
        )
        agrees(ours, theirs, dtype)
    assert it.stats()["sklearn_fallbacks"] == 0


@pytest.mark.parametrize("name", TIED)
def test_tied_points_end_as_well_as_scikit_learns(name: str) -> None:
    x = TIED[name]()
    init = x[np.random.default_rng(0).choice(len(x), 8, replace=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours, theirs = (one(8, init=init).fit(x) for one in (KMeans, sklearn.cluster.KMeans))
    assert ours.inertia_ <= theirs.inertia_ * 1.02 + 1e-9
    far = ((x[:, None, :] - ours.cluster_centers_) ** 2).sum(-1)
    np.testing.assert_allclose(far.min(1), far[np.arange(len(x)), ours.labels_], atol=1e-9)


def test_digits_in_float32_differ_no_more_than_scikit_learns_two_algorithms_do() -> None:
    x = TIED["digits"]().astype(np.float32)
    ours_differ = theirs_differ = 0
    for k, seed in product((5, 10, 20), range(10 if ALL else 3)):
        ours = KMeans(k, random_state=seed).fit(x)
        theirs, elkan = (
            sklearn.cluster.KMeans(k, random_state=seed, algorithm=algorithm).fit(x)
            for algorithm in ("lloyd", "elkan")
        )
        ours_differ += bool((ours.labels_ != theirs.labels_).any())
        theirs_differ += bool((elkan.labels_ != theirs.labels_).any())
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=0.02)
    assert ours_differ <= theirs_differ + 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_same_bits_for_every_cut(dtype: str) -> None:
    x = blobs(40_000, 9, 12, 3, 4.0).astype(dtype)
    weights = np.random.default_rng(1).random(len(x)).astype(dtype)
    found = []
    for devices, tile in CUTS:
        it.config.small_elements, it.config.tile_elements = (0, tile) if tile else (65536, 0)
        with it.init(devices=devices):
            made = KMeans(12, random_state=0, max_iter=9).fit(x, sample_weight=weights)
        found.append((made.cluster_centers_.tobytes(), made.labels_.tobytes(), made.inertia_))
    assert found[0] == found[1] == found[2]
    assert found[0][1] == found[3][1]


def test_a_file_larger_than_memory_gives_the_same(tmp_path: Path) -> None:
    n = 2_000_000 if ALL else 500_000
    x = blobs(n, 16, 10, 5, 3.0).astype(np.float32)
    np.save(tmp_path / "points.npy", x)
    with it.init(devices="cpu"):
        whole = KMeans(10, random_state=1, max_iter=4).fit(x)
    budget = x.nbytes // 2
    with it.init(devices="cpu", memory=budget, spill_dir=str(tmp_path)):
        made = KMeans(10, random_state=1, max_iter=4).fit(str(tmp_path / "points.npy"))
        np.testing.assert_array_equal(made.predict(str(tmp_path / "points.npy")), made.labels_)
        peak = max(it.stats()["peak_bytes"].values())
    np.testing.assert_array_equal(made.labels_, whole.labels_)
    np.testing.assert_array_equal(made.cluster_centers_, whole.cluster_centers_)
    assert peak <= budget


def test_a_pickle_holds_arrays_only() -> None:
    x = blobs(300, 4, 3, 0)
    made = KMeans(3, random_state=0).fit(it.asarray(x))
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict(x), made.labels_)
    assert type(again.cluster_centers_) is np.ndarray


def test_k_means_returns_what_kmeans_finds() -> None:
    x = blobs(300, 4, 3, 0)
    ours = k_means(x, 3, random_state=0, return_n_iter=True)
    theirs = sklearn.cluster.k_means(x, 3, random_state=0, return_n_iter=True)
    np.testing.assert_array_equal(ours[1], theirs[1])
    assert ours[3] == theirs[3]


def test_without_a_compiler_labels_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = blobs(700, 5, 6, 9, 4.0)
    compiled = KMeans(6, random_state=0).fit(x)
    monkeypatch.setattr(it.config, "compile", "never")
    plain = KMeans(6, random_state=0).fit(x)
    np.testing.assert_array_equal(plain.labels_, compiled.labels_)
    np.testing.assert_array_equal(plain.cluster_centers_, compiled.cluster_centers_)


def test_labels_that_occur_are_counted_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans_module, "AT_A_TIME", 7)
    labels = np.array([0, 3, 3, 5] * 10, np.int32)
    assert kmeans_module.n_distinct(labels, 6) == 3
    assert kmeans_module.n_distinct(labels[:0], 6) == 0

"""KMeans: scikit-learn's labels on many sets, the same bits however the points are cut."""

from __future__ import annotations

import io
import pickle
import warnings
from contextlib import redirect_stdout
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sklearn.cluster
from sklearn.exceptions import ConvergenceWarning
from tests.cluster.sets import ALL, CONTINUOUS, TIED, blobs, sample

import infinitensor as it
from infinitensor.api.session.session import current_session
from infinitensor.cluster import KMeans, k_means, kmeans_plusplus
from infinitensor.cluster import kmeans as kmeans_module
from infinitensor.cluster.seeding import _product

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("error")
FEW = ("two axes", "d = 16", "far from the origin", "copies of points", "Fortran order", "sparse")
CUTS = [("cpu", 0), ("cpu*2", 1 << 17), ("cpu*3", 1 << 18), ("cpu*3", 1 << 13)]
"""Devices and tiles; the last are smaller than leaves, and promise values."""


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
def test_rows_in_parts_give_what_rows_in_one_give(dtype: str) -> None:
    x = blobs(30_000, 9, 12, 3, 4.0).astype(dtype)
    weights = np.random.default_rng(1).random(len(x)).astype(dtype)
    for weighed, init in product((None, weights), ("k-means++", np.full((12, 9), 1e3, dtype))):
        found: list[Any] = []
        for workers in (1, 3):
            it.shutdown()
            it.config.workers = workers
            made = KMeans(12, random_state=0, max_iter=9, n_init=1, init=init)
            made.fit(x, sample_weight=weighed)
            found.append((made.cluster_centers_.tobytes(), made.labels_.tobytes(), made.inertia_))
            found[-1] += (made.predict(x[:-7]).tobytes(), made.score(x))
        assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_few_rows_and_many_centers_have_the_same_bits_for_every_number_of_workers(
    dtype: str,
) -> None:
    x = np.random.default_rng(2).random((2000, 16)).astype(dtype)
    found: list[Any] = []
    for workers in (1, 2):
        it.shutdown()
        it.config.workers = workers
        made = KMeans(100, random_state=0, max_iter=9, n_init=1).fit(x)
        found.append((made.cluster_centers_.tobytes(), made.labels_.tobytes(), made.inertia_))
    assert found[0] == found[1]
    theirs = sklearn.cluster.KMeans(100, random_state=0, max_iter=9, n_init=1).fit(x)
    np.testing.assert_array_equal(made.labels_, theirs.labels_)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_seeds_of_few_rows_are_found_without_waking_workers(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(2).random((2000, 16)).astype(dtype)
    it.shutdown()
    it.config.workers = 2
    engine = current_session().engine
    n_shared, share = [0], engine.share

    def counted(job: Any) -> None:
        n_shared[0] += 1
        share(job)

    monkeypatch.setattr(engine, "share", counted)
    kmeans_plusplus(x, 100, random_state=0)
    assert n_shared[0] == 0  # or 100, each of which would take longer than a step
    KMeans(100, random_state=0, max_iter=9, n_init=1).fit(x)
    assert n_shared[0] >= 9  # an iteration is long enough


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_long_product_has_the_bits_that_blas_gives_it(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for n in (9_000, 10_001, 33_334):
        values, weights = rng.random((1, n)).astype(dtype), rng.random((n, 1)).astype(dtype)
        np.testing.assert_array_equal(_product(values, weights), values @ weights)


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


@pytest.mark.parametrize("algorithm", ["lloyd", "elkan"])
@pytest.mark.parametrize("tol", [0, 1e-2])
def test_what_is_printed_is_what_scikit_learn_prints(algorithm: str, tol: float) -> None:
    x = blobs(500, 4, 5, 2)
    texts = []
    for one in (KMeans, sklearn.cluster.KMeans):
        with redirect_stdout(io.StringIO()) as text:
            one(5, random_state=3, algorithm=algorithm, tol=tol, verbose=1).fit(x)
        texts.append([word[:9] for word in text.getvalue().split()])
    assert texts[0] == texts[1]


def test_empty_clusters_go_to_the_farthest_points() -> None:
    x = blobs(400, 3, 4, 8)
    init = np.concatenate([x[:3], np.full((3, 3), 1e3)])
    ours, theirs = (one(6, init=init).fit(x) for one in (KMeans, sklearn.cluster.KMeans))
    agrees(ours, theirs, "float64")


def test_seeds_are_scikit_learns() -> None:
    x = blobs(2000, 6, 9, 4)
    for dtype in ("float64", "float32"):
        for seed in range(8):
            given = x.astype(dtype)
            ours = kmeans_plusplus(given, 12, random_state=seed)
            theirs = sklearn.cluster.kmeans_plusplus(given, 12, random_state=seed)
            np.testing.assert_array_equal(ours[1], theirs[1])
            np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("much", [4, 1 << 40], ids=["kept", "made again"])
@pytest.mark.parametrize("block", [64, 999, 1 << 16])
def test_seeds_of_many_points_are_found_in_blocks(
    block: int, much: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = blobs(2000, 6, 9, 4)
    plain = kmeans_plusplus(x, 12, random_state=0)[1]
    monkeypatch.setattr("infinitensor.cluster.seeding.ON_HOST", 256)
    monkeypatch.setattr("infinitensor.cluster.seeding.BLOCK_ROWS", block)
    monkeypatch.setattr("infinitensor.cluster.seeding.KEPT_MEMORY_PART", much)
    np.testing.assert_array_equal(kmeans_plusplus(x, 12, random_state=0)[1], plain)


def test_labels_and_their_inertia_are_one_pass_over_a_file(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((250_000, 64), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    with it.init("cpu", memory=x.nbytes // 2, spill_dir=str(tmp_path)):
        found = KMeans(8, init=x[:8], n_init=1, max_iter=4, tol=0).fit(str(tmp_path / "x.npy"))
        n_passes = it.stats()["bytes_loaded"] / x.nbytes
    assert found.n_iter_ == 4
    # columns, four iterations, and the last: 4.9, as a part of the file stays; with one more 5.7
    assert n_passes < 5.3


@pytest.mark.parametrize("kind", ["tensor", "path", "torch", "csr"])
def test_inputs_that_are_no_arrays(kind: str, tmp_path: Path) -> None:
    import scipy.sparse
    import torch

    x = np.round(blobs(300, 4, 3, 0), 3)
    np.save(tmp_path / "x.npy", x)
    given: Any = {
        "tensor": it.asarray(x),
        "path": tmp_path / "x.npy",
        "torch": torch.from_numpy(x),
        "csr": it.csr(scipy.sparse.csr_array(x)),
    }[kind]
    made = KMeans(3, random_state=0).fit(given)
    np.testing.assert_array_equal(made.labels_, KMeans(3, random_state=0).fit(x).labels_)
    np.testing.assert_array_equal(made.predict(given), made.labels_)
    np.testing.assert_allclose(made.transform(given), made.transform(x), rtol=1e-6)
    assert made.score(given) == pytest.approx(-made.inertia_)


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


def test_products_that_overflow_float32_decide_in_float64() -> None:
    x = blobs(300, 4, 3, 0)
    for scale in (1e30, 1e-30):
        made = KMeans(3, random_state=0).fit(x * scale)
        np.testing.assert_array_equal(made.labels_, KMeans(3, random_state=0).fit(x).labels_)


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

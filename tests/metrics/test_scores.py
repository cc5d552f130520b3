"""Scores and distances equal scikit-learn's: many data sets, tilings, 1 to 3 devices."""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.metrics as theirs
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_moons

import infinitensor as it
from infinitensor import metrics as ours

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"
RNG = np.random.default_rng(7)


def blobs(n: int, d: int, k: int, dtype: str = "f8", shift: float = 0.0) -> tuple[Any, Any]:
    x, labels = make_blobs(n, d, centers=k, cluster_std=3.0, random_state=n + d)
    return (x + shift).astype(dtype), labels


SETS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "digits": tuple(one[:400] for one in load_digits(return_X_y=True)),
    "moons": make_moons(300, noise=0.1, random_state=0),
    "blobs d=2": blobs(500, 2, 5),
    "blobs d=15": blobs(400, 15, 4),
    "blobs d=16": blobs(400, 16, 4),
    "blobs d=64": blobs(300, 64, 7),
    "float32 d=3": blobs(400, 3, 3, "f4"),
    "float32 d=40": blobs(300, 40, 6, "f4"),
    "offset": blobs(300, 6, 3, shift=100.0),
    "grid": (RNG.integers(0, 4, (300, 3)).astype(float), RNG.integers(0, 5, 300)),
    "duplicates": (np.repeat(RNG.normal(size=(40, 4)), 6, axis=0), RNG.integers(0, 3, 240)),
    "one column": (RNG.normal(size=(200, 1)), RNG.integers(0, 2, 200)),
    "constant column": (np.c_[RNG.normal(size=(200, 2)), np.ones(200)], RNG.integers(0, 3, 200)),
    "single points": (RNG.normal(size=(60, 3)), np.r_[np.zeros(55, int), 1, 2, 3, 4, 5]),
    "gaps in labels": (RNG.normal(size=(90, 3)), RNG.choice([-1, 3, 50], 90)),
    "text labels": (RNG.normal(size=(90, 3)), RNG.choice(["a", "b", "c"], 90)),
    "two labels": blobs(250, 8, 2),
    "many labels": (RNG.normal(size=(300, 5)), RNG.integers(0, 100, 300)),
    "integers": (RNG.integers(-50, 50, (200, 4)), RNG.integers(0, 4, 200)),
}
CUTS = [("cpu", 0), ("cpu*2", 60), ("cpu*3", 256)] if not ALL else [
    (devices, tile) for devices in ("cpu", "cpu*2", "cpu*3") for tile in (0, 50, 256, 5000)
]  # fmt: skip


@pytest.fixture(params=CUTS if ALL else [None], ids=str)
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session in which tensors are cut; without cuts, as users have it. In a sample one each."""
    devices, tile = request.param or CUTS[zlib.crc32(request.node.nodeid.encode()) % len(CUTS)]
    if tile:
        monkeypatch.setattr(it.config, "small_elements", 0)
        monkeypatch.setattr(it.config, "tile_elements", tile)
    with it.init(devices) as session:
        yield session


def near(x: np.ndarray) -> float:
    return 1e-4 if x.dtype == np.float32 else 1e-7


UNSUPERVISED = ("silhouette_score", "calinski_harabasz_score", "davies_bouldin_score")
SUPERVISED = (
    "adjusted_mutual_info_score", "adjusted_rand_score", "completeness_score",
    "fowlkes_mallows_score", "homogeneity_score", "mutual_info_score",
    "normalized_mutual_info_score", "rand_score", "v_measure_score",
)  # fmt: skip


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


@pytest.mark.parametrize("metric", ["cityblock", "cosine", "jaccard", "correlation", "precomputed"])
def test_silhouettes_by_any_metric(metric: str, cut: Any) -> None:
    x, labels = SETS["wine"]
    x = x > x.mean(0) if metric == "jaccard" else x
    x = theirs.pairwise_distances(x) if metric == "precomputed" else x
    got, want = (module.silhouette_samples(x, labels, metric=metric) for module in (ours, theirs))
    assert_allclose(got, want, rtol=1e-7, atol=1e-9)


def test_a_metric_that_is_a_function() -> None:
    x, labels = SETS["iris"]

    def far(a: Any, b: Any) -> float:
        return float(np.abs(a - b).max())

    got, want = (module.silhouette_samples(x, labels, metric=far) for module in (ours, theirs))
    assert_allclose(got, want)
    assert_array_equal(
        ours.pairwise_distances(x[:20], metric=far), theirs.pairwise_distances(x[:20], metric=far)
    )


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


def test_a_silhouette_is_never_n_by_n(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = blobs(6000, 4, 5)
    with it.init("cpu", memory="24MiB"):
        got = ours.silhouette_score(x, labels)
        assert max(it.stats()["peak_bytes"].values()) < 24 << 20 < 6000 * 6000 * 8
    assert_allclose(got, theirs.silhouette_score(x, labels))


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

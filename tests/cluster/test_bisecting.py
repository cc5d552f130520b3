"""BisectingKMeans: scikit-learn's splits and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sklearn.cluster
from tests.cluster.sets import CONTINUOUS, blobs, uncentred

import infinitensor as it
from infinitensor.cluster import BisectingKMeans
from infinitensor.cluster.dense_rows import DenseRows

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("error")
FEW = ("two axes", "d = 16", "unlike scales", "sparse")


@pytest.mark.parametrize(("name", "dtype"), uncentred(FEW))
def test_splits_are_scikit_learns(name: str, dtype: str) -> None:
    x = CONTINUOUS[name]().astype(dtype)
    weights = np.random.default_rng(0).random(x.shape[0])
    choices: list[tuple[dict[str, Any], Any]] = [
        ({"n_clusters": 4}, None),
        ({"n_clusters": 6, "bisecting_strategy": "largest_cluster", "n_init": 2}, weights),
        ({"n_clusters": 5, "init": "k-means++", "algorithm": "elkan"}, None),
    ]
    for options, weighed in choices:
        ours, theirs = (
            one(random_state=5, **options).fit(x, sample_weight=weighed)
            for one in (BisectingKMeans, sklearn.cluster.BisectingKMeans)
        )
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        rtol = 1e-7 if dtype == "float64" else 1e-4
        atol = rtol * np.abs(theirs.cluster_centers_).max()
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol, atol)
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=10 * rtol)
        np.testing.assert_array_equal(ours.predict(x[::3]), theirs.predict(x[::3]))
    assert it.stats()["sklearn_fallbacks"] == 0


@pytest.mark.parametrize("devices", ["cpu", "cpu*3"])
def test_a_file_larger_than_memory_gives_what_an_array_gives(devices: str, tmp_path: Path) -> None:
    x = blobs(120_000, 16, 8, 2, 3.0)
    np.save(tmp_path / "x.npy", x)
    whole = BisectingKMeans(5, random_state=0, max_iter=4).fit(x)
    it.shutdown()
    with it.init(devices=devices, memory=x.nbytes * 2 // 3, spill_dir=str(tmp_path)):
        made = BisectingKMeans(5, random_state=0, max_iter=4).fit(str(tmp_path / "x.npy"))
        np.testing.assert_array_equal(made.labels_, whole.labels_)
        np.testing.assert_array_equal(made.predict(x), whole.predict(x))
    np.testing.assert_allclose(made.cluster_centers_, whole.cluster_centers_, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("strategy", ["biggest_inertia", "largest_cluster"])
def test_a_tree_in_one_task_is_that_of_split_after_split(strategy: str, dtype: str) -> None:
    x = blobs(1500, 5, 9, 3, 2.0).astype(dtype)
    found = []
    for is_one_task in (False, True):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(DenseRows, "is_one_task", is_one_task)
            patched.setattr(it.config, "small_elements", 0)
            state = np.random.RandomState(4)
            made = BisectingKMeans(7, random_state=state, bisecting_strategy=strategy).fit(x)
            found.append((made, state.random_sample()))
    (passes, after_passes), (one_task, after_one) = found
    np.testing.assert_array_equal(one_task.labels_, passes.labels_)
    np.testing.assert_array_equal(one_task.cluster_centers_, passes.cluster_centers_)
    np.testing.assert_array_equal(one_task.predict(x), one_task.labels_)
    assert one_task.labels_.dtype == np.int32
    assert one_task.inertia_ == pytest.approx(passes.inertia_, rel=1e-12)
    assert after_one == after_passes, "as many draws were taken"


def test_splits_that_one_task_cannot_begin_are_made_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = blobs(12, 3, 3, 18)  # so few that two draws often are the same row
    monkeypatch.setattr(it.config, "small_elements", 0)
    for seed in range(6):
        found = []
        for is_one_task in (False, True):
            monkeypatch.setattr(DenseRows, "is_one_task", is_one_task)
            found.append(BisectingKMeans(6, random_state=seed).fit(x).labels_)
        np.testing.assert_array_equal(*found)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n", "d"), [(60_000, 16), (20_001, 3), (5_000, 140)])
def test_a_tree_on_a_gpu_is_that_of_the_cpu(n: int, d: int, dtype: str) -> None:
    x = blobs(n, d, 11, 5, 3.0).astype(dtype)
    for strategy in ("biggest_inertia", "largest_cluster"):
        found = []
        for devices in ("cpu", "cuda:0", "cuda:0"):
            with it.init(devices), pytest.MonkeyPatch.context() as patched:
                if devices != "cpu":
                    patched.setattr(it.config, "small_elements", 0)
                how: dict[str, Any] = {"random_state": 1, "bisecting_strategy": strategy}
                found.append(BisectingKMeans(9, **how).fit(x))
        for made in found[1:]:
            np.testing.assert_array_equal(made.labels_, found[0].labels_)
            rtol = {"float64": 1e-12, "float32": 1e-5}[dtype]
            most = np.abs(x).max()
            np.testing.assert_allclose(
                made.cluster_centers_, found[0].cluster_centers_, rtol=rtol, atol=rtol * most
            )
            assert made.inertia_ == pytest.approx(found[0].inertia_, rel=rtol)
        np.testing.assert_array_equal(found[1].cluster_centers_, found[2].cluster_centers_)

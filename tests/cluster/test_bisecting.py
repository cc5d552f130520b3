"""BisectingKMeans: scikit-learn's splits and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sklearn.cluster
from tests.cluster.sets import CONTINUOUS, blobs, uncentred

import infinitensor as it
from infinitensor.cluster import BisectingKMeans

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

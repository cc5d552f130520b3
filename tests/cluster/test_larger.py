"""Density clustering of four times the memory budget: the same labels, and never above the budget.

k-means of twice the budget is in `test_kmeans.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from tests.cluster.sets import ALL
from tests.fake_gpu import fake_gpu

import infinitensor as it
from infinitensor.cluster import DBSCAN, HDBSCAN, KMeans

if TYPE_CHECKING:
    from pathlib import Path

CASES = [
    ("DBSCAN", "file", 4),
    ("HDBSCAN", "tensor", 4),
    ("DBSCAN", "tensor", 4),
    ("HDBSCAN", "file", 4),
    ("DBSCAN", "file", 2),
    ("HDBSCAN", "file", 2),
]
MOST = {2: 18, 4: 34}
"""Budget, as a part of the points -> how often these may be read in all. A fit goes over all pairs
three times, each time once for every part of the points that has room, and three times over the
points; where both sides of pairs came in equal tiles, a quarter read them 96 times."""


def made(kind: str, d: int) -> Any:
    return DBSCAN(eps=float(np.sqrt(2 * d))) if kind == "DBSCAN" else HDBSCAN(copy=False)


def assert_same_in_less(x: Any, kind: str, given: str, share: int, folder: Path) -> None:
    """Fit in memory and in a session with a part of the points' bytes."""
    whole = made(kind, x.shape[1]).fit(x)
    assert len(np.unique(whole.labels_)) > 5
    it.shutdown()
    np.save(folder / "x.npy", x)
    budget = x.nbytes // share
    with it.init("cpu", memory=budget, disk=4 * x.nbytes, spill_dir=str(folder)):
        points = folder / "x.npy" if given == "file" else it.asarray(x)
        ours = made(kind, x.shape[1]).fit(points)
        stats: dict[str, Any] = it.stats()
        del points
    np.testing.assert_array_equal(ours.labels_, whole.labels_)
    if kind == "HDBSCAN":
        np.testing.assert_array_equal(ours.probabilities_, whole.probabilities_)
    assert max(stats["peak_bytes"].values()) <= budget
    assert x.nbytes <= stats["bytes_read"] <= MOST[share] * x.nbytes
    assert stats["sklearn_fallbacks"] == 0


@pytest.mark.parametrize(("kind", "given", "share"), CASES if ALL else [*CASES[:2], CASES[4]])
def test_several_times_the_budget(kind: str, given: str, share: int, tmp_path: Path) -> None:
    x, _ = make_blobs(2000, 300, centers=6, random_state=0)
    assert_same_in_less(x, kind, given, share, tmp_path)


@pytest.mark.slow
def test_more_points(tmp_path: Path) -> None:
    x, _ = make_blobs(6000, 400, centers=9, cluster_std=1.0, random_state=1)
    assert_same_in_less(x.astype(np.float32), "DBSCAN", "file", 4, tmp_path)


def test_kmeans_of_four_times_a_gpu_is_planned_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Centres and sums have many axes that are never cut: tiles shrink by what they read."""
    monkeypatch.setattr(it.config, "compile", "never")  # nothing here runs generated code
    rng = np.random.default_rng(0)
    x = rng.standard_normal((250_000, 64), dtype=np.float32) + 5 * rng.integers(0, 4, (250_000, 1))
    x = x.astype(np.float32)
    options: dict[str, Any] = {"init": x[:16], "n_init": 1, "max_iter": 3, "tol": 0}
    with fake_gpu(plans_triton=True), it.init("cuda:0", memory=x.nbytes // 4):
        ours = KMeans(16, **options).fit(it.asarray(x))
        assert it.stats()["peak_bytes"]["cuda:0", "device"] <= x.nbytes // 4
    with it.init("cpu"):
        theirs = KMeans(16, **options).fit(x)
    # means of smaller tiles have other last bits, and a row that changes moves a centre
    assert np.mean(ours.labels_ != theirs.labels_) < 1e-3

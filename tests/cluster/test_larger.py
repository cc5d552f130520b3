"""Density clustering of four times the memory budget: the same labels, and never above the budget.

k-means of twice the budget is in `test_kmeans.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from tests.cluster.sets import ALL

import infinitensor as it
from infinitensor.cluster import DBSCAN, HDBSCAN

if TYPE_CHECKING:
    from pathlib import Path

CASES = [("DBSCAN", "file"), ("HDBSCAN", "tensor"), ("DBSCAN", "tensor"), ("HDBSCAN", "file")]


def made(kind: str, d: int) -> Any:
    return DBSCAN(eps=float(np.sqrt(2 * d))) if kind == "DBSCAN" else HDBSCAN(copy=False)


def assert_same_in_a_quarter(x: Any, kind: str, given: str, folder: Path) -> None:
    """Fit in memory and in a session with a quarter of the points' bytes."""
    whole = made(kind, x.shape[1]).fit(x)
    assert len(np.unique(whole.labels_)) > 5
    it.shutdown()
    np.save(folder / "x.npy", x)
    budget = x.nbytes // 4
    with it.init("cpu", memory=budget, disk=4 * x.nbytes, spill_dir=str(folder)):
        points = folder / "x.npy" if given == "file" else it.asarray(x)
        ours = made(kind, x.shape[1]).fit(points)
        stats: dict[str, Any] = it.stats()
        del points
    np.testing.assert_array_equal(ours.labels_, whole.labels_)
    if kind == "HDBSCAN":
        np.testing.assert_array_equal(ours.probabilities_, whole.probabilities_)
    assert max(stats["peak_bytes"].values()) <= budget
    assert stats["bytes_read"] >= x.nbytes
    assert stats["sklearn_fallbacks"] == 0


@pytest.mark.parametrize(("kind", "given"), CASES if ALL else CASES[:2])
def test_four_times_the_budget(kind: str, given: str, tmp_path: Path) -> None:
    x, _ = make_blobs(2000, 300, centers=6, random_state=0)
    assert_same_in_a_quarter(x, kind, given, tmp_path)


@pytest.mark.slow
def test_more_points(tmp_path: Path) -> None:
    x, _ = make_blobs(6000, 400, centers=9, cluster_std=1.0, random_state=1)
    assert_same_in_a_quarter(x.astype(np.float32), "DBSCAN", "file", tmp_path)

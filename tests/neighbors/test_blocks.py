"""Searches over blocks of distances, by metrics of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.neighbors as theirs
from sklearn.metrics import pairwise_distances
from tests.ir.sessions import strict
from tests.neighbors.datasets import CUTS, SETS, assert_same_rows

import infinitensor as it
from infinitensor.estimators import metric_names
from infinitensor.neighbors import NearestNeighbors


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "cosine", "canberra", "correlation"])
def test_other_metrics_have_scikit_learns_neighbours(metric: str) -> None:
    x = SETS["d8"]()
    apart, number = NearestNeighbors(n_neighbors=5, metric=metric).fit(x).kneighbors()
    theirs_apart, theirs_number = (
        theirs.NearestNeighbors(n_neighbors=5, metric=metric, algorithm="brute").fit(x).kneighbors()
    )
    np.testing.assert_allclose(apart, theirs_apart, atol=1e-12)
    np.testing.assert_array_equal(number, theirs_number)


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("metric", ["manhattan", "cosine", "jaccard", "precomputed"])
def test_other_metrics_are_the_same_under_every_cut(
    metric: str, devices: str, tile: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = SETS["d8"]()
    x = x > 0 if metric == "jaccard" else x
    x = pairwise_distances(x) if metric == "precomputed" else x
    named = {"n_neighbors": 5, "metric": metric, "algorithm": "brute"}
    exact = theirs.NearestNeighbors(**named).fit(x).kneighbors()[0]
    radius = float(np.median(exact))
    rows = theirs.NearestNeighbors(**named).fit(x).radius_neighbors(radius=radius * 1.0001)[1]
    monkeypatch.setattr(metric_names, "BLOCK_ELEMENTS", 9 * len(x))  # many blocks, several rounds
    with strict(devices, tile, small_elements=small):
        model = NearestNeighbors(**named).fit(x)
        apart, _ = model.kneighbors()
        found = model.radius_neighbors(radius=radius * 1.0001)[1]
    np.testing.assert_allclose(apart, exact, atol=1e-12)
    assert_same_rows(found, [np.sort(row) for row in rows])


@pytest.mark.parametrize("metric", ["manhattan", "cosine"])
def test_other_metrics_stay_within_a_tight_budget(metric: str, tmp_path: Any) -> None:
    x = np.random.default_rng(0).standard_normal((53_000, 40))
    np.save(tmp_path / "x.npy", x)
    whole = NearestNeighbors(n_neighbors=4, metric=metric).fit(x)
    exact, rows = whole.kneighbors(x[:8]), whole.radius_neighbors(x[:8], 0.9)[1]
    with it.init("cpu", memory="16MiB", disk="64MiB"):
        model = NearestNeighbors(n_neighbors=4, metric=metric).fit(tmp_path / "x.npy")
        apart, number = model.kneighbors(x[:8])
        found = model.radius_neighbors(x[:8], 0.9)[1]
        assert max(it.stats()["peak_bytes"].values()) <= 16 << 20 < x.nbytes
    np.testing.assert_array_equal(number, exact[1])
    np.testing.assert_allclose(apart, exact[0], rtol=1e-12)
    assert_same_rows(found, rows)

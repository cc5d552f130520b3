"""Neighbours are scikit-learn's, on one device and several, cut and whole."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn.neighbors as theirs
from sklearn.metrics import pairwise_distances
from tests.ir.sessions import strict
from tests.neighbors.datasets import CONTINUOUS, CUTS, SETS, TIED, radius_of, sample, thinned

import infinitensor as it
from infinitensor.estimators import metric_names
from infinitensor.neighbors import NearestNeighbors, kneighbors_graph, radius_neighbors_graph


def assert_same_rows(ours: Any, exact: Any) -> None:
    for mine, true in zip(ours, exact, strict=True):
        np.testing.assert_array_equal(mine, true)


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_nearest_are_scikit_learns(name: str, devices: str, tile: int, small: int) -> None:
    x = CONTINUOUS[name]()
    apart, number = theirs.NearestNeighbors(n_neighbors=6, algorithm="kd_tree").fit(x).kneighbors()
    with strict(devices, tile, small_elements=small):
        ours, mine = NearestNeighbors(n_neighbors=6).fit(x).kneighbors()
    np.testing.assert_array_equal(ours, apart)
    np.testing.assert_array_equal(mine, number)


@pytest.mark.parametrize("name", TIED)
def test_ties_go_to_the_smaller_index(name: str) -> None:
    x = np.asarray(TIED[name](), float)
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    order = np.lexsort((np.broadcast_to(np.arange(len(x)), squares.shape), squares))[:, :7]
    apart, number = NearestNeighbors(n_neighbors=7).fit(x).kneighbors(x)
    np.testing.assert_array_equal(number, order)
    np.testing.assert_allclose(apart, np.sqrt(np.take_along_axis(squares, order, 1)), rtol=1e-14)


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("name", SETS)
def test_all_within_a_radius_are_found(name: str, devices: str, tile: int, small: int) -> None:
    x = np.asarray(SETS[name](), float)
    radius = radius_of(x, 0.05)
    squares = np.zeros((len(x), len(x)))
    for feature in x.T:
        squares += (feature[:, None] - feature) ** 2
    near = squares <= radius * radius
    with strict(devices, tile, small_elements=small):
        found, number = NearestNeighbors(radius=radius).fit(x).radius_neighbors(x)
    assert_same_rows(number, [np.flatnonzero(row) for row in near])
    assert_same_rows(found, [np.sqrt(row[k]) for row, k in zip(squares, near, strict=True)])


def test_rows_are_sorted_by_distance_on_request() -> None:
    x = SETS["grid"]()
    model = NearestNeighbors(radius=2.0).fit(x)
    for apart, number in zip(*model.radius_neighbors(sort_results=True), strict=True):
        keys = list(zip(apart, number, strict=True))
        assert keys == sorted(keys)


def test_each_query_may_have_its_own_radius() -> None:
    x = SETS["d3"]()
    radii = np.linspace(0.5, 4, 10)
    ours = NearestNeighbors().fit(x).radius_neighbors(x[:10], radii, return_distance=False)
    for i, found in enumerate(ours):
        one = NearestNeighbors().fit(x).radius_neighbors(x[i : i + 1], radii[i])[1][0]
        np.testing.assert_array_equal(found, one)


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_graphs_are_scikit_learns(mode: str) -> None:
    x = SETS["moons"]()
    for ours, exact in (
        (kneighbors_graph(x, 5, mode=mode), theirs.kneighbors_graph(x, 5, mode=mode)),
        (
            radius_neighbors_graph(x, 0.2, mode=mode),
            theirs.radius_neighbors_graph(x, 0.2, mode=mode),
        ),
    ):
        assert abs(ours - exact).max() < 1e-12


@pytest.mark.parametrize("name", sample(SETS))
def test_sparse_points_have_scikit_learns_neighbours(name: str) -> None:
    x = thinned(name)
    apart, number = NearestNeighbors(n_neighbors=4).fit(x).kneighbors()
    exact, theirs_number = theirs.NearestNeighbors(n_neighbors=5).fit(x).kneighbors()
    near = 1e-7 * abs(x).max()  # what products leave of the distance of equal points
    np.testing.assert_allclose(apart, exact[:, :4], rtol=1e-9, atol=near)
    distinct = (np.diff(exact, axis=1) > near).all(1)
    assert distinct.any() or name not in CONTINUOUS
    np.testing.assert_array_equal(number[distinct], theirs_number[distinct, :4])


def test_tensors_and_files_are_searched_where_they_are(tmp_path: Any) -> None:
    x = SETS["d8"]()
    np.save(tmp_path / "x.npy", x)
    exact = NearestNeighbors(n_neighbors=3).fit(x).kneighbors()
    for given in (it.asarray(x), tmp_path / "x.npy"):
        ours = NearestNeighbors(n_neighbors=3).fit(given).kneighbors()
        assert_same_rows(ours, exact)


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


def test_a_pickle_has_the_points_and_no_tensors() -> None:
    x = SETS["d3"]()
    model = NearestNeighbors(n_neighbors=2).fit(x)
    before = model.kneighbors()
    again = pickle.loads(pickle.dumps(model))
    assert again._search is None
    assert_same_rows(again.kneighbors(), before)


def test_a_matrix_of_other_columns_is_refused() -> None:
    model = NearestNeighbors(n_neighbors=1, metric="precomputed").fit(np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"Got \(4, 3\) for 4 indexed"):
        model.kneighbors(np.ones((4, 3)))

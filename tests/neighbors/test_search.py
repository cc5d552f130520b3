"""Which search is for which points: sparse, tensors, files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.neighbors as theirs
from tests.neighbors.datasets import CONTINUOUS, SETS, assert_same_rows, sample, thinned

import infinitensor as it
from infinitensor.neighbors import NearestNeighbors


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


def test_a_matrix_of_other_columns_is_refused() -> None:
    model = NearestNeighbors(n_neighbors=1, metric="precomputed").fit(np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"Got \(4, 3\) for 4 indexed"):
        model.kneighbors(np.ones((4, 3)))

"""Neighbours are scikit-learn's, on one device and several, cut and whole."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn.neighbors as theirs
from tests.ir.sessions import strict
from tests.neighbors.datasets import CONTINUOUS, CUTS, SETS, assert_same_rows

from infinitensor.neighbors import NearestNeighbors


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_nearest_are_scikit_learns(name: str, devices: str, tile: int, small: int) -> None:
    x = CONTINUOUS[name]()
    apart, number = theirs.NearestNeighbors(n_neighbors=6, algorithm="kd_tree").fit(x).kneighbors()
    with strict(devices, tile, small_elements=small):
        ours, mine = NearestNeighbors(n_neighbors=6).fit(x).kneighbors()
    np.testing.assert_array_equal(ours, apart)
    np.testing.assert_array_equal(mine, number)


def test_a_pickle_has_the_points_and_no_tensors() -> None:
    x = SETS["d3"]()
    model = NearestNeighbors(n_neighbors=2).fit(x)
    before = model.kneighbors()
    again = pickle.loads(pickle.dumps(model))
    assert again._search is None
    assert_same_rows(again.kneighbors(), before)

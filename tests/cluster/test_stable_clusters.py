"""Clusters by excess of mass are scikit-learn's, found without a search of the tree for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster._hdbscan._tree import tree_to_labels

from infinitensor.cluster import HDBSCAN
from infinitensor.cluster._stable_clusters import stable_labels


def _points(name: str) -> Any:
    rng = np.random.default_rng(0)
    if name == "even":
        return rng.uniform(size=(1500, 2))
    if name == "ties":
        return rng.integers(0, 9, (800, 2)).astype(float)
    if name == "copies":
        return np.repeat(rng.normal(size=(30, 3)), 20, axis=0)
    return rng.normal(size=(8, 3))[rng.integers(0, 8, 1200)] * 3 + rng.normal(size=(1200, 3))


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(("size", "most"), [(5, None), (2, None), (30, None), (5, 40), (700, None)])
@pytest.mark.parametrize("name", ["even", "ties", "copies", "groups"])
def test_labels_and_probabilities_are_theirs(
    name: str, size: int, most: int | None, single: bool
) -> None:
    tree = HDBSCAN(copy=False).fit(_points(name))._single_linkage_tree_
    with np.errstate(invalid="ignore"):
        labels, strengths = tree_to_labels(tree, size, "eom", single, 0.0, most)
    found = stable_labels(tree, size, single, most)
    np.testing.assert_array_equal(found[0], labels)
    np.testing.assert_array_equal(found[1], strengths)
    assert found[0].dtype == labels.dtype

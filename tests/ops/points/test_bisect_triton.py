"""The kernel that parts rows in two: labels of float64, sums that follow, the oracle's trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops import TABLE
from infinitensor.ops.points import bisect_triton, centres_triton

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("most", [128, 2], ids=["in registers", "with bounds"])
def test_trees_are_the_oracles(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bisect_triton, "MOST_COORDINATES", most)
    op = TABLE["_bisect"]
    assert op.cases is not None
    assert op.oracle is not None
    with triton_in_numpy(centres_triton) as launches:
        for args, kwargs in op.cases(np.random.default_rng(1)):
            found = TableXp(WHOLE, "cuda").call("_bisect", *args, **kwargs)
            wanted = op.oracle(*args, **kwargs)
            np.testing.assert_array_equal(found[3], wanted[3])
            np.testing.assert_array_equal(found[0], wanted[0])
            np.testing.assert_allclose(found[1], wanted[1], 1e-6, 1e-9)
    assert launches


def halve(x: Any, centers: Any, before: Any, n_programs: int) -> Any:
    (n, d), labels = x.shape, before.astype("i4")
    change = np.zeros((3, d + 2), np.int64)
    given = (x, np.zeros(d, x.dtype), np.full(d + 1, 2.0**20), centers, labels, change)
    tiles = tuple(map(torch.from_numpy, given))
    with triton_in_numpy(centres_triton):
        bisect_triton._launch_of(tiles, d)(tiles, (n,), n_programs)
    return labels, change


@pytest.mark.parametrize(("n", "d"), [(1, 1), (150, 3), (100, 70)])
def test_changes_of_sums_follow_the_labels(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    x, before = rng.normal(size=(n, d)), rng.integers(-1, 2, n)
    centers = rng.normal(size=(2, d))
    labels, change = halve(x, centers, before, 3)
    far = ((x[:, None] - centers) ** 2).sum(-1)
    np.testing.assert_array_equal(labels, far.argmin(1))
    q = np.c_[np.rint(x * 2**20), np.full((n, 1), 2**20), np.ones((n, 1))].astype(int)
    for label in (0, 1):
        sign = (labels == label).astype(int) - (before == label)
        np.testing.assert_array_equal(change[label], sign @ q)
    assert change[2, 0] == np.count_nonzero(labels != before)


def test_of_two_centres_as_near_the_first_wins() -> None:
    x = np.array([[0.0, 0.0], [1.0, 3.0], [0.1, -7.0], [-0.1, 2.0]])
    labels, _ = halve(x, np.array([[1.0, 0.1], [-1.0, 0.1]]), np.full(4, -1), 1)
    assert labels.tolist() == [0, 0, 0, 1]

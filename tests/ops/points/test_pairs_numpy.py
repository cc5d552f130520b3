"""Searches over pairs in the words of NumPy and of torch: one answer, that of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from infinitensor.ops.points import pairs_numpy as pairs
from infinitensor.ops.points.pairs import exact

RNG = np.random.default_rng(24)
X, Y = (RNG.integers(0, 6, (n, 3)).astype("f8") for n in (20, 30))
YID = RNG.permutation(30).astype("i8")
SQUARES = exact(X, Y)
LIMIT = 6.0
WORDS: list[tuple[Any, Any]] = [(np, np.asarray), (torch, lambda a: torch.from_numpy(a.copy()))]


@pytest.fixture(params=[1 << 20, 64], autouse=True)
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs at once, and block by block."""
    monkeypatch.setattr(pairs, "BLOCK", {"cpu": request.param, "cuda": request.param})


@pytest.mark.parametrize(("xp", "given"), WORDS)
def test_counts_and_weights_within_a_radius_are_sums_over_all_pairs(xp: Any, given: Any) -> None:
    weight, near = RNG.integers(1, 5, 30) * 0.5, SQUARES <= LIMIT
    np.testing.assert_array_equal(
        pairs.count_within(xp, given(X), given(Y), None, LIMIT), near.sum(1)
    )
    found = pairs.count_within(xp, given(X), given(Y), given(weight), LIMIT)
    np.testing.assert_array_equal(found, near @ weight)
    np.testing.assert_array_equal(pairs.squared_distances(xp, given(X), given(Y)), SQUARES)


@pytest.mark.parametrize(("xp", "given"), WORDS)
@pytest.mark.parametrize("k", [1, 5, 33])
def test_the_nearest_are_sorted_by_distance_then_number(xp: Any, given: Any, k: int) -> None:
    far, who = (np.asarray(a) for a in pairs.nearest(xp, given(X), given(Y), given(YID), k))
    for row, squares in enumerate(SQUARES):
        order = np.lexsort((YID, squares))[:k]
        np.testing.assert_array_equal(who[row, : len(order)], YID[order])
        np.testing.assert_array_equal(far[row, : len(order)], squares[order])
    assert (who[:, 30:] == -1).all()


@pytest.mark.parametrize(("xp", "given"), WORDS)
def test_united_points_are_connected_components(xp: Any, given: Any) -> None:
    number = np.arange(30)
    for limit in (0.0, 1.0, 2.0):
        found = pairs.united(
            xp, given(Y), given(number), given(Y), given(number), limit, given(number)
        )
        _, label = connected_components(csr_array(exact(Y, Y) <= limit), directed=False)
        least = np.array([number[label == one].min() for one in label])
        np.testing.assert_array_equal(np.asarray(pairs.pointed(xp, found)), least)


@pytest.mark.parametrize(("xp", "given"), WORDS)
def test_the_least_label_is_of_the_points_within_the_radius(xp: Any, given: Any) -> None:
    found = pairs.least_label(xp, given(X), given(Y), given(YID), LIMIT, 99)
    want = np.where(SQUARES <= LIMIT, YID, 99).min(1)
    np.testing.assert_array_equal(np.asarray(found), want)


@pytest.mark.parametrize(("xp", "given"), WORDS)
@pytest.mark.parametrize("nearest_first", [False, True])
def test_pairs_within_the_radius_come_row_after_row(
    xp: Any, given: Any, nearest_first: bool
) -> None:
    number, gap = pairs.found_within(xp, given(X), given(Y), given(YID), LIMIT, nearest_first)
    want: list[tuple[float, int]] = []
    for squares in SQUARES:
        row = [(s, i) for s, i in zip(squares, YID, strict=True) if s <= LIMIT]
        want += sorted(row) if nearest_first else sorted(row, key=lambda pair: pair[1])
    np.testing.assert_array_equal(np.asarray(number), [i for _, i in want])
    np.testing.assert_array_equal(np.asarray(gap), [s for s, _ in want])


@pytest.mark.parametrize(("xp", "given"), WORDS)
def test_the_lightest_edge_of_a_group_leaves_it(xp: Any, given: Any) -> None:
    number, group, core = np.arange(30), RNG.integers(0, 4, 30), RNG.integers(0, 4, 30) * 1.0
    points = tuple(map(given, (number, group, core)))
    found = pairs.lightest_edges(xp, given(Y), given(Y), points, points, 4)
    weight = np.maximum(np.maximum(exact(Y, Y), core), core[:, None])
    for g in range(4):
        edges = [
            (weight[i, j], min(i, j), max(i, j))
            for i in number[group == g]
            for j in number[group != g]
        ]
        assert tuple(float(a[g]) for a in found) == min(edges)

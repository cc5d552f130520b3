"""Turns of lanes over tiles of y: each part of x meets each tile of y once, to and fro."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from infinitensor.tasking.groups.streamed_pairs import turns

SIZES = [(1, 1, 1), (2, 3, 2), (4, 4, 4), (3, 7, 2), (5, 2, 1), (1, 5, 2)]


@pytest.mark.parametrize("is_one", [False, True])
@pytest.mark.parametrize(("n_y", "n_x", "n_lanes"), SIZES)
def test_every_part_of_x_meets_every_tile_of_y_once(
    n_y: int, n_x: int, n_lanes: int, is_one: bool
) -> None:
    met: Counter[tuple[int, int]] = Counter()
    for parts, j, _, _ in turns(n_y, n_x, n_lanes, is_one):
        assert len(parts) <= n_lanes
        assert len({part % n_lanes for part in parts.tolist()}) == len(parts)
        met.update((part, j) for part in parts.tolist())
    assert met == Counter({(part, j): 1 for part in range(n_x) for j in range(n_y)})


@pytest.mark.parametrize(("n_y", "n_x", "n_lanes"), SIZES)
def test_a_pass_begins_with_the_tile_that_the_one_before_ended_with(
    n_y: int, n_x: int, n_lanes: int
) -> None:
    order = [j for _, j, _, _ in turns(n_y, n_x, n_lanes, False)]
    passes = [order[k : k + n_y] for k in range(0, len(order), n_y)]
    assert len(passes) == -(-n_x // n_lanes)
    for before, after in pairwise(passes):
        assert before[-1] == after[0]
        assert before == after[::-1]


@pytest.mark.parametrize("is_one", [False, True])
@pytest.mark.parametrize(("n_y", "n_x", "n_lanes"), SIZES)
def test_each_result_begins_once_and_ends_once(
    n_y: int, n_x: int, n_lanes: int, is_one: bool
) -> None:
    begun: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    for parts, _, is_first, is_last in turns(n_y, n_x, n_lanes, is_one):
        results = parts % n_lanes if is_one else parts
        if is_first:
            assert not set(results.tolist()) & set(begun)
            begun.update(results.tolist())
        assert set(results.tolist()) <= set(begun)
        assert not set(results.tolist()) & set(ended)
        ended.update(results[is_last].tolist())
    n_results = min(n_lanes, n_x) if is_one else n_x
    assert begun == ended == Counter(range(n_results))

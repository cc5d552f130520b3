"""Kernels that move centres on a GPU: the oracle's ends, and bounds that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.cluster.dense_rows import _moves
from infinitensor.ops import TABLE
from infinitensor.ops.points import centres_triton, lloyd_triton
from infinitensor.ops.points.lloyd_triton import GOES_ON, HAS_EMPTY, IS_OVER

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("asked_every", [1, 4])
def test_iterations_are_the_oracles(asked_every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lloyd_triton, "ASKED_EVERY", asked_every)
    op = TABLE["_lloyd"]
    assert op.cases is not None
    assert op.oracle is not None
    with triton_in_numpy(centres_triton) as launches:
        for args, kwargs in op.cases(np.random.default_rng(1)):
            found = TableXp(WHOLE, "cuda").call("_lloyd", *args, **kwargs)
            wanted = op.oracle(*args, **kwargs)
            np.testing.assert_array_equal(found[2], wanted[2])
            np.testing.assert_array_equal(found[0], wanted[0])
            np.testing.assert_allclose(found[1], wanted[1], 1e-6, 1e-9)
    assert launches


def move(k: int, d: int, tol: float, change: Any, sums: Any) -> Any:
    centers = np.random.default_rng(k).normal(size=(k, d))
    before = centers.copy()
    moves, state = np.ones((k, 3), np.float32), np.zeros(2, np.int64)
    scale = np.full(d + 1, 2.0**10)
    given = [change, sums, scale, centers, moves, state, np.array([tol])]
    tiles = tuple(map(torch.from_numpy, given))
    with triton_in_numpy(centres_triton):
        lloyd_triton._move.get((k, d), tiles)(tiles)
        lloyd_triton._halfway.get((k, d), tiles[3:5])(tiles[3:5])
    return before, centers, moves, state


def sums_of(k: int, d: int, seed: int) -> Any:
    made = np.random.default_rng(seed).integers(-5000, 5000, (k, d + 2))
    made[:, d], made[:, d + 1] = 7 << 10, 7
    return made


@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 5), (33, 70), (70, 3)])
def test_moves_are_those_of_the_host_and_half_ways_no_longer(k: int, d: int) -> None:
    sums, change = sums_of(k, d, 0), np.zeros((k + 1, d + 2), np.int64)
    change[:k] = sums_of(k, d, 1)
    change[k, 0] = 3
    both = sums + change[:k]
    before, after, moves, state = move(k, d, 0.0, change, sums)
    np.testing.assert_array_equal(sums, both, "sums are added up in place")
    np.testing.assert_allclose(after, both[:, :d] / 1024 / 14, 1e-12)
    assert state.tolist() == [GOES_ON, 1]
    wanted = _moves(before, after, 1 << 30)
    wanted[:, 2] = np.inf if k == 1 else wanted[:, 2]  # there is no other centre
    np.testing.assert_allclose(moves, wanted, 1e-5, 1e-30)
    far = np.sqrt(((after - before) ** 2).sum(1))
    assert (moves[:, 0] >= far).all()
    assert all(moves[c, 1] >= np.delete(far, c).max(initial=0) for c in range(k))


def test_a_run_is_over_by_its_labels_or_by_the_way_and_goes_on_while_none_is_empty() -> None:
    k, d = 3, 2
    change = np.zeros((k + 1, d + 2), np.int64)
    assert move(k, d, 0.0, change, sums_of(k, d, 2))[3].tolist() == [IS_OVER, 1]
    change[k, 0] = 1
    assert move(k, d, 0.0, change, sums_of(k, d, 2))[3].tolist() == [GOES_ON, 1]
    assert move(k, d, 1e9, change, sums_of(k, d, 2))[3].tolist() == [IS_OVER, 1]
    change[1, d:] = -7 << 10, -7
    before, after, _, state = move(k, d, 1e9, change, sums_of(k, d, 2))
    assert state.tolist() == [HAS_EMPTY, 1]
    np.testing.assert_array_equal(before, after)

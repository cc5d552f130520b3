"""An order of points in which neighbours are close together: a permutation that gathers them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.ops.table_xp import TableXp

from infinitensor.ops.points.kd_order import order_in_words

RNG = np.random.default_rng(24)


def _step(x: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(x, axis=0), axis=1).mean())


@pytest.mark.parametrize("d", [1, 2, 5, 12])
@pytest.mark.parametrize("n", [1, 2, 63, 700])
def test_every_point_is_there_once(n: int, d: int) -> None:
    x = RNG.normal(size=(n, d))
    for order in (TableXp().call("_pairs_order", x), order_in_words(torch, torch.from_numpy(x))):
        np.testing.assert_array_equal(np.sort(np.asarray(order)), np.arange(n))


@pytest.mark.parametrize("d", [2, 12])
def test_neighbours_in_the_order_are_nearer_than_at_random(d: int) -> None:
    middles = RNG.normal(size=(8, d)) * 50
    x = middles[RNG.integers(0, 8, 2000)] + RNG.normal(size=(2000, d))
    for order in (TableXp().call("_pairs_order", x), order_in_words(torch, torch.from_numpy(x))):
        assert _step(x[np.asarray(order)]) < 0.5 * _step(x)


def test_equal_points_and_single_precision_have_an_order_too() -> None:
    for x in (np.ones((300, 3)), RNG.normal(size=(300, 3)).astype("f4")):
        for order in (
            TableXp().call("_pairs_order", x),
            order_in_words(torch, torch.from_numpy(x)),
        ):
            np.testing.assert_array_equal(np.sort(np.asarray(order)), np.arange(300))

"""Tries until one is accepted: a value depends on the seed and its index alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.ops.random.rejection import Words, search_upwards, try_until_accepted

N = 4000


def _small(m: Any, u: Any, v: Any, limit: Any) -> tuple[Any, Any]:
    """Evenly spread below the limit, by rejection."""
    return u, u < limit


def test_values_are_accepted_ones_and_no_neighbour_changes_them() -> None:
    index, limit = np.arange(N), np.full(N, 0.25)
    found = try_until_accepted(np, 7, index.copy(), (limit,), _small)
    assert (found < 0.25).all()
    assert stats.kstest(found * 4, "uniform").pvalue > 1e-4
    some = np.array([5, 17, 3999])
    alone = try_until_accepted(np, 7, some.copy(), (limit[some],), _small)
    np.testing.assert_array_equal(alone, found[some])
    other = try_until_accepted(np, 8, index.copy(), (limit,), _small)
    assert (other != found).mean() > 0.99


def test_torch_draws_what_numpy_draws() -> None:
    index = np.arange(300)
    limit = np.full(300, 0.3)
    want = try_until_accepted(np, 3, index.copy(), (limit,), _small)
    found = try_until_accepted(torch, 3, torch.arange(300), (torch.from_numpy(limit),), _small)
    np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("mean", [0.1, 1.0, 8.0])
def test_searching_upwards_inverts_the_distribution_function(mean: float) -> None:
    u = np.linspace(0.001, 0.999, 101)
    first = np.full(101, np.exp(-mean))
    found = search_upwards(Words(np), u, first, lambda k: mean / k)
    np.testing.assert_array_equal(found, stats.poisson(mean).ppf(u))


@pytest.mark.parametrize(
    ("word", "parameters"),
    [
        ("gamma", (0.7,)),
        ("poisson", (30.0,)),
        ("binomial", (50, 0.3)),
        ("hypergeometric", (20, 30, 12)),
        ("zipf", (2.5,)),
        ("vonmises", (0.0, 2.0)),
    ],
)
def test_tiles_and_devices_do_not_change_a_draw(word: str, parameters: tuple[Any, ...]) -> None:
    drawn = []
    for devices, elements in [("cpu", 1 << 20), ("cpu", 7), ("cpu*3", 11)]:
        with strict(devices, tile_elements=elements):
            it.random.seed(5)
            drawn.append(getattr(it.random, word)(*parameters, size=(6, 9)).numpy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])


def test_parameters_without_a_choice_have_one_value() -> None:
    with strict("cpu"):
        assert (it.random.binomial(9, [0.0, 1.0], size=(20, 2)).numpy() == [0, 9]).all()
        assert (it.random.poisson(0.0, size=9).numpy() == 0).all()
        assert (it.random.hypergeometric(5, 0, 3, size=9).numpy() == 3).all()
        drawn = it.random.hypergeometric(5, 4, 7, size=200).numpy()
    assert drawn.min() >= 3
    assert drawn.max() <= 5

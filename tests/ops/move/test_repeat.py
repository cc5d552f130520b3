"""Copies of an array beside itself, and of each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("reps", [0, 1, 3, (2, 1), (1, 0, 2), (2, 1, 3, 2), ()])
@pytest.mark.parametrize("shape", [(), (4,), (3, 5), (2, 0, 3)])
def test_an_array_beside_itself_is_numpys(shape: tuple[int, ...], reps: Any) -> None:
    agree(lambda xp, a: xp.tile(a, reps), RNG.normal(size=shape))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("times", [0, 1, 4])
def test_each_element_several_times_is_numpys(axis: Any, times: int) -> None:
    x = RNG.integers(0, 99, (5, 6)).astype("u2")
    agree(lambda xp, a: xp.repeat(a, times, axis), x)
    n = x.size if axis is None else x.shape[axis]
    counts = RNG.integers(0, 4, n)
    agree(lambda xp, a: xp.repeat(a, counts, axis), x)


def test_tiling_twice_is_tiling_by_the_product() -> None:
    x = it.asarray(RNG.normal(size=(3, 4)))
    np.testing.assert_array_equal(
        it.tile(it.tile(x, (2, 3)), (2, 1)).numpy(), it.tile(x, (4, 3)).numpy()
    )


def test_counts_undo_run_lengths() -> None:
    x = np.sort(RNG.integers(0, 6, 40))
    values, counts = it.unique_counts(it.asarray(x))
    np.testing.assert_array_equal(it.repeat(values, counts).numpy(), x)


def test_repeating_every_element_is_an_outer_product_with_ones() -> None:
    x = it.asarray(RNG.normal(size=13))
    once = it.outer(x, it.ones(3))
    np.testing.assert_array_equal(it.repeat(x, 3).numpy(), once.reshape(-1).numpy())
    np.testing.assert_array_equal(it.tile(x, 3).numpy(), once.T.reshape(-1).numpy())


def test_counts_that_do_not_fit_are_refused_as_by_numpy() -> None:
    x = np.ones((3, 4))
    refuse(lambda xp, a: xp.repeat(a, -1), x, match="negative values")
    refuse(lambda xp, a: xp.repeat(a, [1, 2], 0), x, match="could not be broadcast")
    refuse(lambda xp, a: xp.repeat(a, np.ones(3), 0), x, match="cannot cast repeats")
    refuse(lambda xp, a: xp.repeat(a, 2, 2), x, match="axis 2")
    refuse(lambda xp, a: xp.tile(a, -1), x, match="negative dimensions")


@pytest.mark.parametrize("tiles", [0, 7])
@pytest.mark.parametrize("dtype", ["f4", "u2", "?"])
def test_elements_are_repeated_on_a_gpu_whole_and_in_tiles(
    tiles: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(it.config, "small_elements", 0)
    monkeypatch.setattr(it.config, "tile_elements", tiles)
    x = (np.arange(60).reshape(3, 5, 4) % 7).astype(dtype)
    with fake_gpu(), it.init("cuda:0", memory="64MiB"):
        given = it.asarray(x)
        for axis in (None, 0, 1, 2):
            for times in (0, 1, 3):
                found = it.repeat(given, times, axis=axis).numpy()
                np.testing.assert_array_equal(found, np.repeat(x, times, axis))

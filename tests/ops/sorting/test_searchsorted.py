"""Searching in what is sorted: where a value goes so that it stays sorted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["i1", "u8", "f2", "f8", "c8"])
def test_values_before_a_place_are_smaller_and_behind_it_larger(side: Any, dtype: str) -> None:
    a = np.sort(RNG.integers(0, 9, 30).astype(dtype))
    v = RNG.integers(0, 12, (4, 6)).astype(dtype)
    agree(lambda xp, x, y: xp.searchsorted(x, y, side), a, v)
    for value, place in zip(
        v.flat, it.searchsorted(it.asarray(a), it.asarray(v), side).numpy().flat, strict=True
    ):
        assert place == ((a < value) if side == "left" else (a <= value)).sum()


def test_both_sides_tell_how_often_a_value_occurs() -> None:
    x = np.sort(RNG.integers(0, 9, 40))
    left, right = (it.searchsorted(it.asarray(x), it.arange(9), side) for side in ("left", "right"))
    np.testing.assert_array_equal((right - left).numpy(), np.bincount(x, minlength=9))


def test_nan_and_infinities_go_where_numpy_puts_them() -> None:
    a = np.array([-np.inf, -1.0, 0.0, 2.0, np.inf, np.nan, np.nan])
    for side in ("left", "right"):
        agree(lambda xp, x, s=side: xp.searchsorted(x, x[::-1], s), a)
    agree(lambda xp, x: xp.searchsorted(x, 1), a)
    agree(lambda xp, x: xp.searchsorted(x[:0], [1.0, np.nan]), a)


def test_a_sorter_stands_in_for_sorting() -> None:
    x, v = RNG.normal(size=30), RNG.normal(size=9)
    agree(lambda xp, a, b: xp.searchsorted(a, b, sorter=xp.argsort(a)), x, v)
    agree(lambda xp, a, b: a.searchsorted(b, sorter=np.argsort(x)), x, v)


@pytest.mark.parametrize(("one", "other"), [("i4", "f8"), ("u8", "i8"), ("f4", "i2"), ("?", "i8")])
def test_values_of_another_dtype_are_compared_as_by_numpy(one: str, other: str) -> None:
    a, v = np.sort(RNG.integers(0, 9, 20).astype(one)), RNG.integers(-3, 12, 15).astype(other)
    agree(lambda xp, x, y: xp.searchsorted(x, y), a, v)


def test_what_cannot_be_searched_is_refused_as_by_numpy() -> None:
    x = np.arange(4.0)
    refuse(lambda xp, a: xp.searchsorted(a[None], a), x, match="too deep")
    refuse(lambda xp, a: xp.searchsorted(a, a, "middle"), x, match="'left' or 'right'")
    refuse(lambda xp, a: xp.searchsorted(a, a, sorter=[0, 1]), x, match="sorter.size")
    refuse(lambda xp, a: xp.searchsorted(a, a, sorter=a), x, match="only contain integers")

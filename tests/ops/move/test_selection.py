"""Choosing among arrays, and writing where a mask or an index says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


def test_choices_by_number_are_selections_by_condition() -> None:
    number, choices = RNG.integers(0, 3, (5, 6)), RNG.normal(size=(3, 6))
    chosen = it.choose(it.asarray(number), list(map(it.asarray, choices)))
    selected = it.select([it.asarray(number == i) for i in range(3)], list(choices))
    np.testing.assert_array_equal(chosen.numpy(), selected.numpy())
    agree(lambda xp, a: xp.choose(a, list(choices)), number)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_numbers_of_no_choice_are_wrapped_or_clipped(mode: Any) -> None:
    agree(lambda xp, a: xp.choose(a, [10, 20.5, 30], mode=mode), np.arange(-7, 8))


def test_the_first_condition_that_holds_decides() -> None:
    x = np.arange(-9, 10)
    agree(lambda xp, a: xp.select([a > 5, a > 0, a > -5], [a, a * 2.5, -a], default=99), x)
    agree(lambda xp, a: xp.select([a > 50], [a]), x)


def test_each_piece_has_its_function_and_the_rest_has_the_last() -> None:
    x = RNG.normal(size=(4, 7))
    agree(lambda xp, a: xp.piecewise(a, [a < -0.5, a > 0.5], [lambda v: v * v, 3.0]), x)
    agree(lambda xp, a: xp.piecewise(a, [a < 0], [abs, lambda v: -v]), x)
    agree(lambda xp, a: xp.piecewise(a, [a > 100], [lambda v: v / 0]), x)


def test_writes_through_masks_and_indices_are_numpys() -> None:
    x, mask, row = RNG.normal(size=(5, 6)), RNG.random((5, 6)) < 0.4, RNG.integers(0, 6, (5, 2))

    def put(xp: Any, a: Any, m: Any, i: Any) -> Any:
        b, c = a.copy(), a.copy()
        xp.putmask(a, m, np.arange(4.0))
        xp.place(b, m, np.arange(4.0))
        xp.put_along_axis(c, i, np.array([[1.0, 2.0]]), 1)
        return a, b, c

    agree(put, x, mask, row)
    agree(put, x, np.zeros((5, 6), bool), row)


def test_sorting_is_put_along_axis_of_the_ranks() -> None:
    x = RNG.normal(size=(4, 9))
    found = it.empty((4, 9))
    ranks = np.argsort(np.argsort(x))
    it.put_along_axis(found, it.asarray(ranks), it.asarray(x), -1)
    np.testing.assert_array_equal(found.numpy(), np.sort(x))


def test_what_chooses_nothing_is_refused_as_by_numpy() -> None:
    x, yes = np.arange(3.0), np.ones(3, bool)
    refuse(lambda xp, a: xp.choose(a, [1, 2]), [0, 2], match="invalid entry")
    refuse(lambda xp, a: xp.choose(a, [1, 2]), [0.5], match="Cannot cast")
    refuse(lambda xp, a: xp.choose(a, [1, 2], mode="x"), [0], match="clipmode")
    refuse(lambda xp, m: xp.select([m], [1, 2]), yes, match="same length")
    refuse(lambda xp, m: xp.select([], []), yes, match="empty condition list")
    refuse(lambda xp, m: xp.select([m + 1], [1]), yes, match="should be boolean")
    refuse(lambda xp, a, m: xp.piecewise(a, [m], [1, 2, 3]), x, yes, match="functions are expected")
    refuse(lambda xp, a, m: xp.place(a, m, []), x, yes, match="empty array")
    refuse(lambda xp, a, m: xp.place(a, m[1:], [1]), x, yes, match="same size")
    refuse(lambda xp, a, m: xp.putmask(a, m[1:], [1]), x, yes, match="same size")
    refuse(lambda xp, a, m: xp.putmask(a, m, np.array([1j])), x, yes, match="Cannot cast")
    refuse(lambda xp, a, m: xp.put_along_axis(a, m * 0.5, 1, 0), x, yes, match="integer array")

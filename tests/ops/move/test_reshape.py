"""Arrays put together, taken apart, and brought to another shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


X = RNG.integers(0, 9, (4, 5))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (1, 2, 3, 4), (0,)])
def test_missing_axes_are_added_where_numpy_adds_them(shape: tuple[int, ...]) -> None:
    for word in ("atleast_1d", "atleast_2d", "atleast_3d"):
        agree(lambda xp, a, word=word: getattr(xp, word)(a), np.ones(shape))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("where", [0, -1, 2, [1, 3], [0, 0, 2], slice(1, None, 2), []])
def test_what_is_inserted_can_be_deleted_again(where: Any, axis: Any) -> None:
    agree(lambda xp, a: xp.delete(a, where, axis), X)
    agree(lambda xp, a: xp.insert(a, where, 7, axis), X)
    if isinstance(where, int) and axis is not None:
        place = where if where >= 0 else X.shape[axis] + where
        back = it.delete(it.insert(it.asarray(X), where, -1, axis), place, axis)
        np.testing.assert_array_equal(back.numpy(), X)


def test_masks_and_tensors_name_what_is_deleted() -> None:
    mask = np.array([True, False, False, True])
    agree(lambda xp, a, m: xp.delete(a, m, 0), X, mask)
    agree(lambda xp, a, i: xp.delete(a, i, 1), X, [0, 4, 0])
    agree(lambda xp, a, v: xp.insert(a, [1, 3], v, 1), X, RNG.integers(0, 9, (4, 2)))
    agree(lambda xp, a, v: xp.insert(a, 2, v, 0), X, [1.5, 2.5, 3.5, 4.5, 5.5])


def test_blocks_are_put_together_as_in_their_lists() -> None:
    a, b, c, d = X[:2, :2], X[:2, 2:], X[2:, :2], X[2:, 2:]
    agree(lambda xp, *parts: xp.block([[parts[0], parts[1]], [parts[2], parts[3]]]), a, b, c, d)
    found = it.block([[it.asarray(a), it.asarray(b)], [it.asarray(c), it.asarray(d)]])
    np.testing.assert_array_equal(found.numpy(), X)
    agree(lambda xp, x: xp.block([x, 5]), X[0])


@pytest.mark.parametrize("shape", [(), (3,), (5, 9), (2, 2), (0, 4), (41,)])
def test_resizing_repeats_or_cuts_off(shape: tuple[int, ...]) -> None:
    agree(lambda xp, a: xp.resize(a, shape), X)
    agree(lambda xp, a: xp.resize(a, shape), np.zeros((0, 3)))


@pytest.mark.parametrize("trim", ["f", "b", "fb", "FB"])
def test_trimming_twice_changes_nothing(trim: Any) -> None:
    x = np.array([0, 0, 3, 0, 5, 0, 0, 0])
    once = it.trim_zeros(it.asarray(x), trim)
    np.testing.assert_array_equal(it.trim_zeros(once, trim).numpy(), once.numpy())
    agree(lambda xp, a: xp.trim_zeros(a, trim), x)
    agree(lambda xp, a: xp.trim_zeros(a, trim), np.zeros(9))


def test_axes_summed_one_after_the_other_stay() -> None:
    agree(lambda xp, a: xp.apply_over_axes(xp.sum, a, [0, -1]), RNG.integers(0, 9, (3, 4, 5)))
    agree(lambda xp, a: xp.append(a, a[:1], 0), X)
    agree(lambda xp, a: xp.append(a, [1.5, 2]), X)


def test_what_names_no_place_is_refused_as_by_numpy() -> None:
    refuse(lambda xp, a: xp.delete(a, 4, 0), X, match="out of bounds for axis 0 with size 4")
    refuse(lambda xp, a: xp.delete(a, [1.5], 0), X, match="integer")
    refuse(lambda xp, a: xp.delete(a, [True], 0), X, match="match the axis length")
    refuse(lambda xp, a: xp.insert(a, 7, 0, 0), X, match="out of bounds")
    refuse(lambda xp, a: xp.insert(a, [[1]], 0, 0), X, match="one dimensional")
    refuse(lambda xp, a: xp.resize(a, (-1, 2)), X, match="non-negative")
    refuse(lambda xp, a: xp.trim_zeros(a, "x"), X, match="unexpected character")
    refuse(lambda xp, a: xp.block([[a], a]), X, match="mismatched")
    refuse(lambda xp, a: xp.block([a, []]), X, match="empty")
    refuse(lambda xp, a: xp.block((a, a)), X, match="tuple")
    refuse(lambda xp, a: xp.dsplit(a, 1)[0], X, match="3 or more dimensions")

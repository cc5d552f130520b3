"""Positions of the least and the greatest: the first of equal values, NaN before all."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f8", "c8"])
def test_the_first_of_equal_values_wins_in_every_tile(dtype: str) -> None:
    x = RNG.integers(0, 3, (6, 11)).astype(dtype)
    for word in ("argmin", "argmax"):
        for axis, keepdims in [(None, False), (0, True), (-1, False)]:
            agree(
                lambda xp, a, w=word, i=axis, k=keepdims: getattr(xp, w)(a, axis=i, keepdims=k), x
            )


def test_nan_is_found_before_any_number() -> None:
    x = RNG.normal(size=(4, 20))
    x[1, [3, 15]] = np.nan
    x[2, 19] = np.nan
    x[3, 0] = np.inf
    for word in ("argmin", "argmax"):
        agree(lambda xp, a, w=word: getattr(xp, w)(a, axis=1), x)
        agree(lambda xp, a, w=word: getattr(xp, w)(a), x)


def test_the_value_at_the_position_is_the_extreme_one() -> None:
    x = it.asarray(RNG.normal(size=(5, 13)))
    place = it.argmax(x, axis=1, keepdims=True)
    np.testing.assert_array_equal(
        it.take_along_axis(x, place, 1).numpy(), it.max(x, axis=1, keepdims=True).numpy()
    )
    np.testing.assert_array_equal(it.argmin(-x, axis=0).numpy(), it.argmax(x, axis=0).numpy())


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 4, 17])
def test_the_best_k_are_the_first_of_the_stable_order(k: int, largest: bool) -> None:
    x = RNG.integers(0, 5, (3, 17)).astype("f8")
    values, places = it.topk(it.asarray(x), k, largest=largest)
    want = np.argsort(-x if largest else x, axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, want, -1))


def test_nan_is_larger_than_every_number_among_the_best() -> None:
    x = it.asarray([1.0, np.nan, 3.0, np.inf, -1.0])
    assert it.topk(x, 2)[1].tolist() == [1, 3]
    assert it.topk(x, 4, largest=False)[1].tolist() == [4, 0, 2, 3]


def test_what_has_no_extreme_is_refused() -> None:
    refuse(lambda xp, a: xp.argmax(a), np.zeros(0), match="empty sequence")
    refuse(lambda xp, a: xp.argmin(a, axis=1), np.zeros((3, 0)), match="empty sequence")
    refuse(lambda xp, a: xp.argmin(a, axis=2), np.zeros((3, 1)), match="axis 2")
    with pytest.raises(ValueError, match="k=6 is not between 0 and 5"):
        it.topk(it.arange(5), 6)
    with pytest.raises(TypeError, match="no order"):
        it.topk(it.asarray([1j]), 1)

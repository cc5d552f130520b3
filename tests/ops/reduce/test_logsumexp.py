"""log(sum(exp)) does not overflow on the way, and tiles merge to the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_it_is_scipys_over_any_axes(axis: Any, dtype: str) -> None:
    x = (RNG.normal(size=(3, 4, 5)) * 5).astype(dtype)
    found = it.logsumexp(it.asarray(x), axis, keepdims=True)
    want = special.logsumexp(x, axis, keepdims=True)
    assert found.shape == want.shape
    np.testing.assert_allclose(found.numpy(), want, 1e-5 if dtype == "f4" else 1e-13)


def test_large_values_do_not_overflow_and_small_ones_do_not_vanish() -> None:
    for far in (-1e5, 0.0, 1e5):
        x = RNG.normal(size=40) + far
        found = float(it.logsumexp(it.asarray(x)))
        np.testing.assert_allclose(found, far + np.log(np.exp(x - far).sum()), 1e-12)


def test_a_shift_of_all_values_shifts_the_result() -> None:
    x = it.asarray(RNG.integers(-9, 9, (5, 9)) * 1.0)
    np.testing.assert_allclose(
        it.logsumexp(x + 128.0, 1).numpy(), (it.logsumexp(x, 1) + 128.0).numpy(), 1e-14
    )


def test_infinities_nan_and_nothing_have_their_values() -> None:
    for values, want in [
        ([-np.inf] * 9, -np.inf),
        ([1.0] * 8 + [np.inf], np.inf),
        ([1.0] * 8 + [np.nan], np.nan),
        ([-np.inf] * 8 + [3.0], 3.0),
        ([], -np.inf),
    ]:
        np.testing.assert_equal(float(it.logsumexp(it.asarray(np.array(values)))), want)


def test_softmax_made_with_it_sums_to_one() -> None:
    x = it.asarray(RNG.normal(size=(6, 10)) * 50)
    shares = it.exp(x - it.logsumexp(x, 1, keepdims=True))
    np.testing.assert_allclose(shares.sum(1).numpy(), 1, 1e-13)


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="needs real numbers, got complex128"):
        it.logsumexp(it.asarray([1j]))

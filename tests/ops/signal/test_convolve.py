"""Convolution: commutative, associative, a product of polynomials; and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


def _whole(n: int) -> Any:
    return RNG.integers(-9, 9, n) * 1.0


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_either_operand_may_be_the_longer_one(mode: Any) -> None:
    for n, m in [(30, 5), (5, 30), (9, 9), (1, 6), (20, 1)]:
        x, v = _whole(n), _whole(m)
        agree(lambda xp, a, b: xp.convolve(a, b, mode), x, v)
        agree(lambda xp, a, b: xp.correlate(a, b, mode), x + 1j, v - 2j)


def test_convolution_is_associative_and_has_a_one() -> None:
    a, b, c = (it.asarray(_whole(n)) for n in (17, 6, 9))
    left, right = it.convolve(it.convolve(a, b), c), it.convolve(a, it.convolve(b, c))
    np.testing.assert_array_equal(left.numpy(), right.numpy())
    np.testing.assert_array_equal(it.convolve(a, it.ones(1)).numpy(), a.numpy())


def test_it_is_the_product_of_polynomials_and_of_spectra() -> None:
    x, v = _whole(12), _whole(8)
    found = it.convolve(it.asarray(x), it.asarray(v)).numpy()
    np.testing.assert_array_equal(found, np.polynomial.polynomial.polymul(x, v))
    spectra = np.fft.irfft(np.fft.rfft(x, 19) * np.fft.rfft(v, 19), 19)
    np.testing.assert_allclose(found, spectra, 1e-10, 1e-10)


@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "f4", "c8"])
def test_sums_have_the_dtype_numpy_takes(dtype: str) -> None:
    x, v = RNG.integers(0, 3, 20).astype(dtype), RNG.integers(0, 3, 4).astype(dtype)
    agree(lambda xp, a, b: xp.convolve(a, b), x, v)


def test_windows_are_symmetric_and_bessels_function_is_scipys() -> None:
    window = it.kaiser(17, 8.6).numpy()
    np.testing.assert_allclose(window, window[::-1], 1e-14)
    assert window[8] == 1.0
    x = np.linspace(-20, 20, 45)
    np.testing.assert_allclose(it.i0(it.asarray(x)).numpy(), special.i0(x), 1e-13)
    agree(lambda xp, a: xp.sinc(a), np.append(x, [0.0, -0.0, 1.0, np.nan]), rtol=1e-13, atol=1e-16)


def test_what_cannot_be_convolved_is_refused_as_by_numpy() -> None:
    x = np.arange(4.0)
    refuse(lambda xp, a: xp.convolve(a, a[:0]), x, match="cannot be empty")
    refuse(lambda xp, a: xp.convolve(a[None], a), x, match="too deep")
    refuse(lambda xp, a: xp.convolve(a, a, "some"), x, match="mode must be one of")
    refuse(lambda xp, a: xp.correlate(a, a, 1.5), x, match="mode")
    refuse(lambda xp, a: xp.i0(a * 1j), x, match="complex")

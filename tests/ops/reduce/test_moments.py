"""Mean, variance and standard deviation: merged from tiles without loss."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("word", ["mean", "var", "std"])
@pytest.mark.parametrize("dtype", ["?", "i2", "f2", "f4", "c16"])
def test_moments_over_any_axes_have_numpys_values_and_dtypes(word: str, dtype: str) -> None:
    x = RNG.integers(0, 5, (4, 5, 6)).astype(dtype)
    rtol = 2e-3 if dtype == "f2" else 1e-6
    for axis in (None, 0, (-1, 0), ()):
        agree(lambda xp, a, i=axis: getattr(xp, word)(a, axis=i, keepdims=True), x, rtol=rtol)


def test_values_far_from_zero_keep_their_variance() -> None:
    x = RNG.normal(size=90)
    far = it.asarray(x + 1e8)
    np.testing.assert_allclose(float(far.var()), x.var(), 1e-6)
    assert float(it.var(it.full(90, 1e16))) == 0.0


def test_a_shift_and_a_scale_move_moments_as_they_should() -> None:
    x = it.asarray(RNG.integers(-99, 99, (5, 12)) * 1.0)
    np.testing.assert_allclose((x * 4 + 8).mean(1).numpy(), (x.mean(1) * 4 + 8).numpy(), 1e-14)
    np.testing.assert_allclose((x * 4 + 8).var(1).numpy(), (x.var(1) * 16).numpy(), 1e-13)
    np.testing.assert_allclose(x.std().numpy() ** 2, x.var().numpy(), 1e-14)


def test_degrees_of_freedom_are_taken_off_the_count() -> None:
    x = RNG.normal(size=(3, 8))
    for ddof in (0, 1, 2.5):
        agree(lambda xp, a, d=ddof: xp.var(a, axis=1, ddof=d), x, rtol=1e-13)
        agree(lambda xp, a, d=ddof: xp.std(a, axis=1, correction=d), x, rtol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nothing_has_a_mean_and_a_variance_of_nan() -> None:
    for word in ("mean", "var", "std"):
        agree(lambda xp, a, w=word: getattr(xp, w)(a, axis=1), np.zeros((3, 0)))
        agree(lambda xp, a, w=word: getattr(xp, w)(a, axis=0), np.zeros((3, 0)))
        agree(lambda xp, a, w=word: getattr(xp, w)(a), [1.0, np.nan, 2.0])
        agree(lambda xp, a, w=word: getattr(xp, w)(a), [1.0] * 9 + [np.inf])


def test_two_numbers_for_one_thing_and_integer_dtypes_are_refused() -> None:
    refuse(lambda xp, a: xp.var(a, ddof=1, correction=1), [1.0], match="simultaneously")
    refuse(lambda xp, a: xp.mean(a, axis=1), [1.0], match="axis 1")
    with pytest.raises(TypeError, match="must be inexact"):
        it.var(it.arange(3.0), dtype="i4")

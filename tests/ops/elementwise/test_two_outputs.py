"""The parts of numbers make up the number again."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


VALUES = np.array([0.0, -0.0, 0.3, -2.75, 1e300, 5e-324, -7.0, 4096.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_the_parts_of_special_values_are_numpys_with_their_signs(dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = VALUES.astype(dtype)
    for word in ("modf", "frexp"):
        agree(lambda xp, a, word=word: getattr(xp, word)(a), x)
        for one, other in zip(getattr(it, word)(it.asarray(x)), getattr(np, word)(x), strict=True):
            np.testing.assert_array_equal(np.signbit(one.numpy()), np.signbit(other))


def test_mantissa_and_exponent_are_the_number() -> None:
    x = RNG.normal(size=(4, 9)) * 10.0 ** RNG.integers(-300, 300, (4, 9))
    mantissa, exponent = it.frexp(it.asarray(x))
    assert exponent.dtype == np.int32
    assert (abs(mantissa.numpy()) >= 0.5).all()
    assert (abs(mantissa.numpy()) < 1).all()
    np.testing.assert_array_equal(it.ldexp(mantissa, exponent).numpy(), x)


def test_fraction_and_whole_part_add_up_to_the_number() -> None:
    x = RNG.normal(size=(5, 7)) * 100
    fraction, whole = it.modf(it.asarray(x))
    np.testing.assert_array_equal((fraction + whole).numpy(), x)
    np.testing.assert_array_equal(whole.numpy(), it.fix(it.asarray(x)).numpy())


def test_one_part_alone_is_the_same_part() -> None:
    x = RNG.normal(size=30)
    np.testing.assert_array_equal(it.modf(it.asarray(x))[1].numpy(), np.modf(x)[1])
    np.testing.assert_array_equal(it.frexp(it.asarray(x))[0].numpy(), np.frexp(x)[0])


def test_integers_have_parts_as_floats_and_complex_numbers_have_none() -> None:
    for dtype in ("i1", "u2", "i8", "?"):
        agree(lambda xp, a: xp.modf(a), np.arange(5).astype(dtype))
        agree(lambda xp, a: xp.frexp(a), np.arange(5).astype(dtype))
    refuse(lambda xp, a: xp.modf(a)[0], [1j], match="modf")
    refuse(lambda xp, a: xp.frexp(a)[0], [1j], match="frexp")


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")
def test_fixing_twice_changes_nothing_and_keeps_integers() -> None:
    once = it.fix(it.asarray(VALUES))
    np.testing.assert_array_equal(it.fix(once).numpy(), once.numpy())
    agree(lambda xp, a: xp.fix(a), np.arange(-3, 4))
    agree(lambda xp, a: xp.fix(a), VALUES)

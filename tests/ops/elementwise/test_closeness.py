"""Whether values are the same, nearly the same, or of a kind."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


SPECIAL = np.array([0.0, -0.0, 1.0, 1 + 1e-9, 1.1, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("equal_nan", [False, True])
def test_every_pair_of_special_values_is_as_close_as_numpy_says(
    dtype: str, equal_nan: bool
) -> None:
    x = SPECIAL.astype(dtype)
    agree(lambda xp, a: xp.isclose(a[:, None], a[None, :], equal_nan=equal_nan), x)


def test_a_value_is_close_to_itself_unless_it_is_nan() -> None:
    x = it.asarray(SPECIAL)
    np.testing.assert_array_equal(it.isclose(x, x, 0, 0).numpy(), ~np.isnan(SPECIAL))
    assert it.allclose(x, x, 0, 0, equal_nan=True)
    assert not it.allclose(x, x, 0, 0)


def test_the_tolerance_is_of_the_second_value() -> None:
    agree(lambda xp, a, b: xp.isclose(a, b, rtol=0.1, atol=0), [10.0, 11.0], [11.0, 10.0])
    assert it.isclose(it.asarray([10.0, 11.0]), [11.0, 10.0], 0.095, 0).tolist() == [True, False]


def test_one_differing_element_anywhere_makes_arrays_unequal() -> None:
    x = RNG.integers(0, 9, (5, 6))
    for place in range(0, x.size, 7):
        other = x.copy()
        other.flat[place] += 1
        assert not it.array_equal(it.asarray(x), it.asarray(other))
        assert not it.allclose(it.asarray(x), it.asarray(other))
    assert it.array_equal(it.asarray(x), it.asarray(x.astype("f4")))


def test_equal_needs_the_shape_and_equivalent_only_broadcasting() -> None:
    row, rows = it.asarray([1, 2, 3]), it.asarray([[1, 2, 3], [1, 2, 3]])
    assert it.array_equiv(row, rows)
    assert not it.array_equal(row, rows)
    assert not it.array_equiv(row, it.asarray([1, 2]))
    assert it.array_equal(it.zeros((0, 3)), it.zeros((0, 3)))
    assert not it.array_equal(it.zeros((0, 3)), it.zeros((3, 0)))


def test_signed_infinities_and_real_values_are_distinguished() -> None:
    agree(lambda xp, x: xp.isposinf(x) | xp.isneginf(x), SPECIAL)
    mixed = np.array([1 + 0j, 1j, np.nan + 0j, complex(0, -0.0), complex(1, np.nan)])
    agree(lambda xp, x: xp.isreal(x), mixed)
    agree(lambda xp, x: xp.iscomplex(x), mixed)
    refuse(lambda xp, x: xp.isposinf(x), mixed, match="not supported for complex")


def test_small_imaginary_parts_decide_the_dtype() -> None:
    step = np.finfo("f8").eps
    for size, kind in [(99, "f8"), (101, "c16")]:
        x = np.arange(20) + 0j
        x[13] += 1j * size * step
        assert it.real_if_close(it.asarray(x)).dtype == np.dtype(kind)
        agree(lambda xp, a: xp.real_if_close(a), x)

"""Words on torch tensors: unsigned integers, edges and complex order as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from infinitensor.dtypes import from_numpy, to_numpy
from infinitensor.ops.table import torch_words as words

WIDE = ["u2", "u4", "u8"]


def _check(word: Any, ufunc: Any, *arrays: Any) -> None:
    """The word has NumPy's values, made new and written into `out`."""
    with np.errstate(all="ignore"):
        want = ufunc(*arrays)
    tensors = [from_numpy(a.copy()) for a in arrays]
    out = from_numpy(np.empty_like(want))
    word(*tensors, out=out)
    np.testing.assert_array_equal(to_numpy(out), want)
    np.testing.assert_array_equal(to_numpy(word(*tensors)).astype(want.dtype), want)


def _pairs(dtype: str) -> tuple[Any, Any]:
    top = np.iinfo(dtype).max
    values = np.array([0, 1, 2, 7, top // 2, top // 2 + 1, top - 1, top], dtype)
    x, y = np.meshgrid(values, values)
    return x.ravel(), y.ravel()


@pytest.mark.parametrize("dtype", [*WIDE, "u1", "i8"])
def test_integers_wrap_divide_and_compare_as_in_numpy(dtype: str) -> None:
    x, y = _pairs(dtype)
    _check(words.wrapping("multiply"), np.multiply, x, y)
    _check(words.summing("add"), np.add, x, y)
    _check(words.floor_divide, np.floor_divide, x, y)
    _check(words.remainder, np.remainder, x, y)
    _check(words.fmod, np.fmod, x, y)
    _check(words.equal, np.equal, x, y)
    _check(words.not_equal, np.not_equal, x, y)
    _check(words.gcd, np.gcd, x, y)


@pytest.mark.parametrize("dtype", ["i1", "i8", "u2", "u8"])
def test_shifts_by_the_width_and_more_are_defined(dtype: str) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    n = np.array([0, 1, bits - 1, bits, bits + 3], dtype)
    for x in (np.ones(5, dtype), np.full(5, np.iinfo(dtype).max), np.full(5, np.iinfo(dtype).min)):
        _check(words.shift(left=True), np.left_shift, x.astype(dtype), n)
        _check(words.shift(left=False), np.right_shift, x.astype(dtype), n)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "u8"])
def test_ones_are_counted_in_every_width(dtype: str) -> None:
    info = np.iinfo(dtype)
    _check(words.bitwise_count, np.bitwise_count, np.array([0, 1, 85, info.max, info.min], dtype))


def test_complex_numbers_are_ordered_by_real_then_imaginary_part() -> None:
    values = np.array([1 + 2j, 1 - 2j, 0, 3j, -1, 2 + 1j, complex(np.nan, 1)])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    _check(words.comparison("less", swap=False, or_equal=False), np.less, x, y)
    _check(words.equal, np.equal, x, y)
    _check(words.sign, np.sign, values[:-1])


def test_zeros_nan_and_neighbours_are_numpys() -> None:
    x = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 5e-324])
    a, b = (g.ravel() for g in np.meshgrid(x, x))
    _check(words.nextafter, np.nextafter, a, b)
    _check(words.heaviside, np.heaviside, a, b)
    _check(words.spacing, np.spacing, x[:-1])
    _check(words.rint, np.rint, np.array([0.5, 1.5, 2.5, -0.5, -1.5]))
    for name, largest in (("maximum", True), ("minimum", False)):
        _check(words.extreme(name, largest, skip_nan=False), getattr(np, name), a, b)


def test_a_cube_root_is_right_to_the_last_places() -> None:
    x = np.random.default_rng(1).normal(size=200) ** 3
    found = words.cbrt(torch.from_numpy(x))
    np.testing.assert_allclose(found.numpy(), np.cbrt(x), 5e-16)


def test_integers_have_no_negative_powers() -> None:
    with pytest.raises(ValueError, match="negative integer powers"):
        words.power(torch.tensor([2, 3]), torch.tensor([1, -1]))

"""Sums and moments in C: NumPy's values, and the same bits whatever the strides."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from infinitensor.ops.forms.fold_order import line_axes
from infinitensor.ops.forms.folds import can_fold, moments, sums

pytestmark = pytest.mark.skipif(not can_fold(np.dtype("f8")), reason="no C compiler here")
SHAPES = [
    (5000,),
    (40, 7),
    (3, 2000),
    (200, 30),
    (6, 50, 4),
    (5, 1, 40),
    (2, 3, 4, 20),
    (0, 5),
    (4, 0),
]


def laid_out(x: np.ndarray) -> list[np.ndarray]:
    """The same values in other strides."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., ::2]
    wide[...] = x
    return [x, np.asfortranarray(x), wide, np.ascontiguousarray(x[::-1])[::-1]]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_moments_are_those_of_numpy_for_all_axes_and_strides(
    shape: tuple[int, ...], dtype: str
) -> None:
    x = (np.random.default_rng(1).normal(size=shape) + 3).astype(dtype)
    rtol, atol = (1e-5, 1e-3) if dtype == "f4" else (1e-12, 1e-10)
    every = [some for n in range(1, x.ndim + 1) for some in combinations(range(x.ndim), n)]
    for axes in every:
        line = line_axes(shape, tuple(axis - x.ndim for axis in axes))
        n = max(int(np.prod([shape[axis] for axis in axes])), 1)
        first = sums(x, axes, line)
        mean, squares = moments(x, axes, line)
        wide = x.astype("f8")
        wanted = wide.sum(axes)
        away = ((wide - wide.sum(axes, keepdims=True) / n) ** 2).sum(axes)
        np.testing.assert_allclose(first, wanted, rtol, atol)
        np.testing.assert_allclose(mean, wanted / n, rtol, atol)
        np.testing.assert_allclose(squares, away, rtol, atol)
        for other in laid_out(x):
            np.testing.assert_array_equal(sums(other, axes, line), first)
            np.testing.assert_array_equal(moments(other, axes, line)[1], squares)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", range(1, 18))
def test_a_short_line_has_the_bits_of_one_whose_elements_are_apart(n: int, dtype: str) -> None:
    x = np.random.default_rng(n).normal(size=(6, 50, n)).astype(dtype)
    x[0, :5], x[1, 3], x[2, 7, 0] = -0.0, np.inf, np.nan
    apart = np.repeat(x, 2, axis=2)[:, :, ::2]
    for rows, others in ((x, apart), (x[:, ::3], apart[:, ::3]), (x[::-1], apart[::-1])):
        found, wanted = sums(rows, (2,), (-1,)), sums(others, (2,), (-1,))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_allclose(found, rows.sum(2), 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_mean_whose_square_is_infinite_has_a_variance(dtype: str) -> None:
    x = np.full(2048, np.finfo(dtype).max / 4096, dtype)
    mean, squares = moments(x, (0,), (-1,))
    assert mean == x[0]
    assert squares == 0


def test_what_rounds_away_between_blocks_is_kept() -> None:
    x = np.zeros(100 * 1024)
    x[::1024] = 1
    x[0] = 1e16
    assert sums(x, (0,), (-1,)) == 1e16 + 99


def test_infinity_and_nan_stay() -> None:
    x = np.ones((3, 2000))
    x[0, 7], x[1, 5], x[2, 3], x[2, 4] = np.inf, np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(sums(x, (1,), (-1,)), [np.inf, np.nan, np.nan])


def test_integers_are_not_added_here() -> None:
    assert not can_fold(np.dtype("i8"))
    assert not can_fold(np.dtype("c16"))

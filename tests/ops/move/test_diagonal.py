"""Diagonals: read, summed, and made into matrices."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("k", [-9, -2, 0, 3, 9])
def test_the_matrix_of_a_diagonal_has_that_diagonal_and_zeros(k: int) -> None:
    v = RNG.integers(1, 9, 5) * 0.5
    made = it.diag(it.asarray(v), k)
    np.testing.assert_array_equal(it.diag(made, k).numpy(), v)
    np.testing.assert_array_equal(made.sum().numpy(), made.trace(k).numpy())
    agree(lambda xp, a: xp.diag(a, k), v)
    agree(lambda xp, a: xp.diagflat(a, k), RNG.normal(size=(2, 2)))


@pytest.mark.parametrize("k", [-7, -1, 0, 2, 8])
@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (-1, -2)])
def test_a_trace_is_the_sum_of_the_diagonal(k: int, axes: tuple[int, int]) -> None:
    x = RNG.integers(-9, 9, (4, 5, 6))
    agree(lambda xp, a: xp.trace(a, k, *axes), x)
    total = it.diagonal(it.asarray(x), k, *axes).sum(-1)
    np.testing.assert_array_equal(it.trace(it.asarray(x), k, *axes).numpy(), total.numpy())


def test_traces_of_products_in_either_order_are_one() -> None:
    a, b = (it.asarray(RNG.integers(-9, 9, (6, 6)) * 1.0) for _ in range(2))
    assert float(it.trace(a @ b)) == float(it.trace(b @ a))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f4", "c8"])
def test_traces_are_summed_in_the_dtype_numpy_takes(dtype: str) -> None:
    x = RNG.integers(0, 99, (5, 5)).astype(dtype)
    agree(lambda xp, a: xp.trace(a), x)
    agree(lambda xp, a: xp.trace(a, dtype="f8"), x.real)


def test_a_diagonal_is_a_copy() -> None:
    x = it.asarray(np.arange(9.0).reshape(3, 3))
    copy = it.diag(x)
    x[1, 1] = 100.0
    assert copy.tolist() == [0.0, 4.0, 8.0]


def test_what_has_no_diagonal_is_refused_as_by_numpy() -> None:
    refuse(lambda xp, a: xp.trace(a), np.ones(3), match="at least two dimensions")
    refuse(lambda xp, a: xp.trace(a, 0, 1, 1), np.ones((2, 2)), match="cannot be the same")
    refuse(lambda xp, a: xp.diag(a), np.ones((2, 2, 2)), match="1- or 2-d")
    refuse(lambda xp, a: xp.diag(a), 3.0, match="1- or 2-d")
    refuse(lambda xp, a: xp.trace(a, 0, 0, 5), np.ones((2, 2)), match="axis")

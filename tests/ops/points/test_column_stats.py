"""The columns of a matrix in one pass: whatever the rows of a tile, what NumPy says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.table_xp import TableXp

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("step", [1, 4, 1 << 40])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(1, 1), (9, 3), (40, 7)])
def test_facts_of_columns_are_numpys(shape: tuple[int, int], dtype: str, step: int) -> None:
    x = (RNG.normal(size=shape) * 10).astype(dtype)
    mean, variance, least, most = TableXp(step).call("_columns", x)
    rtol = 1e-5 if dtype == "f4" else 1e-12
    np.testing.assert_allclose(mean, x.mean(0, dtype="f8"), rtol, rtol)
    np.testing.assert_allclose(variance, x.var(0, dtype="f8"), rtol, rtol)
    np.testing.assert_array_equal(least, x.min(0))
    np.testing.assert_array_equal(most, x.max(0))


@pytest.mark.parametrize("step", [3, 1 << 40])
def test_values_far_from_zero_keep_their_variance(step: int) -> None:
    x = RNG.normal(size=(60, 4))
    found = TableXp(step).call("_columns", x + 1e8)[1]
    np.testing.assert_allclose(found, x.var(0), 1e-6)


def test_a_constant_column_has_no_variance_and_its_value_as_both_ends() -> None:
    mean, variance, least, most = TableXp(3).call("_columns", np.full((20, 2), 0.1))
    np.testing.assert_allclose(mean, 0.1, 1e-15)
    np.testing.assert_allclose(variance, 0, 0, 1e-30)
    np.testing.assert_array_equal(least, 0.1)
    np.testing.assert_array_equal(most, 0.1)


def test_columns_stand_alone_and_the_order_of_rows_does_not_matter() -> None:
    x = RNG.integers(-9, 9, (24, 5)).astype("f8")
    whole = TableXp(5).call("_columns", x)
    backwards = TableXp(5).call("_columns", x[::-1].copy())
    for i, (facts, other) in enumerate(zip(whole, backwards, strict=True)):
        one = TableXp(5).call("_columns", x[:, 2:3].copy())[i]
        np.testing.assert_array_equal(facts[2:3], one)
        np.testing.assert_allclose(facts, other, 1e-13, 1e-13)

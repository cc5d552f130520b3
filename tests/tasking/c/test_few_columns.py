"""Products and sums of rows with few columns, as C computes them: NumPy's values."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from infinitensor import native
from infinitensor.tasking.c.few_columns import RowKernel, added_product, multiplied, summed_rows
from infinitensor.tasking.kernels.c_kernel import entry

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
RNG = np.random.default_rng(24)


def whole(*shape: int, dtype: Any = "f8") -> np.ndarray:
    """Whole numbers: their sums are exact in any order."""
    return RNG.integers(-9, 10, shape).astype(dtype)


def run(kernel: RowKernel, *arrays: np.ndarray) -> np.ndarray:
    """Call a kernel over all rows of its first operand; the last array is its output."""
    walk = kernel.walk(arrays, arrays[0].shape)
    pointers = (ctypes.c_void_p * len(arrays))(*[native.address(x) for x in arrays])
    function = entry(kernel.source)
    numbers = (walk.n_rows, walk.n, walk.n_outer, walk.shape, pointers, walk.steps)
    function(*numbers, kernel.pack([]), walk.folded, walk.n_same)
    return arrays[-1]


@pytest.mark.parametrize("n_rows", [0, 1, 3, 50])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 3), (8, 20)])
def test_rows_times_a_small_matrix(n: int, m: int, n_rows: int) -> None:
    double = np.dtype("f8")
    x, y = whole(n_rows, n), whole(n, m)
    found = run(multiplied(double, double, double, n, m), x, y, np.full((n_rows, m), np.nan))
    np.testing.assert_array_equal(found, x @ y)


@pytest.mark.parametrize(("a", "b"), [("f4", "f8"), ("i4", "f8"), ("?", "f8"), ("f4", "f4")])
def test_operands_are_cast_to_the_dtype_of_the_product(a: str, b: str) -> None:
    x, y = whole(11, 4, dtype=a), whole(4, 3, dtype=b)
    made = np.result_type(a, b)
    kernel = multiplied(x.dtype, y.dtype, made, 4, 3)
    np.testing.assert_array_equal(run(kernel, x, y, np.empty((11, 3), made)), x.astype(made) @ y)


def test_rows_and_columns_may_be_apart_or_backwards() -> None:
    double = np.dtype("f8")
    x, y = whole(4, 30).T[::-1, ::1], whole(6, 4).T[:, ::-2]
    out = np.full((30, 6), np.nan)[:, ::2]
    np.testing.assert_array_equal(run(multiplied(double, double, double, 4, 3), x, y, out), x @ y)


@pytest.mark.parametrize(("n", "m"), [(1, 7), (3, 4), (9, 17)])
def test_products_over_rows_are_added_to_what_is_there(n: int, m: int) -> None:
    double = np.dtype("f8")
    x, y = whole(130, n), whole(130, 2 * m)[:, ::2]
    found = run(added_product(double, double, double, n, m), x, y, np.full((n, m), 100.0))
    np.testing.assert_array_equal(found, x.T @ y + 100)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_rows_are_added_one_after_another_as_numpy_adds_them(dtype: str) -> None:
    kind = np.dtype("i8" if dtype == "i2" else dtype)
    x = (RNG.standard_normal((60, 5)) * 100).astype(dtype)
    found = run(summed_rows(x.dtype, kind, 5), x[::2], np.zeros(5, kind))
    np.testing.assert_array_equal(found, x[::2].sum(0, dtype=kind))


def test_a_kernel_of_the_same_columns_is_the_same_source() -> None:
    double = np.dtype("f8")
    assert multiplied(double, double, double, 4, 3) is multiplied(double, double, double, 4, 3)
    assert multiplied(double, double, double, 4, 3).source != (
        multiplied(double, double, double, 3, 4).source
    )

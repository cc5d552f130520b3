"""SciPy's sparse matrices as `Csr`: products over row tiles, and remedies for all the rest."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

import infinitensor as it

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]


@functools.cache
def matrix(n: int = 13, m: int = 9, dtype: str = "float64") -> Any:
    rng = np.random.default_rng(n + m)
    dense = rng.integers(-4, 5, (n, m)) * (rng.random((n, m)) < 0.3)
    dense[n // 2] = 0
    return sp.csr_array(dense.astype(dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "complex64"])
@pytest.mark.parametrize("shape", [(9,), (9, 4), (9, 0)])
def test_a_product_is_scipys(dtype: str, shape: tuple[int, ...]) -> None:
    a = matrix(dtype=dtype)
    x = np.random.default_rng(0).standard_normal(shape)
    found = it.asarray(a) @ it.asarray(x)
    expected = a @ x
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.dia_array])
def test_every_format_comes_in(kind: Any) -> None:
    a = it.csr(kind(matrix()))
    assert isinstance(a, it.Csr)
    np.testing.assert_array_equal(a.toarray().numpy(), matrix().toarray())


def test_the_transpose_and_products_from_the_left() -> None:
    a, y = it.csr(matrix()), np.arange(26.0).reshape(13, 2)
    np.testing.assert_allclose((a.T @ y).numpy(), matrix().T @ y)
    np.testing.assert_allclose((it.asarray(y.T) @ a).numpy(), y.T @ matrix())
    assert a.T.T is a


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float64", "int8"])
def test_sums_are_scipys(axis: int | None, dtype: str) -> None:
    found = it.csr(matrix(dtype=dtype)).sum(axis)
    expected = matrix(dtype=dtype).toarray().sum(axis)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected)


def test_rows_are_sliced_and_entries_scaled() -> None:
    a = it.csr(matrix())
    np.testing.assert_array_equal(a[3:8].toarray().numpy(), matrix().toarray()[3:8])
    np.testing.assert_array_equal(a[9:2].toarray().numpy(), np.empty((0, 9)))
    np.testing.assert_array_equal((2 * a / 4).toarray().numpy(), matrix().toarray() / 2)
    np.testing.assert_array_equal((-a)[:2].sum(1).numpy(), -matrix().toarray()[:2].sum(1))
    assert (len(a), a.shape, a.nnz) == (13, (13, 9), matrix().nnz)
    assert a.dtype == np.float64
    np.testing.assert_array_equal(a.indptr, matrix().indptr)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1)])
def test_matrices_without_entries(shape: tuple[int, int]) -> None:
    a = it.csr(sp.csr_array(shape))
    np.testing.assert_array_equal((a @ np.ones(shape[1])).numpy(), np.zeros(shape[0]))
    np.testing.assert_array_equal(a.toarray().numpy(), np.zeros(shape))
    np.testing.assert_array_equal(a.sum(0).numpy(), np.zeros(shape[1]))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32), st.floats(0, 1))
@examples(15)
def test_a_product_is_linear_and_slices_stack(n: int, m: int, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(-9, 10, (n, m)) * (rng.random((n, m)) < share)
    a, x, k = it.csr(sp.csr_array(dense)), rng.integers(-9, 10, m), n // 2
    whole = (a @ x).numpy()
    np.testing.assert_array_equal(whole, dense @ x)
    np.testing.assert_array_equal(np.r_[(a[:k] @ x).numpy(), (a[k:] @ x).numpy()], whole)
    np.testing.assert_array_equal((a @ (2 * x)).numpy(), 2 * whole)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "adding": (lambda a: a + 1, TypeError, r"a Csr takes @.*x\.toarray\(\) is dense"),
    "a function of ours": (lambda a: it.exp(a), TypeError, r"x\.toarray\(\)"),
    "a program of ours": (
        lambda a: it.median(a) if hasattr(it, "median") else it.var(a),
        TypeError,
        r"x\.toarray\(\)",
    ),
    "a matrix given to a function": (lambda a: it.sin(matrix()), TypeError, r"x\.toarray\(\)"),
    "a ufunc of NumPy's": (lambda a: np.exp(a), TypeError, r"(?i)ufunc"),
    "NumPy's asarray": (lambda a: np.asarray(a), TypeError, r"x\.toarray\(\)"),
    "sparse times sparse": (lambda a: a @ a.T, TypeError, "sparse one is not here"),
    "a product with an array": (
        lambda a: a * np.ones(9),
        TypeError,
        r"Csr \* ndarray of shape \(9,\)",
    ),
    "an element": (lambda a: a[1, 2], TypeError, r"slice of rows, not by \(1, 2\)"),
    "a wrong length": (
        lambda a: a @ np.ones(4),
        ValueError,
        r"\(13, 9\) times an array of shape \(4,\)",
    ),
    "a wrong axis": (lambda a: a.sum(2), np.exceptions.AxisError, "axis 2"),
    "no shape": (lambda a: it.csr(([1], [0], [0, 1])), TypeError, "give the shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_says_what_to_do(name: str) -> None:
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call(it.csr(matrix()))


def test_a_product_is_cut_over_rows_and_devices_and_planned_once() -> None:
    before = it.config.small_elements, it.config.tile_elements
    it.config.small_elements, it.config.tile_elements = 0, 64
    try:
        with it.init("cpu*3"):
            a, x = it.csr(matrix(200, 50)), it.ones(50)
            y = a @ x
            it.compute(y)
            assert y.layout is not None
            assert set(y.layout.owners) == {0, 1, 2}
            it.stats(reset=True)
            for _ in range(3):
                it.compute(a @ x)
            assert it.stats()["plan_misses"] <= 1
            assert it.stats()["whole_ops"] == it.stats()["host_fallbacks"] == 0
    finally:
        it.config.small_elements, it.config.tile_elements = before

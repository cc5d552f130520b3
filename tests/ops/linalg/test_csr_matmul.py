"""Sparse matrices: products, written-out matrices and nearest centres are SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse

import infinitensor as it
from infinitensor.ops.linalg.csr_matmul import Rows

pytestmark = [
    pytest.mark.usefixtures("in_small_tiles"),
    pytest.mark.parametrize(
        "in_small_tiles", [("cpu", 7), ("cpu*3", 7)], indirect=True, scope="module"
    ),
]


def _matrix(n: int, m: int, density: float, dtype: str = "f8") -> Any:
    rng = np.random.default_rng(n + m)
    full = (rng.integers(-9, 10, (n, m)) * (rng.random((n, m)) < density)).astype(dtype)
    return sparse.csr_array(full)


@pytest.mark.parametrize("shape", [(11, 5), (5, 11), (1, 8), (8, 1), (30, 30)])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_products_with_vectors_and_matrices_are_those_of_the_dense(
    shape: tuple[int, int], density: float
) -> None:
    a = _matrix(*shape, density)
    x = np.arange(shape[1] * 4.0).reshape(shape[1], 4)
    np.testing.assert_array_equal((it.csr(a) @ it.asarray(x)).numpy(), a.toarray() @ x)
    np.testing.assert_array_equal((it.csr(a) @ it.asarray(x[:, 0])).numpy(), a.toarray() @ x[:, 0])


def test_products_are_linear_and_columns_stand_alone() -> None:
    a = it.csr(_matrix(13, 9, 0.3))
    x, y = (it.asarray(np.random.default_rng(i).integers(-9, 9, (9, 3)) * 1.0) for i in (1, 2))
    np.testing.assert_array_equal((a @ (x * 2 + y)).numpy(), ((a @ x) * 2 + a @ y).numpy())
    np.testing.assert_array_equal((a @ x).numpy()[:, 1], (a @ x[:, 1]).numpy())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_matrix_written_out_has_its_zeros_and_its_dtype(dtype: str) -> None:
    a = _matrix(9, 12, 0.3, dtype)
    found = it.csr(a).toarray()
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.numpy(), a.toarray())


def test_rows_know_where_their_entries_are() -> None:
    a = _matrix(6, 4, 0.5)
    rows = Rows(a.indptr, 4)
    assert (rows.n_rows, rows.n_columns) == a.shape
    for lo in range(6):
        for hi in range(lo, 7):
            first, last = rows.entries(lo, hi)
            np.testing.assert_array_equal(a.data[first:last], a[lo:hi].data)
            np.testing.assert_array_equal(rows.within(lo, hi), a[lo:hi].indptr)


def test_what_has_another_number_of_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a Csr of shape \(6, 4\).*needs 4 rows"):
        it.csr(_matrix(6, 4, 0.5)) @ it.ones((5, 2))

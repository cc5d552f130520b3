"""Common parts of linear algebra: dtypes, checks, letters of axes, one solved system."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.ir.op import Spec
from infinitensor.ops.linalg.triangles import (
    MOST_NUMPYS,
    adjoint,
    by_numpy,
    check_matrix,
    complex_of,
    is_one,
    linalg_dtype,
    matrix_call,
    matrix_scratch,
    real_of,
    solve_one,
)

DTYPES = ["?", "i1", "i8", "u4", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("second", DTYPES)
def test_two_operands_are_factored_in_the_dtype_numpy_takes(first: str, second: str) -> None:
    a, b = np.eye(2, dtype=first), np.ones((2, 1), second)
    assert linalg_dtype(a.dtype, b.dtype) == np.linalg.solve(a, b).dtype
    assert complex_of(a.dtype) == np.linalg.eigvals(a.astype(linalg_dtype(a.dtype)) + 0j).dtype
    assert real_of(linalg_dtype(a.dtype)) == np.linalg.svdvals(a).dtype


def test_half_precision_and_what_is_no_matrix_are_refused() -> None:
    with pytest.raises(TypeError, match="float16 is unsupported"):
        linalg_dtype("f2")
    with pytest.raises(np.linalg.LinAlgError, match="1-dimensional array given"):
        check_matrix(np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="must be square"):
        check_matrix(np.ones((2, 2, 3)), square=True)
    check_matrix(np.ones((2, 2, 3)))


def test_the_adjoint_of_the_adjoint_is_the_matrix() -> None:
    a: Any = it.asarray(np.arange(6).reshape(2, 3) * (1 + 2j))
    np.testing.assert_array_equal(adjoint(it, a).numpy(), a.numpy().conj().T)
    np.testing.assert_array_equal(adjoint(it, adjoint(it, a)).numpy(), a.numpy())


def test_one_matrix_is_distinguished_from_a_stack() -> None:
    shapes = {(3, 4): True, (1, 1, 3, 4): True, (2, 3, 4): False, (0, 3, 4): False}
    assert {shape: is_one(np.ones(shape)) for shape in shapes} == shapes


def test_letters_say_the_axes_of_outputs_and_only_stacks_are_cut() -> None:
    made = matrix_call(
        Spec((5, 3, 4), np.dtype("f8")), "mn", ("mk", "f8"), ("kn", "f4"), new={"k": 2}
    )
    assert [spec.shape for spec in made.outs] == [(5, 3, 2), (5, 2, 4)]
    assert made.form.sizes == (5, 3, 4, 2)
    assert made.form.uncut == {1, 2, 3}


def test_scratch_grows_with_the_matrix_and_holds_its_copies() -> None:
    small, large = (Spec((n, n), np.dtype("f8")) for n in (4, 400))
    assert matrix_scratch((small,), (small,), {}) < matrix_scratch((large,), (large,), {})
    assert matrix_scratch((large,), (large,), {}) >= 2 * 8 * 2 * 400**2


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_a_system_is_solved_in_place_or_left_alone(dtype: str) -> None:
    rng = np.random.default_rng(1)
    a = (rng.normal(size=(6, 6)) + 6 * np.eye(6)).astype(dtype)
    b = rng.normal(size=(6, 2)).astype(dtype)
    out = np.full((6, 2), 7, dtype)
    if solve_one(a, b, out):
        np.testing.assert_allclose(a @ out, b, 1e-4, 1e-5)
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            solve_one(np.zeros_like(a), b, out)
    else:
        np.testing.assert_array_equal(out, 7)
    stack = np.empty((2, 6, 2), dtype)
    assert not solve_one(np.stack([a, a]), np.stack([b, b]), stack)


SMALL = """
import sys
import numpy as np, infinitensor as it
a = np.random.default_rng(0).random((9, 9)) + 9 * np.eye(9)
x, n = it.asarray(a + a.T), np.linalg
for name in ("cholesky", "inv", "det", "eigvalsh", "svdvals", "eigvals"):
    found = np.ravel(getattr(it.linalg, name)(x))
    assert np.allclose(np.sort(found), np.sort(np.ravel(getattr(n, name)(a + a.T)))), name
assert np.allclose(it.linalg.eigh(x).eigenvalues.numpy(), n.eigvalsh(a + a.T))
assert np.allclose(it.linalg.slogdet(x)[1].numpy(), n.slogdet(a + a.T)[1])
assert np.allclose(it.linalg.pinv(x).numpy(), n.inv(a + a.T))
print("torch" in sys.modules)
"""


def test_small_matrices_are_factored_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("shape", [(MOST_NUMPYS + 1, 65), (2, 3, 3)])
def test_large_matrices_and_stacks_are_not_left_to_numpy(shape: tuple[int, ...]) -> None:
    assert not by_numpy(np, "svdvals", np.ones(shape), np.empty(2))


@pytest.mark.parametrize("shape", [(2000, 4), (4, 2000), (MOST_NUMPYS, MOST_NUMPYS)])
def test_matrices_of_few_elements_are_left_to_numpy(shape: tuple[int, int]) -> None:
    out = np.empty(min(shape))
    assert by_numpy(np, "svdvals", np.ones(shape), out)
    assert out[0] == pytest.approx(np.sqrt(shape[0] * shape[1]))
    m, n = max(shape), min(shape)
    whole = (np.empty((m, m)), np.empty(n), np.empty((n, n)))  # of a tall one these are many
    assert by_numpy(np, "svd", np.eye(m, n), whole) is (m == n)


def test_a_failure_of_numpy_is_raised_as_it_is() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        by_numpy(np, "inv", np.zeros((3, 3)), np.empty((3, 3)))

"""Factorisations and solves: every case in pieces, and the blocked programs with small blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.ops.programs import Cut, check_cases, ops_of

from infinitensor.ops.linalg.solve import cheapest_splits
from infinitensor.ops.linalg.triangles import positive_definite
from infinitensor.ops.table.registry import TABLE

CUTS = [("cpu", 1, 4), ("cuda", 1, 1024), ("cuda", 7, 4)]
"""Kinds of kernel, lengths of pieces and of blocks; `test_every_op.py` has the others."""
CHAPTERS = ("factor", "solve", "norm", "spectral")
LinAlgError = np.linalg.LinAlgError


@pytest.mark.parametrize(("kind", "step", "block"), CUTS)
@pytest.mark.parametrize("name", [n for chapter in CHAPTERS for n in ops_of(chapter)])
def test_pieces_give_the_value_of_the_whole(name: str, kind: str, step: int, block: int) -> None:
    check_cases(name, step, block, kind)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    "shape", [(40, 3), (41, 3), (7, 3), (100, 1), (5, 5), (4, 9), (9, 0), (0, 3)]
)
def test_tall_qr_gives_orthonormal_factors_of_the_matrix(shape: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape).astype(dtype)
    if a.dtype.kind == "c":
        a += (1j * rng.standard_normal(shape)).astype(dtype)
    q, r = Cut(3, 4).run("linalg.qr", (a,), {})
    k = min(shape)
    tolerance = 1e-5 if dtype in ("f4", "c8") else 1e-12
    assert q.dtype == r.dtype == a.dtype
    np.testing.assert_allclose(q @ r, a, atol=tolerance)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(k), atol=tolerance)
    np.testing.assert_array_equal(np.tril(r, -1), 0)
    only = Cut(3, 4).run("linalg.qr", (a, "r"), {})
    np.testing.assert_allclose(np.abs(only), np.abs(r), atol=tolerance)


def test_tall_qr_of_a_deficient_matrix_is_still_orthonormal() -> None:
    a = np.ones((50, 4))
    q, r = Cut(3, 4).run("linalg.qr", (a,), {})
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("block", [1, 4, 16, 1024])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i8"])
def test_blocked_cholesky_is_numpys(block: int, upper: bool, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = (10 * positive_definite(rng, 11, 11)).astype(dtype)
    if dtype == "c16":
        skew = rng.standard_normal((11, 11))
        a = a + 1j * (skew - skew.T)
    if dtype == "i8":
        a = np.triu(a) + np.triu(a, 1).T
    wanted = np.linalg.cholesky(a, upper=upper)
    got = Cut(3, block).run("linalg.cholesky", (a,), {"upper": upper})
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-4 if dtype == "f4" else 1e-10, atol=1e-4)


def test_cholesky_leaves_its_input_and_reads_one_triangle() -> None:
    a = positive_definite(np.random.default_rng(0), 9, 9)
    lower = np.tril(a) + np.triu(np.full((9, 9), np.nan), 1)
    before = lower.copy()
    got = Cut(3, 4).run("linalg.cholesky", (lower,), {})
    np.testing.assert_allclose(got, np.linalg.cholesky(a))
    np.testing.assert_array_equal(lower, before)


@pytest.mark.parametrize("block", [1, 4, 1024])
@pytest.mark.parametrize("trans", [0, "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
def test_blocked_triangular_solve_is_scipys(block: int, trans: Any, lower: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((9, 9)) + 9 * np.eye(9) + 1j * rng.standard_normal((9, 9))
    b = rng.standard_normal((9, 5))
    for right in (b, b[:, 0]):
        got = Cut(3, block).run("linalg.solve_triangular", (a, right, trans, lower), {})
        wanted = scipy.linalg.solve_triangular(a, right, trans, lower)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("cholesky", (-np.eye(3),), "Matrix is not positive definite"),
        ("solve", (np.zeros((2, 2)), np.ones(2)), "Singular matrix"),
        ("inv", (np.zeros((2, 2)),), "Singular matrix"),
        ("solve_triangular", (np.diag([1.0, 0.0]), np.ones(2)), "failed at diagonal 1"),
    ],
)
def test_values_that_cannot_be_factored_raise_when_run(
    name: str, args: Any, text: str, kind: str
) -> None:
    with pytest.raises(LinAlgError, match=text):
        Cut(3, 4, kind).run(f"linalg.{name}", args, {})


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("qr", (np.ones(3),), LinAlgError, "1-dimensional array given"),
        ("qr", (np.eye(3), "z"), ValueError, "Unrecognized mode 'z'"),
        ("qr", (np.eye(3, dtype="f2"),), TypeError, "float16 is unsupported in linalg"),
        ("inv", (np.ones((2, 3)),), LinAlgError, "must be square"),
        ("solve", (np.eye(2), np.ones(3)), ValueError, "do not match"),
        ("cholesky", (np.ones((2, 3)),), LinAlgError, "must be square"),
        ("norm", (np.ones(3), "fro"), ValueError, "Invalid norm order 'fro' for vectors"),
        ("norm", (np.ones((2, 2)), 3), ValueError, "Invalid norm order for matrices"),
        ("norm", (np.ones((2, 2, 2)), 2), ValueError, "Improper number of dimensions"),
    ],
)
def test_bad_arguments_raise_at_the_call(name: str, args: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        Cut().run(f"linalg.{name}", args, {})


@pytest.mark.parametrize("name", ["_inv_whole", "_det_whole"])
def test_empty_matrices(name: str) -> None:
    a = np.zeros((0, 0))
    np.testing.assert_array_equal(getattr(Cut(), name)(a), TABLE[name].oracle(a))  # type: ignore[misc]


def test_solve_knows_a_vector_by_its_one_axis() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 3, 3))
    for b in (rng.standard_normal(3), rng.standard_normal((3, 1)), rng.standard_normal((4, 3, 2))):
        got = Cut(2).run("linalg.solve", (a, b), {})
        np.testing.assert_allclose(got, np.linalg.solve(a, b))


def _cost(sizes: tuple[int, ...], first: int, last: int, splits: Any = None) -> int:
    """Multiplications of a chain, split as given or in the best of all ways."""
    if first == last:
        return 0
    return min(
        _cost(sizes, first, at, splits)
        + _cost(sizes, at + 1, last, splits)
        + sizes[first] * sizes[at + 1] * sizes[last + 1]
        for at in ([splits[first, last]] if splits else range(first, last))
    )


def test_a_chain_of_products_takes_the_fewest_multiplications() -> None:
    rng = np.random.default_rng(0)
    for n in range(2, 8):
        for _ in range(10):
            sizes = tuple(rng.integers(1, 50, n + 1).tolist())
            splits = cheapest_splits(sizes)
            assert _cost(sizes, 0, n - 1, splits) == _cost(sizes, 0, n - 1)

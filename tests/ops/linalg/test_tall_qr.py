"""Householder's QR in C: as exact as LAPACK's, at any scale, for the vectors of any machine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config
from infinitensor.fixed_c import op_source
from infinitensor.native import compiler, library
from infinitensor.ops.backend.c_loops import calling
from infinitensor.ops.linalg import tall_qr

pytestmark = pytest.mark.skipif(compiler() is None, reason="loops in C need a compiler")

SHAPES = [(1, 1), (9, 1), (5, 5), (17, 16), (40, 17), (64, 64), (200, 33), (300, 100), (2000, 48)]
MACHINES = [None, 32, pytest.param(64, marks=pytest.mark.slow)]
"""Bytes of a vector; those that a machine has not are slow to compile for it."""


@cache
def _factor(dtype: str, n_bytes: int | None) -> Any:
    name, bits = ("float", 32) if dtype == "f4" else ("double", 64)
    head = f"#include <stdint.h>\ntypedef {name} T;\n#define BITS {bits}\n"
    head += f"#define BYTES {n_bytes}\n" if n_bytes else ""
    return calling(library(head + op_source("tall_qr.c")).factor)


def _factored(a: np.ndarray, n_bytes: int | None = None) -> tuple[Any, Any]:
    """Q and R from V and T, and that R alone is the same R."""
    m, n = a.shape
    factor = _factor(a.dtype.str[1:], n_bytes)
    v, t, r, only = (np.full(s, np.nan, a.dtype) for s in ((m, n), (n, n), (n, n), (n, n)))
    where, step = int(a.__array_interface__["data"][0]), a.strides[0]
    assert factor(where, 0, step, 1, m, n, v, t, r) == 0
    assert factor(where, 0, step, 1, m, n, None, None, only) == 0
    np.testing.assert_array_equal(only, r)
    np.testing.assert_array_equal(np.triu(v[:n], 1), 0)
    np.testing.assert_array_equal(np.diag(v), 1)
    np.testing.assert_array_equal(np.tril(t, -1), 0)
    np.testing.assert_array_equal(np.tril(r, -1), 0)
    wide, triangle = v.astype(float), t.astype(float)
    return np.eye(m, n) - wide @ triangle @ wide[:n].T, r.astype(float)


def _check(a: np.ndarray, n_bytes: int | None = None) -> None:
    """Q is orthonormal, and each column of Q R that of a, to the last digits."""
    q, r = _factored(a, n_bytes)
    n = a.shape[1]
    eps = float(np.finfo(a.dtype).eps)
    np.testing.assert_allclose(q.T @ q, np.eye(n), atol=40 * eps)
    largest = np.abs(a).max(0).astype(float)
    scale = np.where(largest > 0, largest, 1)
    error = np.linalg.norm(q @ (r / scale) - a / scale, axis=0)
    assert (error <= 40 * eps * np.linalg.norm(a / scale, axis=0)).all()


@pytest.mark.parametrize("n_bytes", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_those_of_the_matrix(shape: Any, dtype: str, n_bytes: int | None) -> None:
    _check(np.random.default_rng(0).standard_normal(shape).astype(dtype), n_bytes)


@pytest.mark.parametrize("shape", SHAPES)
def test_r_is_lapacks_with_its_signs(shape: Any) -> None:
    a = np.random.default_rng(1).standard_normal(shape)
    np.testing.assert_allclose(_factored(a)[1], np.linalg.qr(a, "r"), atol=1e-11)


def _unlike(dtype: str) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((700, 40))
    limits = np.finfo(dtype)
    small, large = np.log2(float(limits.tiny)), np.log2(float(limits.max)) - 12
    deficient = a.copy()
    deficient[:, [3, 20]] = 0
    deficient[:, [7, 30]] = deficient[:, [8, 9]]
    return {
        "equal rows": np.ones((700, 40)),
        "nothing": np.zeros((700, 40)),
        "zero and equal columns": deficient,
        "of rank 5": a[:, :5] @ rng.standard_normal((5, 40)),
        "positive": rng.random((700, 40)) + 10,
        "columns of all sizes": a * np.exp2(np.linspace(small, large, 40)),
        "columns of all sizes, falling": a * np.exp2(np.linspace(large, small, 40)),
        "rows of all sizes": a * np.exp2(np.linspace(0, small, 700))[:, None],
        "the smallest numbers": a * float(limits.tiny),
        "powers": np.vander(np.linspace(0, 1, 700), 40),
        "triangular already": np.triu(a),
        "steps too small to square": np.eye(700, 40) + np.eye(700, 40, 1) * 2.0 ** (small // 2 - 9),
    }


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", list(_unlike("f4")))
def test_any_matrix_is_factored_as_exactly(name: str, dtype: str) -> None:
    _check(_unlike(dtype)[name].astype(dtype))


def test_what_squares_would_lose_is_in_r() -> None:
    a = np.eye(50, 2, dtype="f4")
    a[:, 1] = [1, *[1e-30] * 49]
    assert abs(_factored(a)[1][1, 1]) == pytest.approx(7e-30, rel=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_reach_r(bad: float) -> None:
    a = np.random.default_rng(3).standard_normal((90, 20))
    a[70, 5] = bad
    r = _factored(a)[1]
    assert np.isfinite(r[:, :5]).all()
    assert not np.isfinite(r[:6, 5]).any()
    assert np.isnan(r[6:, 6:][np.triu_indices(14)]).all()


@pytest.mark.parametrize("turn", ["steps", "columns first", "backwards", "integers", "read-only"])
def test_matrices_may_be_stored_in_any_way(turn: str) -> None:
    x = np.random.default_rng(4).standard_normal((3, 60, 40))
    ways: dict[str, Any] = {
        "steps": x[:, ::2, ::3],
        "columns first": np.asfortranarray(x[:, :, :5]),
        "backwards": x[::-1, ::-1, 19::-1],
        "integers": (9 * x[:, :, :7]).astype(np.int64),
        "read-only": np.broadcast_to(x[0, :, :9], (3, 60, 9)),
    }
    a = ways[turn]
    before = a.copy()
    b, m, n = a.shape
    v, t, r = np.empty((b, m, n)), np.empty((b, n, n)), np.empty((b, n, n))
    q = np.empty((b, m, n))
    assert tall_qr.factored(a, v, t, r)
    tall_qr.reflected(v, t, np.broadcast_to(np.eye(n), (b, n, n)), q)
    np.testing.assert_array_equal(a, before)
    for found, wanted in zip((q, r), np.linalg.qr(a), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize(
    "a",
    [np.ones((3, 4)), np.ones((3, 0)), np.ones((0, 5, 3)), np.ones((5, 2), complex)],
    ids=["wide", "no columns", "none", "complex"],
)
def test_others_are_left_to_lapack(a: Any) -> None:
    n = a.shape[-1]
    assert not tall_qr.factored(a, None, None, np.empty((*a.shape[:-2], n, n), a.dtype))


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_tall_matrices_are_factored_alike_with_and_without_a_compiler(
    dtype: str, compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiles:
        monkeypatch.setattr(config, "compile", "never")
    rng = np.random.default_rng(5)
    a = (
        rng.standard_normal((9000, 20)) + (1j * rng.random((9000, 20)) if dtype == "c16" else 0)
    ).astype(dtype)
    monkeypatch.setattr(config, "tile_elements", 1 << 14)
    with it.init("cpu*2"):
        q, r = (found.numpy() for found in it.linalg.qr(it.asarray(a)))
        only = it.linalg.qr(it.asarray(a), "r").numpy()
        values = it.linalg.svdvals(it.asarray(a)).numpy()
    exact = 1e-4 if dtype == "f4" else 1e-11
    np.testing.assert_allclose(q @ r, a, atol=exact)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(20), atol=exact)
    np.testing.assert_allclose(
        np.abs(np.diag(r)), np.abs(np.diag(np.linalg.qr(a, "r"))), rtol=exact
    )
    np.testing.assert_allclose(np.abs(only), np.abs(r), atol=100 * exact)
    np.testing.assert_allclose(values, np.linalg.svd(a, compute_uv=False), rtol=exact)

"""Factors multiply to the matrix, whatever blocks it is factored in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


def _is_upper(r: Any) -> bool:
    return bool((np.tril(r, -1) == 0).all())


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (6, 6), (40, 3), (1, 1), (3, 5, 4)])
def test_q_has_orthonormal_columns_and_q_times_r_is_the_matrix(
    shape: tuple[int, ...], dtype: str
) -> None:
    a = (RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if "c" in dtype else 0)).astype(
        dtype
    )
    q, r = it.linalg.qr(it.asarray(a))
    step = 100 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose((q @ r).numpy(), a, step, step)
    product = np.swapaxes(q.numpy().conj(), -1, -2) @ q.numpy()
    np.testing.assert_allclose(
        product, np.broadcast_to(np.eye(q.shape[-1]), product.shape), 0, step
    )
    assert _is_upper(r.numpy())
    assert (q.dtype, r.dtype) == (np.dtype(dtype), np.dtype(dtype))


def test_every_mode_has_the_same_r_but_for_signs() -> None:
    a = RNG.normal(size=(12, 5))
    r = np.abs(np.asarray(np.linalg.qr(a, "r")))
    np.testing.assert_allclose(abs(it.linalg.qr(it.asarray(a), "r").numpy()), r, 1e-10)
    q, whole = it.linalg.qr(it.asarray(a), "complete")
    assert (q.shape, whole.shape) == ((12, 12), (12, 5))
    np.testing.assert_allclose(abs(whole.numpy()[:5]), r, 1e-10)
    np.testing.assert_allclose((q @ whole).numpy(), a, 1e-10, 1e-10)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (12, 12), (3, 5, 5), (0, 0)])
def test_cholesky_factors_multiply_to_the_matrix(shape: tuple[int, ...], upper: bool) -> None:
    x = RNG.normal(size=shape)
    a = x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])
    agree(lambda xp, m: xp.linalg.cholesky(m, upper=upper), a, rtol=1e-10, atol=1e-12)


def test_cholesky_reads_one_triangle() -> None:
    x = RNG.normal(size=(12, 12))
    a = x @ x.T + 12 * np.eye(12)
    spoilt = a + np.triu(np.full((12, 12), np.nan), 1)
    found = it.linalg.cholesky(it.asarray(spoilt)).numpy()
    np.testing.assert_allclose(found, np.linalg.cholesky(a), 1e-10, 1e-12)


def test_what_has_no_factors_is_refused_as_by_numpy() -> None:
    refuse(lambda xp, a: xp.linalg.cholesky(a), -np.eye(12), match="not positive definite")
    refuse(lambda xp, a: xp.linalg.cholesky(a), np.ones((2, 3)), match="square")
    refuse(lambda xp, a: xp.linalg.qr(a), np.ones(3), match="two-dimensional")
    refuse(lambda xp, a: xp.linalg.qr(a, "half"), np.eye(3), match="Unrecognized mode")
    refuse(lambda xp, a: xp.linalg.qr(a), np.eye(3, dtype="f2"), match="unsupported in linalg")

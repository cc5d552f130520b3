"""Norms and condition numbers: what every norm keeps to, and the orders NumPy knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


ORDERS: list[Any] = [None, 1, 2, 3, 0.5, np.inf, -np.inf, 0, -1]


@pytest.mark.parametrize("order", [None, 1, 2, 3, np.inf])
def test_norms_scale_and_keep_the_triangle(order: Any) -> None:
    x, y = RNG.normal(size=(2, 41))
    size_x, size_y, both, scaled = (
        float(it.linalg.norm(it.asarray(v), order)) for v in (x, y, x + y, -3 * x)
    )
    assert both <= (size_x + size_y) * (1 + 1e-12)
    np.testing.assert_allclose(scaled, 3 * size_x, 1e-13)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["i4", "f4", "c16"])
def test_every_order_along_every_axis_is_numpys(order: Any, dtype: str) -> None:
    x = RNG.integers(1, 9, (3, 4, 5)).astype(dtype)
    for axis, keepdims in [(0, False), (-1, True), (1, True)]:
        agree(
            lambda xp, a, axis=axis, keepdims=keepdims: xp.linalg.norm(a, order, axis, keepdims),
            x,
            rtol=1e-5,
        )


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms_over_any_pair_of_axes_are_numpys(order: Any) -> None:
    x = RNG.normal(size=(3, 4, 5))
    for axes in [(0, 1), (2, 0), (-1, -2)]:
        agree(lambda xp, a, axes=axes: xp.linalg.norm(a, order, axes, True), x, rtol=1e-12)


def test_rotations_keep_the_frobenius_and_the_spectral_norm() -> None:
    x, (q, _) = RNG.normal(size=(8, 8)), np.linalg.qr(RNG.normal(size=(8, 8)))
    for order in ("fro", 2, "nuc"):
        rotated = it.linalg.matrix_norm(it.asarray(q) @ it.asarray(x), ord=order)
        np.testing.assert_allclose(float(rotated), np.linalg.norm(x, order), 1e-12)


def test_nan_infinity_and_nothing_are_numpys() -> None:
    for values in ([1.0, np.nan, 2.0], [1.0, -np.inf, 2.0], []):
        for order in (None, 1, 2, 0):
            agree(lambda xp, a, order=order: xp.linalg.norm(a, order), np.array(values))
    agree(lambda xp, a: xp.linalg.vector_norm(a, axis=(0, 2)), np.ones((2, 3, 4)), rtol=1e-14)


def test_the_condition_number_is_the_norm_times_that_of_the_inverse() -> None:
    x = RNG.normal(size=(6, 6)) + 4 * np.eye(6)
    for p in (None, "fro", 1, np.inf):
        agree(lambda xp, a, p=p: xp.linalg.cond(a, p), x, rtol=1e-10)
    assert np.isinf(float(it.linalg.cond(it.zeros((3, 3)))))
    np.testing.assert_allclose(float(it.linalg.cond(it.eye(5) * 7)), 1)


def test_what_has_no_norm_is_refused_as_by_numpy() -> None:
    x = np.ones((2, 3))
    refuse(lambda xp, a: xp.linalg.norm(a, "nuc", 0), x, match="Invalid norm order 'nuc'")
    refuse(lambda xp, a: xp.linalg.norm(a, 3), x, match="Invalid norm order for matrices")
    refuse(lambda xp, a: xp.linalg.norm(a, None, (0, 0)), x, match="Duplicate axes")
    refuse(lambda xp, a: xp.linalg.norm(a, 2), np.ones((2, 2, 2)), match="number of dimensions")
    refuse(lambda xp, a: xp.linalg.norm(a, None, "x"), x, match="'axis' must be")
    refuse(lambda xp, a: xp.linalg.norm(a, None, 2), x, match="out of bounds")
    refuse(lambda xp, a: xp.linalg.cond(a), np.ones((0, 0)), match="empty arrays")

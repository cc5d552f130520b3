"""Slopes, areas and values between points: exact where the curve is a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


def test_differences_of_neighbours_and_their_running_sum_are_inverse() -> None:
    x = RNG.integers(-9, 9, 40)
    steps = it.ediff1d(it.asarray(x), to_begin=int(x[0]))
    np.testing.assert_array_equal(it.cumsum(steps).numpy(), x)
    agree(lambda xp, a: xp.ediff1d(a, [7, 8], -1), x.reshape(5, 8))
    agree(lambda xp, a: xp.ediff1d(a), x[:1])


@pytest.mark.parametrize("edge_order", [1, 2])
def test_the_gradient_of_a_plane_is_its_slopes(edge_order: Any) -> None:
    at_y, at_x = np.array([0.0, 1, 3, 4, 8]), np.arange(9.0) * 0.5
    plane = 3 * at_y[:, None] - 2 * at_x + 1
    down, along = it.gradient(it.asarray(plane), at_y, 0.5, edge_order=edge_order)
    np.testing.assert_allclose(down.numpy(), 3, 1e-13)
    np.testing.assert_allclose(along.numpy(), -2, 1e-13)
    agree(
        lambda xp, a: xp.gradient(a, axis=-1, edge_order=edge_order),
        RNG.normal(size=(4, 9)),
        rtol=1e-14,
    )


def test_areas_of_two_parts_add_up() -> None:
    x, y = np.sort(RNG.random(31)), RNG.normal(size=31)
    parts = [it.trapezoid(it.asarray(y[s]), x[s]) for s in (slice(0, 12), slice(11, None))]
    np.testing.assert_allclose(float(parts[0] + parts[1]), np.trapezoid(y, x), 1e-12)
    agree(lambda xp, a: xp.trapezoid(a, dx=0.5, axis=0), RNG.normal(size=(6, 4)), rtol=1e-13)


def test_values_at_the_points_are_the_points_and_ends_go_on() -> None:
    at, values = np.array([-1.0, 0.5, 2, 7]), np.array([3.0, -1, 4, 0])
    np.testing.assert_array_equal(it.interp(it.asarray(at), at, values).numpy(), values)
    x = np.append(np.linspace(-4, 9, 40), [np.nan, np.inf, -np.inf])
    agree(lambda xp, a: xp.interp(a, at, values), x, rtol=1e-14)
    agree(lambda xp, a: xp.interp(a, at, values, left=-9, right=9), x, rtol=1e-14)
    agree(lambda xp, a: xp.interp(a, at, values + 1j, period=5), x[:40], rtol=1e-12)


@pytest.mark.parametrize("period", [2 * np.pi, 10])
def test_unwrapped_angles_are_the_angles_before_they_were_wrapped(period: Any) -> None:
    smooth = np.cumsum(RNG.uniform(-0.4, 0.4, 50) * period)
    wrapped = (smooth - smooth[0]) % period
    found = it.unwrap(it.asarray(wrapped), period=period).numpy()
    np.testing.assert_allclose(found, smooth - smooth[0], 1e-10, 1e-10)
    agree(lambda xp, a: xp.unwrap(a, axis=0, period=4), RNG.integers(0, 9, (7, 3)))


def test_what_has_no_slope_or_points_is_refused_as_by_numpy() -> None:
    x = np.arange(4.0)
    refuse(lambda xp, a: xp.gradient(a, edge_order=3), x, match="greater than 2")
    refuse(lambda xp, a: xp.gradient(a[:1]), x, match="too small")
    refuse(lambda xp, a: xp.gradient(a, 1, 2), x, match="number of arguments")
    refuse(lambda xp, a: xp.gradient(a, [1, 2]), x, match="must match the length")
    refuse(lambda xp, a: xp.interp(a, a, a[1:]), x, match="same length")
    refuse(lambda xp, a: xp.interp(a, [], []), x, match="empty")
    refuse(lambda xp, a: xp.interp(a, a, a, period=0), x, match="non-zero")
    refuse(lambda xp, a: xp.ediff1d(a.astype(int), 0.5), x, match="same_kind")

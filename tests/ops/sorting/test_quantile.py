"""Quantiles: every method, NaN, weights, and what any quantile keeps to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_every_method_along_an_axis_is_numpys(method: Any) -> None:
    x = RNG.normal(size=(3, 17))
    q = [0.0, 0.1, 0.5, 0.73, 1.0]
    agree(lambda xp, a: xp.quantile(a, q, axis=1, method=method), x, rtol=1e-12)


def test_quantiles_rise_with_their_share_and_percent_is_a_hundredth() -> None:
    x, q = it.asarray(RNG.normal(size=60)), np.linspace(0, 1, 13)
    found = it.quantile(x, q).numpy()
    assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(it.percentile(x, q * 100).numpy(), found, 1e-13)
    assert float(it.quantile(x, 0.5)) == float(it.median(x))


def test_signs_turn_quantiles_around() -> None:
    x = RNG.integers(-9, 9, 41) * 1.0
    for q in (0.0, 0.25, 0.5):
        up, down = it.quantile(it.asarray(x), q), it.quantile(it.asarray(-x), 1 - q)
        np.testing.assert_allclose(float(up), -float(down), 1e-13)


def test_a_nan_spoils_its_line_unless_it_is_left_out() -> None:
    x = RNG.normal(size=(4, 9))
    x[1, 3] = x[2, :4] = np.nan
    agree(lambda xp, a: xp.quantile(a, 0.3, axis=1), x, rtol=1e-13)
    agree(lambda xp, a: xp.nanquantile(a, [0.3, 0.9], axis=1, keepdims=True), x, rtol=1e-13)
    agree(lambda xp, a: xp.nanmedian(a, axis=0), x, rtol=1e-13)
    agree(lambda xp, a: xp.nanpercentile(a, 40), x, rtol=1e-13)


def test_weights_count_values_several_times() -> None:
    x, times = RNG.integers(0, 50, 15) * 1.0, RNG.integers(1, 4, 15)
    for q in (0.0, 0.2, 0.5, 1.0):
        found = it.quantile(it.asarray(x), q, weights=it.asarray(times), method="inverted_cdf")
        assert float(found) == np.quantile(np.repeat(x, times), q, method="inverted_cdf")


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4"])
def test_medians_have_numpys_dtype(dtype: str) -> None:
    x = RNG.integers(0, 9, (3, 8)).astype(dtype)
    agree(lambda xp, a: xp.median(a, axis=(0, 1)), x)
    agree(lambda xp, a: xp.median(a, axis=-1, keepdims=True), x)


def test_what_is_no_share_or_method_is_refused_as_by_numpy() -> None:
    x = np.arange(5.0)
    refuse(lambda xp, a: xp.quantile(a, 1.5), x, match=r"range \[0, 1\]")
    refuse(lambda xp, a: xp.percentile(a, -1), x, match=r"range \[0, 100\]")
    refuse(lambda xp, a: xp.quantile(a, 0.5, method="best"), x, match="not a valid method")
    refuse(lambda xp, a: xp.quantile(a * 1j, 0.5), x, match="real numbers")
    refuse(lambda xp, a: xp.quantile(a, 0.5, weights=a + 1), x, match="supports weights")

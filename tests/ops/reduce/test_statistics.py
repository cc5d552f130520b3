"""Laws of counting, ranking and averaging: whatever the tiles, what NumPy says of any values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

LINES = hnp.arrays(
    np.float64, st.integers(1, 40), elements=st.sampled_from([-2.0, -0.5, 0.0, 1.0, 1.5, 7.0])
)
HOLES = hnp.arrays(
    np.float32, st.integers(1, 40), elements=st.sampled_from([-2.0, 0.0, 1.5, np.nan])
)
METHODS = ("linear", "lower", "higher", "nearest", "midpoint", "hazen", "inverted_cdf")


@settings(max_examples=12, deadline=None)
@given(LINES, st.integers(1, 12))
def test_every_value_is_in_one_bin(x: Any, n: int) -> None:
    number, edges = it.histogram(it.asarray(x), n)
    assert int(number.sum()) == len(x)
    np.testing.assert_array_equal(number.numpy(), np.histogram(x, n)[0])
    np.testing.assert_array_equal(edges.numpy(), np.histogram(x, n)[1])


@settings(max_examples=12, deadline=None)
@given(LINES, st.floats(0, 1), st.sampled_from(METHODS))
def test_quantiles_are_numpys_and_among_the_values(x: Any, q: float, method: Any) -> None:
    found = float(it.quantile(it.asarray(x), q, method=method))
    assert x.min() <= found <= x.max()
    np.testing.assert_allclose(found, np.quantile(x, q, method=method), 1e-12)


@settings(max_examples=10, deadline=None)
@given(HOLES)
def test_leaving_nan_out_is_the_function_of_the_rest(x: Any) -> None:
    rest = x[~np.isnan(x)]
    for name in ("sum", "median", "max", "var"):
        if name == "sum" or len(rest):
            found = getattr(it, f"nan{name}")(it.asarray(x)).numpy()
            np.testing.assert_allclose(found, getattr(np, name)(rest), 1e-5)


@settings(max_examples=10, deadline=None)
@given(LINES, LINES)
def test_the_parts_of_a_union_are_disjoint(x: Any, y: Any) -> None:
    a, b = it.asarray(x), it.asarray(y)
    parts = [it.setdiff1d(a, b), it.intersect1d(a, b), it.setdiff1d(b, a)]
    joined = np.sort(np.concatenate([part.numpy() for part in parts]))
    np.testing.assert_array_equal(joined, it.union1d(a, b).numpy())
    np.testing.assert_array_equal(
        np.sort(np.concatenate([parts[0].numpy(), parts[2].numpy()])), it.setxor1d(a, b).numpy()
    )


@settings(max_examples=10, deadline=None)
@given(LINES, LINES)
def test_convolution_is_a_product_of_polynomials(x: Any, y: Any) -> None:
    both = it.convolve(it.asarray(x), it.asarray(y))
    at = 0.5
    product = np.polyval(x, at) * np.polyval(y, at)
    np.testing.assert_allclose(float(it.polyval(both, at)), product, 1e-9, 1e-9)


@settings(max_examples=10, deadline=None)
@given(hnp.arrays(np.uint8, st.integers(1, 40)))
def test_packed_bits_come_back(x: Any) -> None:
    bits = it.unpackbits(it.asarray(x))
    np.testing.assert_array_equal(it.packbits(bits).numpy(), x)


def test_counting_many_bins_cuts_the_counts() -> None:
    x = np.arange(0, 400, 3)
    np.testing.assert_array_equal(it.bincount(it.asarray(x)).numpy(), np.bincount(x))


def test_windows_are_views_of_what_they_show() -> None:
    x = it.arange(6)
    seen = it.lib.stride_tricks.sliding_window_view(x, 3)
    x[2] = 50
    assert seen[:, 0].tolist() == [0, 1, 50, 3]
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1


def test_what_is_wrong_with_values_is_said_when_they_are_computed() -> None:
    zero = it.average(it.arange(4.0), weights=it.zeros(4))
    with pytest.raises(ZeroDivisionError, match="Weights sum to zero"):
        zero.numpy()
    none = it.nanargmax(it.full((2, 3), np.nan), axis=1)
    with pytest.raises(ValueError, match="All-NaN slice"):
        none.numpy()


def test_nothing_leaves_the_tiles() -> None:
    x = it.asarray(np.random.default_rng(0).normal(size=60))
    it.stats(reset=True)
    it.compute(it.median(x), it.histogram(x, 4)[0], it.cov(x.reshape(3, 20)), it.convolve(x, x[:3]))
    counted = it.stats()
    assert not counted["host_fallbacks"]
    assert not counted["eager_fallbacks"]
    assert not counted["whole_ops"]


def test_methods_are_ndarrays() -> None:
    x = np.random.default_rng(0).normal(size=(4, 9))
    seen = it.asarray(x)
    part = seen[1]
    part.partition(3)
    x[1] = [*x[1][x[1] < np.sort(x[1])[3]], *np.sort(x[1])[3:4], *x[1][x[1] > np.sort(x[1])[3]]]
    np.testing.assert_array_equal(seen.numpy(), x)
    np.testing.assert_array_equal(seen.compress([True, False, True], 0).numpy(), x[[0, 2]])
    picked = it.asarray([0, 2, 1]).choose([seen[0, :3], 5.0, -1])
    np.testing.assert_array_equal(picked.numpy(), [x[0, 0], -1, 5])
    order = seen.argpartition(2, axis=0).numpy()
    np.testing.assert_array_equal(np.take_along_axis(x, order, 0), np.sort(x, 0))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantiles_of_nothing_but_holes_and_of_nothing_are_nan(axis: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's: a mean of nothing
        wanted = np.nanquantile(np.zeros((0, 3)), 0.3, axis)
    found = it.nanquantile(it.zeros((0, 3)), 0.3, axis)
    np.testing.assert_array_equal(found.numpy(), wanted)
    assert np.isnan(it.nanpercentile(it.full(4, np.nan), 30).item())


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(("kth", "axis"), [(3, 0), (39, 1), ([1, -1, 20], 1), ([100, 7], None)])
def test_a_partition_has_on_each_side_what_numpys_has(
    dtype: str, kth: int | list[int], axis: int | None
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 6, (6, 40)).astype(dtype)
    if x.dtype.kind == "c":
        x.imag = rng.integers(-3, 4, x.shape)
        x.imag[rng.random(x.shape) < 0.1] = np.nan
    if x.dtype.kind in "fc":
        x.real[rng.random(x.shape) < 0.1] = np.nan
    lines, along = (x.reshape(-1), 0) if axis is None else (x, axis)
    ranks = np.unique(np.reshape(kth, -1) % lines.shape[along])

    def sides(parted: np.ndarray) -> list[np.ndarray]:
        """The values at the ranks, and what is between: in any order, so sorted."""
        borders = np.stack([ranks, ranks + 1], -1).reshape(-1)
        return [np.sort(side, along) for side in np.split(parted, borders.tolist(), along)]

    wanted = sides(np.partition(x, kth, axis))
    order = it.argpartition(it.asarray(x), kth, axis).numpy()
    each_once = np.sort(np.argsort(lines, along), along)
    np.testing.assert_array_equal(np.sort(order, along), each_once)
    for found in (
        it.partition(it.asarray(x), kth, axis).numpy(),
        np.take_along_axis(lines, order, along),
    ):
        for side, other in zip(sides(found), wanted, strict=True):
            np.testing.assert_array_equal(side, other)

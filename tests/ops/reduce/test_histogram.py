"""Histograms: every value is in one bin, and bins are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import strict
from tests.ops.against_numpy import agree, refuse
from tests.ops.programs import check_cases, ops_of

import infinitensor as it
from infinitensor import native
from infinitensor.ops.backend.c_loops import loop

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("name", [name for name in ops_of("histogram") if name.startswith("_")])
def test_pieces_give_the_bins_of_the_whole(name: str, step: int, kind: str) -> None:
    check_cases(name, step, 1024, kind)


@pytest.mark.parametrize("right", [False, True])
def test_bins_that_rise_or_fall_hold_what_numpy_says(right: bool) -> None:
    x = np.append(RNG.integers(-2, 8, 30) * 1.0, [np.nan, np.inf, -np.inf])
    edges = np.array([0.0, 1, 1, 3, 6])
    agree(lambda xp, a, b: xp.digitize(a, b, right), x, edges)
    agree(lambda xp, a, b: xp.digitize(a, b, right), x, edges[::-1])


@pytest.mark.parametrize("bins", [7, "auto", "fd", "sturges", [0.0, 0.5, 0.5, 2.0]])
def test_histograms_by_number_rule_or_edges_are_numpys(bins: Any) -> None:
    x = RNG.normal(size=60)
    agree(lambda xp, a: xp.histogram(a, bins), x)
    if isinstance(bins, list):
        return
    agree(lambda xp, a: xp.histogram(a, bins, density=True), x, rtol=1e-13)
    agree(lambda xp, a: xp.histogram_bin_edges(a, bins, range=(-1, 4)), x)


def test_weights_and_density_are_sums_and_areas() -> None:
    x, weights = RNG.random(50), RNG.integers(0, 9, 50)
    found, edges = it.histogram(it.asarray(x), 6, weights=it.asarray(weights))
    assert int(found.sum()) == weights.sum()
    height, edges = it.histogram(it.asarray(x), 6, density=True)
    np.testing.assert_allclose(float((height * it.diff(edges)).sum()), 1, 1e-13)


def test_summing_a_grid_over_one_axis_is_the_histogram_of_the_other() -> None:
    x, y = RNG.random((2, 45))
    grid, at_x, _ = it.histogram2d(it.asarray(x), it.asarray(y), (5, 4))
    along, edges = it.histogram(it.asarray(x), 5)
    np.testing.assert_array_equal(grid.sum(1).numpy(), along.numpy())
    np.testing.assert_array_equal(at_x.numpy(), edges.numpy())
    points = RNG.random((30, 3))
    want, _ = np.histogramdd(points, (2, 3, 4))
    np.testing.assert_array_equal(it.histogramdd(it.asarray(points), (2, 3, 4))[0].numpy(), want)


def test_what_is_no_bin_is_refused_as_by_numpy() -> None:
    x = np.arange(4)
    refuse(lambda xp, a: xp.bincount(a - 1), x, match="no negative elements")
    refuse(lambda xp, a: xp.bincount(a * 0.5), x, match="Cannot cast")
    refuse(lambda xp, a: xp.bincount(a[None]), x, match="too deep")
    refuse(lambda xp, a: xp.bincount(a, a[1:]), x, match="same length")
    refuse(lambda xp, a: xp.bincount(a, minlength=-1), x, match="not be negative")
    refuse(lambda xp, a: xp.digitize(a, [0, 2, 1]), x, match="monotonically")
    refuse(lambda xp, a: xp.histogram(a, 0)[0], x, match="must be positive")
    refuse(lambda xp, a: xp.histogram(a, [2, 1])[0], x, match="increase monotonically")
    refuse(lambda xp, a: xp.histogram(a, "best")[0], x, match="not a valid estimator")
    refuse(lambda xp, a: xp.histogram(a, range=(2, 1))[0], x, match="max must be larger")
    refuse(lambda xp, a: xp.histogram(a, weights=a[1:])[0], x, match="same shape")
    refuse(lambda xp, a: xp.histogram(a + np.inf)[0], x, match="not finite")


def test_small_counts_run_at_once_and_their_edges_are_the_users() -> None:
    values = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    x = it.asarray(values)
    for _ in range(2):
        before = it.stats()["evaluations"]
        number, edges = it.histogram(x, 300, (-2.0, 2.0))
        want, wanted = np.histogram(values, 300, (-2.0, 2.0))
        np.testing.assert_array_equal(number.numpy(), want)
        np.testing.assert_array_equal(edges.numpy(), wanted, strict=True)
        if it.config.small_elements:
            assert it.stats()["evaluations"] == before
        edges[...] = 0  # nobody else has them


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_gpu_is_sent_edges_once(dtype: str) -> None:
    x = (RNG.normal(size=100_000) * 2).astype(dtype)
    with fake_gpu(), strict("cuda:0", 0, small_elements=1 << 16):
        a = it.asarray(x)
        for _ in range(3):
            it.stats(reset=True)
            number, edges = it.histogram(a, 16, range=(-4, 4))
            np.testing.assert_array_equal(number.numpy(), np.histogram(x, 16, (-4, 4))[0])
            assert it.stats()["bytes_loaded"] == 0
            edges[0] = 9  # nobody else has them
        np.testing.assert_array_equal(it.histogram(a, 16, range=(-4.0, 4.0))[1][0], -4)


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize(
    ("low", "high", "n_bins"),
    [
        (-4.0, 4.0, 256),
        (0.1, 0.7, 1053),
        (-1e6, 1e6 + 0.3, 3000),
        (0.0, 100.0, 100),
        (5, 5 + 1e-7, 3),
    ],
)
def test_bins_of_values_on_their_edges_are_those_of_a_search(
    low: float, high: float, n_bins: int, dtype: str, n_threads: int
) -> None:
    count = loop("histogram", "count_bins", dtype)
    assert count is not None
    rng = np.random.default_rng(n_bins)
    edges = np.linspace(low, high, n_bins + 1)
    for n in (0, 1, 257, 100_000):
        x = rng.standard_normal(n) * 3 if dtype[0] == "f" else rng.integers(-5, 120, n)
        x[: n // 2] = rng.choice(edges, n // 2)
        if dtype[0] == "f":
            x[n // 4 : n // 3] = np.nextafter(x[n // 4 : n // 3], rng.choice([-9e9, 9e9]))
            x[-3:] = [np.nan, np.inf, -np.inf][:n]
        x = x.astype(dtype)
        found = np.zeros(n_bins, np.int64)
        assert count(x, n, edges, n_bins, n_threads, found)
        exact = x.astype("f8")
        inside = exact[(exact >= low) & (exact <= high)]
        bins = np.minimum(np.searchsorted(edges, inside, "right") - 1, n_bins - 1)
        np.testing.assert_array_equal(found, np.bincount(bins, minlength=n_bins))

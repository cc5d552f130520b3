"""Counting: every value is in one bin, weights add up, and bins are NumPy's."""

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
from infinitensor.ops.reduce.histogram import COUNTED_AT_ONCE

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("n", [0, 1, 5, 40])
def test_counts_of_integers_add_up_to_their_number(n: int) -> None:
    x, weights = RNG.integers(0, 9, n), RNG.integers(0, 5, n) * 0.5
    assert int(it.bincount(it.asarray(x), minlength=3).sum()) == n
    agree(lambda xp, a: xp.bincount(a, minlength=12), x)
    agree(lambda xp, a, w: xp.bincount(a, w, 4), x, weights)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("name", [name for name in ops_of("histogram") if name.startswith("_")])
def test_pieces_give_the_counts_of_the_whole(name: str, step: int, kind: str) -> None:
    check_cases(name, step, 1024, kind)


@pytest.mark.parametrize("n", [1, 5, 300])
def test_weights_on_a_gpu_are_added_in_one_order(n: int) -> None:
    """Many of a bin in parts of the line, which are added up afterwards."""
    pytest.importorskip("torch")
    x, weights = RNG.integers(0, n, 50_000), RNG.normal(size=50_000)
    with fake_gpu(), it.init("cuda:0", memory="64MiB"):
        given = it.compute(it.asarray(x), it.asarray(weights))
        found = {it.bincount(*given).numpy().tobytes() for _ in range(3)}
        assert len(found) == 1
        np.testing.assert_allclose(np.frombuffer(found.pop()), np.bincount(x, weights), atol=1e-10)


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


@pytest.mark.parametrize("weight", ["f4", "f8", "f2", "i4", "?"])
@pytest.mark.parametrize("largest", [50, 5000])
def test_weights_of_any_dtype_are_summed_as_float64_in_any_tiles(weight: str, largest: int) -> None:
    rng = np.random.default_rng(8)
    x, weights = rng.integers(0, largest, 4000), (rng.normal(size=4000) * 9).astype(weight)
    for tile_elements in (300, 1 << 20):
        with strict("cpu", tile_elements):
            for step in (1, -2):
                some, own = x[::step], weights[::step]
                found = it.bincount(it.asarray(some), it.asarray(own), 60).numpy()
                wanted = np.bincount(some, own, 60)
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
            with pytest.raises(ValueError, match="negative"):
                it.bincount(it.asarray(x - 1), it.asarray(weights))


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


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_counts", [1, 7, 1024, 1025, 30_000])
@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_integers_are_counted_and_their_ends_found(
    dtype: str, n_counts: int, n_threads: int
) -> None:
    count = loop("histogram", "count_values", dtype)
    assert count is not None
    for n in (1, 300, 200_000):
        x = np.random.default_rng(n).integers(-3, n_counts + 3, n).astype(dtype)
        found, ends = np.zeros(n_counts, np.int64), np.empty(2, np.int64)
        assert count(x, n, n_counts, n_threads, found, ends)
        wanted = np.bincount(x[(x >= 0) & (x < n_counts)], minlength=n_counts)
        np.testing.assert_array_equal(found, wanted)
        assert ends.tolist() == [x.min(), x.max()]


@pytest.mark.skipif(native.compiler() is None, reason="lines are counted tile by tile")
@pytest.mark.parametrize("compile_", ["auto", "never"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_long_line_is_counted_by_all_threads_in_one_task(workers: int, compile_: str) -> None:
    rng = np.random.default_rng(workers)
    values = rng.integers(0, 5000, 2 * (COUNTED_AT_ONCE + 77))
    floats = rng.normal(size=COUNTED_AT_ONCE + 5).astype("f4")
    floats[::1000] = np.nan
    with strict("cpu", 0, compile=compile_, workers=workers):
        given = it.asarray(values)
        np.testing.assert_array_equal(it.bincount(given).numpy(), np.bincount(values))
        apart = it.bincount(given[::2]).numpy()
        np.testing.assert_array_equal(apart, np.bincount(values[::2]))
        made, edges = it.histogram(it.asarray(floats), 50, (-3, 3))
        if workers > 1 and compile_ == "auto":
            assert it.plan(made).n_tasks == 1
        wanted = np.histogram(floats, 50, (-3, 3))
        np.testing.assert_array_equal(made.numpy(), wanted[0])
        np.testing.assert_array_equal(edges.numpy(), wanted[1])

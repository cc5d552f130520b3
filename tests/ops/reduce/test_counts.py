"""Counting: every integer is counted once, and weights add up."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import strict
from tests.ops.against_numpy import agree
from tests.ops.programs import check_cases, ops_of

import infinitensor as it
from infinitensor import native
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.reduce.counts import COUNTED_AT_ONCE

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
@pytest.mark.parametrize("name", [name for name in ops_of("counts") if name.startswith("_")])
def test_pieces_give_the_counts_of_the_whole(name: str, step: int, kind: str) -> None:
    check_cases(name, step, 1024, kind)


@pytest.mark.sampled(1)
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


@pytest.mark.parametrize("n", [1, 2183, 100_000])
def test_few_values_are_counted_into_many_counts(n: int) -> None:
    rng = np.random.default_rng(n)
    x, weights = rng.integers(0, 70_000, n), rng.normal(size=n).astype("f4")
    given = it.asarray(x)
    assert it.bincount(given, None, 80_000).tolist() == np.bincount(x, None, 80_000).tolist()
    np.testing.assert_allclose(
        it.bincount(given, it.asarray(weights), 80_000).numpy(), np.bincount(x, weights, 80_000)
    )
    with pytest.raises(ValueError, match="negative"):
        it.bincount(it.asarray(x - 70_000), None, 80_000)


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

"""Counts on a GPU: of few integers and of many, outside of what is counted, and their ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor.ops.reduce import histogram_triton

torch = pytest.importorskip("torch")
LEAST = histogram_triton.LEAST_COUNTED_ELEMENTS


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(histogram_triton, "can_start", lambda *given: True)
    with triton_in_numpy(histogram_triton) as found:
        yield found


@pytest.mark.parametrize(
    ("low", "high", "n"), [(0, 7, 7), (-5, 900, 400), (0, 255, 255), (5, 9, 0)]
)
@pytest.mark.parametrize("size", [LEAST, 9 * LEAST + 777])
def test_counts_and_ends_are_numpys(
    launches: list[Any], low: int, high: int, n: int, size: int
) -> None:
    x = np.random.default_rng(n).integers(low, high, size)
    found = histogram_triton.count_values(torch.from_numpy(x), n)
    assert found is not None
    counts, ends = found
    np.testing.assert_array_equal(counts, np.bincount(x[(x >= 0) & (x < n)], minlength=n))
    assert ends.tolist() == [x.min(), x.max()]
    assert len(launches) == 2


def test_the_farthest_integers_are_ends(launches: list[Any]) -> None:
    x = np.full(LEAST, 3)
    x[5], x[-1] = histogram_triton.MOST, histogram_triton.LEAST
    found = histogram_triton.count_values(torch.from_numpy(x), 300)
    assert found is not None
    assert found[0].tolist() == [0, 0, 0, LEAST - 2, *[0] * 296]
    assert found[1].tolist() == [histogram_triton.LEAST, histogram_triton.MOST]


def test_programs_take_several_blocks_where_there_are_many(
    launches: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And add to copies of the counts, if these are few."""
    monkeypatch.setattr(histogram_triton, "COUNT_PROGRAMS", 3)
    x = np.random.default_rng(0).integers(0, 600, 9 * LEAST + 5)
    found = histogram_triton.count_values(torch.from_numpy(x), 500)
    assert found is not None
    np.testing.assert_array_equal(found[0], np.bincount(x)[:500])
    assert launches[0].grid[0] == 3


DTYPES = ["float16", "float32", "float64", "int64", "uint8", "int32", "bool"]


def _numbers(rng: np.random.Generator, dtype: str, size: int) -> np.ndarray:
    """Of all powers that a dtype has, of either sign."""
    if dtype == "bool":
        return rng.random(size) < 0.5
    if not dtype.startswith("float"):
        whole = np.iinfo(dtype)
        return rng.integers(whole.min, whole.max, size, dtype, endpoint=True)
    ends = np.finfo(dtype)
    powers = rng.integers(ends.minexp - ends.nmant, ends.maxexp - 14, size)
    return np.ldexp(rng.uniform(-1, 1, size), powers).astype(dtype)


def _exact_sums(x: np.ndarray, weights: np.ndarray, n: int) -> list[float]:
    wide = weights.astype(np.float64)
    return [math.fsum(wide[x == k]) for k in range(n)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "high"), [(7, 7), (300, 290), (3, 9), (0, 3)])
def test_sums_of_weights_are_exact_but_for_a_rounding(
    launches: list[Any], dtype: str, n: int, high: int
) -> None:
    """Those that nearly cancel too; and torch makes the same bits."""
    rng = np.random.default_rng(n)
    x = rng.integers(-1, high, (LEAST << (high == 290)) + 999)
    weights = _numbers(rng, dtype, len(x))
    n_copies = histogram_triton._copies_of(13, n, len(x))
    assert n_copies == (2 if high == 290 else 1)
    if weights.dtype.kind == "f":
        weights[1 : LEAST // 2 : 2], x[1 : LEAST // 2 : 2] = -weights[:LEAST:4], x[:LEAST:4]
    given = torch.from_numpy(x), torch.from_numpy(weights), n
    limbs = histogram_triton.limbs_for(*given[1:])
    assert limbs is not None
    found = histogram_triton.weigh_values(*given, limbs)
    assert found is not None
    np.testing.assert_allclose(found[0], _exact_sums(x, weights, n), rtol=4e-16, atol=0)
    assert found[1].tolist() == [x.min(), x.max()]
    assert len(launches) == 2 + (n_copies > 1 and not limbs.is_exact)
    torch.testing.assert_close(
        histogram_triton.weigh_eagerly(*given, limbs), found[0], rtol=0, atol=0
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_with_numbers_that_are_not_finite_are_numpys(launches: list[Any], dtype: str) -> None:
    x = np.arange(LEAST) % 8
    weights = np.ones(LEAST, dtype)
    weights[[0, 1, 2, 3, 11, 4]] = np.nan, np.inf, -np.inf, np.inf, -np.inf, -np.nan
    weights[[5, 13, 6, 14]] = *[np.finfo(dtype).max] * 2, *[np.finfo(dtype).smallest_subnormal] * 2
    given = torch.from_numpy(x), torch.from_numpy(weights), 8
    limbs = histogram_triton.limbs_for(*given[1:])
    assert limbs is not None
    found = histogram_triton.weigh_values(*given, limbs)
    assert found is not None
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found[0], np.bincount(x, weights))
    eagerly = histogram_triton.weigh_eagerly(*given, limbs)
    np.testing.assert_array_equal(eagerly, found[0])


def test_the_smallest_and_the_largest_sums_are_rounded_as_others(launches: list[Any]) -> None:
    x, weights = np.zeros(LEAST, np.int64), np.zeros(LEAST)
    x[LEAST // 2 :] = 1
    weights[:3], weights[-2:] = 5e-324, np.finfo(float).max / 2
    weights[5:9] = 1e300, 1e-300, -1e300, 1e-320
    given = torch.from_numpy(x), torch.from_numpy(weights), 2
    limbs = histogram_triton.limbs_for(*given[1:])
    assert limbs is not None
    found = histogram_triton.weigh_values(*given, limbs)
    assert found is not None
    assert found[0].tolist() == [math.fsum(weights[: LEAST // 2]), np.finfo(float).max]


def test_few_weights_complex_ones_and_many_sums_have_no_limbs() -> None:
    weights = torch.zeros(LEAST)
    assert histogram_triton.limbs_for(weights, 9) is not None
    assert histogram_triton.limbs_for(weights[1:], 9) is None
    assert histogram_triton.limbs_for(weights.to(torch.complex64), 9) is None
    assert histogram_triton.limbs_for(weights, 1 << 20) is None
    most = histogram_triton.most_sum_bytes(1 << 20, LEAST)
    assert most == 8 * (68 * 1024 + histogram_triton.SUM_PLACES + 16 * LEAST)
    assert histogram_triton.most_sum_bytes(9, LEAST - 1) == 0


@needs_triton
@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "int64", "int32"])
def test_kernels_of_sums_compile(dtype: str) -> None:
    kind, whole = getattr(torch, dtype), torch.int64
    x, weights = torch.zeros(LEAST, dtype=whole), torch.zeros(LEAST, dtype=kind)
    limbs = histogram_triton.limbs_for(weights, 300)
    assert limbs is not None
    launch = histogram_triton._weights_launch((LEAST, 2000, 1024, 17384, 16), (x, weights))
    assert compiles(launch, [whole, kind, whole, whole])
    finish = histogram_triton._finish_launch((2000, 1024, 17384, 4, 16, *limbs), ())
    assert compiles(finish, [whole, whole, torch.float64, whole])
    fold = histogram_triton._fold_launch((limbs.n_rows, 1024, 17384, 16), ())
    assert compiles(fold, [whole])


@needs_triton
@pytest.mark.parametrize("n", [7, 300, 5000])
def test_kernels_of_counts_compile(n: int) -> None:
    x, counts = torch.zeros(LEAST, dtype=torch.int64), torch.zeros((4, n), dtype=torch.int64)
    launch = histogram_triton._values_launch((LEAST, n), (x, counts, x))
    assert compiles(launch, [torch.int64] * 3)
    launch = histogram_triton._bins_launch((LEAST, n), (x, x, counts))
    assert compiles(launch, [torch.float32, torch.float64, torch.int64])


@pytest.mark.parametrize("n", [5, 900])
def test_bins_that_are_not_of_one_width_are_looked_for(launches: list[Any], n: int) -> None:
    """Edges of few bits are such: some are equal. Others are far from where they are expected."""
    x = np.random.default_rng(n).normal(size=LEAST)
    even = np.linspace(-2, 2, n + 1).astype(np.float16).astype(np.float64)
    for edges in (even, np.sort(np.append(x[: n - 1], [-9.0, 9.0]))):
        found = histogram_triton.count_bins(torch.from_numpy(x), torch.from_numpy(edges))
        np.testing.assert_array_equal(found, np.histogram(x, edges)[0])


@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8"])
def test_bins_are_numpys(launches: list[Any], n: int, dtype: str) -> None:
    """Values on edges, outside of them, and NaN, which is in none."""
    x = np.abs(np.random.default_rng(n).normal(size=LEAST + 9) * 3).astype(dtype)
    edges = np.linspace(0.5, 5.0, n + 1)
    x[:9] = np.array([0.5, 5.0, 0.0, 9.0, 1.0, 2.0, 3.0, 4.0, 0.25], dtype)
    if x.dtype.kind == "f":
        x[9:12] = np.nan, np.inf, -np.inf
    found = histogram_triton.count_bins(torch.from_numpy(x), torch.from_numpy(edges))
    np.testing.assert_array_equal(found, np.histogram(x.astype(np.float64), edges)[0])
    assert len(launches) == 1


def test_few_values_and_other_dtypes_are_left_to_torch(launches: list[Any]) -> None:
    x = torch.zeros(LEAST, dtype=torch.int64)
    assert histogram_triton.count_values(x[1:], 3) is None
    assert histogram_triton.count_values(x.to(torch.int32), 3) is None
    assert (
        histogram_triton.count_values(torch.zeros((LEAST, 2), dtype=torch.int64)[:, 0], 3) is None
    )
    assert not launches


@pytest.mark.gpu
@pytest.mark.parametrize("n", [3, 1000, 40000])
def test_counts_that_are_repeated_on_a_gpu_are_numpys(n: int) -> None:
    """The same bits while kernels are compiled, and after, with weights too."""
    rng = np.random.default_rng(n)
    x, weights = rng.integers(0, n, 300_000), rng.normal(size=300_000)
    with it.init("cuda:0"):
        line, given = it.compute(it.asarray(x), it.asarray(weights))
        sums = []
        for _ in range(3):
            for _ in range(5):
                found = it.bincount(line, minlength=n).numpy()
                np.testing.assert_array_equal(found, np.bincount(x, minlength=n))
                sums.append(it.bincount(line, given).numpy().tobytes())
                bins = it.histogram(given, 50, (-2.0, 2.0))[0].numpy()
                np.testing.assert_array_equal(bins, np.histogram(weights, 50, (-2.0, 2.0))[0])
            while it.stats()["kernels_compiling"]:
                pass
        assert len(set(sums)) == 1
        wanted = np.bincount(x, weights)
        np.testing.assert_allclose(np.frombuffer(sums[0]), wanted, rtol=1e-9, atol=1e-9)

"""Counts on a GPU: of few integers and of many, outside of what is counted, and their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
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
    assert len(launches) == 1


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

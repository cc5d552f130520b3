"""Random numbers: good ones, and the same whatever the tiles and the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.ops.table_xp import WHOLE, TableXp

from infinitensor.ops import TABLE

N = 200_000


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("random.uniform", (2.0, 5.0, (5, 9))),
        ("random.normal", (1.0, 2.0, (3, 4, 5))),
        ("random.integers", (-5, 100, (5, 9))),
        ("random.integers", (0, 2**63, 11, np.uint64)),
        ("random.random", ((),)),
        ("random.standard_normal", ((0, 3),)),
        ("random.gamma", (np.array([0.3, 1.0, 7.0]), 2.0, (5, 3))),
        ("random.poisson", (np.array([0.3, 9.0, 70.0]), (5, 3))),
        ("random.binomial", (np.array([5, 60, 700]), 0.4, (5, 3))),
        ("random.zipf", (2.5, (11,))),
        ("random.vonmises", (0.5, np.array([0.0, 2.0, 1e7]), (5, 3))),
        ("random.integers", (np.array([0, -5]), 9, (5, 2))),
    ],
)
def test_values_depend_on_seed_and_index_alone(name: str, args: Any, device: str) -> None:
    whole = TableXp(WHOLE).call(name, *args)
    for step in (1, 2, 7, WHOLE):
        got = TableXp(step, device).call(name, *args)
        assert got.dtype == whole.dtype
        if name.endswith(("normal", "gamma", "vonmises")):
            np.testing.assert_allclose(got, whole, 1e-12)
        else:
            np.testing.assert_array_equal(got, whole)


def test_calls_and_seeds_give_other_values() -> None:
    xp = TableXp()
    first, second = xp.call("random.uniform", size=100), xp.call("random.uniform", size=100)
    assert not np.any(first == second)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.4


def test_neighbouring_seeds_and_a_shifted_index_are_unrelated() -> None:
    a, b = (TableXp().call("_random_uniform", s, 0.0, 1.0, (N,)) for s in (1, 2))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.01
    assert not np.isin(a[:1000], b).any()


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5, -7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_uniform_passes_kolmogorov_smirnov(seed: int, dtype: Any) -> None:
    x = TableXp().call("_random_uniform", seed, 0.0, 1.0, (N,), dtype)
    assert x.dtype == dtype
    assert x.min() >= 0
    assert x.max() < 1
    assert stats.kstest(x.astype(float), "uniform").pvalue > 1e-3
    np.testing.assert_allclose([x.mean(), x.var()], [0.5, 1 / 12], atol=5e-3)
    for lag in (1, 2, 7, 64, 1000):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 0.012


def test_normal_passes_kolmogorov_smirnov() -> None:
    x = TableXp().call("_random_normal", 3, 0.0, 1.0, (N,))
    assert np.isfinite(x).all()
    assert stats.kstest(x, "norm").pvalue > 1e-3
    moments = [x.mean(), x.var(), stats.skew(x), stats.kurtosis(x)]
    np.testing.assert_allclose(moments, [0, 1, 0, 0], atol=0.04)


def test_every_bit_is_fair_and_independent_of_the_others() -> None:
    words = TableXp().call("_random_bits", 9, (50_000,)).view(np.uint64)
    bits = ((words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).astype(float)
    assert np.abs(bits.mean(0) - 0.5).max() < 0.012
    correlation = np.corrcoef(bits.T) - np.eye(64)
    assert np.abs(correlation).max() < 0.025


@pytest.mark.parametrize(("low", "high"), [(0, 6), (-3, 4), (0, 1000), (5, 6)])
def test_integers_are_equally_likely(low: int, high: int) -> None:
    x = TableXp().call("random.integers", low, high, N)
    counts = np.bincount(x - low, minlength=high - low)
    assert counts.size == high - low
    assert counts.size == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_wide_ranges_are_not_biased() -> None:
    """With 64 bits and no care, some values of a range of 3 * 2**62 would be twice as likely."""
    x = TableXp().call("random.integers", 0, 3 * 2**62, N, np.uint64)
    assert stats.chisquare(np.bincount((x % np.uint64(3)).astype(int))).pvalue > 1e-3
    thirds = np.bincount((x // np.uint64(2**62)).astype(int))
    assert stats.chisquare(thirds).pvalue > 1e-3


def test_integers_cover_the_borders_of_their_dtype() -> None:
    x = TableXp().call("random.integers", -128, 127, N, np.int8, endpoint=True)
    assert (x.min(), x.max()) == (-128, 127)
    full = TableXp().call("random.integers", -(2**63), 2**63 - 1, 1000, endpoint=True)
    assert (full < 0).any()
    assert (full > 0).any()


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "match"),
    [
        ((5, 5), {}, ValueError, "low >= high"),
        ((5, 4), {"endpoint": True}, ValueError, "low > high"),
        ((0, 300), {"dtype": np.uint8}, ValueError, "high is out of bounds"),
        ((-1, 3), {"dtype": np.uint8}, ValueError, "low is out of bounds"),
        ((0, 3), {"dtype": float}, TypeError, "Unsupported dtype"),
    ],
)
def test_bad_ranges_are_refused(args: Any, kwargs: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        TableXp().call("random.integers", *args, **kwargs)


def test_parameters_may_be_arrays() -> None:
    low = np.array([0.0, 100.0])
    x = TableXp().call("random.uniform", low, low + 1, (50, 2))
    assert ((x >= low) & (x < low + 1)).all()
    with pytest.raises(ValueError, match=r"not compatible|mismatch"):
        TableXp().call("random.normal", np.zeros(3), 1.0, 2)


def test_permutation_is_one_and_takes_rows() -> None:
    order = TableXp().call("random.permutation", 1000)
    assert sorted(order) == list(range(1000))
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.15
    x = np.arange(30).reshape(10, 3)
    rows = TableXp().call("random.permutation", x)
    assert sorted(map(tuple, rows)) == sorted(map(tuple, x))


def test_random_ops_are_marked() -> None:
    for name, op in TABLE.items():
        assert op.random == name.startswith("_random"), name

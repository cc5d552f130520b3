"""Every distribution is the one it is called, whatever its parameters; bad ones are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import infinitensor as it

N = 20_000
CONTINUOUS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("beta", (2.0, 0.5), stats.beta(2, 0.5)),
    ("beta", (0.02, 3.0), stats.beta(0.02, 3)),
    ("chisquare", (3.0,), stats.chi2(3)),
    ("exponential", (2.0,), stats.expon(scale=2)),
    ("f", (3.0, 7.0), stats.f(3, 7)),
    ("gamma", (0.1, 2.0), stats.gamma(0.1, scale=2)),
    ("gamma", (1.0, 1.0), stats.gamma(1)),
    ("gamma", (50.0, 3.0), stats.gamma(50, scale=3)),
    ("gumbel", (1.0, 2.0), stats.gumbel_r(1, 2)),
    ("laplace", (1.0, 2.0), stats.laplace(1, 2)),
    ("logistic", (1.0, 2.0), stats.logistic(1, 2)),
    ("lognormal", (1.0, 0.5), stats.lognorm(0.5, scale=np.e)),
    ("noncentral_chisquare", (0.5, 3.0), stats.ncx2(0.5, 3)),
    ("noncentral_f", (3.0, 7.0, 2.0), stats.ncf(3, 7, 2)),
    ("normal", (1.0, 2.0), stats.norm(1, 2)),
    ("pareto", (3.0,), stats.lomax(3)),
    ("power", (3.0,), stats.powerlaw(3)),
    ("rayleigh", (2.0,), stats.rayleigh(scale=2)),
    ("standard_cauchy", (), stats.cauchy()),
    ("standard_t", (3.0,), stats.t(3)),
    ("triangular", (-1.0, 0.0, 3.0), stats.triang(0.25, -1, 4)),
    ("uniform", (2.0, 5.0), stats.uniform(2, 3)),
    ("vonmises", (0.0, 0.0), stats.uniform(-np.pi, 2 * np.pi)),
    ("vonmises", (0.0, 1e-6), stats.uniform(-np.pi, 2 * np.pi)),
    ("vonmises", (0.0, 3.0), stats.vonmises(3)),
    ("vonmises", (0.0, 1e8), stats.norm(0, 1e-4)),
    ("wald", (1.0, 3.0), stats.invgauss(1 / 3, scale=3)),
    ("wald", (1e4, 1.0), stats.invgauss(1e4, scale=1)),
    ("weibull", (1.5,), stats.weibull_min(1.5)),
]
DISCRETE: list[tuple[str, tuple[Any, ...], Any]] = [
    ("binomial", (10, 0.3), stats.binom(10, 0.3)),
    ("binomial", (60, 0.7), stats.binom(60, 0.7)),
    ("binomial", (500, 0.5), stats.binom(500, 0.5)),
    ("geometric", (0.2,), stats.geom(0.2)),
    *(
        ("hypergeometric", (good, bad, n), stats.hypergeom(good + bad, good, n))
        for good, bad, n in ((3, 4, 2), (5, 50, 50), (300, 200, 60), (40, 900, 500), (2, 9, 10))
    ),
    ("logseries", (0.7,), stats.logser(0.7)),
    ("negative_binomial", (4.5, 0.3), stats.nbinom(4.5, 0.3)),
    ("poisson", (0.5,), stats.poisson(0.5)),
    ("poisson", (9.9,), stats.poisson(9.9)),
    ("poisson", (10.1,), stats.poisson(10.1)),
    ("poisson", (300.0,), stats.poisson(300)),
    ("zipf", (1.8,), stats.zipf(1.8)),
    ("zipf", (5.0,), stats.zipf(5)),
]


@pytest.mark.parametrize(
    ("name", "args", "wanted"), CONTINUOUS, ids=[f"{n}{a}" for n, a, _ in CONTINUOUS]
)
def test_continuous_numbers_pass_kolmogorov_smirnov(name: str, args: Any, wanted: Any) -> None:
    x = getattr(it.random.default_rng(11), name)(*args, size=N).numpy()
    assert x.dtype == np.float64
    assert stats.kstest(x, wanted.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("name", "args", "wanted"), DISCRETE, ids=[f"{n}{a}" for n, a, _ in DISCRETE]
)
def test_counts_pass_chi_square(name: str, args: Any, wanted: Any) -> None:
    x = getattr(it.random.default_rng(12), name)(*args, size=N).numpy()
    assert x.dtype == np.int64
    low, high = int(wanted.ppf(1e-3)), int(wanted.ppf(0.995))
    chances = np.diff([0, *wanted.cdf(np.arange(low, high)), 1])
    counts = np.bincount(np.clip(x, low, high) - low, minlength=high - low + 1)
    counts, chances = _merged(counts, chances * N)
    assert stats.chisquare(counts, chances * counts.sum() / chances.sum()).pvalue > 1e-3


def _merged(counts: Any, wanted: Any, least: float = 8) -> tuple[Any, Any]:
    """Neighbouring cells put together until enough is expected in each."""
    cell = np.unique(np.cumsum(wanted) // least, return_inverse=True)[1]
    return np.bincount(cell, counts), np.bincount(cell, wanted)


def test_parameters_are_broadcast_and_may_be_tensors() -> None:
    rng = it.random.default_rng(3)
    shape = np.array([0.5, 5.0, 50.0])
    for given in (shape, it.asarray(shape), list(shape)):
        x = rng.gamma(given, size=(4000, 3)).numpy()
        np.testing.assert_allclose(x.mean(0), shape, rtol=0.1)
    counts = rng.binomial(it.asarray([[10], [1000]]), [0.1, 0.9], size=(4000, 2, 2)).numpy()
    np.testing.assert_allclose(counts.mean(0), [[1, 9], [100, 900]], rtol=0.05)
    assert rng.normal([0, 1, 2], [[1], [2]]).shape == (2, 3)


def test_limits_of_parameters_are_numbers_not_loops() -> None:
    rng = it.random.default_rng(4)
    assert rng.gamma(0.0, size=3).numpy().tolist() == [0, 0, 0]
    assert rng.poisson(0.0, size=3).numpy().tolist() == [0, 0, 0]
    assert rng.binomial(5, [0.0, 1.0], size=(2, 2)).numpy().tolist() == [[0, 5], [0, 5]]
    assert rng.geometric(1.0, size=2).numpy().tolist() == [1, 1]
    assert rng.weibull(0.0, size=2).numpy().tolist() == [0, 0]
    assert rng.zipf([2000.0, 1.0 + 1e-9]).numpy()[0] == 1
    assert np.isnan(rng.exponential(np.nan, size=2).numpy()).all()
    assert np.isnan(rng.gamma(np.nan, size=2).numpy()).all()
    assert np.isnan(rng.vonmises(0, np.nan, size=2).numpy()).all()
    assert np.isinf(rng.gamma(np.inf, size=2).numpy()).all()


def test_single_precision_is_that_of_the_doubles() -> None:
    for name, args in (("standard_gamma", (2.0,)), ("standard_exponential", ()), ("random", ())):
        narrow, wide = (
            getattr(it.random.default_rng(5), name)(*args, size=50, dtype=kind).numpy()
            for kind in (np.float32, np.float64)
        )
        assert narrow.dtype == np.float32
        np.testing.assert_allclose(narrow, wide, rtol=1e-6, atol=1e-7)


def test_shares_add_up_and_have_their_means() -> None:
    rng = it.random.default_rng(6)
    alpha = np.array([0.01, 1.0, 3.0])
    x = rng.dirichlet(alpha, size=8000).numpy()
    np.testing.assert_allclose(x.sum(1), 1)
    np.testing.assert_allclose(x.mean(0), alpha / alpha.sum(), atol=0.01)
    assert np.isfinite(rng.dirichlet([1e-5, 1e-5], size=100).numpy()).all()


def test_outcomes_add_up_to_the_trials() -> None:
    rng = it.random.default_rng(7)
    p = [0.1, 0.0, 0.6, 0.3]
    x = rng.multinomial(50, p, size=4000).numpy()
    assert (x.sum(1) == 50).all()
    np.testing.assert_allclose(x.mean(0), np.multiply(p, 50), atol=0.4)
    assert rng.multinomial([5, 7], [0.5, 0.5]).numpy().sum(1).tolist() == [5, 7]


def test_colors_add_up_to_the_sample() -> None:
    x = it.random.default_rng(7).multivariate_hypergeometric([10, 0, 20, 5], 7, size=4000).numpy()
    assert (x.sum(1) == 7).all()
    np.testing.assert_allclose(x.mean(0), [2, 0, 4, 1], atol=0.1)


@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_vectors_have_their_mean_and_covariance(method: str) -> None:
    mean, cov = np.array([1.0, -2.0, 3.0]), np.array([[2, 1, 0], [1, 3, 1], [0, 1, 1.0]])
    x = it.random.default_rng(8).multivariate_normal(mean, cov, N, method=method).numpy()
    np.testing.assert_allclose(x.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.1)


def test_a_covariance_that_is_none_is_said() -> None:
    rng, bad = it.random.default_rng(9), [[1.0, 2.0], [2.0, 1.0]]
    with pytest.warns(RuntimeWarning, match="not symmetric positive-semidefinite"):
        rng.multivariate_normal([0, 0], bad)
    with pytest.raises(ValueError, match="not symmetric positive-semidefinite"):
        rng.multivariate_normal([0, 0], bad, check_valid="raise")


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("normal", (0, -1), {}, "scale < 0"),
    ("gamma", (-1,), {}, "shape < 0"),
    ("poisson", (-1,), {}, "lam < 0 or lam is NaN"),
    ("poisson", (np.nan,), {}, "lam < 0 or lam is NaN"),
    ("poisson", (1e30,), {}, "lam value too large"),
    ("binomial", (-1, 0.5), {}, "n < 0"),
    ("binomial", (5, 1.5), {}, "p < 0, p > 1 or p is NaN"),
    ("geometric", (0,), {}, "p <= 0, p > 1 or p contains NaNs"),
    ("beta", (0, 1), {}, "a <= 0"),
    ("chisquare", (0,), {}, "df <= 0"),
    ("f", (1, 0), {}, "dfden <= 0"),
    ("wald", (0, 1), {}, "mean <= 0"),
    ("vonmises", (0, -1), {}, "kappa < 0"),
    ("zipf", (1,), {}, "a <= 1 or a is NaN"),
    ("triangular", (3, 2, 4), {}, "left > mode"),
    ("triangular", (0, 2, 1), {}, "mode > right"),
    ("triangular", (1, 1, 1), {}, "left == right"),
    ("logseries", (1,), {}, "p < 0, p >= 1 or p is NaN"),
    ("lognormal", (0, -1), {}, "sigma < 0"),
    ("hypergeometric", (1, 1, 3), {}, "ngood \\+ nbad < nsample"),
    ("hypergeometric", (-1, 1, 1), {}, "ngood"),
    ("multivariate_hypergeometric", ([1, 2], 9), {}, r"nsample > sum\(colors\)"),
    ("negative_binomial", (0, 0.5), {}, "n <= 0"),
    ("multinomial", (-1, [0.5, 0.5]), {}, "n < 0"),
    ("multinomial", (3, [0.7, 0.7, 0.1]), {}, r"sum\(pvals\[:-1\]\) > 1.0"),
    ("dirichlet", ([-1, 1],), {}, "alpha < 0"),
    ("normal", ([0, 1], [1, 2, 3]), {}, "shape mismatch"),
    ("gamma", ([1, 2],), {"size": 3}, "shape mismatch"),
    ("random", (-1,), {}, "negative dimensions"),
    ("uniform", (2, 1), {}, "high - low < 0"),
    ("multivariate_normal", ([[0]], [[1, 0], [0, 1]]), {}, "mean must be 1 dimensional"),
    ("multivariate_normal", ([0], [[1, 0], [0, 1]]), {}, "must have same length"),
    ("multivariate_normal", ([0], [1]), {}, "2 dimensional and square"),
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "text"), BAD, ids=[f"{n}{a}" for n, a, _, _ in BAD]
)
def test_what_numpy_refuses_is_refused(name: str, args: Any, kwargs: Any, text: str) -> None:
    for rng in (np.random.default_rng(0), it.random.default_rng(0)):
        with pytest.raises(ValueError, match=text):
            getattr(rng, name)(*args, **kwargs)


def test_bad_values_in_tensors_raise_when_computed() -> None:
    before, it.config.small_elements = it.config.small_elements, 0
    try:
        waiting = it.random.exponential(it.asarray([1.0, -1.0]))
        with pytest.raises(ValueError, match="scale < 0"):
            waiting.numpy()
    finally:
        it.config.small_elements = before

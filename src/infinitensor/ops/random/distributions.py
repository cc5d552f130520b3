"""Random numbers by distribution: programs over uniform, normal, gamma and counting numbers.

A program draws with `xp.next_seed()` and never calls another public one, so that a `Generator` can
run it on its own stream. Parameters are broadcast; those known on the host are checked at the call,
those in tensors when the numbers are computed.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np

from infinitensor.dtypes import float64, kind_of
from infinitensor.ops.create.creation import shape_of
from infinitensor.ops.random.counter_rng import float_dtype
from infinitensor.ops.table.checks import host_values_of, is_on_host
from infinitensor.ops.table.registry import program

if TYPE_CHECKING:
    from collections.abc import Callable

# --- parameters -------------------------------------------------------------------------------

BAD: dict[str, Callable[[Any], Any]] = {
    "< 0": lambda x: x < 0,
    "<= 0": lambda x: x <= 0,
    "<= 1 or {0} is NaN": lambda x: ~(x > 1),
    "< 0 or {0} is NaN": lambda x: ~(x >= 0),
    "< 0, {0} > 1 or {0} is NaN": lambda x: ~((x >= 0) & (x <= 1)),
    "<= 0, {0} > 1 or {0} contains NaNs": lambda x: ~((x > 0) & (x <= 1)),
    "< 0, {0} >= 1 or {0} is NaN": lambda x: ~((x >= 0) & (x < 1)),
}
"""The condition that a parameter violates, in NumPy's words."""


def _refuse(name: str, bad: str, x: Any) -> None:
    """A ValueError where a value may not be."""
    if bool(BAD[bad](x).any()):
        raise ValueError(f"{name} {bad.format(name)}")


def parameter(xp: Any, name: str, value: Any, bad: str = "") -> Any:
    """A parameter as float64 numbers, checked now or when they are computed."""
    x = xp.asarray(value)
    if kind_of(np.dtype(x.dtype)) not in "biuf":
        raise TypeError(f"{name} must be real numbers, not {x.dtype}")
    x = x.astype(float64)
    if bad and is_on_host(value):
        _refuse(name, bad, np.asarray(value, np.float64))
    elif bad:
        text = f"{name} {bad.format(name)}"
        x = xp._ensured(x, xp.logical_not(BAD[bad](x)), "ValueError", text)
    return x


def size_of(size: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of a result: that of the parameters, or one that they can be broadcast to."""
    shapes = [tuple(np.shape(p)) for p in parameters]
    try:
        shape = np.broadcast_shapes(*shapes)
        if size is None:
            return shape
        sizes = shape_of(size)
        fits = np.broadcast_shapes(sizes, shape) == sizes
    except ValueError:
        if size is not None:
            shape_of(size)  # a negative size is another error
        fits, shape, sizes = False, (), ()
    if not fits:
        raise ValueError(
            "shape mismatch: parameters of shapes "
            f"{', '.join(map(str, shapes))} cannot be broadcast to size {size}"
        )
    return sizes


# --- basic draws ------------------------------------------------------------------------------


def _unit(xp: Any, shape: Any) -> Any:
    return xp._random_open(xp.next_seed(), shape)


def _normal(xp: Any, shape: Any) -> Any:
    return xp._random_normal(xp.next_seed(), 0.0, 1.0, shape)


def _gamma(xp: Any, a: Any, shape: Any, log: bool = False) -> Any:
    return xp._random_gamma(xp.next_seed(), a, shape, log)


def _poisson(xp: Any, lam: Any, shape: Any) -> Any:
    return xp._random_poisson(xp.next_seed(), lam, shape)


def _binomial(xp: Any, n: Any, p: Any, shape: Any) -> Any:
    return xp._random_binomial(xp.next_seed(), n, p, shape)


def into(out: Any, made: Any, shape: Any) -> Any:
    """The numbers written into `out`, where one is given."""
    if out is None:
        return made
    if shape is not None and tuple(out.shape) != shape_of(shape):
        raise ValueError("size must match out.shape when used together")
    out[...] = made
    return out


# --- one line each ----------------------------------------------------------------------------


def distribution(
    name: str, parameters: str, formula: Callable[..., Any], doc: str, **bad: str
) -> None:
    """Enter `random.name(*parameters, size=None)`: `formula(xp, shape, *parameters)` draws it.

    `parameters` is written "loc=0.0 scale=1.0"; `bad` says what each may not be.
    """
    given = [text.partition("=") for text in parameters.split()]
    names = [before for before, _, _ in given]

    def rule(xp: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(xp, *args, **kwargs)
        bound.apply_defaults()
        _, *values, size = bound.arguments.values()
        made = [
            parameter(xp, word, value, bad.get(word, ""))
            for word, value in zip(names, values, strict=True)
        ]
        return formula(xp, size_of(size, *made), *made)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [
            inspect.Parameter("xp", kind),
            *(
                inspect.Parameter(
                    word,
                    kind,
                    default=float(default) if default else inspect.Parameter.empty,
                    annotation="object",
                )
                for word, _, default in given
            ),
            inspect.Parameter("size", kind, default=None),
        ]
    )
    rule.__signature__ = signature  # type: ignore[attr-defined]
    rule.__name__ = name
    example = "".join("0.5, " if not default else "" for _, _, default in given)
    example = {"zipf": "2.5, ", "hypergeometric": "5, 5, 3, "}.get(name, example)
    rule.__doc__ = (
        f"{doc}\n\n>>> import infinitensor as it\n"
        f">>> it.random.{name}({example}size=3).shape\n(3,)\n"
    )
    program(name=f"random.{name}")(rule)


def _triangular(xp: Any, shape: Any, left: Any, mode: Any, right: Any) -> Any:
    u, width = _unit(xp, shape), right - left
    falling = right - xp.sqrt((1 - u) * (right - mode) * width)
    return xp.where(u <= (mode - left) / width, left + xp.sqrt(u * (mode - left) * width), falling)


def _wald(xp: Any, shape: Any, mean: Any, scale: Any) -> Any:
    """One of the two roots of Michael, Schucany and Haas, whose product is mean squared."""
    y = mean * xp.square(_normal(xp, shape))
    larger = mean + mean / (2 * scale) * (y + xp.sqrt(4 * scale * y + y * y))
    smaller = mean / larger * mean
    return xp.where(_unit(xp, shape) * (mean + smaller) <= mean, smaller, larger)


def _log_series(xp: Any, shape: Any, p: Any) -> Any:
    """Kemp's: a power law below a random bound."""
    v, bound = _unit(xp, shape), -xp.expm1(xp.log1p(-p) * _unit(xp, shape))
    small = xp.floor(1 + xp.log(v) / xp.log(bound))
    count = xp.where(v <= bound * bound, small, xp.where(v < bound, 2.0, 1.0))
    return xp.maximum(xp.where(v < p, count, 1.0), 1.0).astype(np.int64)


def _beta(xp: Any, shape: Any, a: Any, b: Any) -> Any:
    """By logarithms: small shapes give gamma numbers that are no float64."""
    return 1 / (1 + xp.exp(_gamma(xp, b, shape, True) - _gamma(xp, a, shape, True)))


def _chisquare(xp: Any, shape: Any, df: Any) -> Any:
    return 2 * _gamma(xp, df / 2, shape)


def _noncentral(xp: Any, shape: Any, df: Any, nonc: Any) -> Any:
    return 2 * _gamma(xp, df / 2 + _poisson(xp, nonc / 2, shape), shape)


def _mean_square(xp: Any, shape: Any, df: Any) -> Any:
    return _chisquare(xp, shape, df) / df


def _around(xp: Any, shape: Any, mu: Any, kappa: Any) -> Any:
    angles = xp._random_vonmises(xp.next_seed(), kappa, shape) + mu
    return xp.remainder(angles + np.pi, 2 * np.pi) - np.pi


def _geometric(xp: Any, shape: Any, p: Any) -> Any:
    trials = xp.ceil(xp.log(_unit(xp, shape)) / xp.log1p(-p))
    return xp.minimum(xp.maximum(trials, 1.0), float(2**63 - 1025)).astype(np.int64)


distribution(
    "exponential",
    "scale=1.0",
    lambda xp, shape, scale: -scale * xp.log(_unit(xp, shape)),
    "Exponentially distributed numbers with mean `scale`.",
    scale="< 0",
)
distribution(
    "gumbel",
    "loc=0.0 scale=1.0",
    lambda xp, shape, loc, scale: loc - scale * xp.log(-xp.log(_unit(xp, shape))),
    "Numbers with Gumbel's distribution of extremes.",
    scale="< 0",
)
distribution(
    "laplace",
    "loc=0.0 scale=1.0",
    lambda xp, shape, loc, scale: loc + scale * _two_sided(xp, _unit(xp, shape)),
    "Numbers with Laplace's distribution: exponential to both sides of `loc`.",
    scale="< 0",
)
distribution(
    "logistic",
    "loc=0.0 scale=1.0",
    lambda xp, shape, loc, scale: loc + scale * _odds(xp, _unit(xp, shape)),
    "Numbers with the logistic distribution.",
    scale="< 0",
)
distribution(
    "lognormal",
    "mean=0.0 sigma=1.0",
    lambda xp, shape, mean, sigma: xp.exp(mean + sigma * _normal(xp, shape)),
    "Numbers whose logarithms are normally distributed.",
    sigma="< 0",
)
distribution(
    "pareto",
    "a",
    lambda xp, shape, a: xp.expm1(-xp.log(_unit(xp, shape)) / a),
    "Numbers with Pareto's second distribution (Lomax) of shape `a`.",
    a="<= 0",
)
distribution(
    "power",
    "a",
    lambda xp, shape, a: xp.exp(xp.log(_unit(xp, shape)) / a),
    "Numbers in [0, 1] with density a x ** (a - 1).",
    a="<= 0",
)
distribution(
    "rayleigh",
    "scale=1.0",
    lambda xp, shape, scale: scale * xp.sqrt(-2 * xp.log(_unit(xp, shape))),
    "Numbers with Rayleigh's distribution.",
    scale="< 0",
)
distribution(
    "weibull",
    "a",
    lambda xp, shape, a: xp.where(a == 0, 0.0, xp.power(-xp.log(_unit(xp, shape)), 1 / a)),
    "Numbers with Weibull's distribution of shape `a`.",
    a="< 0",
)
distribution(
    "standard_cauchy",
    "",
    lambda xp, shape: xp.tan(np.pi * (_unit(xp, shape) - 0.5)),
    "Numbers with Cauchy's distribution around 0.",
)
distribution(
    "wald",
    "mean scale",
    _wald,
    "Numbers with Wald's (inverse Gaussian) distribution.",
    mean="<= 0",
    scale="<= 0",
)
distribution(
    "gamma",
    "shape scale=1.0",
    lambda xp, size, shape, scale: scale * _gamma(xp, shape, size),
    "Gamma distributed numbers of this shape and scale.",
    shape="< 0",
    scale="< 0",
)
distribution(
    "chisquare",
    "df",
    _chisquare,
    "Sums of the squares of `df` normally distributed numbers.",
    df="<= 0",
)
distribution(
    "noncentral_chisquare",
    "df nonc",
    _noncentral,
    "Numbers with the noncentral chi-square distribution.",
    df="<= 0",
    nonc="< 0",
)
distribution(
    "f",
    "dfnum dfden",
    lambda xp, shape, n, d: _mean_square(xp, shape, n) / _mean_square(xp, shape, d),
    "Numbers with Fisher's F distribution.",
    dfnum="<= 0",
    dfden="<= 0",
)
distribution(
    "noncentral_f",
    "dfnum dfden nonc",
    lambda xp, shape, n, d, nonc: _noncentral(xp, shape, n, nonc) / n / _mean_square(xp, shape, d),
    "Numbers with the noncentral F distribution.",
    dfnum="<= 0",
    dfden="<= 0",
    nonc="< 0",
)
distribution(
    "standard_t",
    "df",
    lambda xp, shape, df: _normal(xp, shape) / xp.sqrt(_mean_square(xp, shape, df)),
    "Numbers with Student's t distribution.",
    df="<= 0",
)
distribution(
    "beta",
    "a b",
    _beta,
    "Numbers in [0, 1] with the beta distribution.",
    a="<= 0",
    b="<= 0",
)
distribution(
    "vonmises",
    "mu kappa",
    _around,
    "Angles in [-pi, pi] around `mu` with von Mises' distribution.",
    kappa="< 0",
)
distribution(
    "geometric",
    "p",
    _geometric,
    "How many trials of probability `p` it takes until one succeeds.",
    p="<= 0, {0} > 1 or {0} contains NaNs",
)
distribution(
    "logseries",
    "p",
    _log_series,
    "Counts with the logarithmic series distribution.",
    p="< 0, {0} >= 1 or {0} is NaN",
)
distribution(
    "zipf",
    "a",
    lambda xp, shape, a: xp._random_zipf(xp.next_seed(), a, shape),
    "Counts k with probabilities in proportion to k ** -a (Zipf).",
    a="<= 1 or {0} is NaN",
)
distribution(
    "binomial",
    "n p",
    lambda xp, shape, n, p: _binomial(xp, n, p, shape),
    "How many of `n` trials of probability `p` succeed.",
    n="< 0",
    p="< 0, {0} > 1 or {0} is NaN",
)
distribution(
    "negative_binomial",
    "n p",
    lambda xp, shape, n, p: _poisson(xp, _gamma(xp, n, shape) * (1 - p) / p, shape),
    "How many trials of probability `p` fail before `n` succeed.",
    n="<= 0",
    p="<= 0, {0} > 1 or {0} contains NaNs",
)


distribution(
    "hypergeometric",
    "ngood nbad nsample",
    lambda xp, shape, *counts: xp._random_hypergeometric(xp.next_seed(), *counts, shape),
    "How many of `nsample` drawn without replacement from good and bad ones are good.",
    ngood="< 0",
    nbad="< 0",
    nsample="< 0",
)


def _two_sided(xp: Any, u: Any) -> Any:
    return xp.where(u < 0.5, xp.log(2 * u), -xp.log(2 - 2 * u))


def _odds(xp: Any, u: Any) -> Any:
    return xp.log(u) - xp.log1p(-u)


# --- with arguments of their own --------------------------------------------------------------


@program(name="random.poisson")
def poisson(xp: Any, lam: Any = 1.0, size: Any = None) -> Any:
    """Counts of independent events, `lam` of them on average.

    >>> import infinitensor as it
    >>> it.random.poisson(3.0, size=4).dtype
    dtype('int64')
    """
    mean = parameter(xp, "lam", lam, "< 0 or {0} is NaN")
    if is_on_host(lam) and np.any(np.asarray(lam, np.float64) > 2**63 - 1e11):
        raise ValueError("lam value too large")
    return _poisson(xp, mean, size_of(size, mean))


@program(name="random.triangular")
def triangular(xp: Any, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
    """Numbers in [left, right] with a density that rises to `mode` and falls from there.

    >>> import infinitensor as it
    >>> it.random.triangular(0, 1, 3, size=4).shape
    (4,)
    """
    if all(map(is_on_host, (left, mode, right))):
        for bad, text in (
            (np.greater(left, mode), "left > mode"),
            (np.greater(mode, right), "mode > right"),
            (np.equal(left, right), "left == right"),
        ):
            if np.any(bad):
                raise ValueError(text)
    made = [parameter(xp, n, v) for n, v in (("left", left), ("mode", mode), ("right", right))]
    return _triangular(xp, size_of(size, *made), *made)


@program(name="random.uniform")
def uniform(
    xp: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None, *, dtype: Any = np.float64
) -> Any:
    """Numbers spread evenly over [low, high); each depends on seed, call and index alone.

    >>> import infinitensor as it
    >>> it.random.uniform(size=(2, 3)).shape
    (2, 3)
    """
    shape = size_of(size, low, high)
    if np.ndim(low) == np.ndim(high) == 0:
        if is_on_host(low) and is_on_host(high) and not np.isfinite(float(high) - float(low)):
            raise OverflowError("high - low range exceeds valid bounds")
        return xp._random_uniform(xp.next_seed(), low, high, shape, dtype)
    low, high = xp.asarray(low), xp.asarray(high)
    return low + (high - low) * xp._random_uniform(xp.next_seed(), 0.0, 1.0, shape, dtype)


@program(name="random.random")
def random(xp: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
    """Numbers spread evenly over [0, 1).

    >>> import infinitensor as it
    >>> it.random.random(3).shape
    (3,)
    """
    shape = size_of(size) if out is None else tuple(out.shape)
    return into(out, xp._random_uniform(xp.next_seed(), 0.0, 1.0, shape, dtype), size)


@program(name="random.normal")
def normal(
    xp: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, dtype: Any = np.float64
) -> Any:
    """Normally distributed numbers with mean `loc` and deviation `scale`.

    >>> import infinitensor as it
    >>> it.random.normal(size=4).shape
    (4,)
    """
    shape = size_of(size, loc, scale)
    if is_on_host(scale):
        _refuse("scale", "< 0", np.asarray(scale, np.float64))
    if np.ndim(loc) == np.ndim(scale) == 0:
        return xp._random_normal(xp.next_seed(), loc, scale, shape, dtype)
    made = xp._random_normal(xp.next_seed(), 0.0, 1.0, shape, dtype)
    return xp.asarray(loc) + parameter(xp, "scale", scale, "< 0") * made


@program(name="random.standard_normal")
def standard_normal(xp: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
    """Normally distributed numbers with mean 0 and deviation 1.

    >>> import infinitensor as it
    >>> it.random.standard_normal(4).shape
    (4,)
    """
    shape = size_of(size) if out is None else tuple(out.shape)
    return into(out, xp._random_normal(xp.next_seed(), 0.0, 1.0, shape, dtype), size)


@program(name="random.standard_exponential")
def standard_exponential(
    xp: Any, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
) -> Any:
    """Exponentially distributed numbers with mean 1, by the inverse whatever the method.

    >>> import infinitensor as it
    >>> it.random.standard_exponential(4).shape
    (4,)
    """
    kind = float_dtype("standard_exponential", dtype)
    shape = size_of(size) if out is None else tuple(out.shape)
    return into(out, (-xp.log(_unit(xp, shape))).astype(kind), size)


@program(name="random.standard_gamma")
def standard_gamma(
    xp: Any, shape: object, size: Any = None, dtype: Any = np.float64, out: Any = None
) -> Any:
    """Gamma distributed numbers of this shape and scale 1.

    >>> import infinitensor as it
    >>> it.random.standard_gamma(2.0, 4).shape
    (4,)
    """
    kind = float_dtype("standard_gamma", dtype)
    a = parameter(xp, "shape", shape, "< 0")
    made = _gamma(xp, a, size_of(size if out is None else tuple(out.shape), a))
    return into(out, made.astype(kind), size)


# --- several numbers at a time ----------------------------------------------------------------


@program(name="random.dirichlet")
def dirichlet(xp: Any, alpha: Any, size: Any = None) -> Any:
    """Shares that add up to 1, along a last axis as long as `alpha`.

    >>> import infinitensor as it
    >>> round(float(it.random.dirichlet([1.0, 2.0, 3.0]).sum()), 6)
    1.0
    """
    if np.ndim(alpha) != 1:
        raise ValueError("alpha must be a one-dimensional sequence of shapes")
    a = parameter(xp, "alpha", alpha, "< 0")
    logs = _gamma(xp, a, (*size_of(size), a.shape[0]), True)
    weights = xp.exp(logs - xp.max(logs, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


@program(name="random.multinomial")
def multinomial(xp: Any, n: Any, pvals: Any, size: Any = None) -> Any:
    """How often each of several outcomes comes up in `n` trials, along a last axis.

    One binomial count after another, each of the trials that are left.

    >>> import infinitensor as it
    >>> int(it.random.multinomial(10, [0.2, 0.8]).sum())
    10
    """
    p = host_values_of(xp, pvals, np.float64)
    if p.ndim < 1 or not p.shape[-1]:
        raise ValueError(
            "pvals must have at least 1 dimension and the last dimension must not be 0"
        )
    _refuse("pvals", "< 0, {0} > 1 or {0} is NaN", p)
    before = np.cumsum(p, axis=-1) - p
    if np.any(before[..., -1] > 1 + 1e-12):
        raise ValueError("sum(pvals[:-1]) > 1.0")
    left = parameter(xp, "n", n, "< 0")
    shape = size_of(size, left, before[..., 0])
    with np.errstate(all="ignore"):
        share = np.clip(np.nan_to_num(p / (1 - before)), 0, 1)
    counts = []
    for k in range(p.shape[-1] - 1):
        counts.append(_binomial(xp, left, share[..., k], shape))
        left = left - counts[-1]
    last = xp.broadcast_to(left, shape).astype(np.int64)
    return xp.stack([*counts, last], axis=-1)


@program(name="random.multivariate_hypergeometric")
def multivariate_hypergeometric(
    xp: Any, colors: Any, nsample: Any, size: Any = None, method: str = "marginals"
) -> Any:
    """How many of each color are among `nsample` drawn without replacement, along a last axis.

    >>> import infinitensor as it
    >>> int(it.random.multivariate_hypergeometric([3, 4, 5], 6).sum())
    6
    """
    if method not in ("marginals", "count"):
        raise ValueError('method must be "count" or "marginals".')
    left = host_values_of(xp, colors)
    if left.ndim != 1 or left.dtype.kind not in "iu" or np.any(left < 0):
        raise ValueError("colors must be a one-dimensional sequence of nonnegative integers.")
    if nsample < 0:
        raise ValueError("nsample must be nonnegative.")
    if nsample > left.sum():
        raise ValueError("nsample > sum(colors)")
    shape, rest, counts = size_of(size), xp.asarray(float(nsample)), []
    for k, color in enumerate(left[:-1]):
        others = float(left[k + 1 :].sum())
        draw = (xp.next_seed(), float(color), others, rest, shape)
        counts.append(xp._random_hypergeometric(*draw))
        rest = rest - counts[-1]
    last = xp.broadcast_to(rest, shape).astype(np.int64)
    return xp.stack([*counts, last], axis=-1)


@program(name="random.multivariate_normal")
def multivariate_normal(
    xp: Any,
    mean: Any,
    cov: Any,
    size: Any = None,
    check_valid: str = "warn",
    tol: float = 1e-8,
    *,
    method: str = "svd",
) -> Any:
    """Normally distributed vectors with this mean and covariance, along a last axis.

    `method` factors the covariance: "svd", "eigh" or "cholesky". Whether it is one is checked at
    the call unless `check_valid` is "ignore", which computes it then.

    >>> import infinitensor as it
    >>> it.random.multivariate_normal([0, 0], [[2, 1], [1, 2]], size=5).shape
    (5, 2)
    """
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError("method must be one of {'eigh', 'svd', 'cholesky'}")
    if check_valid not in ("warn", "raise", "ignore"):
        raise ValueError("check_valid must equal 'warn', 'raise', or 'ignore'")
    mean, cov = parameter(xp, "mean", mean), parameter(xp, "cov", cov)
    if len(mean.shape) != 1:
        raise ValueError("mean must be 1 dimensional")
    if len(cov.shape) != 2 or cov.shape[0] != cov.shape[1]:
        raise ValueError("cov must be 2 dimensional and square")
    if mean.shape[0] != cov.shape[0]:
        raise ValueError("mean and cov must have same length")
    factor, again = _root(xp, cov, method)
    if check_valid != "ignore" and not bool(
        xp.force(xp.all(xp.abs(again - cov) <= tol + tol * xp.abs(cov)))
    ):
        text = "covariance is not symmetric positive-semidefinite."
        if check_valid == "raise":
            raise ValueError(text)
        warn(text, RuntimeWarning, stacklevel=4)
    return mean + xp.matmul(_normal(xp, (*size_of(size), mean.shape[0])), factor)


def _root(xp: Any, cov: Any, method: str) -> tuple[Any, Any]:
    """A matrix whose square is the covariance, and that square.

    Eigenvectors and singular vectors have free signs, and a free order where values are equal; the
    symmetric root made of them has neither, so numbers are the same on every device.
    """
    if method == "cholesky":
        factor = xp.linalg_cholesky(cov).mT
    elif method == "eigh":
        w, v = xp.linalg_eigh(cov)
        factor = xp.matmul(v * xp.sqrt(xp.maximum(w, 0.0)), v.mT)
    else:
        _, s, vh = xp.linalg_svd(cov)
        factor = xp.matmul(vh.mT * xp.sqrt(s), vh)
    return factor, xp.matmul(factor.mT, factor)

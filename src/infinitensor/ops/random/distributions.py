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

    from infinitensor.ir.op import Op

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


def distribution(**bad: str) -> Callable[[Callable[..., Any]], Op]:
    """Decorator: `name(xp, size, *parameters)` becomes `random.name(*parameters, size=None)`.

    The function gets the shape of the result and parameters as numbers; `bad` says what each may
    not be.
    """

    def enter(formula: Callable[..., Any]) -> Op:
        xp_, size_, *given = inspect.signature(formula).parameters.values()
        given = [one.replace(annotation="object") for one in given]

        def rule(xp: Any, *args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(xp, *args, **kwargs)
            bound.apply_defaults()
            _, *values, size = bound.arguments.values()
            made = [
                parameter(xp, one.name, value, bad.get(one.name, ""))
                for one, value in zip(given, values, strict=True)
            ]
            return formula(xp, size_of(size, *made), *made)

        last = size_.replace(default=None, annotation=size_.empty)
        signature = inspect.Signature([xp_.replace(annotation=xp_.empty), *given, last])
        rule.__signature__ = signature  # type: ignore[attr-defined]
        name = rule.__name__ = formula.__name__
        numbers = "".join("0.5, " for one in given if one.default is one.empty)
        numbers = {"zipf": "2.5, ", "hypergeometric": "5, 5, 3, "}.get(name, numbers)
        rule.__doc__ = (
            f"{inspect.getdoc(formula)}\n\n>>> import infinitensor as it\n"
            f">>> it.random.{name}({numbers}size=3).shape\n(3,)\n"
        )
        return program(space="random")(rule)

    return enter


@distribution(scale="< 0")
def exponential(xp: Any, size: Any, scale: Any = 1.0) -> Any:
    """Exponentially distributed numbers with mean `scale`."""
    return -scale * xp.log(_unit(xp, size))


@distribution(scale="< 0")
def gumbel(xp: Any, size: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Numbers with Gumbel's distribution of extremes."""
    return loc - scale * xp.log(-xp.log(_unit(xp, size)))


@distribution(scale="< 0")
def laplace(xp: Any, size: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Numbers with Laplace's distribution: exponential to both sides of `loc`."""
    u = _unit(xp, size)
    return loc + scale * xp.where(u < 0.5, xp.log(2 * u), -xp.log(2 - 2 * u))


@distribution(scale="< 0")
def logistic(xp: Any, size: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Numbers with the logistic distribution."""
    u = _unit(xp, size)
    return loc + scale * (xp.log(u) - xp.log1p(-u))


@distribution(sigma="< 0")
def lognormal(xp: Any, size: Any, mean: Any = 0.0, sigma: Any = 1.0) -> Any:
    """Numbers whose logarithms are normally distributed."""
    return xp.exp(mean + sigma * _normal(xp, size))


@distribution(a="<= 0")
def pareto(xp: Any, size: Any, a: Any) -> Any:
    """Numbers with Pareto's second distribution (Lomax) of shape `a`."""
    return xp.expm1(-xp.log(_unit(xp, size)) / a)


@distribution(a="<= 0")
def power(xp: Any, size: Any, a: Any) -> Any:
    """Numbers in [0, 1] with density a x ** (a - 1)."""
    return xp.exp(xp.log(_unit(xp, size)) / a)


@distribution(scale="< 0")
def rayleigh(xp: Any, size: Any, scale: Any = 1.0) -> Any:
    """Numbers with Rayleigh's distribution."""
    return scale * xp.sqrt(-2 * xp.log(_unit(xp, size)))


@distribution(a="< 0")
def weibull(xp: Any, size: Any, a: Any) -> Any:
    """Numbers with Weibull's distribution of shape `a`."""
    return xp.where(a == 0, 0.0, xp.power(-xp.log(_unit(xp, size)), 1 / a))


@distribution()
def standard_cauchy(xp: Any, size: Any) -> Any:
    """Numbers with Cauchy's distribution around 0."""
    return xp.tan(np.pi * (_unit(xp, size) - 0.5))


@distribution(mean="<= 0", scale="<= 0")
def wald(xp: Any, size: Any, mean: Any, scale: Any) -> Any:
    """Numbers with Wald's (inverse Gaussian) distribution."""
    # one of the two roots of Michael, Schucany and Haas, whose product is mean squared
    y = mean * xp.square(_normal(xp, size))
    larger = mean + mean / (2 * scale) * (y + xp.sqrt(4 * scale * y + y * y))
    smaller = mean / larger * mean
    return xp.where(_unit(xp, size) * (mean + smaller) <= mean, smaller, larger)


@distribution(shape="< 0", scale="< 0")
def gamma(xp: Any, size: Any, shape: Any, scale: Any = 1.0) -> Any:
    """Gamma distributed numbers of this shape and scale."""
    return scale * _gamma(xp, shape, size)


@distribution(df="<= 0")
def chisquare(xp: Any, size: Any, df: Any) -> Any:
    """Sums of the squares of `df` normally distributed numbers."""
    return 2 * _gamma(xp, df / 2, size)


def _mean_square(xp: Any, size: Any, df: Any) -> Any:
    return 2 * _gamma(xp, df / 2, size) / df


def _noncentral(xp: Any, size: Any, df: Any, nonc: Any) -> Any:
    return 2 * _gamma(xp, df / 2 + _poisson(xp, nonc / 2, size), size)


@distribution(df="<= 0", nonc="< 0")
def noncentral_chisquare(xp: Any, size: Any, df: Any, nonc: Any) -> Any:
    """Numbers with the noncentral chi-square distribution."""
    return _noncentral(xp, size, df, nonc)


@distribution(dfnum="<= 0", dfden="<= 0")
def f(xp: Any, size: Any, dfnum: Any, dfden: Any) -> Any:
    """Numbers with Fisher's F distribution."""
    return _mean_square(xp, size, dfnum) / _mean_square(xp, size, dfden)


@distribution(dfnum="<= 0", dfden="<= 0", nonc="< 0")
def noncentral_f(xp: Any, size: Any, dfnum: Any, dfden: Any, nonc: Any) -> Any:
    """Numbers with the noncentral F distribution."""
    return _noncentral(xp, size, dfnum, nonc) / dfnum / _mean_square(xp, size, dfden)


@distribution(df="<= 0")
def standard_t(xp: Any, size: Any, df: Any) -> Any:
    """Numbers with Student's t distribution."""
    return _normal(xp, size) / xp.sqrt(_mean_square(xp, size, df))


@distribution(a="<= 0", b="<= 0")
def beta(xp: Any, size: Any, a: Any, b: Any) -> Any:
    """Numbers in [0, 1] with the beta distribution."""
    # by logarithms: small shapes give gamma numbers that are no float64
    return 1 / (1 + xp.exp(_gamma(xp, b, size, True) - _gamma(xp, a, size, True)))


@distribution(kappa="< 0")
def vonmises(xp: Any, size: Any, mu: Any, kappa: Any) -> Any:
    """Angles in [-pi, pi] around `mu` with von Mises' distribution."""
    angles = xp._random_vonmises(xp.next_seed(), kappa, size) + mu
    return xp.remainder(angles + np.pi, 2 * np.pi) - np.pi


@distribution(p="<= 0, {0} > 1 or {0} contains NaNs")
def geometric(xp: Any, size: Any, p: Any) -> Any:
    """How many trials of probability `p` it takes until one succeeds."""
    trials = xp.ceil(xp.log(_unit(xp, size)) / xp.log1p(-p))
    return xp.minimum(xp.maximum(trials, 1.0), float(2**63 - 1025)).astype(np.int64)


@distribution(p="< 0, {0} >= 1 or {0} is NaN")
def logseries(xp: Any, size: Any, p: Any) -> Any:
    """Counts with the logarithmic series distribution."""
    # Kemp's: a power law below a random bound
    v, bound = _unit(xp, size), -xp.expm1(xp.log1p(-p) * _unit(xp, size))
    small = xp.floor(1 + xp.log(v) / xp.log(bound))
    count = xp.where(v <= bound * bound, small, xp.where(v < bound, 2.0, 1.0))
    return xp.maximum(xp.where(v < p, count, 1.0), 1.0).astype(np.int64)


@distribution(a="<= 1 or {0} is NaN")
def zipf(xp: Any, size: Any, a: Any) -> Any:
    """Counts k with probabilities in proportion to k ** -a (Zipf)."""
    return xp._random_zipf(xp.next_seed(), a, size)


@distribution(n="< 0", p="< 0, {0} > 1 or {0} is NaN")
def binomial(xp: Any, size: Any, n: Any, p: Any) -> Any:
    """How many of `n` trials of probability `p` succeed."""
    return _binomial(xp, n, p, size)


@distribution(n="<= 0", p="<= 0, {0} > 1 or {0} contains NaNs")
def negative_binomial(xp: Any, size: Any, n: Any, p: Any) -> Any:
    """How many trials of probability `p` fail before `n` succeed."""
    return _poisson(xp, _gamma(xp, n, size) * (1 - p) / p, size)


@distribution(ngood="< 0", nbad="< 0", nsample="< 0")
def hypergeometric(xp: Any, size: Any, ngood: Any, nbad: Any, nsample: Any) -> Any:
    """How many of `nsample` drawn without replacement from good and bad ones are good."""
    return xp._random_hypergeometric(xp.next_seed(), ngood, nbad, nsample, size)


# --- with arguments of their own --------------------------------------------------------------


@program(space="random")
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


@program(space="random")
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
    u = _unit(xp, size_of(size, *made))
    left, mode, right = made
    width = right - left
    falling = right - xp.sqrt((1 - u) * (right - mode) * width)
    return xp.where(u <= (mode - left) / width, left + xp.sqrt(u * (mode - left) * width), falling)


@program(space="random")
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


@program(space="random")
def random(xp: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
    """Numbers spread evenly over [0, 1).

    >>> import infinitensor as it
    >>> it.random.random(3).shape
    (3,)
    """
    shape = size_of(size) if out is None else tuple(out.shape)
    return into(out, xp._random_uniform(xp.next_seed(), 0.0, 1.0, shape, dtype), size)


@program(space="random")
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


@program(space="random")
def standard_normal(xp: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
    """Normally distributed numbers with mean 0 and deviation 1.

    >>> import infinitensor as it
    >>> it.random.standard_normal(4).shape
    (4,)
    """
    shape = size_of(size) if out is None else tuple(out.shape)
    return into(out, xp._random_normal(xp.next_seed(), 0.0, 1.0, shape, dtype), size)


@program(space="random")
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


@program(space="random")
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


@program(space="random")
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


@program(space="random")
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


@program(space="random")
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


@program(space="random")
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

"""Distributions without a closed inverse: an element tries round after round until one is accepted.

Round r of element i takes its random words from (seed, i, r), so that neither tiles nor devices nor
other elements change what it gets. All elements of a tile that still try go through a round
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float64, int64
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.create.creation import shape_of
from infinitensor.ops.random.counter_rng import fill_in_c, flat_index, open_unit, words
from infinitensor.ops.table.registry import broadcast_form, op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.op import At

    Draw = Callable[..., tuple[Any, Any]]

LARGEST = float(2**63 - 1025)
"""The largest float64 below 2**63: counts beyond it are cut off there."""


class Words:
    """The functions that NumPy and torch share, and the two that have other names."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        if xp is np:
            from scipy import special

            self.ndtri, self.gammaln = special.ndtri, special.gammaln
        else:
            self.ndtri, self.gammaln = xp.special.ndtri, xp.special.gammaln

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)


def _line(xp: Any, parameter: Any, out: Any) -> Any:
    """A parameter for each element of the tile, as float64 numbers in one line."""
    shape = tuple(out.shape)
    if xp is np:
        return np.broadcast_to(np.asarray(parameter, np.float64), shape).reshape(-1)
    if not isinstance(parameter, xp.Tensor):
        parameter = xp.tensor(float(parameter), dtype=xp.float64, device=out.device)
    return parameter.to(xp.float64).expand(shape).reshape(-1)


def _uniform(xp: Any, seed: Any, index: Any, stream: int) -> Any:
    """Numbers in (0, 1) for elements with these indices."""
    return open_unit(xp, words(seed, index + 0, stream))


def try_until_accepted(
    xp: Any, seed: Any, index: Any, parameters: Sequence[Any], draw: Draw
) -> Any:
    """A value for each index: `draw(m, u, v, *parameters)` gives values and which are accepted."""
    m = Words(xp)
    result = xp.zeros_like(index, dtype=xp.float64)
    trying = xp.cumsum(xp.ones_like(index), 0) - 1
    n_round = 0
    while len(trying):
        u, v = (_uniform(xp, seed, index[trying], 2 * n_round + k) for k in (0, 1))
        values, accepted = draw(m, u, v, *(p[trying] for p in parameters))
        result[trying[accepted]] = values[accepted]
        trying = trying[~accepted]
        n_round += 1
    return result


def search_upwards(
    m: Any, u: Any, first: Any, ratio: Callable[[int], Any], n_most: int = 200
) -> Any:
    """The smallest k with P(0) + ... + P(k) > u, from P(0) and P(k) / P(k - 1)."""
    k, term, rest = m.zeros_like(u), first, u - first
    for step in range(1, n_most):
        going = rest >= 0
        if not bool(going.any()):
            break
        term = term * ratio(step)
        rest = m.where(going, rest - term, rest)
        k = k + going
    return k


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Index, parameters, words, the numbers made from them and what a formula holds at once."""
    return 40 * 8 * outs[0].n_elements + 16 * sum(outs[0].shape) + 4096


_ENTRY: dict[str, Any] = {
    "random": True,
    "scratch_bytes": _scratch,
    "cost": 200.0,
    "same": "close",
}


def _call(specs: Sequence[Spec], shape: Any, dtype: Any, **params: Any) -> Call:
    """Parameters are broadcast to the shape; every axis may be cut."""
    sizes = shape_of(shape)
    return call(broadcast_form(specs, sizes), Spec(sizes, dtype), shape=sizes, **params)


def _fill(out: Any, line: Any) -> None:
    """The numbers of a line into the tile; counts beyond int64 are cut off."""
    line = line.reshape(tuple(out.shape))
    if isinstance(out, np.ndarray):
        out[...] = np.minimum(line, LARGEST) if out.dtype.kind == "i" else line
    else:
        out.copy_(line if out.dtype.is_floating_point else line.clamp(max=LARGEST))


# --- gamma ------------------------------------------------------------------------------------


def _draw_gamma(m: Any, u: Any, v: Any, a: Any) -> tuple[Any, Any]:
    """Marsaglia and Tsang: the logarithm of a gamma number with shape a >= 1."""
    d = a - 1 / 3
    x = m.ndtri(u)
    root = 1 + x / m.sqrt(9 * d)
    log_cube = 3 * m.log(m.where(root > 0, root, 1.0))
    accepted = (root > 0) & (m.log(v) < x * x / 2 + d - d * m.exp(log_cube) + d * log_cube)
    return m.log(d) + log_cube, accepted | ~(a < np.inf)


def _gamma_kernel(
    xp: Any, seed: Any, a: Any, out: Any, at: At, shape: tuple[int, ...], log: bool
) -> None:
    """Below shape 1: that of shape a + 1 times a uniform number to the power 1 / a."""
    scalar = xp is np and np.ndim(a) == 0
    if scalar and fill_in_c(xp, "gamma_numbers", out, at, shape, seed, float(a), int(log)):
        return
    index, a = flat_index(xp, out, at, shape).reshape(-1), _line(xp, a, out)
    lifted = xp.where(a < 1, a + 1, a)
    line = try_until_accepted(xp, seed, index, (lifted,), _draw_gamma)
    power = xp.log(_uniform(xp, seed, index, -2)) / a
    line = xp.where(a < 1, line + power, line)
    _fill(out, line if log else xp.exp(line))


@op("creation", kernel=_gamma_kernel, **_ENTRY)
def _random_gamma(seed: Spec, a: Spec, shape: Any, log: bool = False) -> Call:
    """Gamma numbers of shape a and scale 1, or their logarithms."""
    return _call((seed, a), shape, float64, log=log)


# --- counts -----------------------------------------------------------------------------------

REJECTION_MEAN = 10.0
"""Mean from which transformed rejection (Hörmann) is used; below, the terms are added up."""


def _draw_poisson(m: Any, u: Any, v: Any, mean: Any) -> tuple[Any, Any]:
    """Hörmann's PTRS."""
    b = 0.931 + 2.53 * m.sqrt(mean)
    a = -0.059 + 0.02483 * b
    shifted = u - 0.5
    edge = 0.5 - abs(shifted)
    k = m.floor((2 * a / edge + b) * shifted + mean + 0.43)
    inside = (k >= 0) & ~((edge < 0.013) & (v > edge))
    size = m.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (edge * edge) + b))
    exact = size <= k * m.log(mean) - mean - m.gammaln(k + 1)
    quick = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    return k, quick | (inside & exact)


def _poisson_kernel(xp: Any, seed: Any, lam: Any, out: Any, at: At, shape: tuple[int, ...]) -> None:
    index, lam = flat_index(xp, out, at, shape).reshape(-1), _line(xp, lam, out)
    m, many = Words(xp), lam >= REJECTION_MEAN
    line = xp.zeros_like(lam)
    line[many] = try_until_accepted(xp, seed, index[many], (lam[many],), _draw_poisson)
    few, u = lam[~many], _uniform(xp, seed, index[~many], -2)
    line[~many] = search_upwards(m, u, m.exp(-few), lambda k: few / k)
    _fill(out, line)


@op("creation", kernel=_poisson_kernel, **_ENTRY)
def _random_poisson(seed: Spec, lam: Spec, shape: Any) -> Call:
    """Counts with Poisson's distribution."""
    return _call((seed, lam), shape, int64)


def _draw_binomial(m: Any, u: Any, v: Any, n: Any, p: Any) -> tuple[Any, Any]:
    """Hörmann's BTRS, for n p >= 10 and p <= 1/2."""
    deviation = m.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    shifted = u - 0.5
    edge = 0.5 - abs(shifted)
    k = m.floor((2 * a / edge + b) * shifted + n * p + 0.5)
    inside = (k >= 0) & (k <= n)
    k = m.where(inside, k, 0.0)
    mode = m.floor((n + 1) * p)
    size = m.log(v * (2.83 + 5.1 / b) * deviation / (a / (edge * edge) + b))
    ways = m.gammaln(mode + 1) + m.gammaln(n - mode + 1) - m.gammaln(k + 1) - m.gammaln(n - k + 1)
    exact = size <= ways + (k - mode) * (m.log(p) - m.log1p(-p))
    quick = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
    return k, inside & (quick | exact)


def _binomial_kernel(
    xp: Any, seed: Any, n: Any, p: Any, out: Any, at: At, shape: tuple[int, ...]
) -> None:
    index = flat_index(xp, out, at, shape).reshape(-1)
    n, p = _line(xp, n, out), _line(xp, p, out)
    m, rare = Words(xp), xp.where(p > 0.5, 1 - p, p)
    many = n * rare >= REJECTION_MEAN
    line = xp.zeros_like(p)
    line[many] = try_until_accepted(xp, seed, index[many], (n[many], rare[many]), _draw_binomial)
    few, q, u = n[~many], rare[~many], _uniform(xp, seed, index[~many], -2)
    odds = q / (1 - q)
    found = search_upwards(m, u, m.exp(few * m.log1p(-q)), lambda k: (few - k + 1) / k * odds)
    line[~many] = m.where(found < few, found, few)
    _fill(out, xp.where(p > 0.5, n - line, line))


@op("creation", kernel=_binomial_kernel, **_ENTRY)
def _random_binomial(seed: Spec, n: Spec, p: Spec, shape: Any) -> Call:
    """How many of n trials of probability p succeed."""
    return _call((seed, n, p), shape, int64)


def _draw_hypergeometric(m: Any, u: Any, v: Any, rare: Any, other: Any, n: Any) -> tuple[Any, Any]:
    """Stadlober's ratio of uniforms: how many of the rarer kind are among n <= half of all."""
    share = rare / (rare + other)
    deviation = m.sqrt((rare + other - n) * n * share * (1 - share) / (rare + other - 1) + 0.5)
    spread = 2 * np.sqrt(2 / np.e) * deviation + (3 - 2 * np.sqrt(3 / np.e))
    drawn = n * share + 0.5 + spread * (v - 0.5) / u
    k, most = m.floor(drawn), m.where(n < rare, n, rare)
    inside = (drawn >= 0) & (k <= most)
    k = m.where(inside, k, 0.0)
    mode = m.floor((n + 1) * (rare + 1) / (rare + other + 2))
    ways = _ways(m, mode, rare, other, n) - _ways(m, k, rare, other, n)
    return k, inside & (2 * m.log(u) <= ways)


def _ways(m: Any, k: Any, rare: Any, other: Any, n: Any) -> Any:
    """Minus the logarithm of the probability of k, but for what does not depend on k."""
    return (
        m.gammaln(k + 1)
        + m.gammaln(rare - k + 1)
        + m.gammaln(n - k + 1)
        + m.gammaln(other - n + k + 1)
    )


def _hypergeometric_kernel(
    xp: Any, seed: Any, good: Any, bad: Any, n: Any, out: Any, at: At, shape: tuple[int, ...]
) -> None:
    """By symmetry in the kinds, and in what is drawn and what is left."""
    index = flat_index(xp, out, at, shape).reshape(-1)
    good, bad, n = (_line(xp, p, out) for p in (good, bad, n))
    if bool((good + bad < n).any()):
        raise ValueError("ngood + nbad < nsample")
    rare, other = xp.where(good < bad, good, bad), xp.where(good < bad, bad, good)
    left = good + bad - n
    fewer = xp.where(n < left, n, left)
    certain = (fewer == 0) | (rare == 0)
    line = xp.zeros_like(good)
    some = ~certain
    given = (rare[some], other[some], fewer[some])
    line[some] = try_until_accepted(xp, seed, index[some], given, _draw_hypergeometric)
    line = xp.where(good > bad, fewer - line, line)
    _fill(out, xp.where(fewer < n, good - line, line))


@op("creation", kernel=_hypergeometric_kernel, **_ENTRY)
def _random_hypergeometric(seed: Spec, good: Spec, bad: Spec, n: Spec, shape: Any) -> Call:
    """How many of n drawn without replacement are good."""
    return _call((seed, good, bad, n), shape, int64)


def _draw_zipf(m: Any, u: Any, v: Any, a: Any) -> tuple[Any, Any]:
    """Devroye's rejection from the continuous power law."""
    power, b = a - 1, m.exp((a - 1) * np.log(2.0))
    least = m.exp(-power * np.log(LARGEST))  # below it k would not fit
    k = m.floor(m.exp(-m.log(least + (1 - least) * u) / power))
    inside = k < LARGEST
    k = m.where(inside, k, 1.0)
    t = m.exp(power * m.log1p(1 / k))
    accepted = v * k * (t - 1) / (b - 1) <= t / b
    return k, (inside & accepted) | ~(a < 1025)


def _zipf_kernel(xp: Any, seed: Any, a: Any, out: Any, at: At, shape: tuple[int, ...]) -> None:
    index = flat_index(xp, out, at, shape).reshape(-1)
    _fill(out, try_until_accepted(xp, seed, index, (_line(xp, a, out),), _draw_zipf))


@op("creation", kernel=_zipf_kernel, **_ENTRY)
def _random_zipf(seed: Spec, a: Spec, shape: Any) -> Call:
    """Counts k with probabilities in proportion to k ** -a."""
    return _call((seed, a), shape, int64)


# --- on the circle ----------------------------------------------------------------------------


def _draw_vonmises(m: Any, u: Any, v: Any, kappa: Any) -> tuple[Any, Any]:
    """Best and Fisher's rejection from the wrapped Cauchy distribution: the angle without its sign.

    Where kappa is next to nothing the angle is uniform; where it is huge, normal.
    """
    r = 1 + m.sqrt(1 + 4 * kappa * kappa)
    rho = (r - m.sqrt(2 * r)) / (2 * kappa)
    s = m.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho * rho) / (2 * rho))
    z = m.cos(np.pi * u)
    w = (1 + s * z) / (s + z)
    y = kappa * (s - w)
    accepted = (y * (2 - y) - v >= 0) | (m.log(y / v) + 1 - y >= 0)
    angle = m.arccos(m.where(abs(w) < 1, w, m.sign(w)))
    even, narrow = kappa < 1e-8, kappa > 1e6
    angle = m.where(even, np.pi * u, m.where(narrow, abs(m.ndtri(u)) / m.sqrt(kappa), angle))
    return angle, accepted | even | narrow | (kappa != kappa)


def _vonmises_kernel(
    xp: Any, seed: Any, kappa: Any, out: Any, at: At, shape: tuple[int, ...]
) -> None:
    index = flat_index(xp, out, at, shape).reshape(-1)
    angle = try_until_accepted(xp, seed, index, (_line(xp, kappa, out),), _draw_vonmises)
    _fill(out, xp.where(_uniform(xp, seed, index, -2) < 0.5, angle, -angle))


@op("creation", kernel=_vonmises_kernel, **_ENTRY)
def _random_vonmises(seed: Spec, kappa: Spec, shape: Any) -> Call:
    """Angles around 0 with von Mises' distribution."""
    return _call((seed, kappa), shape, float64)

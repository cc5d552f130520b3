"""Polynomials: a ring with division, derivatives, roots and fits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


P, Q = RNG.integers(1, 6, 6) * 1.0, RNG.integers(1, 6, 3) * 1.0
X = np.linspace(-2, 2, 23)


def test_values_of_sums_and_products_are_sums_and_products_of_values() -> None:
    p, q, x = map(it.asarray, (P, Q, X))
    at_p, at_q = np.polyval(P, X), np.polyval(Q, X)
    for word, want in [
        ("polyadd", at_p + at_q),
        ("polysub", at_p - at_q),
        ("polymul", at_p * at_q),
    ]:
        found = it.polyval(getattr(it, word)(p, q), x).numpy()
        np.testing.assert_allclose(found, want, 1e-12, 1e-12)


def test_quotient_times_divisor_and_remainder_are_the_polynomial() -> None:
    p, q = it.asarray(P), it.asarray(Q)
    quotient, rest = it.polydiv(p, q)
    back = it.polyadd(it.polymul(quotient, q), rest)
    np.testing.assert_allclose(back.numpy(), P, 1e-9, 1e-9)
    agree(lambda xp, a, b: xp.polydiv(a, b), P, Q, rtol=1e-12)
    agree(lambda xp, a, b: xp.polydiv(b, a), P, Q, rtol=1e-12)


@pytest.mark.parametrize("m", [0, 1, 2, 3])
def test_the_derivative_of_the_integral_is_the_polynomial(m: int) -> None:
    p = it.asarray(P)
    np.testing.assert_allclose(it.polyder(it.polyint(p, m, 5), m).numpy(), P, 1e-14)
    agree(lambda xp, a: xp.polyder(a, m), P)
    agree(lambda xp, a: xp.polyint(a, m), P, rtol=1e-14)


def test_the_polynomial_of_the_roots_is_the_polynomial() -> None:
    for p in (P, np.append(P, [0.0, 0.0]), np.append([0.0, 0.0], P)):
        monic = np.trim_zeros(p, "f") / np.trim_zeros(p, "f")[0]
        found = it.poly(it.roots(it.asarray(p))).numpy()
        np.testing.assert_allclose(found, monic, 1e-8, 1e-8)
    assert it.poly(it.asarray([1 + 2j, 1 - 2j])).dtype == np.float64
    assert it.poly(it.asarray([1 + 2j, 3j])).dtype == np.complex128


def test_points_of_a_polynomial_are_fitted_by_it() -> None:
    y = np.polyval(Q, X)
    np.testing.assert_allclose(it.polyfit(it.asarray(X), it.asarray(y), 2).numpy(), Q, 1e-9)
    noisy = y + RNG.normal(size=X.size)
    agree(lambda xp, a, b: xp.polyfit(a, b, 3, w=np.arange(23.0) + 1), X, noisy, rtol=1e-8)
    agree(lambda xp, a, b: xp.polyfit(a, b, 1, cov=True)[1], X, noisy, rtol=1e-8, atol=1e-14)


def test_what_is_no_polynomial_or_no_fit_is_refused_as_by_numpy() -> None:
    refuse(lambda xp, a: xp.polyder(a, -1), P, match="derivative must be positive")
    refuse(lambda xp, a: xp.polyint(a, -1), P, match="integral must be positive")
    refuse(lambda xp, a: xp.polyint(a, 3, [1, 2]), P, match="k must be a scalar")
    refuse(lambda xp, a: xp.roots(a[None]), P, match="rank-1")
    refuse(lambda xp, a: xp.poly(a.reshape(2, 3)), P, match="square 2d")
    refuse(lambda xp, a: xp.polyfit(a, a, -1), P, match="deg >= 0")
    refuse(lambda xp, a: xp.polyfit(a, a[1:], 1), P, match="same length")
    refuse(lambda xp, a: xp.polyfit(a[:0], a[:0], 1), P, match="non-empty")

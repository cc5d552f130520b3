"""Polynomials by their coefficients, the highest power first."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from infinitensor.dtypes import kind_of, result_type
from infinitensor.ops.linalg.spectral import all_real
from infinitensor.ops.table.registry import Array, program


def _line(p: Any) -> Any:
    return p if len(p.shape) else p.reshape((1,))


def _trim_zeros(xp: Any, p: Any) -> Any:
    """Without leading zeros, which are found now; one coefficient stays."""
    found = xp.trim_zeros(_line(p), "f")
    return found if found.shape[0] else xp.zeros((1,), dtype=p.dtype)


def _pairs(rng: Any) -> list[Any]:
    a, b = rng.normal(size=4), rng.normal(size=2)
    return [
        ((a, b), {}),
        ((b, a), {}),
        ((a, a), {}),
        ((np.arange(3), b), {}),
        ((np.arange(3), np.array([0, 2, 5])), {}),
        ((a, np.float64(2)), {}),
        ((a.astype(np.float32), b.astype(np.float32)), {}),
    ]


# --- values -----------------------------------------------------------------------------------


@program(
    cases=lambda rng: [
        ((rng.normal(size=4), rng.normal(size=(3, 5))), {}),
        ((np.array([3, 0, 1]), np.arange(5)), {}),
        ((rng.normal(size=3).astype(np.float32), rng.normal(size=4) + 1j), {}),
        ((np.zeros(0), rng.normal(size=4)), {}),
        ((np.array([1, 2]), np.float64(3)), {}),
    ]
)
def polyval(xp: Any, p: Array, x: Array) -> Any:
    """The values of a polynomial at x, by Horner's rule: reads x once.

    >>> import infinitensor as it
    >>> it.polyval([1, 0, 2], it.arange(3)).tolist()
    [2, 3, 6]
    """
    if not p.shape:
        raise TypeError("polyval: iteration over a 0-d array of coefficients")
    y = xp.zeros_like(x)
    for i in range(p.shape[0]):
        y = y * x + p[i]
    return y


# --- arithmetic -------------------------------------------------------------------------------


def _align(xp: Any, a1: Any, a2: Any) -> tuple[Any, Any]:
    a1, a2 = _line(a1), _line(a2)
    n = max(a1.shape[0], a2.shape[0])
    first, second = (
        a if a.shape[0] == n else xp._pad(a, 0, ((n - a.shape[0], 0),)) for a in (a1, a2)
    )
    return first, second


@program(cases=_pairs)
def polyadd(xp: Any, a1: Array, a2: Array) -> Any:
    """The sum of two polynomials.

    >>> import infinitensor as it
    >>> it.polyadd([1, 2], [9, 5, 4]).tolist()
    [9, 6, 6]
    """
    return xp.add(*_align(xp, a1, a2))


@program(cases=_pairs)
def polysub(xp: Any, a1: Array, a2: Array) -> Any:
    """The difference of two polynomials.

    >>> import infinitensor as it
    >>> it.polysub([1, 2], [9, 5, 4]).tolist()
    [-9, -4, -2]
    """
    return xp.subtract(*_align(xp, a1, a2))


@program(cases=_pairs)
def polymul(xp: Any, a1: Array, a2: Array) -> Any:
    """The product of two polynomials. Leading zeros are found now.

    >>> import infinitensor as it
    >>> it.polymul([1, 2], [1, -2]).tolist()
    [1, 0, -4]
    """
    return xp.convolve(_trim_zeros(xp, a1), _trim_zeros(xp, a2))


@program(cases=_pairs)
def polydiv(xp: Any, u: Array, v: Array) -> tuple[Any, Any]:
    """Quotient and remainder of two polynomials. How long the remainder is is found now.

    >>> import infinitensor as it
    >>> [part.tolist() for part in it.polydiv([1.0, 3.0, 2.0], [1.0, 1.0])]
    [[1.0, 2.0], [0.0]]
    """
    u, v = _line(u) + 0.0, _line(v) + 0.0
    dtype = result_type(u.dtype, v.dtype)
    n = v.shape[0]
    rest = u.astype(dtype)
    quotient = []
    for k in range(u.shape[0] - n + 1):
        share = rest[k : k + 1] * (1.0 / v[:1])
        quotient.append(share)
        changed = rest[k : k + n] - share * v
        rest = xp._concatenate([rest[:k], changed, rest[k + n :]], 0)
    large = ~xp.isclose(rest, 0, rtol=1e-14)
    some, first = xp.force(xp.stack([xp.any(large).astype(int), xp.argmax(large)]))
    rest = rest[int(first) if some else rest.shape[0] - 1 :]
    made = xp._concatenate(quotient, 0) if quotient else xp.zeros((1,), dtype=dtype)
    return made, rest


# --- slopes and areas -------------------------------------------------------------------------


@program(
    cases=lambda rng: [
        ((rng.normal(size=5),), {}),
        ((np.arange(5), 2), {}),
        ((rng.normal(size=5), 0), {}),
        ((rng.normal(size=2), 3), {}),
        ((rng.normal(size=5), -1), {}),
    ]
)
def polyder(xp: Any, p: Array, m: int = 1) -> Any:
    """The m-th derivative of a polynomial.

    >>> import infinitensor as it
    >>> it.polyder([1, 1, 1]).tolist()
    [2, 1]
    """
    if int(m) < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(min(int(m), len(p) + 1)):  # then nothing is left
        p = p[:-1] * xp.arange(max(p.shape[0] - 1, 0), 0, -1)
    return p


@program(
    cases=lambda rng: [
        ((rng.normal(size=4),), {}),
        ((np.arange(4), 2), {}),
        ((rng.normal(size=4), 2, [3.0, 1.0]), {}),
        ((rng.normal(size=4), 2, 5), {}),
        ((rng.normal(size=4), 0), {}),
        ((rng.normal(size=4), 3, [1, 2]), {}),
        ((rng.normal(size=4), -1), {}),
    ]
)
def polyint(xp: Any, p: Array, m: int = 1, k: Any = None) -> Any:
    """The m-th integral of a polynomial; k has the constants, the first of them comes in first.

    >>> import infinitensor as it
    >>> it.polyint([2, 1]).tolist()
    [1.0, 1.0, 0.0]
    """
    m = int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.atleast_1d(np.zeros(m) if k is None else np.asarray(k))
    if len(constants) == 1 and m > 1:
        constants = constants[0] * np.ones(m)
    if len(constants) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        p = p / xp.arange(p.shape[0], 0, -1)
        p = xp._concatenate([p, xp.asarray(constants[i : i + 1])], 0)
    return p


# --- roots ------------------------------------------------------------------------------------


@program(
    cases=lambda rng: [
        ((np.array([1.0, -6.0, 11.0, -6.0]),), {}),
        ((np.array([0, 1, 0, 4, 0, 0]),), {}),
        ((np.array([2.0, 1.0]),), {}),
        ((np.array([1 + 1j, 2.0, 1j]),), {}),
        ((np.array([5.0]),), {}),
        ((np.zeros(3),), {}),
        ((np.zeros((2, 2)),), {}),
    ]
)
def roots(xp: Any, p: Array) -> Any:
    """The roots of a polynomial: the eigenvalues of its companion matrix.

    Zeros at both ends decide its size: they are found now.

    >>> import infinitensor as it
    >>> it.roots([1.0, -3.0, 2.0]).numpy().round(9).tolist()
    [2.0, 1.0]
    """
    p = _line(p)
    if len(p.shape) != 1:
        raise ValueError("Input must be a rank-1 array.")
    inner = xp.trim_zeros(p)
    n_zero = p.shape[0] - xp.trim_zeros(p, "b").shape[0]
    if not inner.shape[0]:
        return xp.zeros((0,))
    inner = inner if kind_of(inner.dtype) in "fc" else inner.astype(np.float64)
    n = inner.shape[0] - 1
    if not n:
        return xp.zeros((n_zero,))
    first = (-inner[1:] / inner[:1]).reshape((1, n))
    companion = xp._concatenate([first, xp.eye(n - 1, n, dtype=inner.dtype)], 0)
    found = xp.linalg_eigvals(companion)
    if found.dtype.kind == "c" and all_real(xp, companion, found):
        found = xp.real(found)  # unlike eigenvalues they are, in every version of NumPy
    return xp._concatenate([found, xp.zeros((n_zero,), dtype=found.dtype)], 0)


@program(
    cases=lambda rng: [
        ((np.array([1.0, 2.0, 3.0]),), {}),
        ((np.array([1, 2]),), {}),
        ((np.array([1, 2], "f2"),), {}),
        ((np.array([1j, -1j, 2.0]),), {}),
        ((np.array([1j, 2.0]),), {}),
        ((np.array([[1.0, 2.0], [0.0, 3.0]]),), {}),
        ((np.zeros(0),), {}),
        ((np.zeros((2, 3)),), {}),
    ]
)
def poly(xp: Any, seq_of_zeros: Array) -> Any:
    """The polynomial with the given roots, or the characteristic one of a square matrix.

    Complex roots that come in conjugate pairs give real coefficients: that is looked at now.

    >>> import infinitensor as it
    >>> it.poly([1.0, 2.0]).tolist()
    [1.0, -3.0, 2.0]
    """
    zeros = _line(seq_of_zeros)
    shape = tuple(zeros.shape)
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        zeros = xp.linalg_eigvals(zeros)
    elif len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not zeros.shape[0]:
        return 1.0
    if len(shape) == 1 and zeros.dtype.char not in "fdFD":  # halves too
        zeros = zeros.astype(np.float64)
    made = xp.ones((1,), dtype=zeros.dtype)
    for i in range(zeros.shape[0]):  # times (x - zero)
        low = xp._pad(-zeros[i] * made, 0, ((1, 0),))
        made = xp._pad(made, 0, ((0, 1),)) + low
    if made.dtype.kind != "c":
        return made
    paired = xp.all(xp.sort(zeros) == xp.sort(xp.conjugate(zeros)))
    return xp._copy(xp.real(made)) if bool(xp.force(paired)) else made


# --- fits -------------------------------------------------------------------------------------


def _fits(rng: Any) -> list[Any]:
    x = np.linspace(-1, 2, 12)
    y = 3 * x**2 - x + rng.normal(size=12)
    return [
        ((x, y, 2), {}),
        ((x, np.stack([y, x], 1), 3), {}),
        ((x, y, 2), {"w": rng.random(12)}),
        ((x, y, 1), {"full": True}),
        ((x, y, 2), {"cov": True}),
        ((x, y, 2), {"cov": "unscaled"}),
        ((np.arange(12), np.arange(12), 1), {}),
        ((x, y, -1), {}),
        ((x, y[:5], 1), {}),
        ((x[:2], y[:2], 1), {"cov": True}),
    ]


@program(cases=_fits)
def polyfit(
    xp: Any,
    x: Array,
    y: Array,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Array = None,
    cov: Any = False,
) -> Any:
    """The polynomial of a degree that is nearest to points (x, y), in squared distances.

    By `linalg.lstsq` of the powers of x, which computes their singular values now.

    >>> import infinitensor as it
    >>> it.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).numpy().round(9).tolist()
    [2.0, 1.0]
    """
    order = int(deg) + 1
    x, y = x + 0.0, y + 0.0
    _check_points(x, y, deg)
    rcond = x.shape[0] * float(np.finfo(x.dtype).eps) if rcond is None else rcond
    left, right = xp.vander(x, order), y
    if w is not None:
        w = w + 0.0
        if w.dtype.kind == "c" and x.dtype.kind != "c":
            raise TypeError("polyfit: weights may not be complex")
        if len(w.shape) != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.shape[0] != y.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * w.reshape((-1, 1))
        right = right * (w if len(y.shape) == 1 else w.reshape((-1, 1)))
    scale = xp.sqrt(xp.sum(left * left, axis=0))
    left = left / scale
    found, distances, rank, sizes = xp.linalg_lstsq(left, right, rcond)
    found = (found.T / scale).T
    if full:
        return found, distances, rank, sizes, rcond
    if rank != order:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if not cov:
        return found
    base = xp.linalg_inv(xp.matmul(left.T, left)) / xp.outer(scale, scale)
    if isinstance(cov, str) and cov == "unscaled":
        share: Any = 1
    elif x.shape[0] <= order:
        raise ValueError(
            "the number of data points must exceed order to scale the covariance matrix"
        )
    else:
        share = distances / (x.shape[0] - order)
    return found, (base if len(y.shape) == 1 else base.reshape((*base.shape, 1))) * share


def _check_points(x: Any, y: Any, deg: int) -> None:
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if len(x.shape) != 1:
        raise TypeError("expected 1D vector for x")
    if not x.shape[0]:
        raise TypeError("expected non-empty vector for x")
    if len(y.shape) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")

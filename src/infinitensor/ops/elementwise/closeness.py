"""Whether values are the same, nearly the same, or of a kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.dtypes import finfo, result_type
from infinitensor.ops.table.registry import Array, program

# --- nearly the same --------------------------------------------------------------------------


def _near(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 5))
    y = np.where(x > 0, x * (1 + 1e-6), x + 1)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0])
    return [
        ((x, y), {}),
        ((x, y), {"rtol": 1e-7}),
        ((x, y[0]), {"atol": 2.0}),
        ((odd, odd), {}),
        ((odd, odd), {"equal_nan": True}),
        ((odd, odd[::-1]), {}),
        ((np.arange(5), np.arange(5)), {}),
        ((np.arange(5), 3), {}),
        ((x.astype(np.float32), y.astype(np.float32)), {}),
        ((x + 1j, x + 1j), {}),
        ((x, y[:, :3]), {}),
        ((np.float64(1), 1.0), {}),
        ((x[:0], x[:0]), {}),
    ]


def _scalar(xp: Any, x: Any) -> Any:
    return x if isinstance(x, (int, float, complex)) else xp.asarray(x)


@program(cases=_near, same="equal")
def isclose(
    xp: Any, a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Any:
    """True where |a - b| <= atol + rtol * |b|, and for equal infinities.

    >>> import infinitensor as it
    >>> it.isclose(it.asarray([1.0, 1.0]), it.asarray([1.0 + 1e-9, 2.0])).tolist()
    [True, False]
    """
    a, b, rtol, atol = (_scalar(xp, x) for x in (a, b, rtol, atol))
    if isinstance(b, int):
        kind = result_type(a.dtype, 1.0) if hasattr(a, "dtype") else np.dtype(np.float64)
        b = xp.asarray(b, dtype=kind)
    elif hasattr(b, "dtype"):
        b = b.astype(result_type(b.dtype, 1.0))
    a = xp.asarray(a) if not hasattr(b, "dtype") else a
    near = xp.less_equal(xp.abs(a - b), atol + rtol * xp.abs(b)) & xp.isfinite(b)
    near = near | (a == b)
    return near | (xp.isnan(a) & xp.isnan(b)) if equal_nan else near


@program(cases=_near, same="equal")
def allclose(
    xp: Any, a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether `isclose` holds everywhere; computed now.

    >>> import infinitensor as it
    >>> it.allclose(it.ones(3), 1.0 + 1e-9)
    True
    """
    return bool(xp.force(xp.all(xp.isclose(a, b, rtol, atol, equal_nan))))


@program(
    cases=lambda rng: [
        ((np.arange(5), np.arange(5.0)), {}),
        ((np.arange(5), np.arange(6)), {}),
        ((np.arange(5), np.arange(5).reshape(1, 5)), {}),
        ((np.array([1.0, np.nan]), np.array([1.0, np.nan])), {}),
        ((np.array([1.0, np.nan]), np.array([1.0, np.nan])), {"equal_nan": True}),
        ((np.array([1.0, np.nan]), np.array([np.nan, 1.0])), {"equal_nan": True}),
        ((np.arange(3), np.arange(3)), {"equal_nan": True}),
    ],
    same="equal",
)
def array_equal(xp: Any, a1: Array, a2: Array, equal_nan: bool = False) -> bool:
    """Whether shapes and all values are the same; computed now.

    >>> import infinitensor as it
    >>> it.array_equal(it.arange(3), [0, 1, 2])
    True
    """
    if tuple(a1.shape) != tuple(a2.shape):
        return False
    same = a1 == a2
    if equal_nan:
        same = same | (xp.isnan(a1) & xp.isnan(a2))
    return bool(xp.force(xp.all(same)))


@program(
    cases=lambda rng: [
        ((np.arange(5), np.array([np.arange(5)] * 2)), {}),
        ((np.arange(5), np.arange(4)), {}),
        ((np.arange(5), np.int64(2)), {}),
    ],
    same="equal",
)
def array_equiv(xp: Any, a1: Array, a2: Array) -> bool:
    """Whether all values are the same once broadcast together; computed now.

    >>> import infinitensor as it
    >>> it.array_equiv(it.ones(3), 1.0)
    True
    """
    try:
        np.broadcast_shapes(tuple(a1.shape), tuple(a2.shape))
    except ValueError:
        return False
    return bool(xp.force(xp.all(a1 == a2)))


# --- kinds of numbers -------------------------------------------------------------------------


def _infinite(rng: Any) -> list[Any]:
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0])
    return [
        ((odd,), {}),
        ((odd.astype(np.float16),), {}),
        ((np.arange(3),), {}),
        ((odd > 0,), {}),
        ((odd + 1j,), {}),
        ((np.float64(-np.inf),), {}),
    ]


def _signed_infinity(xp: Any, name: str, x: Any, negative: bool) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(f"{name}: This operation is not supported for {x.dtype} values")
    return xp.equal(x, -np.inf if negative else np.inf)


@program(cases=_infinite, same="equal")
def isneginf(xp: Any, x: Array) -> Any:
    """True where x is negative infinity.

    >>> import infinitensor as it
    >>> it.isneginf(it.asarray([-it.inf, 1.0])).tolist()
    [True, False]
    """
    return _signed_infinity(xp, "isneginf", x, negative=True)


@program(cases=_infinite, same="equal")
def isposinf(xp: Any, x: Array) -> Any:
    """True where x is positive infinity.

    >>> import infinitensor as it
    >>> it.isposinf(it.asarray([it.inf, 1.0])).tolist()
    [True, False]
    """
    return _signed_infinity(xp, "isposinf", x, negative=False)


def _complex_cases(rng: Any) -> list[Any]:
    return [((np.array([1 + 1j, 2, 3j]),), {}), ((np.arange(4.0),), {}), ((np.int64(2),), {})]


@program(cases=_complex_cases, same="equal")
def isreal(xp: Any, x: Array) -> Any:
    """True where x has no imaginary part.

    >>> import infinitensor as it
    >>> it.isreal(it.asarray([1 + 1j, 2])).tolist()
    [False, True]
    """
    return xp.imag(x) == 0


@program(cases=_complex_cases, same="equal")
def iscomplex(xp: Any, x: Array) -> Any:
    """True where x has an imaginary part.

    >>> import infinitensor as it
    >>> it.iscomplex(it.asarray([1 + 1j, 2])).tolist()
    [True, False]
    """
    return xp.imag(x) != 0


@program(cases=_complex_cases, same="equal")
def isrealobj(xp: Any, x: Array) -> bool:
    """Whether the dtype is not complex.

    >>> import infinitensor as it
    >>> it.isrealobj(it.ones(2))
    True
    """
    return not xp.iscomplexobj(x)


@program(cases=_complex_cases, same="equal")
def iscomplexobj(xp: Any, x: Array) -> bool:
    """Whether the dtype is complex.

    >>> import infinitensor as it
    >>> it.iscomplexobj(it.ones(2))
    False
    """
    return bool(x.dtype.kind == "c")


@program(
    cases=lambda rng: [
        ((np.array([1 + 1e-15j, 2]),), {}),
        ((np.array([1 + 1e-3j, 2]),), {}),
        ((np.array([1 + 1e-3j, 2], np.complex64), 1e5), {}),
        ((np.arange(3.0),), {}),
    ],
    same="equal",
)
def real_if_close(xp: Any, a: Array, tol: float = 100) -> Any:
    """The real part, if no imaginary part is larger than `tol` machine steps; else a itself.

    That decides the dtype: it is computed now.

    >>> import infinitensor as it
    >>> it.real_if_close(it.asarray([1 + 1e-15j])).dtype
    dtype('float64')
    """
    if a.dtype.kind != "c":
        return a
    limit = float(finfo(a.dtype).eps) * tol if tol > 1 else tol
    return xp.real(a) if bool(xp.force(xp.all(xp.abs(xp.imag(a)) < limit))) else a

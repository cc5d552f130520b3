"""Reductions that leave NaN out: it is replaced by what changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype, finfo, kind_of
from infinitensor.ops.sorting.quantile import is_nan
from infinitensor.ops.table.registry import Array, program

if TYPE_CHECKING:
    from collections.abc import Callable

    Axis = int | tuple[int, ...] | None


def without_nan(xp: Any, a: Any, value: Any) -> Any:
    """The values with another in place of NaN."""
    nans = is_nan(xp, a)
    return a if nans is None else xp.where(nans, a.dtype.type(value), a)


def _options(initial: Any, where: Any) -> dict[str, Any]:
    """More parameters of a reduction; none where they are its defaults."""
    given = {} if initial is None else {"initial": initial}
    return given if where is True else {**given, "where": where}


def _holes(*extra: dict[str, Any], empty: bool = False) -> Callable[[Any], list[Any]]:
    def cases(rng: Any) -> list[Any]:
        x = rng.normal(size=(3, 4, 5))
        x = np.where(rng.random(x.shape) < 0.4, np.nan, x)
        x[:, 1, 2] = np.nan
        return [
            ((x,), {}),
            ((x,), {"axis": 1}),
            ((x,), {"axis": -1, "keepdims": True}),
            ((x.astype(np.float32),), {"axis": 0}),
            ((x[0] * (1 + 2j),), {"axis": 1}),
            ((rng.integers(0, 9, (4, 5)).astype(np.int8),), {"axis": 0}),
            ((x[0] > 0,), {"axis": 0}),
            ((np.float64(np.nan),), {}),
            ((np.zeros((3, 0)),), {"axis": 1}),
            *(((x,), more) for more in extra),
        ]

    return cases


_AXES = {"axis": (0, 2)}


@program(cases=_holes(_AXES, {"axis": 0, "dtype": np.float32}))
def nansum(
    xp: Any,
    a: Array,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """The sum over the axes with NaN as 0.

    >>> import infinitensor as it
    >>> it.nansum(it.asarray([1.0, it.nan, 2.0])).item()
    3.0
    """
    more = _options(initial, where)
    return xp.sum(without_nan(xp, a, 0), axis=axis, dtype=dtype, keepdims=keepdims, **more)


@program(cases=_holes(_AXES, {"axis": 0, "dtype": np.float32}))
def nanprod(
    xp: Any,
    a: Array,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """The product over the axes with NaN as 1.

    >>> import infinitensor as it
    >>> it.nanprod(it.asarray([2.0, it.nan, 3.0])).item()
    6.0
    """
    more = _options(initial, where)
    return xp.prod(without_nan(xp, a, 1), axis=axis, dtype=dtype, keepdims=keepdims, **more)


def _extreme(xp: Any, name: str, a: Any, axis: Axis, keepdims: bool, worst: float) -> Any:
    nans = is_nan(xp, a)
    found = getattr(xp, name)(without_nan(xp, a, worst), axis=axis, keepdims=keepdims)
    if nans is None:
        return found
    none = xp.all(nans, axis=axis, keepdims=keepdims)
    return xp.where(none, a.dtype.type(np.nan), found)


@program(cases=_holes(_AXES), same="equal")
def nanmin(
    xp: Any,
    a: Array,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """The smallest value over the axes that is not NaN; NaN where there is none.

    >>> import infinitensor as it
    >>> it.nanmin(it.asarray([2.0, it.nan, 1.0])).item()
    1.0
    """
    more = _options(initial, where)
    if more:
        return xp.fmin.reduce(a, axis, keepdims=keepdims, **more)
    return _extreme(xp, "min", a, axis, keepdims, np.inf)


@program(cases=_holes(_AXES), same="equal")
def nanmax(
    xp: Any,
    a: Array,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """The largest value over the axes that is not NaN; NaN where there is none.

    >>> import infinitensor as it
    >>> it.nanmax(it.asarray([2.0, it.nan, 1.0])).item()
    2.0
    """
    more = _options(initial, where)
    if more:
        return xp.fmax.reduce(a, axis, keepdims=keepdims, **more)
    return _extreme(xp, "max", a, axis, keepdims, -np.inf)


def _position(xp: Any, name: str, a: Any, axis: int | None, keepdims: bool, worst: float) -> Any:
    nans = is_nan(xp, a)
    found = getattr(xp, name)(without_nan(xp, a, worst), axis=axis, keepdims=keepdims)
    if nans is None:
        return found
    some = ~xp.all(nans, axis=axis, keepdims=keepdims)
    return xp._ensured(found, some, "ValueError", "All-NaN slice encountered")


def _positions(rng: Any) -> list[Any]:
    x = np.where(rng.random((4, 5)) < 0.3, np.nan, rng.normal(size=(4, 5)))
    return [
        ((x,), {}),
        ((x,), {"axis": 1}),
        ((x,), {"axis": 0, "keepdims": True}),
        ((rng.integers(0, 9, (4, 5)),), {"axis": 0}),
        ((np.full((2, 3), np.nan),), {"axis": 1}),
        ((x[:, :0],), {"axis": 1}),
    ]


@program(cases=_positions, same="equal")
def nanargmin(xp: Any, a: Array, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The index of the smallest value that is not NaN; where there is none: ValueError.

    >>> import infinitensor as it
    >>> it.nanargmin(it.asarray([2.0, it.nan, 1.0])).item()
    2
    """
    return _position(xp, "argmin", a, axis, keepdims, np.inf)


@program(cases=_positions, same="equal")
def nanargmax(xp: Any, a: Array, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The index of the largest value that is not NaN; where there is none: ValueError.

    >>> import infinitensor as it
    >>> it.nanargmax(it.asarray([2.0, it.nan, 1.0])).item()
    0
    """
    return _position(xp, "argmax", a, axis, keepdims, -np.inf)


# --- moments ----------------------------------------------------------------------------------


def _inexact(a: Any, dtype: Any) -> None:
    if dtype is not None and kind_of(as_dtype(dtype)) not in "fc" and kind_of(a.dtype) in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def _share(xp: Any, total: Any, count: Any) -> Any:
    """total / count in the dtype of the total."""
    return xp.divide(total, count.astype(_real(total.dtype))).astype(total.dtype)


@program(cases=_holes(_AXES, {"axis": 0, "dtype": np.float32}), wide=True)
def nanmean(
    xp: Any,
    a: Array,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """The mean over the axes of the values that are not NaN; NaN where there is none.

    >>> import infinitensor as it
    >>> it.nanmean(it.asarray([1.0, it.nan, 2.0])).item()
    1.5
    """
    nans = is_nan(xp, a)
    more = _options(None, where)
    if nans is None:
        return xp.mean(a, axis=axis, dtype=dtype, keepdims=keepdims, **more)
    _inexact(a, dtype)
    total = xp.nansum(a, axis=axis, dtype=dtype, keepdims=keepdims, **more)
    return _share(xp, total, xp.sum(~nans, axis=axis, keepdims=keepdims, **more))


def _spread(name: str, doc: str) -> None:
    """Enter the variance or the deviation of what is not NaN."""

    def rule(
        xp: Any,
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: float | None = None,
    ) -> Any:
        nans = is_nan(xp, a)
        more = _options(None, where)
        if nans is None:
            more |= {"axis": axis, "dtype": dtype, "ddof": ddof, "keepdims": keepdims}
            more |= {} if mean is None else {"mean": mean}
            return getattr(xp, name.removeprefix("nan"))(a, correction=correction, **more)
        _inexact(a, dtype)
        if correction is not None:
            if ddof != 0:
                raise ValueError("ddof and correction can't be provided simultaneously.")
            ddof = correction
        if mean is None:
            mean = xp.nanmean(a, axis=axis, dtype=dtype, keepdims=True, where=where)
        away = xp.where(nans, a.dtype.type(0), (a - mean).astype(a.dtype))
        squared = xp.real(away * xp.conj(away))
        degrees = xp.sum(~nans, axis=axis, keepdims=keepdims, **more) - ddof
        total = xp.sum(squared, axis=axis, dtype=dtype, keepdims=keepdims, **more)
        found = xp.where(degrees <= 0, total.dtype.type(np.nan), _share(xp, total, degrees))
        return xp.sqrt(found) if name == "nanstd" else found

    rule.__doc__ = doc
    cases = _holes(_AXES, {"axis": 0, "ddof": 1}, {"axis": 1, "correction": 1})
    program("a", name=name, cases=cases, wide=True)(rule)


_spread(
    "nanvar",
    """The variance over the axes of the values that are not NaN.

    >>> import infinitensor as it
    >>> it.nanvar(it.asarray([1.0, it.nan, 3.0])).item()
    1.0
    """,
)
_spread(
    "nanstd",
    """The standard deviation over the axes of the values that are not NaN.

    >>> import infinitensor as it
    >>> it.nanstd(it.asarray([1.0, it.nan, 3.0])).item()
    1.0
    """,
)


# --- running sums, replacement ----------------------------------------------------------------


def _running(rng: Any) -> list[Any]:
    x = np.where(rng.random((4, 5)) < 0.3, np.nan, rng.normal(size=(4, 5)))
    return [((x,), {}), ((x,), {"axis": 1}), ((x.astype("f4"), 0), {}), ((np.arange(5),), {})]


@program(cases=_running)
def nancumsum(xp: Any, a: Array, axis: int | None = None, dtype: Any = None) -> Any:
    """The running sum with NaN as 0.

    >>> import infinitensor as it
    >>> it.nancumsum(it.asarray([1.0, it.nan, 2.0])).tolist()
    [1.0, 1.0, 3.0]
    """
    return xp.cumsum(without_nan(xp, a, 0), axis, dtype)


@program(cases=_running)
def nancumprod(xp: Any, a: Array, axis: int | None = None, dtype: Any = None) -> Any:
    """The running product with NaN as 1.

    >>> import infinitensor as it
    >>> it.nancumprod(it.asarray([2.0, it.nan, 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    return xp.cumprod(without_nan(xp, a, 1), axis, dtype)


def _odd(rng: Any) -> list[Any]:
    x = np.array([1.5, np.nan, np.inf, -np.inf, -2.0])
    return [
        ((x,), {}),
        ((x.astype(np.float32), True, -1.0, 7.0, -7.0), {}),
        ((np.array([complex(np.nan, 2), complex(1, -np.inf)]),), {"nan": 3.0}),
        ((np.arange(5),), {}),
        ((np.float64(np.nan),), {}),
    ]


@program(cases=_odd, same="equal")
def nan_to_num(
    xp: Any, x: Array, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Numbers in place of NaN and infinities: 0 and the largest of the dtype, unless given.

    `copy=False` writes them into x.

    >>> import infinitensor as it
    >>> it.nan_to_num(it.asarray([it.nan, it.inf, 1.0]), posinf=9.0).tolist()
    [0.0, 9.0, 1.0]
    """
    if x.dtype.kind == "c":
        made = xp.zeros_like(x)
        made.real, made.imag = (
            xp.nan_to_num(part, True, nan, posinf, neginf) for part in (xp.real(x), xp.imag(x))
        )
    elif kind_of(x.dtype) != "f":
        made = xp._copy(x)
    else:
        most = finfo(x.dtype)
        top, low, hole = (
            xp.asarray(value).astype(x.dtype) if np.ndim(value) else x.dtype.type(value)
            for value in (
                most.max if posinf is None else posinf,
                most.min if neginf is None else neginf,
                nan,
            )
        )
        made = xp.where(x == np.inf, top, xp.where(x == -np.inf, low, x))
        made = xp.where(xp.isnan(x), hole, made)
        if made.shape != x.shape:
            raise ValueError(f"nan_to_num: numbers of more elements than the {x.shape} of x")
    if copy:
        return made
    x[...] = made
    return x

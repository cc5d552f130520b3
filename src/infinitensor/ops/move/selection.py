"""Choosing among arrays, and writing where a mask or an index says."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import can_cast, result_type
from infinitensor.ops.move.join import joined_dtype
from infinitensor.ops.move.mask import as_mask
from infinitensor.ops.table.registry import Array, program

if TYPE_CHECKING:
    from collections.abc import Sequence


def _choices(rng: Any) -> list[Any]:
    a = rng.integers(0, 3, (4, 5))
    x = [rng.normal(size=(4, 5)), rng.normal(size=5), np.float64(7)]
    return [
        ((a, x), {}),
        ((a * 2 - 2, x), {"mode": "wrap"}),
        ((a * 2 - 2, x), {"mode": "clip"}),
        ((a[0], np.arange(15).reshape(3, 5)), {}),
        ((a, [1, 2, 3.5]), {}),
        ((a + 1, x), {}),
        ((a.astype(float), x), {}),
        ((a, x[:1]), {"mode": "shrug"}),
        ((a > 0, x), {}),
    ]


@program(cases=_choices, same="equal")
def choose(xp: Any, a: Array, choices: Any, mode: str = "raise") -> Any:
    """For each element of a the value of the choice with that number, all broadcast together.

    A number that is none raises ValueError when the result is computed, or is wrapped or clipped.

    >>> import infinitensor as it
    >>> it.choose(it.asarray([0, 1, 0]), [it.asarray([1, 2, 3]), 10]).tolist()
    [1, 10, 3]
    """
    choices = list(choices)
    some = [xp.asarray(choice) for choice in choices]
    n = len(some)
    if not can_cast(a.dtype, np.int64, "safe"):
        raise TypeError(
            f"choose: Cannot cast array data from {a.dtype!r} to dtype('int64') "
            "according to the rule 'safe'"
        )
    a = a.astype(np.int64)
    if mode == "wrap":
        a = a % n
    elif mode == "raise" or mode is None:
        a = xp._ensured(a, (a >= 0) & (a < n), "ValueError", "invalid entry in choice array")
    elif mode != "clip":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    dtype = joined_dtype(choices, some)
    shape = np.broadcast_shapes(tuple(a.shape), *(tuple(choice.shape) for choice in some))
    made = xp.broadcast_to(some[0], shape).astype(dtype)
    for i, choice in enumerate(some[1:], 1):  # what is above the last chooses the last
        made = xp.where(a >= i, choice.astype(dtype), made)
    return made


def _select_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 5))
    return [
        (([x > 1, x < 0], [x, 10 * x]), {}),
        (([x > 1, x < 0], [x.astype(np.float32), 2.0], 7.0), {}),
        (([x[0] > 1], [x], x[:, :1]), {}),
        (([x > 1], [x, x]), {}),
        (([x], [x]), {}),
        (([], []), {}),
    ]


@program(cases=_select_cases, same="equal")
def select(xp: Any, condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """For each element the choice of the first condition that holds, or the default.

    >>> import infinitensor as it
    >>> x = it.arange(5)
    >>> it.select([x < 2, x > 3], [x, 10 * x], -1).tolist()
    [0, 1, -1, -1, 40]
    """
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    conditions = [xp.asarray(condition) for condition in condlist]
    for i, condition in enumerate(conditions):
        if condition.dtype.kind != "b":
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    choices = [
        choice if type(choice) in (int, float, complex) else xp.asarray(choice)
        for choice in (*choicelist, default)
    ]
    dtype = result_type(*(getattr(choice, "dtype", choice) for choice in choices))
    made = xp.asarray(choices[-1]).astype(dtype)
    for condition, choice in zip(conditions[::-1], choices[-2::-1], strict=True):
        made = xp.where(condition, xp.asarray(choice).astype(dtype), made)
    return made


def _bent(x: Any) -> Any:
    return x * x


def _piecewise_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 5))
    return [
        ((x, [x < 0, x >= 0], [_bent, 2.5]), {}),
        ((x, [x < 0], [-1, _bent]), {}),
        ((x[0], x[0] < 0, [_bent]), {}),
        ((x, x < 0, [_bent]), {}),
        ((np.arange(5), [np.arange(5) > 2], [1.7, 2]), {}),
        ((x, [x < 0], [1, 2, 3]), {}),
        ((np.float64(-2), [True], [_bent]), {}),
    ]


@program(cases=_piecewise_cases)
def piecewise(
    xp: Any, x: Array, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any
) -> Any:
    """Another function, or value, of x where each condition holds; one more is for the rest.

    Each function gets the elements its condition holds for: they are counted now.

    >>> import infinitensor as it
    >>> x = it.asarray([-2.0, 0.5, 3.0])
    >>> it.piecewise(x, [x < 0, x > 1], [0, lambda v: v * v, 7]).tolist()
    [0.0, 7.0, 9.0]
    """
    is_one = np.isscalar(condlist) or not getattr(condlist, "shape", True)
    if is_one or (len(x.shape) and not np.ndim(condlist[0])):
        condlist = [condlist]
    conditions = [as_mask(xp.asarray(condition)) for condition in condlist]
    n = len(conditions)
    if n == len(funclist) - 1:
        rest = conditions[0]
        for condition in conditions[1:]:
            rest = rest | condition
        conditions.append(~rest)
    elif n != len(funclist):
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    y = xp.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            y[condition] = function
            continue
        values = xp._masked(x, condition)
        if values.shape[0]:
            y[condition] = function(values, *args, **kw)
    return y


# --- writes -----------------------------------------------------------------------------------


@program(cases=lambda rng: [])
def putmask(xp: Any, a: Array, mask: Array, values: Any) -> None:
    """Writes values into a where the mask holds; short ones are repeated over all of a.

    >>> import infinitensor as it
    >>> x = it.arange(5)
    >>> it.putmask(x, x > 2, [10, 20])
    >>> x.tolist()
    [0, 1, 2, 20, 10]
    """
    if prod(mask.shape) != prod(a.shape):
        raise ValueError("putmask: mask and data must be the same size")
    values = _values("putmask", xp, values, a.dtype)
    if not prod(values.shape):
        return
    repeated = xp.resize(values, tuple(a.shape)).astype(a.dtype)
    a[...] = xp.where(as_mask(mask).reshape(tuple(a.shape)), repeated, a)


def _values(name: str, xp: Any, values: Any, dtype: np.dtype[Any]) -> Any:
    """Values to be written: numbers are made of the dtype, arrays must be safe to cast to it."""
    if not hasattr(values, "dtype") or not np.ndim(values):
        return xp.asarray(values, dtype)
    if not can_cast(values.dtype, dtype, "safe"):
        raise TypeError(
            f"{name}: Cannot cast array data from {values.dtype!r} to {dtype!r} "
            "according to the rule 'safe'"
        )
    return xp.asarray(values)


@program(cases=lambda rng: [])
def place(xp: Any, arr: Array, mask: Array, vals: Any) -> None:
    """Writes values into the elements where the mask holds, in their order, repeated at need.

    How many there are is computed now.

    >>> import infinitensor as it
    >>> x = it.arange(5)
    >>> it.place(x, x > 1, [10, 20])
    >>> x.tolist()
    [0, 1, 10, 20, 10]
    """
    if prod(mask.shape) != prod(arr.shape):
        raise ValueError("place: mask and data must be the same size")
    vals = _values("place", xp, vals, arr.dtype)
    mask = as_mask(mask).reshape(tuple(arr.shape))
    n = int(xp.force(xp.count_nonzero(mask)))
    if not n:
        return
    if not prod(vals.shape):
        raise ValueError("Cannot insert from an empty array!")
    arr[mask] = xp.resize(vals, (n,)).astype(arr.dtype)


@program(cases=lambda rng: [])
def put_along_axis(xp: Any, arr: Array, indices: Array, values: Any, axis: int | None) -> None:
    """Writes, in each line along the axis, values at that line's indices.

    >>> import infinitensor as it
    >>> x = it.zeros((2, 3))
    >>> it.put_along_axis(x, it.asarray([[2], [0]]), 7, axis=1)
    >>> x.tolist()
    [[0.0, 0.0, 7.0], [7.0, 0.0, 0.0]]
    """
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is not None and len(indices.shape) != len(arr.shape):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    values = xp.asarray(values, arr.dtype)
    if axis is None:
        if len(indices.shape) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        xp.put(arr, indices, xp.broadcast_to(values, tuple(indices.shape)))
        return
    ndim = len(arr.shape)
    axis = normalize_axis_index(axis, ndim)
    ones = (1,) * ndim
    arr[
        tuple(
            indices if i == axis else xp.arange(n).reshape((*ones[:i], n, *ones[i + 1 :]))
            for i, n in enumerate(arr.shape)
        )
    ] = values

"""Arrays put together, taken apart, and brought to another shape."""

from __future__ import annotations

from math import prod
from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from infinitensor.ops.forms.gather import along
from infinitensor.ops.move.join import split_views
from infinitensor.ops.table.checks import host_values_of
from infinitensor.ops.table.registry import Array, program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# --- at least so many axes --------------------------------------------------------------------


def _some(rng: Any) -> list[Any]:
    x = rng.normal(size=(2, 3, 4))
    return [((a,), {}) for a in (np.float64(2), x[0, 0], x[0], x)] + [((x[0, 0], x), {})]


def _each(arys: Sequence[Any], change: Callable[[Any], Any]) -> Any:
    seen = tuple(change(a) for a in arys)
    return seen[0] if len(seen) == 1 else seen


@program("arys", cases=_some, same="equal")
def atleast_1d(xp: Any, *arys: Any) -> Any:
    """The arrays with at least one axis; views.

    >>> import infinitensor as it
    >>> it.atleast_1d(3.0).shape
    (1,)
    """
    return _each(arys, lambda a: a if len(a.shape) else a.reshape((1,)))


@program("arys", cases=_some, same="equal")
def atleast_2d(xp: Any, *arys: Any) -> Any:
    """The arrays with at least two axes, new ones in front; views.

    >>> import infinitensor as it
    >>> it.atleast_2d(it.arange(3)).shape
    (1, 3)
    """
    return _each(arys, lambda a: a if len(a.shape) > 1 else a.reshape((1, prod(a.shape))))


@program("arys", cases=_some, same="equal")
def atleast_3d(xp: Any, *arys: Any) -> Any:
    """The arrays with at least three axes: (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1).

    >>> import infinitensor as it
    >>> it.atleast_3d(it.arange(3)).shape
    (1, 3, 1)
    """

    def deep(a: Any) -> Any:
        shape = tuple(a.shape)
        if len(shape) > 2:
            return a
        return a.reshape((*shape, 1) if len(shape) == 2 else (1, prod(shape), 1))

    return _each(arys, deep)


# --- joins and splits -------------------------------------------------------------------------


@program(
    cases=lambda rng: [
        ((rng.normal(size=(2, 3, 4)), 2), {}),
        ((rng.normal(size=(2, 3, 4)), [1, 3]), {}),
        ((rng.normal(size=(3, 4)), 2), {}),
        ((rng.normal(size=(2, 3, 4)), 3), {}),
    ],
    same="equal",
)
def dsplit(xp: Any, ary: Array, indices_or_sections: Any) -> list[Any]:
    """Views of pieces of the third axis.

    >>> import infinitensor as it
    >>> [part.shape for part in it.dsplit(it.zeros((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    if len(ary.shape) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split_views("dsplit", ary, indices_or_sections, 2, even=True)


def _depth(arrays: Any) -> int:
    """How deep the lists are nested; equally everywhere."""
    if isinstance(arrays, tuple):
        raise TypeError(
            "block: a tuple is no nesting. Only lists can be used to arrange blocks, and np.block "
            "does not allow implicit conversion from tuple to ndarray."
        )
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("block: lists cannot be empty")
    depths = {_depth(one) for one in arrays}
    if len(depths) > 1:
        raise ValueError(f"List depths are mismatched: {sorted(depths)}")
    return 1 + depths.pop()


def _join_nested(xp: Any, arrays: Any, depth: int, ndim: int) -> Any:
    if isinstance(arrays, list):
        return xp._concatenate(
            [_join_nested(xp, one, depth - 1, ndim) for one in arrays], ndim - depth
        )
    a = xp.asarray(arrays)
    return a.reshape((1,) * (ndim - len(a.shape)) + tuple(a.shape))


def _most_axes(arrays: Any) -> int:
    return max(map(_most_axes, arrays)) if isinstance(arrays, list) else np.ndim(arrays)


@program(
    cases=lambda rng: [
        (([[np.eye(2), np.zeros((2, 3))], [np.ones((3, 2)), np.eye(3)]],), {}),
        (([np.arange(3), 5],), {}),
        ((rng.normal(size=3),), {}),
        (([[np.arange(3)], [np.arange(3)]],), {}),
        (([[np.arange(3)], np.arange(3)],), {}),
        (([],), {}),
        (((np.arange(3), np.arange(3)),), {}),
    ],
    same="equal",
)
def block(xp: Any, arrays: Any) -> Any:
    """An array from nested lists of blocks: the innermost lists are joined along the last axis.

    >>> import infinitensor as it
    >>> it.block([[it.ones((1, 1)), it.zeros((1, 2))]]).tolist()
    [[1.0, 0.0, 0.0]]
    """
    depth = _depth(arrays)
    ndim = max(depth, _most_axes(arrays))
    return _join_nested(xp, arrays, depth, ndim) if depth else xp._copy(xp.asarray(arrays))


@program(
    cases=lambda rng: [
        ((rng.normal(size=(2, 3)), rng.normal(size=4)), {}),
        ((rng.normal(size=(2, 3)), rng.integers(0, 9, (1, 3)), 0), {}),
        ((np.arange(3), 2.5), {}),
        ((rng.normal(size=(2, 3)), np.ones(3), 0), {}),
    ],
    same="equal",
)
def append(xp: Any, arr: Array, values: Array, axis: int | None = None) -> Any:
    """The array with values behind it, along an axis or both flattened.

    >>> import infinitensor as it
    >>> it.append(it.arange(2), [7]).tolist()
    [0, 1, 7]
    """
    return xp.concatenate([arr, values], axis)


# --- rows in and out --------------------------------------------------------------------------


def _line(xp: Any, arr: Any, axis: int | None) -> tuple[Any, int, int]:
    """The array, the axis meant, and its length."""
    if axis is None:
        arr = arr.reshape(-1)
        return arr, 0, arr.shape[0]
    axis = normalize_axis_index(axis, len(arr.shape))
    return arr, axis, arr.shape[axis]


def _within(i: int, n: int, axis: int, last: int) -> int:
    if not -n <= i <= last:
        raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
    return i + n if i < 0 else i


def _delete_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 5))
    return [
        ((x, 1), {}),
        ((x, -1, 1), {}),
        ((x, slice(1, None, 2), 1), {}),
        ((x, slice(None, None, -2), 1), {}),
        ((x, [0, 2, 2], 1), {}),
        ((x, np.array([True, False, False, True]), 0), {}),
        ((x, [], 0), {}),
        ((x, 7, 1), {}),
        ((x, [0, 9], 1), {}),
        ((x, np.array([True, False]), 0), {}),
    ]


@program(cases=_delete_cases, same="equal")
def delete(xp: Any, arr: Array, obj: Any, axis: int | None = None) -> Any:
    """The array without the slices that an index, a slice, indices or a mask name.

    They decide the shape: a tensor of them is computed.

    >>> import infinitensor as it
    >>> it.delete(it.arange(5), [1, 3]).tolist()
    [0, 2, 4]
    """
    arr, axis, n = _line(xp, arr, axis)
    keep = np.ones(n, bool)
    if isinstance(obj, slice):
        keep[obj] = False
    else:
        gone = host_values_of(xp, obj)
        if gone.dtype.kind == "b":
            if gone.shape != (n,):
                raise ValueError(
                    "boolean array argument obj to delete must be one dimensional and match the "
                    f"axis length of {n}"
                )
        else:
            gone = gone if gone.size or hasattr(obj, "dtype") else gone.astype(np.int64)
            if gone.dtype.kind not in "iu":
                raise IndexError("arrays used as indices must be of integer (or boolean) type")
            gone = np.array([_within(i, n, axis, n - 1) for i in gone.reshape(-1).tolist()], int)
        keep[gone] = False
    runs = np.flatnonzero(np.diff(keep, prepend=False, append=False)).reshape(-1, 2)
    if len(runs) > _FEW_PIECES:
        return xp.take(arr, np.flatnonzero(keep), axis)
    pieces = [arr[along(axis, slice(*run))] for run in runs.tolist()]
    return xp._concatenate(pieces or [arr[along(axis, slice(0, 0))]], axis)


_FEW_PIECES = 64
"""More pieces than this are gathered by index, fewer are joined."""


def _insert_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 5))
    return [
        ((x, 1, 7.5), {}),
        ((x, 1, rng.normal(size=5), 0), {}),
        ((x, -1, rng.normal(size=4), 1), {}),
        ((x, 2, rng.normal(size=(4, 2)), 1), {}),
        ((x, [2], rng.normal(size=(4, 2)), 1), {}),
        ((x, [0, 3, 3], rng.normal(size=(4, 3)), 1), {}),
        ((x, [3, 0], 9, 1), {}),
        ((x, slice(1, 4, 2), 1.0, 0), {}),
        ((np.arange(4), [1, 2], [7.9, 8.1]), {}),
        ((np.arange(4), np.array([True, False, True, False]), 9), {}),
        ((x, [], 9, 1), {}),
        ((x, 9, 1.0, 1), {}),
        ((x, [0, 9], 1.0, 1), {}),
    ]


@program(cases=_insert_cases, same="equal")
def insert(xp: Any, arr: Array, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values before the given indices of an axis.

    They decide the shape: a tensor of them is computed.

    >>> import infinitensor as it
    >>> it.insert(it.arange(3), [0, 2], [7, 8]).tolist()
    [7, 0, 1, 8, 2]
    """
    arr, axis, n = _line(xp, arr, axis)
    ndim = len(arr.shape)
    where = np.arange(*obj.indices(n)) if isinstance(obj, slice) else host_values_of(xp, obj)
    if where.dtype.kind == "b":
        if where.ndim != 1:
            raise ValueError("boolean array argument obj to insert must be one dimensional")
        where = np.flatnonzero(where)
    if where.ndim > 1:
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    if where.dtype.kind not in "iu" and (where.size or hasattr(obj, "dtype")):
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    scalar = where.ndim == 0
    places = [_within(as_int(i), n, axis, n) for i in where.reshape(-1).tolist()]
    values = xp.asarray(values, arr.dtype)
    if len(places) == 1:
        values = values.reshape((1,) * (ndim - len(values.shape)) + tuple(values.shape))
        values = xp.moveaxis(values, 0, axis) if scalar else values
        places = places * values.shape[axis]
    shape = (*arr.shape[:axis], len(places), *arr.shape[axis + 1 :])
    values = xp.broadcast_to(values, shape)
    order = sorted(range(len(places)), key=places.__getitem__)
    pieces, done = [], 0
    for i in order:
        pieces += [arr[along(axis, slice(done, places[i]))], values[along(axis, slice(i, i + 1))]]
        done = places[i]
    pieces = [piece for piece in pieces if piece.shape[axis]]
    return xp._concatenate([*pieces, arr[along(axis, slice(done, n))]], axis)


@program(
    cases=lambda rng: [
        ((rng.normal(size=(2, 3)), (4, 5)), {}),
        ((rng.normal(size=(2, 3)), 4), {}),
        ((rng.normal(size=(2, 3)), (0, 2)), {}),
        ((np.zeros(0), (2, 2)), {}),
        ((np.arange(3), (-1, 2)), {}),
    ],
    same="equal",
    method=False,
)
def resize(xp: Any, a: Array, new_shape: Any) -> Any:
    """The values in another shape: repeated if it is larger, cut off if it is smaller.

    >>> import infinitensor as it
    >>> it.resize(it.arange(3), (2, 2)).tolist()
    [[0, 1], [2, 0]]
    """
    shape = tuple(as_int(n) for n in np.atleast_1d(np.asarray(new_shape, dtype=int)))
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    n, have = prod(shape), prod(a.shape)
    if not n or not have:
        return xp.zeros(shape, dtype=a.dtype)
    return xp.tile(a.reshape(-1), -(-n // have))[:n].reshape(shape)


@program(
    cases=lambda rng: [
        ((np.array([0, 0, 1, 0, 2, 0]),), {}),
        ((np.array([0, 0, 1, 0, 2, 0]), "f"), {}),
        ((np.array([0, 0, 1, 0, 2, 0]), "b"), {}),
        ((np.zeros(3),), {}),
        ((np.pad(np.ones((1, 2)), ((1, 2), (0, 3))),), {}),
        ((np.pad(np.ones((1, 2)), ((1, 2), (0, 3))),), {"axis": 0}),
        ((np.arange(3), "x"), {}),
    ],
    same="equal",
)
def trim_zeros(xp: Any, filt: Array, trim: str = "fb", axis: Any = None) -> Any:
    """A view without the zeros at the front and the back of the axes.

    Where they end is a shape: it is computed now.

    >>> import infinitensor as it
    >>> it.trim_zeros(it.asarray([0, 0, 5, 0, 6, 0])).tolist()
    [5, 0, 6]
    """
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    ndim = len(filt.shape)
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim, "axis")
    if not axes:
        return filt
    index = [slice(None)] * ndim
    for i in axes:
        rest = tuple(k for k in range(ndim) if k != i)
        some = xp.any(filt != 0, axis=rest)
        n = some.shape[0]
        if not n or not bool(xp.force(xp.any(some))):
            index[i] = slice(0, 0)
            continue
        ends = xp.force(xp.stack([xp.argmax(some), xp.argmax(some[::-1])]))
        front = int(ends[0]) if "f" in trim else 0
        index[i] = slice(front, n - int(ends[1]) if "b" in trim else n)
    return filt[tuple(index)]


@program(
    cases=lambda rng: [
        ((_total, rng.normal(size=(2, 3, 4)), [0, 2]), {}),
        ((_total, rng.normal(size=(2, 3, 4)), -1), {}),
        ((_flatten, rng.normal(size=(2, 3, 4)), 1), {}),
    ]
)
def apply_over_axes(xp: Any, func: Callable[..., Any], a: Array, axes: Any) -> Any:
    """A function (array, axis) over one axis after the other; each axis stays, with size 1.

    >>> import infinitensor as it
    >>> it.apply_over_axes(it.sum, it.ones((2, 3)), [0, 1]).tolist()
    [[6.0]]
    """
    ndim = len(a.shape)
    for axis in np.atleast_1d(np.asarray(axes)).tolist():
        axis = axis + ndim if axis < 0 else axis
        made = func(a, axis)
        if len(made.shape) == ndim - 1:
            made = made.reshape((*made.shape[:axis], 1, *made.shape[axis:]))
        if len(made.shape) != ndim:
            raise ValueError("function is not returning an array of the correct shape")
        a = made
    return a


def _total(x: Any, axis: int) -> Any:
    return x.sum(axis)


def _flatten(x: Any, axis: int) -> Any:
    return x.reshape(-1)

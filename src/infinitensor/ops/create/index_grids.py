"""Grids of indices and numbers: triangles, diagonals, powers, geometric steps."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype, int64, result_type
from infinitensor.ops.create.creation import diagonal_number, shape_of
from infinitensor.ops.forms.gather import c_strides
from infinitensor.ops.table.registry import Array, program

if TYPE_CHECKING:
    from collections.abc import Callable


@program(
    cases=lambda rng: [
        (((2, 3, 4),), {}),
        (((2, 3), np.float32), {}),
        (((2, 3),), {"sparse": True}),
        (((),), {}),
        (((3, 0),), {}),
        (((3, 2), None), {}),
    ],
    same="equal",
)
def indices(xp: Any, dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """For each axis the index of every element of a grid along it; `sparse`: with size-1 axes.

    >>> import infinitensor as it
    >>> it.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape = shape_of(tuple(dimensions))
    dtype = float if dtype is None and not sparse else dtype
    ones = (1,) * len(shape)
    axes = tuple(
        xp.arange(n, dtype=dtype).reshape((*ones[:i], n, *ones[i + 1 :]))
        for i, n in enumerate(shape)
    )
    if sparse:
        return axes
    if not axes:
        return xp.zeros((0,), dtype=dtype)
    return xp.stack([xp.broadcast_to(axis, shape) for axis in axes])


@program(
    cases=lambda rng: [((_shear, (3, 4)), {}), ((_shear, (3, 4)), {"dtype": int})], same="equal"
)
def fromfunction(
    xp: Any, function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """The values of a function of the indices, called once with the whole grid.

    >>> import infinitensor as it
    >>> it.fromfunction(lambda i, j: i + j, (2, 2)).tolist()
    [[0.0, 1.0], [1.0, 2.0]]
    """
    return function(*xp.indices(shape, dtype), **kwargs)


def _shear(i: Any, j: Any) -> Any:
    return i + 2 * j


# --- triangles and diagonals ------------------------------------------------------------------


@program(
    cases=lambda rng: [((3,), {}), ((3, 5, 1), {}), ((4, 2, -2, bool), {}), ((0,), {})],
    same="equal",
)
def tri(xp: Any, N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    """Ones at and below the k-th diagonal, zeros above.

    >>> import infinitensor as it
    >>> it.tri(2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    rows, columns = xp.arange(N), xp.arange(N if M is None else M)
    return (rows.reshape((-1, 1)) >= columns - diagonal_number(k)).astype(as_dtype(dtype))


def _triangle(name: str, lower: bool) -> None:
    where = "at and below" if lower else "at and above"
    of = [[0, 0], [1, 0], [1, 1]] if lower else [[0, 0], [0, 1], [1, 1]]

    def of_shape(xp: Any, n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
        below = xp.tri(n, m, k if lower else k - 1, dtype=bool)
        rows, columns = xp.nonzero(below if lower else ~below)
        return rows, columns

    of_shape.__doc__ = f"""Row and column indices of the elements {where} the k-th diagonal.

    >>> import infinitensor as it
    >>> it.stack(it.{name}_indices(2), axis=1).tolist()
    {of}
    """

    def of_array(xp: Any, arr: Any, k: int = 0) -> tuple[Any, Any]:
        if len(arr.shape) != 2:
            raise ValueError("input array must be 2-d")
        return of_shape(xp, arr.shape[0], k, arr.shape[1])

    of_array.__doc__ = f"""As `{name}_indices`, of the shape of an array.

    >>> import infinitensor as it
    >>> it.stack(it.{name}_indices_from(it.zeros((2, 2))), axis=1).tolist()
    {of}
    """
    shapes: list[Any] = [((4,), {}), ((3, 1, 5), {}), ((4, -1), {}), ((0,), {})]
    program(name=f"{name}_indices", cases=lambda rng: shapes, same="equal")(of_shape)
    program(
        "arr",
        name=f"{name}_indices_from",
        cases=lambda rng: [((np.zeros((3, 4)), 1), {}), ((np.zeros(3),), {})],
        same="equal",
    )(of_array)


_triangle("tril", lower=True)
_triangle("triu", lower=False)


@program(cases=lambda rng: [((3, _upper), {}), ((4, _upper, 1), {})], same="equal")
def mask_indices(xp: Any, n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Any, ...]:
    """The indices where a function such as `triu` leaves something of an n by n array of ones.

    >>> import infinitensor as it
    >>> it.stack(it.mask_indices(2, it.triu), axis=1).tolist()
    [[0, 0], [0, 1], [1, 1]]
    """
    found: tuple[Any, ...] = xp.nonzero(mask_func(xp.ones((n, n), dtype=int64), k))
    return found


def _upper(m: Any, k: int) -> Any:
    n = np.arange(m.shape[0])
    return m * (n - k >= n[:, None])


@program(cases=lambda rng: [((3,), {}), ((3, 3), {})], same="equal")
def diag_indices(xp: Any, n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with `ndim` axes of n.

    >>> import infinitensor as it
    >>> [i.tolist() for i in it.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    return (xp.arange(n),) * ndim


@program(
    cases=lambda rng: [((np.zeros((3, 3, 3)),), {}), ((np.zeros(3),), {}), ((np.eye(2, 3),), {})],
    same="equal",
)
def diag_indices_from(xp: Any, arr: Array) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with equal axes.

    >>> import infinitensor as it
    >>> [i.tolist() for i in it.diag_indices_from(it.eye(2))]
    [[0, 1], [0, 1]]
    """
    if len(arr.shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    found: tuple[Any, ...] = xp.diag_indices(arr.shape[0], len(arr.shape))
    return found


# --- flat indices -----------------------------------------------------------------------------


def _steps(shape: tuple[int, ...], order: str | None) -> tuple[int, ...]:
    order = "C" if order is None else order
    if order not in ("C", "F"):
        raise ValueError(f"only 'C' or 'F' order is permitted (got {order!r})")
    return c_strides(shape) if order == "C" else c_strides(shape[::-1])[::-1]


@program(
    cases=lambda rng: [
        ((rng.integers(0, 24, (2, 3)), (2, 3, 4)), {}),
        ((rng.integers(0, 24, 5), (4, 6), "F"), {}),
        ((np.int64(5), (2, 3)), {}),
        ((np.array([7]), (2, 3)), {}),
        ((np.array([1.5]), (2, 3)), {}),
        ((np.array([5]), 7), {}),
    ],
    same="equal",
)
def unravel_index(xp: Any, indices: Array, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Flat indices as an index along each axis of a shape.

    One out of range raises ValueError when the result is computed.

    >>> import infinitensor as it
    >>> [i.tolist() for i in it.unravel_index(it.asarray([0, 5]), (2, 3))]
    [[0, 1], [0, 2]]
    """
    shape = shape_of(shape)
    steps = _steps(shape, order)
    if indices.dtype.kind not in "iub":
        raise TypeError("only int indices permitted")
    n = prod(shape)
    if n > np.iinfo(np.intp).max:
        raise ValueError(f"unravel_index: dimensions are too large: {shape}")
    if not shape and indices.shape:
        raise ValueError("multiple indices are not supported for 0d arrays")
    flat = indices.astype(int64)
    text = f"unravel_index: index is out of bounds for array with size {n}"
    flat = xp._ensured(flat, (flat >= 0) & (flat < n), "ValueError", text)
    return tuple((flat // step) % size for step, size in zip(steps, shape, strict=True))


@program(
    cases=lambda rng: [
        (([rng.integers(0, 3, 5), rng.integers(0, 4, 5)], (3, 4)), {}),
        (([rng.integers(0, 3, 5), rng.integers(0, 4, 5)], (3, 4)), {"order": "F"}),
        ((rng.integers(-4, 8, (2, 5)), (3, 4)), {"mode": "wrap"}),
        ((rng.integers(-4, 8, (2, 5)), (3, 4)), {"mode": ("clip", "wrap")}),
        (([np.array([3]), np.array([0])], (3, 4)), {}),
        (([np.array([0.5]), np.array([0])], (3, 4)), {}),
        (([np.array([0])], (3, 4)), {}),
    ],
    same="equal",
)
def ravel_multi_index(
    xp: Any, multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C"
) -> Any:
    """An index along each axis of a shape as a flat index.

    One out of range raises ValueError when the result is computed, or is wrapped or clipped.

    >>> import infinitensor as it
    >>> it.ravel_multi_index([it.asarray([0, 1]), it.asarray([0, 2])], (2, 3)).tolist()
    [0, 5]
    """
    shape = shape_of(dims)
    if prod(shape) > np.iinfo(np.intp).max:
        raise ValueError(
            "invalid dims: array size defined by dims is larger than the maximum possible size."
        )
    given = [xp.asarray(index) for index in multi_index]
    if len(given) != len(shape):
        raise ValueError(
            f"parameter multi_index must be a sequence of length {len(shape)}, got {len(given)}"
        )
    if 0 in shape and prod(np.broadcast_shapes(*(index.shape for index in given))):
        raise ValueError("cannot unravel if shape has zero entries (is empty).")
    modes = (mode,) * len(shape) if isinstance(mode, str) else tuple(mode)
    flat: Any = 0
    for index, n, step, way in zip(given, shape, _steps(shape, order), modes, strict=True):
        if index.dtype.kind not in "iub":
            raise TypeError("only int indices permitted")
        index = index.astype(int64)
        if way == "wrap":
            index = index % n
        elif way == "clip":
            index = xp.clip(index, 0, n - 1)
        elif way == "raise":
            text = "invalid entry in coordinates array"
            index = xp._ensured(index, (index >= 0) & (index < n), "ValueError", text)
        else:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {way!r})")
        flat = flat + index * step
    return flat


# --- powers and geometric steps ---------------------------------------------------------------


@program(
    cases=lambda rng: [
        ((rng.integers(0, 5, 4),), {}),
        ((rng.normal(size=4), 3), {}),
        ((rng.normal(size=4).astype(np.float32), 3, True), {}),
        ((rng.normal(size=4), 0), {}),
        ((rng.normal(size=(2, 2)),), {}),
    ]
)
def vander(xp: Any, x: Array, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of x in columns, falling to 0; `increasing=True`: rising from 0.

    >>> import infinitensor as it
    >>> it.vander(it.asarray([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    if len(x.shape) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    N = x.shape[0] if N is None else as_int(N)
    if N < 0:
        raise ValueError(f"vander: negative dimensions are not allowed: {N} columns")
    x = x.astype(result_type(x.dtype, int64))
    if not N:
        return xp.zeros((x.shape[0], 0), dtype=x.dtype)
    powers = list(accumulate([x] * (N - 1), xp.multiply, initial=xp.ones_like(x)))
    return xp.stack(powers if increasing else powers[::-1], axis=1)


@program(
    cases=lambda rng: [
        ((0, 2, 5), {}),
        ((0.5, 3, 6), {"endpoint": False, "base": 2}),
        ((0, 3, 4), {"dtype": np.int32}),
        ((np.array([0.0, 1.0]), 2, 3), {"axis": 1}),
        ((0, 2, 3), {"base": np.array([2.0, 3.0])}),
    ]
)
def logspace(
    xp: Any,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` values from base**start to base**stop in equal ratios.

    >>> import infinitensor as it
    >>> it.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    if np.ndim(base):
        ndim = len(np.broadcast_shapes(np.shape(start), np.shape(stop), np.shape(base)))
        start, stop, base = (
            a.reshape((1,) * (ndim - len(a.shape)) + tuple(a.shape))
            for a in map(xp.asarray, (start, stop, base))
        )
        base = xp.expand_dims(base, axis)
    y = xp.power(base, xp.linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(as_dtype(dtype))


@program(
    cases=lambda rng: [
        ((1, 1000, 4), {}),
        ((1, 256, 5), {"endpoint": False}),
        ((-2.0, -8, 3), {}),
        ((1j, 1000j, 4), {}),
        ((np.array([1.0, 2.0]), 8.0, 4), {"axis": 1}),
        ((1, 256, 9), {"dtype": np.float32}),
        ((0, 2, 3), {}),
        ((1, 2, 0), {}),
    ]
)
def geomspace(
    xp: Any,
    start: Array,
    stop: Array,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` values from start to stop in equal ratios; both ends are met exactly.

    >>> import infinitensor as it
    >>> it.geomspace(1.0, 8.0, 4).numpy().round(9).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    none = np.zeros((), dtype)
    kind = result_type(start.dtype, stop.dtype, float(num), none)
    some = (start != 0) & (stop != 0)
    start, stop = xp.broadcast_arrays(start.astype(kind), stop.astype(kind))
    start = xp._ensured(start, some, "ValueError", "Geometric sequence cannot include zero")
    sign = xp.sign(start)
    start, stop = start / sign, stop / sign
    y = xp.power(10.0, xp.linspace(xp.log10(start), xp.log10(stop), num, endpoint)).astype(kind)
    if num > 0:
        y = xp._concatenate([start.reshape((1, *start.shape)), y[1:]], 0)
    if num > 1 and endpoint:
        y = xp._concatenate([y[:-1], stop.reshape((1, *stop.shape))], 0)
    return xp.moveaxis(y * sign, 0, axis).astype(kind if dtype is None else as_dtype(dtype))

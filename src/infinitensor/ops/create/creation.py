"""Tensors from nothing: constants, ranges, diagonals, and the masks of triangles."""

from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import HALVES, as_dtype, bfloat16, float32, result_type, to_torch
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.torch_bridge import tensor_of
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At


def length(n: Any) -> int:
    """The length of an axis: an integer, and no truth value."""
    if isinstance(n, bool):
        raise TypeError("an integer is required, not a bool")
    return operator.index(n)


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape as users write it: an int or a sequence of them; none negative."""
    sizes: tuple[int, ...]
    if shape is None:
        raise TypeError("None is no shape. Use () for that of a scalar")
    try:
        sizes = (length(shape),)
    except TypeError:
        sizes = tuple(length(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"negative dimensions are not allowed: {sizes}")
    return sizes


def creation_form(shape: tuple[int, ...], n_scalars: int = 0) -> AxisForm:
    """Every axis of the output may be cut; the operands are scalars."""
    return AxisForm(shape, ((),) * n_scalars, (tuple(range(len(shape))),))


def _constant_kernel(xp: Any, out: Any, at: At, value: int) -> None:
    out[...] = value


def _constant_rule(value: int, shape: Any, dtype: Any) -> Call:
    sizes = shape_of(shape)
    kind = as_dtype(float if dtype is None else dtype)
    return call(creation_form(sizes), Spec(sizes, kind), value=value)


def _constant_cases(rng: np.random.Generator) -> list[Any]:
    return [((4,), {}), (((3, 5), np.int16), {}), (((), bool), {}), (((0, 2), np.complex64), {})]


@op("creation", kernel=_constant_kernel, cases=_constant_cases, same="equal")
def zeros(shape: Any, dtype: Any = None) -> Call:
    """A tensor of zeros; float64 by default.

    >>> import infinitensor as it
    >>> it.zeros((2, 3), dtype="i4").numpy()
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    return _constant_rule(0, shape, dtype)


@op("creation", kernel=_constant_kernel, cases=_constant_cases, oracle=np.zeros, same="equal")
def empty(shape: Any, dtype: Any = None) -> Call:
    """A tensor whose values are yet to be written: zeros, so that runs are repeatable.

    >>> import infinitensor as it
    >>> it.empty(3).shape
    (3,)
    """
    return _constant_rule(0, shape, dtype)


@op("creation", kernel=_constant_kernel, cases=_constant_cases, same="equal")
def ones(shape: Any, dtype: Any = None) -> Call:
    """A tensor of ones; float64 by default.

    >>> import infinitensor as it
    >>> it.ones(3).numpy()
    array([1., 1., 1.])
    """
    return _constant_rule(1, shape, dtype)


def _full_cpu(xp: Any, fill_value: Any, out: Any, at: At) -> None:
    value = np.asarray(fill_value)
    if value.dtype.kind == "c" and out.dtype.kind not in "cb":
        value = value.real
    np.copyto(out, value, casting="unsafe")


def _full_cuda(xp: Any, fill_value: Any, out: Any, at: At) -> None:
    value = fill_value if isinstance(fill_value, xp.Tensor) else np.asarray(fill_value)
    if not isinstance(value, xp.Tensor):
        value = tensor_of(value).to(out.device)
    if value.dtype.is_complex and not out.dtype.is_complex and out.dtype != xp.bool:
        value = value.real
    out.copy_(value)


@op(
    "creation",
    kernel=_full_cpu,
    kernels={"cuda": _full_cuda},
    cases=lambda rng: [
        ((2.5, (3, 4), np.dtype(np.float32)), {}),
        ((7, (5,), np.dtype(np.int8)), {}),
    ],
    oracle=lambda fill_value, shape, dtype: np.full(shape, fill_value, dtype),
    same="equal",
)
def _full(fill_value: Spec, shape: tuple[int, ...], dtype: Any) -> Call:
    """One run-time value in every element."""
    return call(creation_form(shape, 1), Spec(shape, as_dtype(dtype)))


@program(
    cases=lambda rng: [
        (((3, 4), 2.5), {}),
        ((5, 7, np.int8), {}),
        (((2, 3), np.arange(3.0)), {}),
        (((), True), {}),
    ]
)
def full(xp: Any, shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """A tensor filled with one value, or with an array broadcast to the shape.

    >>> import infinitensor as it
    >>> it.full(3, 7).numpy()
    array([7, 7, 7])
    """
    sizes = shape_of(shape)
    given = fill_value.dtype if hasattr(fill_value, "dtype") else np.asarray(fill_value).dtype
    kind = as_dtype(given if dtype is None else dtype)
    if np.ndim(fill_value) == 0:
        if not hasattr(fill_value, "numpy"):  # a Python integer that does not fit is an error now
            fill_value = _number(fill_value, kind)
        return xp._full(fill_value, sizes, kind)
    return xp.broadcast_to(xp.asarray(fill_value), sizes).astype(kind, "C")


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    """A number as one of a dtype: an integer must fit, any other is cast, as in NumPy's `full`."""
    if type(value) is int or dtype == bfloat16:
        return np.array(value, dtype=dtype)[()]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return np.asarray(value).astype(dtype)[()]


def _like(a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    sizes = tuple(a.shape) if shape is None else shape_of(shape)
    return sizes, a.dtype if dtype is None else as_dtype(dtype)


def _like_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    return [((x,), {}), ((x,), {"dtype": np.int64}), ((x,), {"shape": (2, 2)})]


@program(cases=_like_cases)
def zeros_like(xp: Any, a: Array, dtype: Any = None, *, shape: Any = None) -> Any:
    """Zeros in the shape and dtype of a; a is not read.

    >>> import infinitensor as it
    >>> it.zeros_like(it.arange(3)).numpy()
    array([0, 0, 0])
    """
    return xp.beside(a, xp.zeros, *_like(a, dtype, shape))


@program(cases=_like_cases, oracle=np.zeros_like)
def empty_like(xp: Any, a: Array, dtype: Any = None, *, shape: Any = None) -> Any:
    """A tensor in the shape and dtype of a whose values are yet to be written: zeros.

    >>> import infinitensor as it
    >>> it.empty_like(it.arange(3)).shape
    (3,)
    """
    return xp.beside(a, xp.empty, *_like(a, dtype, shape))


@program(cases=_like_cases)
def ones_like(xp: Any, a: Array, dtype: Any = None, *, shape: Any = None) -> Any:
    """Ones in the shape and dtype of a; a is not read.

    >>> import infinitensor as it
    >>> it.ones_like(it.arange(3)).numpy()
    array([1, 1, 1])
    """
    return xp.beside(a, xp.ones, *_like(a, dtype, shape))


@program(cases=lambda rng: [((np.arange(4), 2.5), {})])
def full_like(xp: Any, a: Array, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """One value in the shape and dtype of a; a is not read.

    >>> import infinitensor as it
    >>> it.full_like(it.arange(3), 7).numpy()
    array([7, 7, 7])
    """
    sizes, kind = _like(a, dtype, shape)
    return xp.full(sizes, fill_value, kind)


# --- ranges -----------------------------------------------------------------------------------


def _positions(xp: Any, out: Any, at: At, axis: int = 0) -> Any:
    """The indices, in the whole tensor, that an axis of this tile covers."""
    lo, hi = at.outputs[0][axis]
    if xp is np:
        return np.arange(lo, hi)
    return xp.arange(lo, hi, device=out.device)


def _arange_kernel(xp: Any, start: Any, following: Any, out: Any, at: At, dtype: Any) -> None:
    """NumPy's fill: the first two values as given, then start + i * (second - first)."""
    i = _positions(xp, out, at)
    first, second = np.asarray(start)[()], np.asarray(following)[()]
    wide = float32 if dtype in HALVES else dtype
    if dtype.kind == "b":
        out[...] = i == int(not first)  # at most two values: start, start + step
        if first == second:
            out[...] = bool(first)
        return
    with np.errstate(all="ignore"):
        delta = second.astype(wide) - first.astype(wide)
    if xp is np:
        out[...] = first.astype(wide) + i.astype(wide) * delta
    elif dtype.kind in "iu":
        steps = i * int(np.asarray(delta).astype(np.int64))
        out.copy_(steps + int(np.asarray(first).astype(np.int64)))
    else:
        out.copy_(i.to(to_torch(wide)) * delta.item() + first.astype(wide).item())
    lo, hi = at.outputs[0][0]
    if lo <= 1 < hi:
        out[1 - lo] = second.item()


@op(
    "creation",
    kernel=_arange_kernel,
    scratch_bytes=lambda ins, outs, params: outs[0].n_elements * (8 + 3 * 16),
    cases=lambda rng: [((np.float32(0.1), np.float32(0.4), 9, np.dtype(np.float32)), {})],
    oracle=lambda start, following, n, dtype: (
        np.arange(9, dtype=dtype) * np.float32(following - start) + np.float32(start)
    ),
)
def _arange(start: Spec, following: Spec, n: int, dtype: Any) -> Call:
    """n values from `start`, the second one is `following`; both in the output's dtype."""
    kind = as_dtype(dtype)
    return call(creation_form((n,), 2), Spec((n,), kind), dtype=kind)


def _arange_length(start: Any, stop: Any, step: Any) -> int:
    """As NumPy counts: ceil((stop - start) / step), complex: the shorter of the two parts."""
    span = stop - start
    count = span / step
    if isinstance(count, complex | np.complexfloating):
        return min(_ceil_length(float(part), True) for part in (count.real, count.imag))
    return _ceil_length(float(count), bool(span != 0))


def _ceil_length(count: float, moving: bool) -> int:
    if math.isnan(count):
        raise ValueError("arange: cannot compute length")
    if count == 0 and moving:  # the quotient underflowed
        return 0 if math.copysign(1.0, count) < 0 else 1
    if math.isinf(count) or count > 2**63 - 1:
        raise ValueError("Maximum allowed size exceeded")
    return max(math.ceil(count), 0)


@program(
    cases=lambda rng: [
        ((10,), {}),
        ((2, 30, 3), {}),
        ((0.1, 2.0, 0.1), {}),
        ((0, 3, 0.1), {"dtype": np.float32}),
        ((10, 0, -3), {"dtype": np.int8}),
        ((5, 5), {}),
        ((0, 1, 0.01), {"dtype": np.float16}),
    ],
    same="equal",
)
def arange(xp: Any, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Values from start to stop (not included) in equal steps, bit for bit NumPy's.

    >>> import infinitensor as it
    >>> it.arange(2, 9, 3).numpy()
    array([2, 5, 8])
    """
    first, last = (0, start) if stop is None else (start, stop)
    first, last, step = (v.item() if isinstance(v, np.ndarray) else v for v in (first, last, step))
    if step is None:
        step = 1
    kinds = (np.asarray(v).dtype for v in (first, last, step))
    kind = result_type(np.int64, *kinds) if dtype is None else as_dtype(dtype)
    n = _arange_length(first, last, step)
    if kind == np.bool_ and n > 2:
        raise TypeError("arange: a bool range has at most 2 values")
    with np.errstate(all="ignore"):
        edge = [np.asarray(v).astype(kind)[()] for v in (first, first + step)]
    return xp._arange(*edge, n, kind)


def _linspace_kernel(
    xp: Any,
    start: Any,
    step: Any,
    delta: Any,
    stop: Any,
    out: Any,
    at: At,
    num: int,
    div: int,
    endpoint: bool,
    loop: Any,
    floor: bool,
) -> None:
    i = _positions(xp, out, at)
    y = i.astype(loop) if xp is np else i.to(to_torch(loop))
    first, by, span, last = (
        np.asarray(v).astype(loop)[()].item() for v in (start, step, delta, stop)
    )
    if div > 0 and by != 0:
        y *= by
    else:  # the step underflowed, or there is none
        y = (y / div if div > 0 else y) * span
    y += first
    lo, hi = at.outputs[0][0]
    if endpoint and num > 1 and lo < hi == num:
        y[-1] = last
    if floor:
        y = xp.floor(y)
    if xp is np:
        np.copyto(out, y, casting="unsafe")
    else:
        out.copy_(y)


@op(
    "creation",
    kernel=_linspace_kernel,
    scratch_bytes=lambda ins, outs, params: outs[0].n_elements * (8 + 3 * 16),
    cases=lambda rng: [((0.0, 0.25, 2.0, 2.0, 9, 8, True, np.dtype(float), np.dtype(float)), {})],
    oracle=lambda *args: np.linspace(0.0, 2.0, 9),
)
def _linspace(
    start: Spec,
    step: Spec,
    delta: Spec,
    stop: Spec,
    num: int,
    div: int,
    endpoint: bool,
    loop: Any,
    dtype: Any,
) -> Call:
    """start + i * step, computed in `loop`; the last value is `stop` where `endpoint`."""
    kind = as_dtype(dtype)
    return call(
        creation_form((num,), 4),
        Spec((num,), kind),
        num=num,
        div=div,
        endpoint=endpoint,
        loop=loop,
        floor=kind.kind in "iu",
    )


@program(
    cases=lambda rng: [
        ((0, 1, 11), {}),
        ((2.0, 3.0), {"num": 7, "endpoint": False}),
        ((0, 10, 4), {"dtype": np.int64}),
        ((1, 5, 1), {}),
        ((1, 5, 0), {}),
        ((np.float32(0), np.float32(1), 9), {}),
        ((np.array([0.0, 1.0]), np.array([5.0, 3.0]), 5), {}),
    ],
    same="equal",
)
def linspace(
    xp: Any,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` values from start to stop at equal distances, bit for bit NumPy's.

    >>> import infinitensor as it
    >>> it.linspace(0, 1, 5).numpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    div = num - 1 if endpoint else num
    if not all(isinstance(v, int | float | complex | np.number) for v in (start, stop)):
        values = _linspace_of_arrays(xp, start, stop, num, div, endpoint, dtype)
        made = xp.moveaxis(values[0], 0, axis) if axis else values[0]
        return (made, values[1]) if retstep else made
    normalize_axis_index(axis, 1, "destination")
    loop = result_type(start, stop, 0.0)
    with np.errstate(all="ignore"):
        delta = np.subtract(stop, start, dtype=loop)
        step = delta / div if div > 0 else np.float64(np.nan)
    kind = loop if dtype is None else as_dtype(dtype)
    made = xp._linspace(start, step, delta, stop, num, div, endpoint, loop, kind)
    return (made, step) if retstep else made


def _linspace_of_arrays(
    xp: Any, start: Any, stop: Any, num: int, div: int, endpoint: bool, dtype: Any
) -> tuple[Any, Any]:
    start, stop = xp.asarray(start), xp.asarray(stop)
    loop = result_type(start.dtype, stop.dtype, 0.0)
    start, stop = xp.broadcast_arrays(start.astype(loop), stop.astype(loop))
    delta = stop - start
    i = xp.arange(0, num, dtype=loop).reshape((num,) + (1,) * len(delta.shape))
    if div > 0:
        step = delta / div
        y = xp.where(xp.any(step == 0), i / div * delta, i * step) + start
    else:
        step = delta * np.nan
        y = i * delta + start
    if endpoint and num > 1:
        y = xp.concat([y[:-1], stop.reshape((1, *stop.shape))])
    if dtype is None:
        return y, step
    kind = as_dtype(dtype)
    return (xp.floor(y) if kind.kind in "iu" else y).astype(kind), step


# --- grids ------------------------------------------------------------------------------------


def _meshgrid_cases(rng: np.random.Generator) -> list[Any]:
    x, y, z = rng.normal(size=3), np.arange(4), np.zeros(2, np.int8)
    return [
        ((x, y), {}),
        ((x, y, z), {"indexing": "ij"}),
        ((x, y, z), {"sparse": True}),
        ((x, 2.5), {"copy": False}),
        ((x,), {}),
        ((), {}),
        ((x, np.zeros(0)), {}),
    ]


@program("*xi", cases=_meshgrid_cases, same="equal")
def meshgrid(
    xp: Any, *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Any, ...]:
    """The coordinates of a grid, one array for each axis.

    With "xy" the first two axes change places. Views where `copy` is False; `sparse` leaves out the
    broadcast.

    >>> import infinitensor as it
    >>> [part.numpy().tolist() for part in it.meshgrid([1, 2], [3, 4])]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError("meshgrid: valid values for `indexing` are 'xy' and 'ij'")
    axes = list(range(len(xi)))
    if indexing == "xy":
        axes[:2] = axes[1::-1]
    lines = [
        xp.reshape(x, tuple(-1 if i == axis else 1 for i in range(len(xi))))
        for x, axis in zip(xi, axes, strict=True)
    ]
    grids = lines if sparse else xp.broadcast_arrays(*lines)
    return tuple(grid.copy() if copy else grid for grid in grids)


# --- diagonals and triangles ------------------------------------------------------------------


def _eye_kernel(xp: Any, out: Any, at: At, k: int) -> None:
    (row, row_end), (column, column_end) = at.outputs[0]
    out[...] = 0
    first, last = max(row, column - k), min(row_end, column_end - k)
    if first < last:
        i = np.arange(first, last) if xp is np else xp.arange(first, last, device=out.device)
        out[i - row, i + (k - column)] = 1


@op(
    "creation",
    kernel=_eye_kernel,
    scratch_bytes=lambda ins, outs, params: 4 * 8 * min(outs[0].shape),
    cases=lambda rng: [((4,), {}), ((3, 5, 1), {}), ((5, 3), {"k": -2, "dtype": np.int8})],
    same="equal",
)
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Call:
    """Ones on the k-th diagonal, zeros elsewhere.

    >>> import infinitensor as it
    >>> it.eye(2, 3, 1).numpy()
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    shape = shape_of((N, N if M is None else M))
    kind = as_dtype(float if dtype is None else dtype)
    return call(creation_form(shape), Spec(shape, kind), k=operator.index(k))


@program(cases=lambda rng: [((3,), {}), ((2, np.float32), {})])
def identity(xp: Any, n: int, dtype: Any = None) -> Any:
    """The n by n identity matrix.

    >>> import infinitensor as it
    >>> it.identity(2).numpy()
    array([[1., 0.],
           [0., 1.]])
    """
    return xp.eye(n, dtype=dtype)


def _triangle_kernel(xp: Any, m: Any, out: Any, at: At, k: int, lower: bool) -> None:
    rows = _positions(xp, out, at, -2)[:, None]
    columns = _positions(xp, out, at, -1)
    drop = columns > rows + k if lower else columns < rows + k
    out[...] = m
    if xp is np:
        np.copyto(out, out.dtype.type(0), where=drop)
    else:
        out.masked_fill_(drop, 0)


def diagonal_number(k: Any) -> int:
    """The diagonal that a number means: to NumPy's triangles it may have a part to cut off."""
    return int(k + 0)


def _triangle_rule(m: Spec, k: int, lower: bool) -> Call:
    if m.ndim == 0:
        raise TypeError(f"{'tril' if lower else 'triu'}: needs an axis, got a 0-d tensor")
    shape = m.shape * 2 if m.ndim == 1 else m.shape  # one row is repeated, as in NumPy
    labels = tuple(range(len(shape)))
    form = AxisForm(shape, (labels[-m.ndim :],), (labels,))
    return call(
        form,
        Spec(shape, m.dtype),
        k=diagonal_number(k) if lower else diagonal_number(k - 1) + 1,
        lower=lower,
    )


def _triangle_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    rows, columns = outs[0].shape[-2:]
    return 2 * rows * columns + 16 * (rows + columns)


_TRIANGLE: dict[str, Any] = {
    "kernel": _triangle_kernel,
    "located": True,
    "scratch_bytes": _triangle_scratch,
    "cases": lambda rng: [
        ((rng.normal(size=(5, 4)),), {}),
        ((rng.normal(size=(2, 3, 5)), -1), {}),
        ((rng.integers(0, 9, (4, 6)),), {"k": 2}),
        ((np.arange(5),), {}),
    ],
    "same": "equal",
}


@op("mapped", **_TRIANGLE)
def tril(m: Spec, k: int = 0) -> Call:
    """The last two axes with everything above the k-th diagonal set to 0.

    >>> import infinitensor as it
    >>> it.tril(it.ones((2, 2))).numpy()
    array([[1., 0.],
           [1., 1.]])
    """
    return _triangle_rule(m, k, lower=True)


@op("mapped", **_TRIANGLE)
def triu(m: Spec, k: int = 0) -> Call:
    """The last two axes with everything below the k-th diagonal set to 0.

    >>> import infinitensor as it
    >>> it.triu(it.ones((2, 2))).numpy()
    array([[1., 1.],
           [0., 1.]])
    """
    return _triangle_rule(m, k, lower=False)

"""Positions of the least and the greatest: argmin, argmax, top k."""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES, int64
from infinitensor.ir.op import AxisForm, Call, Combine, Spec
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.backend.torch_bridge import dtype_of
from infinitensor.ops.forms.reduction import (
    cuda_extreme,
    n_reduced,
    reduce_call,
    reduced_axes,
    rows_of,
    words_of,
)
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.op import At

    Dtype = np.dtype[Any]


def _arg_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    copies = int(ins[0].dtype.itemsize) + {"b": 8, "u": 8, "c": 48}.get(ins[0].dtype.kind, 0)
    copies += 6 if ins[0].dtype in HALVES else 0  # they become floats, which may be copied
    return copies * ins[0].n_elements + 96 * outs[0].n_elements


def _take_along_last(xp: Any, x: Any, positions: Any) -> Any:
    """take_along_axis over the last axis; torch gathers wide unsigned integers as signed ones."""
    if xp is np:
        return np.take_along_axis(x, positions, -1)
    signed = {xp.uint16: xp.int16, xp.uint32: xp.int32, xp.uint64: xp.int64}.get(x.dtype)
    if signed is None:
        return xp.gather(x, -1, positions)
    return xp.gather(x.view(signed), -1, positions).view(x.dtype)


def _signed_order(xp: Any, x: Any) -> Any:
    """A torch tile in a dtype that argmin knows, in the same order."""
    if x.dtype == xp.uint64:
        return x.view(xp.int64) ^ -(2**63)
    if x.dtype in (xp.bool, xp.uint16, xp.uint32):
        return x.to(xp.int64)
    return x


def _cuda_arg(xp: Any, rows: Any, largest: bool) -> tuple[Any, Any]:
    """The best value of each row, and its index."""
    signed = _signed_order(xp, rows)
    if not rows.dtype.is_complex:
        found = signed.max(-1) if largest else signed.min(-1)
        local = found.indices
        if signed is rows:
            return found.values, local
    else:
        best = cuda_extreme(largest)(xp, rows, (rows.ndim - 1,), np.dtype(complex))[0].unsqueeze(-1)
        hit = (rows == best) | (xp.isnan(best) & xp.isnan(rows))
        local = xp.argmax(hit.to(xp.int8), -1)
    return _take_along_last(xp, rows, local[..., None])[..., 0], local


def _numpy_arg(rows: Any, largest: bool) -> Any:
    return np.asarray((np.argmax if largest else np.argmin)(rows, axis=-1))


def _arg_kernel(
    xp: Any, x: Any, axes: Any, at: At, shape: tuple[int, ...], largest: bool
) -> tuple[Any, Any]:
    """(best value, its index): along the one axis, or in C order over all of them."""
    box = at.inputs[0]
    assert box is not None
    if xp is np and x.dtype in HALVES:  # NumPy compares them one by one
        value, where = _arg_kernel(xp, x.astype(np.float32), axes, at, shape, largest)
        return value.astype(x.dtype), where
    if xp is np and len(axes) == 1 and axes[0] < x.ndim - 1:
        in_rows = _best_rows(x, axes[0], largest)
        if in_rows is not None:
            return in_rows[0], in_rows[1] + box[axes[0]][0]
    if xp is np and len(axes) == 1:
        best = np.argmax if largest else np.argmin
        found = np.asarray(best(x, axis=axes[0], keepdims=True))
        value = np.take_along_axis(x, found, axes[0]).squeeze(axes[0])
        local = found.squeeze(axes[0])
    elif xp is np:  # all axes, in C order
        rows = np.asarray(x).reshape(-1)
        local = _numpy_arg(rows, largest)
        value = _take_along_last(xp, rows, local[..., None])[..., 0]
    else:
        value, local = _cuda_arg(xp, rows_of(x, axes), largest)
    if all(box[axis] == (0, shape[axis]) for axis in axes):
        return value, local
    where, stride = 0, 1
    for axis in reversed(axes):
        n = max(x.shape[axis], 1)
        where = where + (local % n + box[axis][0]) * stride
        local = local // n
        stride *= shape[axis]
    return value, where


LEAST_COLUMNS = 8
"""Columns from which they are looked through beside each other."""


def _best_rows(x: Any, axis: int, largest: bool) -> tuple[Any, Any] | None:
    """The best of each column of rows side by side, and which row it is of, by a loop in C."""
    find = loop("argminmax_topk", "best_rows", x.dtype) if x.flags.c_contiguous and x.size else None
    if find is None or x.shape[axis] >= 1 << 7 * min(x.dtype.itemsize, 8):
        return None
    n_outer, n_inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    if n_inner < LEAST_COLUMNS:
        return None
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    value, where = np.empty(shape, x.dtype), np.empty(shape, f"i{x.dtype.itemsize}")
    find(x, n_outer, x.shape[axis], n_inner, int(largest), value, where)
    return value, where.astype(np.int64)


def _merge_arg(largest: bool) -> Callable[..., tuple[Any, Any]]:
    """NaN wins, then the better value, then the smaller index."""

    def merge(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
        words = words_of(xp)
        (value_a, at_a), (value_b, at_b) = a, b
        nan_a, nan_b = (words["not_equal"](v, v) for v in (value_a, value_b))
        beats = words["greater" if largest else "less"](value_b, value_a)
        same = words["equal"](value_a, value_b) | (nan_a & nan_b)
        take = ((beats & ~nan_a) | (nan_b & ~nan_a)) | (same & (at_b < at_a))
        return words["where"](take, value_b, value_a), xp.where(take, at_b, at_a)

    return merge


def _arg_finish(xp: Any, value: Any, where: Any, out: Any, **params: Any) -> None:
    out[...] = where


def _arg_at_once(
    xp: Any, x: Any, axes: Any, out: Any, shape: tuple[int, ...], largest: bool
) -> bool:
    """Along one axis, however it is stored, or over all."""
    if x.dtype.is_complex or _signed_order(xp, x) is not x:
        return False
    find = xp.argmax if largest else xp.argmin
    if len(axes) == 1:
        find(x, axes[0], out=out)
    elif len(axes) == x.ndim > 0:
        find(x.reshape(-1), 0, out=out)
    else:
        return False
    return True


def _arg_rule(name: str, a: Spec, axis: Any, keepdims: bool) -> Call:
    axes = reduced_axes(name, a, None if axis is None else operator.index(axis))
    if n_reduced(a, axes) == 0:
        raise ValueError(
            f"attempt to get {name} of an empty sequence: shape {a.shape}, axis {axis}"
        )
    return reduce_call(
        a, axes, keepdims, int64, (a.dtype, int64), shape=a.shape, largest=name == "argmax"
    )


def argmin(a: Spec, axis: Any = None, *, keepdims: bool = False) -> Call:
    """The index of the smallest value along an axis, or in C order over all of them.

    NaN counts as smallest. The first of equal values wins.

    >>> import infinitensor as it
    >>> int(it.argmin(it.asarray([3, 1, 2])))
    1
    """
    return _arg_rule("argmin", a, axis, keepdims)


def argmax(a: Spec, axis: Any = None, *, keepdims: bool = False) -> Call:
    """The index of the largest value along an axis, or in C order over all of them.

    NaN counts as largest. The first of equal values wins.

    >>> import infinitensor as it
    >>> int(it.argmax(it.asarray([3, 1, 2])))
    0
    """
    return _arg_rule("argmax", a, axis, keepdims)


def _arg_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.integers(0, 5, (4, 3, 5)).astype(float)
    nan = np.where(x == 2, np.nan, x)
    return [
        ((x,), {}),
        ((x, 1), {}),
        ((nan,), {"axis": 2}),
        ((nan,), {}),
        ((x,), {"axis": 0, "keepdims": True}),
        ((x.astype(np.uint8), -1), {}),
        ((x > 2, 0), {}),
        ((x[0] + 1j * x[1], 0), {}),
    ]


for _arg in (argmin, argmax):
    op(
        "reduction",
        wide=True,
        kernel=_arg_kernel,
        combine=Combine(_arg.__name__, _merge_arg(_arg is argmax), exact=True),
        finish=_arg_finish,
        at_once={"cuda": _arg_at_once},
        located=True,
        scratch_bytes=_arg_scratch,
        cases=_arg_cases,
        same="equal",
    )(_arg)


# --- top k ------------------------------------------------------------------------------------

FEW_IN_ORDER = 64
"""So many are kept in order while a line is read; more are found by parting and sorting."""


def _sort_keys(xp: Any, x: Any, largest: bool) -> Any:
    """int64 keys in the order wanted: the best has the smallest; NaN is the largest value."""
    if xp is np:
        if x.dtype.kind == "f":
            wide_x = x.astype(np.float64) + 0.0
            bits = wide_x.view(np.int64)
            keys = np.where(np.isnan(x), 2**63 - 1, bits ^ ((bits >> 63) & (2**63 - 1)))
        else:
            keys = x.astype(np.int64)
            keys = keys ^ -(2**63) if x.dtype == np.uint64 else keys
    elif x.dtype.is_floating_point:
        bits = (x.to(xp.float64) + 0.0).view(xp.int64)
        keys = xp.where(xp.isnan(x), 2**63 - 1, bits ^ ((bits >> 63) & (2**63 - 1)))
    else:
        keys = x.view(xp.int64) ^ -(2**63) if x.dtype == xp.uint64 else x.to(xp.int64)
    return ~keys if largest else keys


def _first_k(xp: Any, keys: Any, where: Any, k: int) -> Any:
    """Positions of the k smallest (key, where) along the last axis, in order."""
    if xp is np:
        return np.lexsort((where, keys), axis=-1)[..., :k]
    by_index = xp.sort(where, dim=-1, stable=True).indices
    by_key = xp.sort(xp.gather(keys, -1, by_index), dim=-1, stable=True).indices
    return xp.gather(by_index, -1, by_key)[..., :k]


def _topk_kernel(xp: Any, x: Any, axes: Any, at: At, k: int, largest: bool) -> tuple[Any, Any]:
    """(values, indices) of the best k of a tile; a tile with fewer is filled up behind the end."""
    box = at.inputs[0]
    assert box is not None
    lo, n = box[-1][0], x.shape[-1]
    first_k = (
        loop("select", "first_k", x.dtype) if xp is np and 0 < k <= min(n, FEW_IN_ORDER) else None
    )
    if first_k is not None:
        x, shape = np.ascontiguousarray(x), (*x.shape[:-1], k)
        values, where = np.empty(shape, x.dtype), np.empty(shape, np.int64)
        spare = np.empty(k, x.dtype)
        first_k(x, x.size // n, n, k, int(largest), lo, values, where, spare)
        return values, where
    keys = _sort_keys(xp, x, largest)
    worst = _worst(dtype_of(x), largest)
    if xp is np:
        best = _numpy_first_k(keys, min(k, n))
        values, where = _take_along_last(xp, x, best), best + lo
        if n < k:
            shape = (*x.shape[:-1], k - n)
            values = np.concatenate([values, np.full(shape, worst, x.dtype)], -1)
            where = np.concatenate([where, np.full(shape, 2**62)], -1)
        return values, where
    best = xp.sort(keys, dim=-1, stable=True).indices[..., :k]
    values, where = _take_along_last(xp, x, best), best + lo
    if n < k:
        shape = (*x.shape[:-1], k - n)
        fill = xp.zeros(shape, dtype=x.dtype, device=x.device)
        values = xp.cat(
            [values, fill + worst if x.dtype.is_floating_point else fill.fill_(worst)], -1
        )
        where = xp.cat([where, xp.full(shape, 2**62, device=x.device)], -1)
    return values, where


def _numpy_first_k(keys: Any, k: int) -> Any:
    """Positions of the k smallest keys in order, the first of equal ones first, in linear time."""
    n = keys.shape[-1]
    if k == 0:
        return np.zeros((*keys.shape[:-1], 0), np.int64)
    if 4 * k >= n:
        return np.argsort(keys, axis=-1, kind="stable")[..., :k]
    limit = np.partition(keys, k - 1, axis=-1)[..., k - 1 : k]
    below = keys < limit
    tied = keys == limit
    room = k - np.count_nonzero(below, axis=-1, keepdims=True)
    chosen = below | (tied & (np.cumsum(tied, axis=-1) <= room))
    positions = np.nonzero(chosen)[-1].reshape(*keys.shape[:-1], k)
    order = np.argsort(np.take_along_axis(keys, positions, -1), axis=-1, kind="stable")
    return np.take_along_axis(positions, order, -1)


def _merge_topk(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...], largest: bool) -> tuple[Any, Any]:
    k = a[0].shape[-1]
    join = np.concatenate if xp is np else xp.cat
    values, where = join([a[0], b[0]], -1), join([a[1], b[1]], -1)
    best = _first_k(xp, _sort_keys(xp, values, largest), where, k)
    return _take_along_last(xp, values, best), _take_along_last(xp, where, best)


def _topk_merger(largest: bool) -> Combine:
    def merge(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
        return _merge_topk(xp, a, b, largest)

    return Combine("topk", merge, exact=True)


def _topk_rule(x: Spec, k: int, largest: bool) -> Call:
    n = x.shape[-1]
    labels = tuple(range(x.ndim))
    form = AxisForm((*x.shape, k), (labels,), ((*labels[:-1], x.ndim),) * 2, frozenset((x.ndim,)))
    shape = (*x.shape[:-1], k)
    params = (("k", k), ("largest", largest))
    assert 0 <= k <= n
    outs = (Spec(shape, x.dtype), Spec(shape, int64))
    return Call(form, outs, params, (), (x.dtype, int64), (k,))


def _worst(dtype: Dtype, largest: bool) -> float | int:
    if dtype.kind == "f":
        return -np.inf if largest else np.nan
    if dtype.kind == "b":
        return int(not largest)
    info = np.iinfo(dtype)
    return int(info.min if largest else info.max)


def _topk_finish(xp: Any, values: Any, where: Any, out: Any, **params: Any) -> None:
    out[0][...] = values
    out[1][...] = where


def _numpy_topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    rows = np.moveaxis(np.asarray(x), axis, -1)
    order = np.argsort(_sort_keys(np, rows, largest), axis=-1, kind="stable")[..., :k]
    values = np.take_along_axis(rows, order, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(order, -1, axis)


def _last_topk(largest: bool) -> str:
    """Two internal ops, since a combine knows no parameters."""
    name = "_topk_largest" if largest else "_topk_smallest"

    def rule(x: Spec, k: int) -> Call:
        return _topk_rule(x, k, largest)

    rule.__doc__ = "The best k along the last axis: values and indices."
    op(
        "reduction",
        name=name,
        wide=True,
        kernel=_topk_kernel,
        combine=_topk_merger(largest),
        finish=_topk_finish,
        located=True,
        scratch_bytes=lambda ins, outs, params: (
            6 * 8 * ins[0].n_elements + 12 * 8 * outs[0].n_elements
        ),
        cost=8.0,
        cases=lambda rng: [((rng.integers(0, 6, (3, 9)), 4), {}), ((rng.normal(size=8), 8), {})],
        oracle=lambda x, k: _numpy_topk(x, k, -1, largest),
        same="equal",
    )(rule)
    return name


_TOPK = {largest: _last_topk(largest) for largest in (True, False)}


def _topk_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.integers(0, 6, (4, 9)).astype(np.float32)
    return [((x, 3), {}), ((x, 2), {"axis": 0}), ((x, 9), {"largest": False}), ((x, 0), {})]


@program(cases=_topk_cases, oracle=_numpy_topk, same="equal")
def topk(xp: Any, x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """The k largest (or smallest) values along an axis, best first, and their indices.

    Of equal values the first counts as better; NaN is larger than every number.

    >>> import infinitensor as it
    >>> values, indices = it.topk(it.asarray([5, 9, 7]), 2)
    >>> values.numpy(), indices.numpy()
    (array([9, 7]), array([1, 2]))
    """
    k, ndim = operator.index(k), len(x.shape)
    (axis,) = reduced_axes("topk", Spec(tuple(x.shape), x.dtype), operator.index(axis))
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(
            f"topk: k={k} is not between 0 and {x.shape[axis]}, the size of axis {axis}"
        )
    if x.dtype.kind == "c":
        raise TypeError(f"topk: complex numbers have no order, got {x.dtype}")
    last = axis == ndim - 1
    values, where = getattr(xp, _TOPK[bool(largest)])(x if last else xp.moveaxis(x, axis, -1), k)
    if last:
        return values, where
    return xp.moveaxis(values, -1, axis), xp.moveaxis(where, -1, axis)

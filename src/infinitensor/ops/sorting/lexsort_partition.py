"""Orders by several keys, and orders of which only a part is promised."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.ops.sorting.rank_select import in_parts
from infinitensor.ops.sorting.sort import check_fields
from infinitensor.ops.table.registry import Array, program


@program(
    cases=lambda rng: [
        ((rng.integers(0, 3, (3, 9)),), {}),
        (([rng.integers(0, 3, 9), rng.normal(size=9)],), {}),
        (([rng.integers(0, 2, (4, 5)), rng.integers(0, 2, (4, 5))],), {"axis": 0}),
        ((rng.integers(0, 3, 6),), {}),
        ((np.zeros((2, 0)),), {}),
        (([],), {}),
        (([np.arange(3), np.arange(4)],), {}),
    ],
    same="equal",
)
def lexsort(xp: Any, keys: Any, axis: int = -1) -> Any:
    """The stable order by several keys; the last key counts most.

    One sort for each key, from the least significant to the most.

    >>> import infinitensor as it
    >>> it.lexsort([it.asarray([1, 0, 0]), it.asarray([5, 9, 5])]).tolist()
    [2, 0, 1]
    """
    given = [xp.asarray(key) for key in keys] if isinstance(keys, (list, tuple)) else list(keys)
    if not given:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    shape = tuple(given[0].shape)
    if any(tuple(key.shape) != shape for key in given):
        raise ValueError("lexsort: all keys need to be the same shape")
    if not shape:
        return xp.zeros((), dtype=np.int64)
    axis = normalize_axis_index(axis, len(shape))
    order = xp.argsort(given[0], axis=axis)
    for key in given[1:]:
        again = xp.argsort(xp.take_along_axis(key, order, axis), axis=axis)
        order = xp.take_along_axis(order, again, axis)
    return order


def _ranks(name: str, kth: Any, n: int, kind: str) -> None:
    if not isinstance(kind, str):
        raise TypeError(f"{name}: select kind must be str, not {type(kind).__name__}")
    if kind != "introselect":
        raise ValueError(f"{name}: select kind must be 'introselect' (got {kind!r})")
    ranks = np.asarray(kth)
    if ranks.dtype.kind not in "iu":
        raise TypeError(f"{name}: Partition index must be integer")
    for rank in ranks.reshape(-1).tolist():
        if not -n <= rank < max(n, 1):
            raise ValueError(f"{name}: kth(={rank}) out of bounds ({n})")


def _partition_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 7))
    return [
        ((x, 3), {}),
        ((x, [1, -1]), {"axis": 0}),
        ((x, 5), {"axis": None}),
        ((rng.integers(0, 9, 8), 2), {}),
        ((x, 9), {}),
        ((x, 2.0), {}),
    ]


def _part_oracle(a: Any, kth: Any, axis: int | None = -1) -> Any:
    np.partition(a, kth, axis)  # for its errors
    if a.dtype.kind == "c":
        return np.sort(a, axis)
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis)
    lines = np.moveaxis(a, axis, -1)
    values = np.sort(lines, axis=-1)[..., np.sort(np.reshape(kth, -1) % a.shape[axis])]
    x, borders = lines[..., None], values[..., None, :]
    parts = ((x > borders).astype(int) + (x >= borders)).sum(-1)
    order = np.argsort(parts, axis=-1, kind="stable")
    return np.moveaxis(np.take_along_axis(lines, order, -1), -1, axis)


@program(cases=_partition_cases, same="equal", oracle=_part_oracle, method=False, wide=True)
def partition(
    xp: Any,
    a: Array,
    kth: Any,
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> Any:
    """The values with those of rank kth in their place, smaller before and larger behind.

    Otherwise values keep their order. Costs what `quantile` costs, and two passes more. Complex
    values are sorted, which is one of the partitions.

    >>> import infinitensor as it
    >>> it.partition(it.asarray([4, 3, 1, 2]), 1).tolist()
    [1, 2, 4, 3]
    """
    check_fields(order)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, len(a.shape))
    n, last = a.shape[axis], len(a.shape) - 1
    _ranks("partition", kth, n, kind)
    ranks = np.unique(np.asarray(kth, np.int64) % max(n, 1)).tolist()
    if a.dtype.kind == "c" or not n or not ranks:
        return xp.sort(a, axis=axis)
    if axis == last:
        return in_parts(xp, a, ranks)
    return xp.moveaxis(in_parts(xp, xp.moveaxis(a, axis, -1), ranks), -1, axis)


def _sorted_oracle(a: Any, kth: Any, axis: int | None = -1) -> Any:
    np.argpartition(a, kth, axis)  # for its errors
    return np.argsort(a, axis=axis, kind="stable")


@program(cases=_partition_cases, same="equal", oracle=_sorted_oracle, wide=True)
def argpartition(
    xp: Any,
    a: Array,
    kth: Any,
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> Any:
    """The indices that partition an axis: the stable order, which is one of the partitions.

    >>> import infinitensor as it
    >>> it.argpartition(it.asarray([3, 1, 2]), 1).tolist()
    [1, 2, 0]
    """
    check_fields(order)
    n = prod(a.shape) if axis is None else a.shape[normalize_axis_index(axis, len(a.shape))]
    _ranks("argpartition", kth, n, kind)
    return xp.argsort(a, axis=axis)


@program(
    cases=lambda rng: [
        ((rng.normal(size=5) + 1j,), {}),
        ((rng.integers(0, 9, (3, 4)).astype(np.int8),), {}),
        ((rng.normal(size=5).astype(np.float32),), {}),
    ],
    same="equal",
)
def sort_complex(xp: Any, a: Array) -> Any:
    """The values sorted along the last axis, as complex numbers.

    >>> import infinitensor as it
    >>> it.sort_complex(it.asarray([2, 1])).tolist()
    [(1+0j), (2+0j)]
    """
    ordered = xp.sort(a)
    if a.dtype.kind == "c":
        return ordered
    return ordered.astype(np.complex64 if a.dtype.char in "bhBH" else np.complex128)

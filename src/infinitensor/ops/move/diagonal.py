"""Diagonals: read, summed, and made into matrices."""

from __future__ import annotations

from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.ops.forms.gather import c_strides
from infinitensor.ops.table.registry import Array, program

if TYPE_CHECKING:
    Axes = int | tuple[int, ...] | None


def diagonal_of(xp: Any, a: Any, offset: int, axis1: int, axis2: int) -> Any:
    """The elements of the diagonals of two axes, as a new last axis."""
    shape = tuple(a.shape)
    borders = c_strides(shape)
    rows, columns = shape[axis1], shape[axis2]
    first = -offset * borders[axis1] if offset < 0 else offset * borders[axis2]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    kept = [axis for axis in range(len(shape)) if axis not in (axis1, axis2)]
    return xp._strided(
        a,
        (*(shape[axis] for axis in kept), length),
        first if length else 0,
        (*(borders[axis] for axis in kept), borders[axis1] + borders[axis2]),
    )


@program(
    cases=lambda rng: [
        ((rng.standard_normal((4, 6)),), {}),
        ((rng.integers(0, 9, (4, 6)).astype("i2"), -2), {}),
        ((rng.standard_normal((2, 3, 4)), 1, 1, 2), {}),
    ]
)
def trace(
    xp: Any, a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Any:
    """The sum along a diagonal.

    Reads only the diagonal's tiles.

    >>> import infinitensor as it
    >>> float(it.trace(it.eye(3)))
    3.0
    """
    ndim = len(a.shape)
    if ndim < 2:
        raise ValueError("trace: diag requires an array of at least two dimensions")
    first = normalize_axis_index(axis1, ndim, "trace")
    second = normalize_axis_index(axis2, ndim, "trace")
    if first == second:
        raise ValueError("trace: axis1 and axis2 cannot be the same")
    return xp.sum(diagonal_of(xp, a, as_int(offset), first, second), axis=-1, dtype=dtype)


@program(
    cases=lambda rng: [
        ((rng.standard_normal(4), k), {}) if one else ((rng.standard_normal((3, 5)), k), {})
        for one in (True, False)
        for k in (0, 2, -1)
    ],
    same="equal",
)
def diag(xp: Any, v: Array, k: int = 0) -> Any:
    """A diagonal of a matrix, copied, or the matrix that has this diagonal and zeros beside it.

    >>> import infinitensor as it
    >>> it.diag(it.arange(1, 3)).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    k, v = as_int(k), xp.asarray(v)
    if len(v.shape) == 2:
        return diagonal_of(xp, v, k, 0, 1)
    if len(v.shape) != 1:
        raise ValueError("diag: Input must be 1- or 2-d.")
    return _on_diagonal(xp, v, k)


def _on_diagonal(xp: Any, v: Any, k: int) -> Any:
    n = v.shape[0] + abs(k)
    flat = xp.zeros((n * n,), dtype=v.dtype)
    first = k if k >= 0 else -k * n
    if v.shape[0]:
        flat[first : first + (v.shape[0] - 1) * (n + 1) + 1 : n + 1] = v
    return flat.reshape(n, n)


@program(
    cases=lambda rng: [((rng.standard_normal((2, 2)), 1), {}), ((np.float64(2),), {})], same="equal"
)
def diagflat(xp: Any, v: Array, k: int = 0) -> Any:
    """The matrix with the flattened input on its k-th diagonal.

    >>> import infinitensor as it
    >>> it.diagflat(it.arange(1, 3)).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    return _on_diagonal(xp, v.reshape(-1), as_int(k))

"""Norms of vectors and matrices, and the condition number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.dtypes import float64, kind_of
from infinitensor.ops.linalg.triangles import (
    LinAlgError,
    check_matrix,
    is_one,
    linalg,
    linalg_dtype,
    real_of,
)

if TYPE_CHECKING:
    from infinitensor.ops.table.registry import Array


def _largest(xp: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The largest of numbers that are not negative; 0 where there are none."""
    found = xp.max if all(x.shape[axis] for axis in axes) else xp.sum
    return found(x, axis=axes, keepdims=keepdims)


def _vector_norm(xp: Any, x: Any, ord_: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    along = {"axis": axes, "keepdims": keepdims}
    if isinstance(ord_, str):
        raise ValueError(f"Invalid norm order '{ord_}' for vectors")  # noqa: TRY004 - NumPy's
    if ord_ == np.inf:
        return _largest(xp, xp.abs(x), axes, keepdims)
    if ord_ == -np.inf:
        return xp.min(xp.abs(x), **along)
    if ord_ == 0:
        return xp.sum((x != 0).astype(real_of(x.dtype)), **along)
    if ord_ == 1:
        return xp.sum(xp.abs(x), **along)
    if ord_ is None or ord_ == 2:
        size = xp.abs(x) if np.dtype(x.dtype).kind == "c" else x
        return xp.sqrt(xp.sum(size * size, **along))
    return xp.power(xp.sum(xp.power(xp.abs(x), ord_), **along), 1.0 / ord_)


def _matrix_norm(xp: Any, x: Any, ord_: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if ord_ in (None, "fro", "f"):
        return _vector_norm(xp, x, None, axes, keepdims)
    if ord_ not in (2, -2, "nuc", 1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    found = _by_values if ord_ in (2, -2, "nuc") else _by_sums
    result = found(xp, xp.moveaxis(x, axes, (-2, -1)), ord_)
    kept = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    return result.reshape(kept) if keepdims else result


def _by_values(xp: Any, x: Any, ord_: Any) -> Any:
    """The largest, the smallest or the sum of the singular values."""
    s = xp.linalg_svdvals(x)
    if ord_ == 2:
        return _largest(xp, s, (-1,), False)
    return xp.sum(s, axis=-1) if ord_ == "nuc" else xp.min(s, axis=-1)


def _by_sums(xp: Any, x: Any, ord_: Any) -> Any:
    """The largest or smallest sum over the rows (order 1) or the columns (infinite)."""
    sums = xp.sum(xp.abs(x), axis=-2 if abs(ord_) == 1 else -1)
    return _largest(xp, sums, (-1,), False) if ord_ > 0 else xp.min(sums, axis=-1)


_ORDERS = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


@linalg(
    wide=True,
    cases=lambda rng: [
        *(
            ((rng.standard_normal(7),), {"ord": o})
            for o in (None, 2, 1, 0, 3, -2.5, np.inf, -np.inf)
        ),
        *(((rng.standard_normal((4, 5)),), {"ord": o}) for o in _ORDERS),
        ((rng.standard_normal((4, 5)), 2, 1, True), {}),
        ((rng.standard_normal((3, 4, 5)), "fro", (0, 2)), {}),
        ((rng.standard_normal((3, 4, 5)), 1, (2, 0), True), {}),
        ((rng.standard_normal((3, 4, 5)).astype("f4"), "nuc", (2, 0), True), {}),
        ((rng.standard_normal((3, 0)), np.inf), {}),
        ((rng.standard_normal((3, 0)), 2), {}),
        ((rng.standard_normal((3, 4)) + 1j, None, None, True), {}),
        ((rng.integers(0, 9, (3, 4)),), {}),
    ],
)
def norm(xp: Any, x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors along an axis, or of matrices over two: Frobenius, 1, 2, inf …

    Without an axis and an order it is the 2-norm of all elements. One pass, except for the orders
    2, -2 and "nuc" of matrices, which need the singular values.

    >>> import infinitensor as it
    >>> float(it.linalg.norm(it.asarray([3.0, 4.0])))
    5.0
    """
    if kind_of(np.dtype(x.dtype)) not in "fc":
        x = x.astype(float64)
    ndim = len(x.shape)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1):
            found = _vector_norm(xp, x.reshape(-1), None, (0,), False)
            return found.reshape((1,) * ndim) if keepdims else found
        axes = tuple(range(ndim))
    else:
        try:
            given = axis if isinstance(axis, tuple) else int(axis)
        except (TypeError, ValueError):
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from None
        axes = normalize_axis_tuple(given, ndim, "norm", allow_duplicate=True)
    if len(axes) == 1:
        return _vector_norm(xp, x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(xp, x, ord, (axes[0], axes[1]), keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@linalg(
    wide=True,
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)),), {}),
        ((rng.standard_normal((3, 4, 5)),), {"axis": (0, -1), "ord": 3}),
        ((rng.standard_normal((3, 4, 5)),), {"axis": 1, "keepdims": True, "ord": np.inf}),
        ((rng.standard_normal((3, 4)) + 1j,), {"keepdims": True, "ord": 1}),
        ((np.array(-2.0),), {"ord": 0}),
        ((np.zeros((0, 2)),), {"axis": 0}),
    ],
)
def vector_norm(
    xp: Any, x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Any:
    """The norm of vectors along any number of axes; of all elements without `axis`.

    >>> import infinitensor as it
    >>> float(it.linalg.vector_norm(it.asarray([[3.0], [4.0]])))
    5.0
    """
    if kind_of(np.dtype(x.dtype)) not in "fc":
        x = x.astype(float64)
    ndim = len(x.shape)
    axes = normalize_axis_tuple(range(ndim) if axis is None else axis, ndim, "vector_norm")
    if not ndim:  # reductions take the axes of one element as well
        return _vector_norm(xp, x.reshape(1), ord, (0,), False)
    return _vector_norm(xp, x, ord, axes, keepdims)


@linalg(
    wide=True,
    cases=lambda rng: [
        *(((rng.standard_normal((2, 4, 5)),), {"ord": o}) for o in _ORDERS),
        ((rng.standard_normal((4, 5)) + 1j,), {"keepdims": True}),
    ],
)
def matrix_norm(xp: Any, x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of a matrix, or of each of many: Frobenius by default.

    >>> import infinitensor as it
    >>> float(it.linalg.matrix_norm(it.asarray([[3.0, 0.0], [0.0, 4.0]]), ord=2))
    4.0
    """
    return xp.linalg_norm(x, ord, (-2, -1), keepdims)


@linalg(
    cases=lambda rng: [
        *(((rng.standard_normal((4, 4)),), {"p": p}) for p in _ORDERS),
        ((rng.standard_normal((2, 5, 3)).astype("f4"),), {}),
        ((np.array([np.eye(2), np.ones((2, 2)), np.full((2, 2), np.nan)]), 1), {}),
        ((np.zeros((2, 2)),), {}),
    ]
)
def cond(xp: Any, x: Array, p: Any = None) -> Any:
    """The condition number: the norm of a matrix times that of its inverse; infinite if singular.

    >>> import infinitensor as it
    >>> float(it.linalg.cond(it.asarray([[2.0, 0.0], [0.0, 1.0]])))
    2.0
    """
    check_matrix(x)
    dtype = linalg_dtype(x.dtype)
    if 0 in x.shape[-2:]:
        raise LinAlgError("cond is not defined on empty arrays")
    if p in (None, 2, -2):
        s = xp.linalg_svdvals(x)
        found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        check_matrix(x, square=True)
        x = x.astype(dtype)
        inverse = (xp._inv_whole if is_one(x) else xp._inv_batch)(x, False)
        found = xp.linalg_norm(x, p, (-2, -1)) * xp.linalg_norm(inverse, p, (-2, -1))
    unknown = xp.isnan(found) & ~xp.any(xp.isnan(x), axis=(-2, -1))
    return xp.where(unknown, np.inf, found).astype(real_of(dtype))

"""Sums, means and variances of small arrays in the order that plans add up in (`fold_order.py`).

NumPy's own add in another order, so last bits would depend on whether a value was looked at before.
What C does not add up (complex numbers; anything, where there is no C) is NumPy's in plans, too.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from infinitensor.dtypes import float16, float32, float64
from infinitensor.ops.forms.fold_order import line_axes
from infinitensor.ops.forms.folds import can_fold, moments, sums

_add: Any = np.add.reduce


def sum_of(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`np.sum` by its plain arguments."""
    dtype = a.dtype
    x = a.astype(float32) if dtype == float16 else a
    if not a.ndim or not can_fold(x.dtype):
        return _add(a, axis, None, None, keepdims)
    axes, line, kept, _ = _folding(a.shape, axis)
    made = sums(x, axes, line).astype(dtype, copy=False)
    return made.reshape(kept) if keepdims else made if made.ndim else made[()]


def mean_of(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`np.mean` by its plain arguments."""
    x = _as_float(a)
    if x is None:
        return np.mean(a, axis, keepdims=keepdims)
    axes, line, kept, n = _folding(a.shape, axis)
    made = sums(x, axes, line) / x.dtype.type(n)
    return made.reshape(kept) if keepdims else made


def var_of(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`np.var` by its plain arguments."""
    x = _as_float(a)
    if x is None:
        return np.var(a, axis, keepdims=keepdims)
    axes, line, kept, n = _folding(a.shape, axis)
    made = moments(x, axes, line)[1] / x.dtype.type(n)
    return made.reshape(kept) if keepdims else made


def std_of(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`np.std` by its plain arguments."""
    return np.sqrt(var_of(a, axis, keepdims=keepdims))


def norm_of(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The 2-norm of all elements by a sum, as ours is: NumPy's own has the bits of a product.

    What else there is is ours.
    """
    if ord is not None or axis is not None or keepdims or a.dtype.char not in "fd":
        raise ValueError("ours")
    flat = a.reshape(-1)
    return np.sqrt(sum_of(flat * flat))


def trace_of(a: Any, offset: int = 0) -> Any:
    """`np.trace` of matrices by its plain arguments."""
    if a.dtype.kind != "f":
        return np.trace(a, offset)
    if a.ndim != 2:
        raise ValueError("ours")
    return sum_of(a.diagonal(offset))


def _as_float(a: Any) -> Any:
    """The numbers that a mean is made of, or None where NumPy adds them up.

    Of nothing NumPy's has a warning to say, and of halves ours rounds once more.
    """
    if not a.size or a.dtype == float16:
        raise ValueError("ours")
    x = a.astype(float64) if a.dtype.kind in "iub" else a
    return x if a.ndim and can_fold(x.dtype) else None


@lru_cache(maxsize=4096)
def _folding(shape: tuple[int, ...], axis: int | None) -> tuple[Any, ...]:
    """The reduced axes, those of a line, the shape that keeps them all, and elements of a sum."""
    ndim = len(shape)
    if axis is not None and not -ndim <= axis < ndim:
        raise ValueError("ours")
    axes = tuple(range(ndim)) if axis is None else (axis % ndim,)
    line = line_axes(shape, tuple(a - ndim for a in axes))
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    return axes, line, kept, prod(shape[a] for a in axes)

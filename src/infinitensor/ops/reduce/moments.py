"""Mean, variance and standard deviation over any axes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64, kind_of
from infinitensor.ir.op import Call, Combine, Spec
from infinitensor.ops.backend.torch_bridge import dtype_of
from infinitensor.ops.forms.folds import can_fold, moments
from infinitensor.ops.forms.reduction import (
    SUM,
    cpu_sum,
    cuda_sum,
    line_of,
    mean_dtype,
    n_reduced,
    reduce_call,
    reduce_cases,
    reduced_axes,
    sum_scratch,
    to_dtype,
    wide,
)
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    Dtype = np.dtype[Any]


def _real(dtype: Dtype) -> Dtype:
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def _mean_finish(xp: Any, total: Any, out: Any, dtype: Dtype, n: int, line: Any) -> None:
    if kind_of(dtype) in "fc":
        quotient = total / total.dtype.type(n) if xp is np else total / n
    else:
        quotient = to_dtype(xp, total, np.dtype(np.float64)) / n
    out[...] = to_dtype(xp, quotient, dtype) if kind_of(dtype) not in "fc" else quotient


def _mean_at_once(xp: Any, x: Any, axes: Any, out: Any, **params: Any) -> bool:
    if not axes or x.dtype != out.dtype or not x.is_floating_point():
        return False
    xp.mean(x, axes, out=out)
    return True


@op(
    "reduction",
    kernel=cpu_sum,
    kernels={"cuda": cuda_sum},
    at_once={"cuda": _mean_at_once},
    combine=SUM,
    finish=_mean_finish,
    scratch_bytes=sum_scratch,
    cases=reduce_cases({"axis": 0, "dtype": np.float32}),
)
def mean(a: Spec, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Call:
    """The arithmetic mean over the axes; float64 for integers. NaN over nothing.

    >>> import infinitensor as it
    >>> float(it.mean(it.arange(5)))
    2.0
    """
    axes = reduced_axes("mean", a, axis)
    kind = mean_dtype(a, dtype)
    total = wide(kind)
    n, line = n_reduced(a, axes), line_of(a, axes)
    return reduce_call(a, axes, keepdims, kind, (total,), dtype=total, n=n, line=line)


def _moments_kernel(
    xp: Any, x: Any, axes: Any, dtype: Dtype, line: Any, **params: Any
) -> tuple[Any, ...]:
    """(count, mean, sum of squared distances from the mean) of a tile."""
    n = prod(x.shape[axis] for axis in axes)
    x = to_dtype(xp, x, dtype)
    kept = tuple(m for i, m in enumerate(x.shape) if i not in axes)
    if xp is np:
        count = np.full(kept, n, np.int64)
        if axes and can_fold(dtype):
            return count, *moments(x, axes, line)
        mean = np.add.reduce(x, axis=axes, keepdims=True) / dtype.type(max(n, 1))
        away = np.asarray(x - mean)
        if dtype.kind == "c":
            away = away.real**2 + away.imag**2
        else:
            np.multiply(away, away, out=away)
        m2 = np.add.reduce(away, axis=axes)
        return count, np.asarray(mean).reshape(kept), np.asarray(m2)
    count = xp.full(kept, n, dtype=xp.int64, device=x.device)
    if axes and n and dtype.kind == "f":
        variance, mean = xp.var_mean(x, axes, correction=0)
        return count, mean, variance.mul_(n)
    mean = xp.sum(x, axes, keepdim=True) / max(n, 1) if axes else x
    away = x - mean
    away = away.real**2 + away.imag**2 if dtype.kind == "c" else away.mul_(away)
    return count, mean.reshape(kept), xp.sum(away, axes) if axes else away


def _merge_moments(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Chan's rule."""
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
    n = n_a + n_b
    share = xp.asarray(n_b, dtype=xp.float64) / xp.asarray(n, dtype=xp.float64)
    share = xp.asarray(share, dtype=m2_a.dtype)
    weight = share * xp.asarray(n_a, dtype=m2_a.dtype)
    delta = mean_b - mean_a
    squared = delta.real**2 + delta.imag**2 if dtype_of(delta).kind == "c" else delta * delta
    return n, mean_a + delta * share, m2_a + m2_b + squared * weight


def _var_finish(
    xp: Any, n: Any, mean: Any, m2: Any, out: Any, ddof: float, root: bool, **params: Any
) -> None:
    degrees = xp.asarray(n, dtype=xp.float64) - ddof
    degrees = xp.clip(degrees, 0, None)
    variance = m2 / xp.asarray(degrees, dtype=m2.dtype)
    out[...] = xp.sqrt(variance) if root else variance


def _var_at_once(
    xp: Any, x: Any, axes: Any, out: Any, ddof: float, root: bool, **params: Any
) -> bool:
    n = prod(x.shape[axis] for axis in axes)
    if not axes or x.dtype != out.dtype or not x.is_floating_point() or not n > ddof:
        return False  # torch warns where nothing is left to divide by
    (xp.std if root else xp.var)(x, axes, correction=ddof, out=out)
    return True


def _var_rule(
    name: str, a: Spec, axis: Any, dtype: Any, ddof: float, keepdims: bool, correction: float | None
) -> Call:
    if correction is not None:
        if ddof != 0:
            raise ValueError(f"{name}: ddof and correction can't be provided simultaneously.")
        ddof = correction
    kind = mean_dtype(a, dtype)
    if kind_of(kind) not in "fc":
        raise TypeError(f"{name}: dtype must be inexact, got {kind}")
    loop = wide(kind)
    if a.dtype.kind == "c" and loop.kind != "c":
        raise TypeError(f"{name}: cannot cast {a.dtype} to {kind}")
    parts = (int64, loop, _real(loop))
    axes = reduced_axes(name, a, axis)
    made = _real(kind) if a.dtype.kind == "c" else kind
    return reduce_call(
        a, axes, keepdims, made, parts,
        dtype=loop, ddof=float(ddof), root=name == "std", line=line_of(a, axes),
    )  # fmt: skip


_MOMENTS: dict[str, Any] = {
    "kernel": _moments_kernel,
    "combine": Combine("moments", _merge_moments, exact=False),
    "finish": _var_finish,
    "at_once": {"cuda": _var_at_once},
    "scratch_bytes": lambda ins, outs, params: (
        3 * ins[0].n_elements * int(params["dtype"].itemsize) + 96 * outs[0].n_elements
    ),
    "cost": 4.0,
    "cases": reduce_cases({"axis": 0, "ddof": 1}, {"correction": 1}),
}


@op("reduction", **_MOMENTS)
def var(
    a: Spec,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
) -> Call:
    """The variance over the axes: squared distances from the mean, divided by n - ddof.

    One pass over the data; pieces are merged by their count, mean and squared distances.

    >>> import infinitensor as it
    >>> float(it.var(it.asarray([1.0, 3.0])))
    1.0
    """
    return _var_rule("var", a, axis, dtype, ddof, keepdims, correction)


@op("reduction", **_MOMENTS)
def std(
    a: Spec,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
) -> Call:
    """The standard deviation over the axes: the square root of `var`.

    >>> import infinitensor as it
    >>> float(it.std(it.asarray([1.0, 3.0])))
    1.0
    """
    return _var_rule("std", a, axis, dtype, ddof, keepdims, correction)

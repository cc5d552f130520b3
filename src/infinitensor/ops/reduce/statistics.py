"""Averages with weights, covariance and correlation."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.dtypes import as_dtype, result_type
from infinitensor.ops.sorting.quantile import shaped_weights
from infinitensor.ops.table.registry import Array, program


def _average_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(3, 4, 5))
    return [
        ((x,), {}),
        ((x, 1), {"returned": True}),
        ((x, 1, rng.random(4)), {}),
        ((x, (0, 2), rng.random((3, 5))), {"keepdims": True, "returned": True}),
        ((x, (2, 0), rng.random((5, 3))), {}),
        ((x, None, rng.random(x.shape)), {}),
        ((np.arange(5), None, np.arange(5)), {"returned": True}),
        ((x[0].astype(np.float32), 0, np.ones(4, np.float32)), {}),
        ((x, 1, np.zeros(4)), {}),
    ]


@program(cases=_average_cases)
def average(
    xp: Any,
    a: Array,
    axis: Any = None,
    weights: Array = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The mean over the axes, weighted if weights are given; `returned`: their sum too.

    Weights have the shape of a, or of the axes. If they sum to 0, ZeroDivisionError is raised when
    the average is computed.

    >>> import infinitensor as it
    >>> it.average(it.asarray([1.0, 4.0]), weights=[2, 1]).item()
    2.0
    """
    axes = None if axis is None else normalize_axis_tuple(axis, len(a.shape), "axis")
    if weights is None:
        mean = xp.mean(a, axis=axes, keepdims=keepdims)
        total = xp.full(mean.shape, prod(a.shape) / max(prod(mean.shape), 1), dtype=mean.dtype)
        return (mean, total) if returned else mean
    weights = shaped_weights(xp, weights, a, axis)
    least = ("f8",) if a.dtype.kind in "iub" else ()
    dtype = result_type(a.dtype, weights.dtype, *least)
    total = xp.sum(weights, axis=axes, dtype=dtype, keepdims=keepdims)
    text = "Weights sum to zero, can't be normalized"
    total = xp._ensured(total, total != 0, "ZeroDivisionError", text)
    weighted = xp.multiply(a.astype(dtype), weights.astype(dtype))
    mean = xp.sum(weighted, axis=axes, keepdims=keepdims) / total
    return (mean, total) if returned else mean


# --- covariance -------------------------------------------------------------------------------


def _variables(name: str, m: Any, rowvar: bool, dtype: Any, one: bool) -> Any:
    """One row for each variable; `one`: a single row stays one."""
    if len(m.shape) > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    rows = m.reshape((1, -1)) if len(m.shape) < 2 else m
    rows = rows.T if not rowvar and not one else rows
    return rows.astype(dtype)


def _sample_weights(xp: Any, name: str, weights: Any, n: int) -> Any:
    if weights is None:
        return None
    if len(weights.shape) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if weights.shape[0] != n:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    weights = weights.astype(np.float64)
    return xp._ensured(weights, weights >= 0, "ValueError", f"{name} cannot be negative")


def _samples(rng: Any) -> list[Any]:
    x, y = rng.normal(size=(2, 3, 8))
    return [
        ((x,), {}),
        ((x, y), {}),
        ((x[0],), {}),
        ((x[0], y[0]), {"rowvar": False}),
        ((x,), {"rowvar": False}),
        ((x + 1j * y,), {}),
        ((x.astype(np.float32),), {"dtype": np.float32}),
        ((rng.integers(0, 9, (3, 8)),), {}),
    ]


def _weighted_samples(rng: Any) -> list[Any]:
    x = rng.normal(size=(3, 8))
    counts, weights = rng.integers(1, 4, 8), rng.random(8)
    return [
        *_samples(rng),
        ((x,), {"fweights": counts, "ddof": 0}),
        ((x,), {"aweights": weights}),
        ((x,), {"fweights": counts, "aweights": weights}),
        ((x,), {"bias": True}),
        ((x[:, :1],), {}),
        ((np.zeros((0, 4)),), {}),
        ((x,), {"aweights": -weights}),
        ((x,), {"fweights": weights}),
    ]


@program(cases=_weighted_samples)
def cov(
    xp: Any,
    m: Array,
    y: Array = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Array = None,
    aweights: Array = None,
    *,
    dtype: Any = None,
) -> Any:
    """The covariance matrix of variables: rows, or columns with `rowvar=False`.

    Reads the samples twice: for the means, and for the product of the centred rows.

    >>> import infinitensor as it
    >>> it.cov(it.asarray([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    given = [m.dtype] if y is None else [m.dtype, y.dtype]
    kind = result_type(*given, np.float64) if dtype is None else as_dtype(dtype)
    x = _variables("m", m, rowvar, kind, len(m.shape) == 1)
    if not x.shape[0]:
        return xp.zeros((0, 0))
    if y is not None:
        one = (y.shape[0] if len(y.shape) == 2 else 1) == 1
        x = xp._concatenate([x, _variables("y", y, rowvar, kind, one)], 0)
    if kind.kind in "biu":
        raise TypeError(f"cov: the means cannot be subtracted in {kind}: use a floating dtype")
    ddof = int(not bias) if ddof is None else ddof
    n = x.shape[1]
    counts = _sample_weights(xp, "fweights", fweights, n)
    if counts is not None:
        whole = counts == xp.rint(counts)
        counts = xp._ensured(counts, whole, "TypeError", "fweights must be integer")
    shares = _sample_weights(xp, "aweights", aweights, n)
    weights = [w for w in (counts, shares) if w is not None]
    if not weights:
        return _scatter_of(xp, x, None, max(n - ddof, 0))
    weight = weights[0] if len(weights) == 1 else counts * shares
    total = xp.sum(weight)
    loss = total if shares is None else xp.sum(weight * shares)
    degrees = total - ddof * (loss / total)
    return _scatter_of(xp, x, weight, xp.where(degrees <= 0, 0.0, degrees))


def _scatter_of(xp: Any, x: Any, weight: Any, degrees: Any) -> Any:
    """The sums of products of centred rows, divided by the degrees of freedom."""
    x = x - xp.average(x, 1, weight, keepdims=True)
    other = x if weight is None else x * weight
    if x.dtype.kind == "c":
        other = xp.conjugate(other)
    real = np.empty(0, x.dtype).real.dtype
    scale = xp.divide(1.0, xp.asarray(degrees, dtype=np.float64)).astype(real)
    return xp.squeeze(xp.matmul(x, other.T) * scale)


@program(cases=_samples)
def corrcoef(xp: Any, x: Array, y: Array = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlation coefficients of variables: `cov`, scaled by the standard deviations.

    >>> import infinitensor as it
    >>> it.corrcoef(it.asarray([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = xp.cov(x, y, rowvar, dtype=dtype)
    if not len(c.shape):
        return c / c
    spread = xp.sqrt(xp.real(xp.diag(c)))
    c = c / spread.reshape((-1, 1)) / spread
    if c.dtype.kind != "c":
        return xp.clip(c, -1, 1)
    real, imag = (xp.clip(part, -1, 1) for part in (xp.real(c), xp.imag(c)))
    return real + c.dtype.type(1j) * imag

"""Random integers, orders and choices, and the short names of NumPy's older interface."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import as_dtype
from infinitensor.ops.random.counter_rng import signed
from infinitensor.ops.random.distributions import into, size_of
from infinitensor.ops.table.checks import host_values_of
from infinitensor.ops.table.registry import program

# --- integers ---------------------------------------------------------------------------------


def _bounds(kind: np.dtype[Any]) -> tuple[int, int]:
    if kind.kind not in "iub":
        raise TypeError(f"Unsupported dtype {kind!r} for integers")
    return (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))


def _integers(xp: Any, low: Any, high: Any, size: Any, dtype: Any, endpoint: bool) -> Any:
    kind = as_dtype(dtype)
    lowest, highest = _bounds(kind)
    first, last = (0, low) if high is None else (low, high)
    # Python's integers: a range may need 65 bits.
    first, last = (host_values_of(xp, v).astype(object) for v in (first, last))
    for bound in (first, last):
        if any(not isinstance(n, int) and n != int(n) for n in bound.flat):
            raise ValueError("integers: low and high must be whole numbers")
    last = last - (0 if endpoint else 1)
    if np.any(first < lowest):
        raise ValueError(f"low is out of bounds for {kind}")
    if np.any(last > highest):
        raise ValueError(f"high is out of bounds for {kind}")
    if np.any(first > last):
        raise ValueError("low > high" if endpoint else "low >= high")
    word = np.vectorize(lambda n: signed(int(n)), otypes=[np.int64])
    start, span = word(first)[()], word(last - first + 1)[()]
    return xp._random_integers(xp.next_seed(), start, span, size_of(size, start, span), kind)


@program(space="random")
def integers(
    xp: Any,
    low: Any,
    high: Any = None,
    size: Any = None,
    dtype: Any = np.int64,
    endpoint: bool = False,
) -> Any:
    """Integers from low up to high (included where `endpoint`), each equally likely.

    >>> import infinitensor as it
    >>> it.random.integers(5, size=3).dtype
    dtype('int64')
    """
    return _integers(xp, low, high, size, dtype, endpoint)


@program(space="random")
def randint(xp: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
    """Integers from low up to high, each equally likely.

    >>> import infinitensor as it
    >>> it.random.randint(1, 7, size=3).shape
    (3,)
    """
    return _integers(xp, low, high, size, dtype, False)


@program(space="random")
def random_integers(xp: Any, low: Any, high: Any = None, size: Any = None) -> Any:
    """Integers from low (or 1) to high, both included.

    >>> import infinitensor as it
    >>> it.random.random_integers(6, size=3).shape
    (3,)
    """
    first, last = (1, low) if high is None else (low, high)
    return _integers(xp, first, last, size, np.int64, True)


# --- order ------------------------------------------------------------------------------------


def _order(xp: Any, n: int) -> Any:
    """0 ... n-1 in random order: sorts one 64-bit key for each."""
    return xp.argsort(xp._random_bits(xp.next_seed(), (n,)))


def _permuted_rows(xp: Any, x: Any, axis: int) -> Any:
    return xp.take(x, _order(xp, x.shape[axis]), axis=axis)


@program(space="random")
def permutation(xp: Any, x: Any, axis: int = 0) -> Any:
    """0 ... x-1 in random order, or a copy of x with its slices along an axis in random order.

    Sorts one 64-bit key for each index.

    >>> import infinitensor as it
    >>> sorted(it.random.permutation(4).numpy().tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, int | np.integer):
        return _order(xp, operator.index(x))
    rows = xp.asarray(x)
    return _permuted_rows(xp, rows, normalize_axis_index(axis, len(rows.shape)))


@program(space="random")
def permuted(xp: Any, x: Any, axis: int | None = None, out: Any = None) -> Any:
    """A copy of x in which each line along an axis, or all of x, is in an order of its own.

    >>> import infinitensor as it
    >>> it.random.permuted(it.asarray([[1, 2], [3, 4]]), axis=1).sum(1).numpy().tolist()
    [3, 7]
    """
    values = xp.asarray(x)
    shape = tuple(values.shape)
    if out is not None and tuple(out.shape) != shape:
        raise ValueError("out must have the same shape as x")
    if axis is None:
        found = _permuted_rows(xp, values.reshape(-1), 0).reshape(shape)
    else:
        axis = normalize_axis_index(axis, len(shape))
        order = xp.argsort(xp._random_bits(xp.next_seed(), shape), axis=axis)
        found = xp.take_along_axis(values, order, axis)
    return into(out, found, None)


@program(space="random")
def shuffle(xp: Any, x: Any, axis: int = 0) -> None:
    """Put the slices of x along an axis in random order, in place.

    >>> import infinitensor as it
    >>> x = it.arange(4)
    >>> it.random.shuffle(x)
    >>> int(x.sum())
    6
    """
    if isinstance(x, list):
        x[:] = [x[i] for i in xp.force(_order(xp, len(x)))]
        return
    if not hasattr(x, "shape") or not x.shape:
        raise TypeError(
            f"shuffle: x is a {type(x).__name__}; a tensor, an array or a list is shuffled"
        )
    rows = _permuted_rows(xp, xp.asarray(x), normalize_axis_index(axis, len(x.shape)))
    x[...] = xp.force(rows) if isinstance(x, np.ndarray) else rows


# --- choice -----------------------------------------------------------------------------------


def _probabilities(xp: Any, p: Any, n: int) -> Any:
    """The probabilities of a choice, checked: they are few enough to look at."""
    values = host_values_of(xp, p, np.float64)
    if values.ndim != 1:
        raise ValueError("p must be 1-dimensional")
    if values.size != n:
        raise ValueError("a and p must have same size")
    if np.isnan(values).any():
        raise ValueError("Probabilities contain NaN")
    if (values < 0).any():
        raise ValueError("Probabilities are not non-negative")
    if abs(values.sum() - 1) > max(np.sqrt(np.finfo(np.float64).eps), 1e-8):
        raise ValueError("Probabilities do not sum to 1")
    return values


def _choose_indices(xp: Any, n: int, shape: tuple[int, ...], replace: bool, p: Any) -> Any:
    """Indices below n. Without replacement the smallest of n random keys are taken, which are
    waiting times where the probabilities differ."""
    n_chosen = prod(shape)
    weights = None if p is None else _probabilities(xp, p, n)
    if replace:
        if weights is None:
            return _integers(xp, 0, n, shape, np.int64, False)
        limits = np.cumsum(weights)
        limits /= limits[-1]
        drawn = xp._random_uniform(xp.next_seed(), 0.0, 1.0, shape)
        return xp.searchsorted(xp.asarray(limits), drawn, side="right")
    if n_chosen > n:
        raise ValueError("Cannot take a larger sample than population when replace is False")
    if weights is None:
        return _order(xp, n)[:n_chosen].reshape(shape)
    if np.count_nonzero(weights) < n_chosen:
        raise ValueError("Fewer non-zero entries in p than size")
    waits = -xp.log(xp._random_open(xp.next_seed(), (n,))) / xp.asarray(weights)
    return xp.argsort(waits)[:n_chosen].reshape(shape)


@program(space="random")
def choice(
    xp: Any,
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,
) -> Any:
    """Some of 0 ... a-1, or of the slices of an array, each as likely as `p` says.

    Without `replace` none is taken twice, and the order is random.

    >>> import infinitensor as it
    >>> sorted(it.random.choice(3, 3, replace=False).numpy().tolist())
    [0, 1, 2]
    """
    rows = None if np.ndim(a) == 0 else xp.asarray(a)
    if rows is None:
        try:
            n = operator.index(a)
        except TypeError:
            raise ValueError(f"a must be a sequence or an integer, not {type(a)}") from None
    else:
        axis = normalize_axis_index(axis, len(rows.shape))
        n = rows.shape[axis]
    shape = size_of(size)
    if prod(shape) and n <= 0:
        raise ValueError("a must be a positive integer unless no samples are taken")
    index = _choose_indices(xp, max(n, 1), shape, replace, p)
    return index if rows is None else xp.take(rows, index, axis=axis)


@program(space="random")
def bytes(xp: Any, length: int) -> Any:
    """Random bytes, computed at the call.

    >>> import infinitensor as it
    >>> len(it.random.bytes(5))
    5
    """
    words = xp.force(xp._random_bits(xp.next_seed(), (-(-length // 8),)))
    return words.tobytes()[:length]


# --- short names ------------------------------------------------------------------------------


@program(space="random")
def rand(xp: Any, *dims: int) -> Any:
    """Numbers spread evenly over [0, 1), of the shape given by the arguments.

    >>> import infinitensor as it
    >>> it.random.rand(2, 3).shape
    (2, 3)
    """
    return xp._random_uniform(xp.next_seed(), 0.0, 1.0, size_of(dims))


@program(space="random")
def randn(xp: Any, *dims: int) -> Any:
    """Normally distributed numbers, of the shape given by the arguments.

    >>> import infinitensor as it
    >>> it.random.randn(2, 3).shape
    (2, 3)
    """
    return xp._random_normal(xp.next_seed(), 0.0, 1.0, size_of(dims))


@program(name="random_sample ranf sample", space="random")
def _random_sample(xp: Any, size: Any = None) -> Any:
    """Numbers spread evenly over [0, 1), as `random.random`.

    >>> import infinitensor as it
    >>> it.random.random_sample(3).shape
    (3,)
    """
    return xp._random_uniform(xp.next_seed(), 0.0, 1.0, size_of(size))

"""Counting: how often each integer, how many values in each bin.

A value's bin is found in the sorted edges; counts of tiles are added up. The edges are few and are
known at the call: where they come from the data its smallest and largest value are computed now.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float32, int64, result_type
from infinitensor.events import lane
from infinitensor.ir.op import AxisForm, Call, Combine, Spec
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.reduction import plain_combine
from infinitensor.ops.reduce.histogram_triton import (
    count_bins,
    count_values,
    limbs_for,
    most_sum_bytes,
    weigh_eagerly,
    weigh_values,
)
from infinitensor.ops.table.checks import host_values_of, is_on_host
from infinitensor.ops.table.registry import Array, op, program
from infinitensor.threads import n_sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Edges = np.ndarray[Any, Any]

FLOAT = np.dtype(np.float64)
FEW_COUNTS = 4096
"""So many counts are made while the largest value is looked for: it is mostly among them."""
PART_WEIGHTS = 16
"""Weights of a bin, in the mean, that a GPU adds one after another."""
MOST_LINE_PARTS = 1 << 16
"""Into which a line is divided for that."""


# --- counts -----------------------------------------------------------------------------------


def _count_kernel(xp: Any, x: Any, axes: Any, n: int, n_threads: int = 1) -> tuple[Any]:
    """Counts of a tile; values outside 0 .. n - 1 are not counted."""
    if xp is np:
        made = _counts_and_ends(x, n, n_threads)
        return (_count_numpy(x, n),) if made is None else made[:1]
    found = count_values(x, n)
    return (_count_torch(xp, x, n) if found is None else found[0],)


def _counts_and_ends(x: Any, n: int, n_threads: int) -> tuple[Any, Any] | None:
    """Counts of a tile, and the ends of its values, by C; None without it."""
    count = loop("histogram", "count_values", x.dtype)
    if count is None or n >= MOST_COUNTED:
        return None
    number, ends = np.zeros(n, int64), np.empty(2, int64)
    is_done = count(np.ascontiguousarray(x), x.size, n, _n_hands(n_threads), number, ends)
    return (number, ends) if is_done else None


def _count_numpy(x: Any, n: int) -> Any:
    number = np.zeros(n, int64)
    for lo in range(0, len(x), COUNTED_AT_ONCE):
        part = x[lo : lo + COUNTED_AT_ONCE]
        number += np.bincount(part[(part >= 0) & (part < n)], minlength=n)
    return number


COUNTED_AT_ONCE = 1 << 19
"""Values that NumPy counts in one call: it takes copies of them."""
MOST_COUNTED = 1 << 31
"""Counts of which there are not as many: places are numbers of 32 bits."""


def _n_hands(n_threads: int) -> int:
    """Threads that may share a kernel with the one that runs it."""
    if n_threads > 1:
        return n_threads
    return 1 if lane.is_worker else n_sharing()


def _how(xp: Any, x: Any, n: int) -> dict[str, int]:
    """Threads that count a long line as one task, which they share in C, if it is not cut."""
    n_hands = xp.n_hands(x.shape[0] * x.dtype.itemsize + 8 * n)
    return {"n_threads": n_hands} if n_hands > 1 and x.shape[0] > COUNTED_AT_ONCE else {}


def _count_torch(xp: Any, x: Any, n: int) -> Any:
    """The same without waiting for the device, as `bincount` does."""
    one = xp.ones((1,), dtype=xp.int64, device=x.device)
    number = xp.zeros(n + 2, dtype=xp.int64, device=x.device)
    return number.index_add_(0, x.clamp(-1, n) + 1, one.expand(x.shape))[1:-1]


def _sums_torch(xp: Any, x: Any, weights: Any, n: int) -> tuple[Any, Any]:
    """Sums of weights, and the ends, whose bits depend on shapes and dtypes alone."""
    limbs = limbs_for(weights, n)
    if limbs is None:
        return _add_torch(xp, x, weights, n), xp.stack(xp.aminmax(x))
    found = weigh_values(x, weights, n, limbs)
    if found is None:
        found = weigh_eagerly(x, weights, n, limbs), xp.stack(xp.aminmax(x))
    return found


def _add_torch(xp: Any, x: Any, weights: Any, n: int) -> Any:
    """Sums of weights in one order: of parts of the line, so that sums of few bins are made side
    by side, then of these."""
    n_parts = max(min(len(x) // (PART_WEIGHTS * (n + 2)), MOST_LINE_PARTS), 1)
    place = x.clamp(-1, n) + 1
    if n_parts > 1:
        at = xp.arange(len(x), device=x.device)
        place = place * n_parts + at * n_parts // len(x)
    sums = xp.zeros((n + 2) * n_parts, dtype=xp.float64, device=x.device)
    sums.index_put_((place,), weights.to(xp.float64), accumulate=True)
    return sums.view(n + 2, n_parts).sum(1)[1:-1]


def _sums_kernel(xp: Any, x: Any, weights: Any, axes: Any, n: int) -> tuple[Any, Any]:
    """Sums of the weights of a tile, likewise, and the smallest and the largest value."""
    if xp is not np:
        return _sums_torch(xp, x, weights, n)
    is_float = weights.dtype == float32
    add = loop("histogram", f"sum_weights_{'float' if is_float else 'double'}", x.dtype)
    weights = weights if is_float else weights.astype(FLOAT, copy=False)
    if add is not None:
        sums, ends = np.zeros(n, FLOAT), np.empty(2, int64)
        add(np.ascontiguousarray(x), x.size, n, sums, np.ascontiguousarray(weights), ends)
        return sums, ends
    inside = (x >= 0) & (x < n)
    made = np.bincount(x[inside], weights[inside], minlength=n)
    return made.astype(FLOAT), np.stack([x.min(), x.max()])


def _weighted_kernel(xp: Any, x: Any, weights: Any, axes: Any, n: int) -> tuple[Any]:
    if xp is not np and not len(x):  # which has no ends
        return (_add_torch(xp, x, weights, n),)
    return _sums_kernel(xp, x, weights, axes, n)[:1]


def _count_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n, n_threads = int(params["n"]), int(params.get("n_threads", 1))
    some = min(ins[0].n_elements, COUNTED_AT_ONCE) if n_threads > 1 else ins[0].n_elements
    return ins[0].n_bytes * (n_threads > 1) + 48 * some + 16 * n * n_threads + 256


def _count_scratch_cuda(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 128 * ins[0].n_elements + 32 * int(params["n"]) + (1 << 19)


def _sum_scratch_cuda(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    limbs = most_sum_bytes(int(params["n"]), ins[0].n_elements)
    return _count_scratch_cuda(ins, outs, params) + limbs


def _count_cases(rng: Any) -> list[Any]:
    x = rng.integers(-2, 9, 23)
    return [((x, 7), {}), ((x, 20), {}), ((x[:0], 3), {}), ((x, 9, 2), {})]


def _count_oracle(x: Any, n: int, n_threads: int = 1, weights: Any = None) -> Any:
    inside = (x >= 0) & (x < n)
    return np.bincount(x[inside], None if weights is None else weights[inside], n)


def _count_call(n: int, dtype: np.dtype[Any], *specs: Spec, n_threads: int = 1) -> Call:
    labels = ((0,),) * len(specs)
    uncut = frozenset((0, 1) if n_threads > 1 else (1,))
    form = AxisForm((specs[0].shape[0], n), labels, ((1,),), uncut)
    return Call(form, (Spec((n,), dtype),), _params(n, n_threads), (), (dtype,))


def _params(n: int, n_threads: int) -> tuple[tuple[str, int], ...]:
    return (("n", n), ("n_threads", n_threads)) if n_threads > 1 else (("n", n),)


@op(
    "reduction",
    kernel=_count_kernel,
    combine=plain_combine("sum", exact=True),
    scratch_bytes=_count_scratch,
    scratches={"cuda": _count_scratch_cuda},
    moves=True,
    cost=4.0,
    cases=_count_cases,
    oracle=_count_oracle,
    same="equal",
)
def _count(x: Spec, n: int, n_threads: int = 1) -> Call:
    """How often each of 0 .. n - 1 occurs; other values are left out. Several threads count all of
    the line in one task."""
    return _count_call(n, int64, x, n_threads=n_threads)


def _weighted_cases(rng: Any) -> list[Any]:
    cases = _count_cases(rng)
    return [((x, rng.normal(size=len(x)), n), kwargs) for (x, n, *_), kwargs in cases[:3]]


@op(
    "reduction",
    kernel=_weighted_kernel,
    combine=plain_combine("sum", exact=False),
    scratch_bytes=_count_scratch,
    scratches={"cuda": _sum_scratch_cuda},
    moves=True,
    cost=4.0,
    cases=_weighted_cases,
    oracle=lambda x, weights, n: _count_oracle(x, n, weights=weights).astype(FLOAT),
)
def _count_weighted(x: Spec, weights: Spec, n: int) -> Call:
    """The sum of the weights of each of 0 .. n - 1; other values are left out."""
    return _count_call(n, FLOAT, x, weights)


def _ends_kernel(xp: Any, x: Any, axes: Any, n: int, n_threads: int = 1) -> tuple[Any, Any]:
    if xp is np:
        made = _counts_and_ends(x, n, n_threads)
        return (_count_numpy(x, n), np.stack([x.min(), x.max()])) if made is None else made
    found = count_values(x, n)
    return (_count_torch(xp, x, n), xp.stack(xp.aminmax(x))) if found is None else found


def _merge_ends(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
    (count_a, ends_a), (count_b, ends_b) = a, b
    low, high = xp.minimum(ends_a, ends_b), xp.maximum(ends_a, ends_b)
    return count_a + count_b, xp.stack([low[0], high[1]])


@op(
    "reduction",
    kernel=_ends_kernel,
    combine=Combine("counts and ends", _merge_ends, exact=True),
    scratch_bytes=_count_scratch,
    scratches={"cuda": _count_scratch_cuda},
    moves=True,
    cost=4.0,
    cases=lambda rng: [case for case in _count_cases(rng) if len(case[0][0])],
    oracle=lambda x, n, n_threads=1: (_count_oracle(x, n), np.stack([x.min(), x.max()])),
    same="equal",
)
def _count_and_ends(x: Spec, n: int, n_threads: int = 1) -> Call:
    """How often each of 0 .. n - 1 occurs in a line of int64, and the ends of its values."""
    return _ends_call(n, int64, x, n_threads=n_threads)


@op(
    "reduction",
    kernel=_sums_kernel,
    combine=Combine("sums and ends", _merge_ends, exact=False),
    scratch_bytes=_count_scratch,
    scratches={"cuda": _sum_scratch_cuda},
    moves=True,
    cost=4.0,
    cases=lambda rng: _weighted_cases(rng)[:2],
    oracle=lambda x, weights, n: (
        _count_oracle(x, n, weights=weights).astype(FLOAT),
        np.stack([x.min(), x.max()]),
    ),
)
def _weigh_and_ends(x: Spec, weights: Spec, n: int) -> Call:
    """The sum of the weights of each of 0 .. n - 1 in a line of int64, and its ends."""
    return _ends_call(n, FLOAT, x, weights)


def _ends_call(n: int, dtype: np.dtype[Any], *specs: Spec, n_threads: int = 1) -> Call:
    labels = ((0,),) * len(specs)
    uncut = frozenset((0, 1, 2) if n_threads > 1 else (1, 2))
    form = AxisForm((specs[0].shape[0], n, 2), labels, ((1,), (2,)), uncut)
    outs = (Spec((n,), dtype), Spec((2,), int64))
    return Call(form, outs, _params(n, n_threads), (), (dtype, int64))


def counts(xp: Any, x: Any, n: int, weights: Any = None) -> Any:
    """How often each of 0 .. n - 1 occurs in a line of int64, or the sum of its weights.

    Each tile makes n numbers. Where that is more than a block the counts themselves are cut.
    """
    if n < 2 * xp.block(n):
        if weights is not None:
            return xp._count_weighted(x, weights, n)
        return xp._count(x, n, **_how(xp, x, n))
    zero = xp.zeros((n + 1,), dtype=int64 if weights is None else FLOAT)
    x = xp.where((x >= 0) & (x < n), x, n)
    return xp.scatter_add(zero, x, 1 if weights is None else weights)[:n]


def _bin_kernel(xp: Any, x: Any, edges: Any, axes: Any, n_threads: int = 1) -> tuple[Any]:
    """Counts of a tile in bins of one width; the last bin has its right edge too."""
    n = edges.shape[0] - 1
    count = loop("histogram", "count_bins", x.dtype) if xp is np else None
    if count is not None:
        number, lines = np.zeros(n, int64), np.ascontiguousarray(x)
        if count(lines, x.size, np.ascontiguousarray(edges), n, _n_hands(n_threads), number):
            return (number,)
    if xp is np:
        number = np.zeros(n, int64)
        for lo in range(0, len(x), COUNTED_AT_ONCE):
            part = x[lo : lo + COUNTED_AT_ONCE]
            found = np.searchsorted(edges, part, "right") - 1
            number += _count_numpy(np.where(part == edges[-1], n - 1, found), n)
        return (number,)
    number = count_bins(x, edges)
    if number is not None:
        return (number,)
    x = x.to(edges.dtype)
    found = xp.searchsorted(edges.contiguous(), x.contiguous(), right=True) - 1
    found = xp.where(x == edges[-1], n - 1, found)
    return _count_kernel(xp, found, axes=axes, n=n)


def _bin_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    x, edges = ins
    n_threads = int(params.get("n_threads", 1))
    some = min(x.n_elements, COUNTED_AT_ONCE) if n_threads > 1 else x.n_elements
    own = x.n_bytes * (n_threads > 1) + 16 * n_threads * edges.n_elements
    return own + 80 * some + 40 * edges.n_elements + (1 << 19)


@op(
    "reduction",
    kernel=_bin_kernel,
    combine=plain_combine("sum", exact=True),
    scratch_bytes=_bin_scratch,
    moves=True,
    cost=8.0,
    cases=lambda rng: [
        ((rng.normal(size=30), np.linspace(-1, 1, 6)), {}),
        ((rng.normal(size=30), np.linspace(-1, 1, 5)), {"n_threads": 2}),
        ((rng.integers(0, 9, 30), np.linspace(0.0, 9.0, 4)), {}),
    ],
    oracle=lambda x, edges, n_threads=1: np.histogram(x, edges)[0],
    same="equal",
)
def _count_bins(x: Spec, edges: Spec, n_threads: int = 1) -> Call:
    """How many values of a line are in each bin; the edges are float64 and of one distance."""
    n = edges.shape[0] - 1
    uncut = frozenset((0, 1, 2) if n_threads > 1 else (1, 2))
    form = AxisForm((*x.shape, n + 1, n), ((0,), (1,)), ((2,),), uncut)
    params = (("n_threads", n_threads),) if n_threads > 1 else ()
    return Call(form, (Spec((n,), int64),), params, (), (int64,))


def _integers(rng: Any) -> list[Any]:
    x = rng.integers(0, 9, 23)
    return [
        ((x,), {}),
        ((x,), {"minlength": 30}),
        ((x, rng.normal(size=23)), {}),
        ((x.astype(np.uint8), rng.integers(0, 5, 23)), {"minlength": 3}),
        ((x[:0],), {}),
        ((x[:0],), {"minlength": 4}),
        ((x - 5,), {}),
        ((x.astype(float),), {}),
        ((x.reshape(1, 23),), {}),
        ((x, np.ones(22)), {}),
        ((x, 1j * np.ones(23)), {}),
        ((x > 4,), {}),
        ((x,), {"minlength": -1}),
    ]


@program(cases=_integers)
def bincount(xp: Any, x: Any, weights: Array = None, minlength: int = 0) -> Any:
    """How often each of 0 .. max(x) occurs, or the sum of the weights found there.

    The largest value decides the shape: it is computed now.

    >>> import infinitensor as it
    >>> it.bincount(it.asarray([1, 3, 1])).tolist()
    [0, 2, 0, 1]
    """
    is_list = not hasattr(x, "dtype")
    x = xp.asarray(x)
    if len(x.shape) != 1:
        wrong = "small depth" if not len(x.shape) else "deep"
        raise ValueError(f"bincount: object too {wrong} for desired array (x has {x.shape})")
    n = x.shape[0]
    if x.dtype.kind not in "iub" and (n or not is_list):
        raise TypeError(
            f"bincount: Cannot cast array data from {x.dtype!r} to dtype('int64') "
            "according to the rule 'safe'"
        )
    minlength = operator.index(minlength)
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    if weights is not None:
        weights = _real_weights("bincount", weights)
        if tuple(weights.shape) != (n,):
            raise ValueError("The weights and list don't have the same length.")
    if not n:  # NumPy's counts of nothing are integers, weights or not
        return xp.zeros((minlength,), dtype=int64)
    x = x if x.dtype == int64 else x.astype(int64)
    guess = max(FEW_COUNTS, minlength)
    guess = 0 if guess >= 2 * xp.block(guess) else guess
    found, ends = (
        xp._count_and_ends(x, guess, **_how(xp, x, guess))
        if weights is None
        else xp._weigh_and_ends(x, weights, guess)
    )
    low, high = xp.force(ends)
    if low < 0:
        raise ValueError("'list' argument must have no negative elements")
    size = max(int(high) + 1, minlength)
    return found[:size] if size <= guess else counts(xp, x, size, weights)


def _real_weights(name: str, weights: Any) -> Any:
    """Weights that the sums, of float64, can be made of."""
    if weights.dtype.kind == "c":
        raise TypeError(
            f"{name}: Cannot cast array data from {weights.dtype!r} to dtype('float64') "
            "according to the rule 'safe'"
        )
    return weights


def _ends(xp: Any, x: Any) -> Any:
    """The smallest and the largest value, computed now."""
    return xp.force(xp.stack([xp.min(x), xp.max(x)]))


# --- bins -------------------------------------------------------------------------------------


def _digit_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 5))
    edges = np.array([-1.0, 0.0, 0.0, 1.5])
    holes = np.where(x > 1, np.nan, x)
    return [
        *(((x, e), {"right": right}) for e in (edges, edges[::-1]) for right in (False, True)),
        ((holes, edges), {}),
        ((rng.integers(0, 5, 7), np.array([2, 4])), {}),
        ((rng.integers(0, 5, 7), np.array([4, 2])), {"right": True}),
        ((rng.integers(0, 5, 7), np.array([4, 2])), {}),
        ((x, np.array([1.0])), {}),
        ((x, np.array([1.0, 3.0, 2.0])), {}),
        ((1j * x, edges), {}),
        ((np.float64(0.3), edges), {}),
    ]


@program(cases=_digit_cases, same="equal")
def digitize(xp: Any, x: Array, bins: Array, right: bool = False) -> Any:
    """The number of the bin each value is in; bins may rise or fall.

    Which of the two they do is computed now.

    >>> import infinitensor as it
    >>> it.digitize(it.asarray([0.5, 3.0, 9.0]), it.asarray([1.0, 4.0])).tolist()
    [0, 1, 2]
    """
    if x.dtype.kind == "c":
        raise TypeError("x may not be complex")
    if bins.dtype.kind == "c":
        raise TypeError("digitize: bins may not be complex")
    if len(bins.shape) != 1:
        raise ValueError(f"digitize: object of too small depth for desired array {bins.shape}")
    side = "left" if right else "right"
    if _is_rising(xp, bins):
        return xp.searchsorted(bins, x, side)
    return bins.shape[0] - xp.searchsorted(bins[::-1], x, side)


def _is_rising(xp: Any, bins: Any) -> bool:
    """Whether bins rise; else they fall. The first two that differ decide; NaN is never less."""
    if bins.shape[0] < 2:
        return True
    before, after = bins[:-1], bins[1:]
    differs = after != bins[0]
    first = xp.take(before < after, xp.argmax(differs))
    looked_at = (~xp.any(differs) | first, xp.any(before < after), xp.any(before > after))
    rises, some_rise, some_fall = xp.force(xp.stack(looked_at))
    if some_fall if rises else some_rise:
        raise ValueError("bins must be monotonically increasing or decreasing")
    return bool(rises)


def _plain(a: Any, weights: Any) -> tuple[Any, Any]:
    a = a.astype(np.uint8) if a.dtype.kind == "b" else a
    if weights is not None:
        if tuple(weights.shape) != tuple(a.shape):
            raise ValueError("weights should have the same shape as a.")
        weights = weights.reshape(-1)
    return a if len(a.shape) == 1 else a.reshape(-1), weights


def _outer_edges(xp: Any, a: Any, span: Any) -> tuple[Any, Any]:
    """The first and the last edge, of the span if one is given; never the same."""
    found = "supplied" if span is not None else "autodetected"
    if span is not None:
        first, last = span
        if first > last:
            raise ValueError("max must be larger than min in range parameter.")
    elif not prod(a.shape):
        first, last = 0, 1
    else:
        first, last = _ends(xp, a)
    if not (np.isfinite(first) and np.isfinite(last)):
        raise ValueError(f"{found} range of [{first}, {last}] is not finite")
    return (first - 0.5, last + 0.5) if first == last else (first, last)


def edges_of(xp: Any, a: Any, bins: Any, span: Any, weights: Any) -> Edges:
    """The edges of the bins, on the host."""
    if isinstance(bins, str):
        if bins not in _WIDTHS:
            raise ValueError(f"{bins!r} is not a valid estimator for `bins`")
        if weights is not None:
            raise TypeError(
                "Automated estimation of the number of bins is not supported for weighted data"
            )
        first, last = _outer_edges(xp, a, span)
        number = _estimate_bins(xp, bins, a, first, last, span)
    elif np.ndim(bins) == 0:
        try:
            number = operator.index(bins)
        except TypeError:
            raise TypeError("`bins` must be an integer, a string, or an array") from None
        if number < 1:
            raise ValueError("`bins` must be positive, when an integer")
        first, last = _outer_edges(xp, a, span)
    elif np.ndim(bins) == 1:
        edges = host_values_of(xp, bins)
        if np.any(edges[:-1] > edges[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges
    else:
        raise ValueError("`bins` must be 1d, when an array")
    dtype = result_type(first, last, a.dtype)
    dtype = result_type(dtype, float) if dtype.kind in "iu" else dtype
    if {type(first), type(last)} <= {int, float} and number <= MOST_KEPT_EDGES:
        return _kept_edges(first, last, number, dtype)
    return _even_edges(first, last, number, dtype)


MOST_KEPT_EDGES = 1 << 14


@lru_cache(64, typed=True)
def _kept_edges(first: float, last: float, number: int, dtype: np.dtype[Any]) -> Edges:
    """Edges that may have been asked for before. (Both zeros begin with the same.)"""
    made = _even_edges(first, last, number, dtype)
    made.flags.writeable = False
    return made


def _even_edges(first: Any, last: Any, number: int, dtype: np.dtype[Any]) -> Edges:
    edges = np.linspace(first, last, number + 1, dtype=dtype)
    if np.any(edges[:-1] >= edges[1:]):
        raise ValueError(f"Too many bins for data range. Cannot create {number} finite-sized bins.")
    return edges


# --- how many bins ----------------------------------------------------------------------------


def _estimate_bins(xp: Any, rule: str, a: Any, first: Any, last: Any, span: Any) -> int:
    """The number of bins of a rule for their width."""
    if span is not None:
        a = a[(a >= first) & (a <= last)]
    if not a.shape[0]:
        return 1
    width = float(_WIDTHS[rule](xp, a, _spread(*_ends(xp, a)), span))
    if not width:
        return 1
    if a.dtype.kind in "iu" and width < 1:
        width = 1.0
    return int(np.ceil(_spread(first, last) / width))


def _spread(low: Any, high: Any) -> Any:
    """high - low, also where that is more than a signed integer holds."""
    kind = result_type(low, high)
    if kind.kind != "i":
        return np.subtract(high, low)
    return np.subtract(*np.asarray([high, low], kind), dtype=f"u{kind.itemsize}", casting="unsafe")


def _doane(xp: Any, a: Any, spread: Any, span: Any) -> float:
    n = a.shape[0]
    sigma = float(xp.force(xp.std(a))) if n > 2 else 0.0
    if not sigma > 0:
        return 0.0
    skew = float(xp.force(xp.mean(((a - xp.mean(a)) / sigma) ** 3)))
    error = np.sqrt(6.0 * (n - 2) / ((n + 1.0) * (n + 3)))
    return float(spread / (1 + np.log2(n) + np.log2(1 + abs(skew) / error)))


def _freedman(xp: Any, a: Any, spread: Any, span: Any) -> float:
    low, high = xp.force(xp.percentile(a, [25, 75]))
    return float(2.0 * (high - low) * a.shape[0] ** (-1 / 3))


def _stone(xp: Any, a: Any, spread: Any, span: Any) -> float:
    """The width whose histogram has the smallest estimated squared error."""
    n = a.shape[0]
    if n <= 1 or spread == 0:
        return 0.0

    def loss(number: int) -> float:
        share = xp.force(xp.histogram(a, number, span)[0]) / n
        return float((2 - (n + 1) * share.dot(share)) / (spread / number))

    return float(spread / min(range(1, max(100, int(np.sqrt(n))) + 1), key=loss))


def _auto(xp: Any, a: Any, spread: Any, span: Any) -> float:
    robust = max(_freedman(xp, a, spread, span), _WIDTHS["sqrt"](xp, a, spread, span) / 2)
    return float(min(robust, _WIDTHS["sturges"](xp, a, spread, span)))


_WIDTHS: dict[str, Callable[..., Any]] = {
    "auto": _auto,
    "doane": _doane,
    "fd": _freedman,
    "rice": lambda xp, a, spread, span: spread / (2.0 * a.shape[0] ** (1 / 3)),
    "scott": lambda xp, a, spread, span: (
        (24.0 * np.pi**0.5 / a.shape[0]) ** (1 / 3) * xp.force(xp.std(a))
    ),
    "sqrt": lambda xp, a, spread, span: spread / np.sqrt(a.shape[0]),
    "stone": _stone,
    "sturges": lambda xp, a, spread, span: spread / (np.log2(a.shape[0]) + 1.0),
}
"""NumPy's rules for the width of a bin."""


# --- histograms -------------------------------------------------------------------------------


def _bin_of(xp: Any, a: Any, edges: Edges) -> Any:
    """The bin of each value: -1 before the first edge, one too many behind the last or for NaN.

    The last bin has its right edge too.
    """
    n = len(edges) - 1
    found = xp.searchsorted(edges, a, "right") - 1
    return xp.where(a == edges[-1], n - 1, found)


def _histogram_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 6))
    weights = rng.random(x.shape)
    edges = np.array([-1.0, -0.25, 0.5, 0.5, 2.0])
    return [
        ((x,), {}),
        ((x, 5), {"range": (-1, 1)}),
        ((x, edges), {}),
        ((x, edges), {"weights": weights, "density": True}),
        ((x, 4), {"weights": weights}),
        ((x, 4), {"weights": weights + 1j}),
        ((x, 4), {"weights": np.arange(24).reshape(4, 6)}),
        ((x, 4), {"density": True}),
        ((rng.integers(0, 9, 20), 4), {}),
        ((rng.integers(-100, 100, 20).astype(np.int8), 3), {}),
        ((x.astype(np.float32), 7), {}),
        ((x[:0], 3), {}),
        ((np.full(4, 2.0), 3), {}),
        ((np.array([1.0, np.nan]), 3), {}),
        ((np.array([1.0, np.nan, 1.5]), 3), {"range": (0, 2)}),
        ((x, 0), {}),
        ((x, np.array([2.0, 1.0])), {}),
    ]


@program(cases=_histogram_cases)
def histogram(
    xp: Any,
    a: Array,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Array = None,
) -> tuple[Any, Any]:
    """How many values are in each bin, and the edges of the bins.

    A number of bins, or a rule for it by name, needs the span of the values: that is computed now.

    >>> import infinitensor as it
    >>> number, edges = it.histogram(it.asarray([1.0, 2.0, 2.5, 5.0]), 2)
    >>> number.tolist(), edges.tolist()
    ([3, 1], [1.0, 3.0, 5.0])
    """
    a, weights = _plain(a, weights)
    edges = edges_of(xp, a, bins, range, weights)
    n = len(edges) - 1
    if weights is None and np.ndim(bins) == 0 and n < 2 * xp.block(n):
        wide = xp.constant(edges.astype(FLOAT, copy=False), a)
        number = xp._count_bins(a, wide, **_how(xp, a, n))
    else:
        number = _sums(xp, _bin_of(xp, a, edges), n, weights)
    if density:
        number = number / np.diff(edges).astype(float) / xp.sum(number)
    return number, xp.asarray(edges)


def _sums(xp: Any, index: Any, n: int, weights: Any) -> Any:
    """Counts, or sums of weights in the dtype they have."""
    if weights is None:
        return counts(xp, index, n)
    if weights.dtype.kind != "c":
        return counts(xp, index, n, weights.astype(FLOAT)).astype(weights.dtype)
    real, imag = (
        counts(xp, index, n, part.astype(FLOAT)) for part in (xp.real(weights), xp.imag(weights))
    )
    return (real + 1j * imag).astype(weights.dtype)


@program(
    cases=lambda rng: [
        *(((rng.normal(size=30), rule), {}) for rule in _WIDTHS if rule != "stone"),
        ((rng.normal(size=30), "fd"), {"range": (-1, 1)}),
        ((rng.integers(0, 50, 30), "auto"), {}),
        ((np.ones(5), "auto"), {}),
        ((rng.normal(size=8), 4), {}),
        ((rng.normal(size=8), "best"), {}),
    ]
)
def histogram_bin_edges(
    xp: Any, a: Array, bins: Any = 10, range: Any = None, weights: Array = None
) -> Any:
    """The edges that `histogram` takes.

    >>> import infinitensor as it
    >>> it.histogram_bin_edges(it.asarray([0.0, 4.0]), 2).tolist()
    [0.0, 2.0, 4.0]
    """
    a, weights = _plain(a, weights)
    return xp.asarray(edges_of(xp, a, bins, range, weights))


def _points(xp: Any, sample: Any) -> list[Any]:
    """One line of numbers for each dimension."""
    if isinstance(sample, (list, tuple)):
        lines = [xp.asarray(one).reshape(-1) for one in sample]
        dtype = result_type(*(line.dtype for line in lines)) if lines else None
        return [line.astype(dtype) for line in lines]
    sample = xp.asarray(sample)
    if len(sample.shape) < 2:
        sample = sample.reshape((-1, 1))
    return [sample[:, i] for i in np.arange(sample.shape[1])]


def _cloud(rng: Any) -> list[Any]:
    x, y, z = rng.normal(size=(3, 20))
    weights = rng.random(20)
    cube = np.stack([x, y, z], 1)
    edges = np.array([-1.0, 0.0, 2.0])
    return [
        ((cube, 3), {}),
        ((cube, (2, 3, 4)), {"density": True}),
        ((cube, [edges, 2, edges]), {"weights": weights}),
        (([x, y], 3), {"range": ((-1, 1), None)}),
        ((cube[:, 0], 4), {}),
        ((cube, (2, 3)), {}),
        ((cube, (2, 0, 3)), {}),
    ]


@program(cases=_cloud)
def histogramdd(
    xp: Any,
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Array = None,
) -> tuple[Any, tuple[Any, ...]]:
    """How many points are in each box of a grid, and the edges along each dimension.

    `sample` has a row for each point, or is a list with the coordinates along each dimension.

    >>> import infinitensor as it
    >>> number, edges = it.histogramdd(it.asarray([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]), 2)
    >>> number.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    lines = _points(xp, sample)
    n = len(lines)
    bins = bins if is_on_host(bins) else host_values_of(xp, bins)
    every = list(bins) if hasattr(bins, "__len__") else [bins] * n
    if len(every) != n:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    spans = [None] * n if range is None else list(range)
    if len(spans) != n:
        raise ValueError("range argument must have one entry per dimension")
    edges = [
        _grid_edges(xp, *one, i) for i, one in enumerate(zip(lines, every, spans, strict=True))
    ]
    shape = tuple(len(e) - 1 for e in edges)
    flat: Any = 0
    inside: Any = True
    for line, edge, size in zip(lines, edges, shape, strict=True):
        index = _bin_of(xp, line, edge)
        inside = inside & (index >= 0) & (index < size)
        flat = flat * size + index
    flat = xp.where(inside, flat, -1)
    if weights is not None:
        weights = _real_weights("histogramdd", weights)
        if tuple(weights.shape) != tuple(flat.shape):
            raise ValueError("The weights and list don't have the same length.")
    number = counts(xp, flat, prod(shape), weights)
    number = number.reshape(shape).astype(FLOAT)
    if density:
        total = xp.sum(number)
        for axis, edge in enumerate(edges):
            wide = [1] * n
            wide[axis] = -1
            number = number / np.diff(edge).reshape(wide)
        number = number / total
    return number, tuple(xp.asarray(edge) for edge in edges)


def _grid_edges(xp: Any, line: Any, bins: Any, span: Any, axis: int) -> Edges:
    if np.ndim(bins) == 1:
        edges = host_values_of(xp, bins)
        if np.any(edges[:-1] > edges[1:]):
            raise ValueError(f"`bins[{axis}]` must be monotonically increasing, when an array")
        return edges
    if np.ndim(bins):
        raise ValueError(f"`bins[{axis}]` must be a scalar or 1d array")
    if bins < 1:
        raise ValueError(f"`bins[{axis}]` must be positive, when an integer")
    first, last = _outer_edges(xp, line, span)
    try:
        return np.linspace(first, last, bins + 1)
    except TypeError:
        raise TypeError(f"`bins[{axis}]` must be an integer, when a scalar") from None


@program(
    cases=lambda rng: [
        ((*rng.normal(size=(2, 20)), 3), {}),
        ((*rng.normal(size=(2, 20)), [2, 4]), {"density": True}),
        ((*rng.normal(size=(2, 20)), np.array([-1.0, 0.0, 0.5, 1.0])), {}),
        ((rng.normal(size=3), rng.normal(size=4)), {}),
    ]
)
def histogram2d(
    xp: Any,
    x: Array,
    y: Array,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Array = None,
) -> tuple[Any, Any, Any]:
    """How many points (x, y) are in each box of a grid, and its edges along x and y.

    >>> import infinitensor as it
    >>> it.histogram2d(it.asarray([0.0, 1.0]), it.asarray([0.0, 1.0]), 2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if x.shape[0] != y.shape[0]:
        raise ValueError("x and y must have the same length.")
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):
        bins = [bins, bins]
    number, edges = xp.histogramdd([x, y], bins, range, density, weights)
    return number, *edges

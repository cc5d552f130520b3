"""Counting: how often each integer occurs in a line, or the sum of its weights.

Counts of tiles are added up; a line of many values is one task, which threads share in C.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float32, int64
from infinitensor.events import lane
from infinitensor.ir.op import AxisForm, Call, Combine, Spec
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.reduction import plain_combine
from infinitensor.ops.reduce.histogram_triton import (
    count_values,
    limbs_for,
    most_sum_bytes,
    weigh_eagerly,
    weigh_values,
)
from infinitensor.ops.table.registry import Array, op, program
from infinitensor.threads import n_sharing

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOAT = np.dtype(np.float64)
FEW_COUNTS = 4096
"""So many counts are made while the largest value is looked for: it is mostly among them."""
PART_WEIGHTS = 16
"""Weights of a bin, in the mean, that a GPU adds one after another."""
MOST_LINE_PARTS = 1 << 16
"""Into which a line is divided for that."""


def count_kernel(xp: Any, x: Any, axes: Any, n: int, n_threads: int = 1) -> tuple[Any]:
    """Counts of a tile; values outside 0 .. n - 1 are not counted."""
    if xp is np:
        made = _counts_and_ends(x, n, n_threads)
        return (count_numpy(x, n),) if made is None else made[:1]
    found = count_values(x, n)
    return (_count_torch(xp, x, n) if found is None else found[0],)


def _counts_and_ends(x: Any, n: int, n_threads: int) -> tuple[Any, Any] | None:
    """Counts of a tile, and the ends of its values, by C; None without it."""
    count = loop("histogram", "count_values", x.dtype)
    if count is None or n >= MOST_COUNTED:
        return None
    number, ends = np.zeros(n, int64), np.empty(2, int64)
    is_done = count(np.ascontiguousarray(x), x.size, n, n_hands(n_threads), number, ends)
    return (number, ends) if is_done else None


def count_numpy(x: Any, n: int) -> Any:
    number = np.zeros(n, int64)
    for lo in range(0, len(x), COUNTED_AT_ONCE):
        part = x[lo : lo + COUNTED_AT_ONCE]
        number += np.bincount(part[(part >= 0) & (part < n)], minlength=n)
    return number


COUNTED_AT_ONCE = 1 << 19
"""Values that NumPy counts in one call: it takes copies of them."""
MOST_COUNTED = 1 << 31
"""Counts of which there are not as many: places are numbers of 32 bits."""


def n_hands(n_threads: int) -> int:
    """Threads that may share a kernel with the one that runs it."""
    if n_threads > 1:
        return n_threads
    return 1 if lane.is_worker else n_sharing()


def sharing(xp: Any, x: Any, n: int) -> dict[str, int]:
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
    kernel=count_kernel,
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
        return (count_numpy(x, n), np.stack([x.min(), x.max()])) if made is None else made
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
        return xp._count(x, n, **sharing(xp, x, n))
    zero = xp.zeros((n + 1,), dtype=int64 if weights is None else FLOAT)
    x = xp.where((x >= 0) & (x < n), x, n)
    return xp.scatter_add(zero, x, 1 if weights is None else weights)[:n]


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
        weights = real_weights("bincount", weights)
        if tuple(weights.shape) != (n,):
            raise ValueError("The weights and list don't have the same length.")
    if not n:  # NumPy's counts of nothing are integers, weights or not
        return xp.zeros((minlength,), dtype=int64)
    x = x if x.dtype == int64 else x.astype(int64)
    guess = max(FEW_COUNTS, minlength)
    guess = 0 if guess >= 2 * xp.block(guess) else guess
    found, ends = (
        xp._count_and_ends(x, guess, **sharing(xp, x, guess))
        if weights is None
        else xp._weigh_and_ends(x, weights, guess)
    )
    low, high = xp.force(ends)
    if low < 0:
        raise ValueError("'list' argument must have no negative elements")
    size = max(int(high) + 1, minlength)
    return found[:size] if size <= guess else counts(xp, x, size, weights)


def real_weights(name: str, weights: Any) -> Any:
    """Weights that the sums, of float64, can be made of."""
    if weights.dtype.kind == "c":
        raise TypeError(
            f"{name}: Cannot cast array data from {weights.dtype!r} to dtype('float64') "
            "according to the rule 'safe'"
        )
    return weights


def ends_of(xp: Any, x: Any) -> Any:
    """The smallest and the largest value, computed now."""
    return xp.force(xp.stack([xp.min(x), xp.max(x)]))

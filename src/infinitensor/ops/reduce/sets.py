"""Sets: the distinct values of an array, and which of them two arrays share.

All are made by sorting: equal values are neighbours then. How many there are is a shape, so the
sorted values are computed and counted now. Many integers of a small range are counted instead.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import int64, kind_of, result_type
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.backend.torch_bridge import as_signed, dtype_of
from infinitensor.ops.forms.gather import gather_form, is_empty
from infinitensor.ops.move.mask import count_pass
from infinitensor.ops.reduce.counts import FEW_COUNTS
from infinitensor.ops.reduce.counts import counts as tally
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

# --- distinct values --------------------------------------------------------------------------


def _before_need(box: Box, specs: Sequence[Spec], *, equal_nan: bool) -> tuple[Box | None]:
    if is_empty(box):
        return (None,)
    ((lo, hi),) = box
    return (((max(lo - 1, 0), hi),),)


def _differs_kernel(xp: Any, x: Any, out: Any, at: At, equal_nan: bool) -> None:
    if x is None:
        return
    may_hold_nan = equal_nan and kind_of(dtype_of(x)) in "fc"
    x = x if xp is np else as_signed(x)
    ((first, _),) = at.outputs[0]
    if not first:
        out[:1] = True
        out = out[1:]
    before, after = x[:-1], x[1:]
    out[...] = after != before
    # NaN is last: on the host it is known whether there is one
    if may_hold_nan and (xp is not np or (len(x) and x[-1] != x[-1])):
        out &= (after == after) | (before == before)


def _sorted_cases(rng: Any) -> list[Any]:
    x = np.sort(rng.integers(0, 9, 30))
    holes = np.sort(np.where(x == 4, np.nan, x))
    given = (x, x.astype("u2"), x > 4, holes, holes + 0j, x[:1], x[:0])
    return [((one, equal_nan), {}) for one in given for equal_nan in (True, False)]


def _differs_oracle(x: Any, equal_nan: bool) -> Any:
    before, after = x[:-1], x[1:]
    are_nan = (after != after) & (before != before) & equal_nan
    return np.concatenate([np.ones(min(len(x), 1), bool), (after != before) & ~are_nan])


@op(
    "gather",
    kernel=_differs_kernel,
    need=_before_need,
    scratch_bytes=lambda ins, outs, params: 4 * outs[0].n_elements + 4096,
    cases=_sorted_cases,
    oracle=_differs_oracle,
)
def _differs_from_before(x: Spec, equal_nan: bool) -> Call:
    """Which values of a sorted line differ from the one before; the first does.

    All NaNs are one value if `equal_nan`.
    """
    return call(gather_form((x,), x.shape), Spec(x.shape, np.dtype(bool)), equal_nan=equal_nan)


def _first_of_each(xp: Any, values: Any, *, equal_nan: bool) -> Any:
    """The mask of the values, or rows, of a sorted array that differ from the one before."""
    if len(values.shape) == 1:
        return xp._differs_from_before(values, equal_nan)
    differs = xp.any(values[1:] != values[:-1], axis=1)
    first = xp.ones((min(values.shape[0], 1),), dtype=bool)
    return xp._concatenate([first, differs], 0)


class Distinct(NamedTuple):
    """Facts of the distinct values; None where nobody asked."""

    values: Any
    indices: Any = None
    inverse: Any = None
    counts: Any = None


def _distinct(
    xp: Any,
    x: Any,
    *,
    equal_nan: bool,
    index: bool = False,
    inverse: bool = False,
    counts: bool = False,
) -> Distinct:
    """The distinct values of a line, or the distinct rows of a matrix."""
    n = x.shape[0]
    rows = len(x.shape) > 1
    if not rows and not index and kind_of(x.dtype) in "iu" and n >= 2 * xp.block(n):
        found = _count_integers(xp, x, inverse=inverse)
        if found is not None:
            return found if counts else found._replace(counts=None)
    order = None
    if rows:  # the first column is the most significant key
        order = xp.lexsort(x.T[::-1]) if x.shape[1] else xp.arange(n)
    elif index or inverse:
        order = xp.argsort(x)
    values = xp.sort(x) if order is None else xp._take(x, [order], (0,), 0)
    first = _first_of_each(xp, values, equal_nan=equal_nan)
    if not (index or inverse or counts):
        return Distinct(xp._masked(values, first))
    blocks = count_pass(xp, first)
    back = None
    if inverse:
        rank = xp.cumsum(first) - 1
        back = xp._scattered(xp.zeros((n,), dtype=int64), [order], rank, (0,), 0, "set")
    spans = None
    if counts:
        starts = xp._nonzero_fill(first, *blocks)
        spans = xp._concatenate([starts[1:], xp.full((min(n, 1),), n)], 0) - starts
    return Distinct(
        xp._mask_select(values, first, *blocks),
        xp._mask_select(order, first, *blocks) if index else None,
        back,
        spans,
    )


def _count_integers(xp: Any, x: Any, *, inverse: bool) -> Distinct | None:
    """The distinct integers of a line by how often each occurs; None where they are far apart."""
    wide = x if x.dtype == int64 else x.astype(int64)
    number, ends = xp._count_and_ends(wide, min(FEW_COUNTS, xp.block(FEW_COUNTS)))
    low, high = map(int, xp.force(ends))
    size = high - low + 1
    if size > x.shape[0] or size >= 2 * xp.block(size):
        return None
    if low >= 0 and high < number.shape[0]:
        number = number[low : high + 1]
    else:
        number = tally(xp, wide - low, size)
    occurs = number > 0
    blocks = count_pass(xp, occurs)
    back = None
    if inverse:
        back = xp._take(xp.cumsum(occurs) - 1, [wide - low], (0,), 0)
    values = (xp._nonzero_fill(occurs, *blocks) + low).astype(x.dtype)
    return Distinct(values, None, back, xp._mask_select(number, occurs, *blocks))


def _distinct_of_all(xp: Any, x: Any, **asked: bool) -> Distinct:
    """The distinct values of an array of any shape."""
    found = _distinct(xp, x.reshape(-1), **asked)
    back = None if found.inverse is None else found.inverse.reshape(tuple(x.shape))
    return found._replace(inverse=back)


def _repeat_cases(rng: Any) -> list[Any]:
    x = rng.integers(0, 5, (4, 6))
    return [((x,), {}), ((np.where(x == 2, np.nan, x),), {}), ((np.zeros(0),), {}), ((x > 2,), {})]


def _repeated_with_parts(rng: Any) -> list[Any]:
    asked = {"return_index": True, "return_inverse": True, "return_counts": True}
    parts = [{name: True} for name in asked]
    few = rng.integers(0, 2, (5, 3, 2)).astype(float)
    return [
        *_repeat_cases(rng),
        *((args, kwargs) for args, _ in _repeat_cases(rng) for kwargs in (asked, *parts)),
        *(((few,), {**asked, "axis": axis}) for axis in (0, 1, -1)),
        ((few[:, 0],), {"axis": 0}),
        ((few[:, 0, 0],), {**asked, "axis": 0}),
        ((few[:, :0, 0],), {"axis": 0, "return_counts": True}),
        ((few[:0],), {"axis": 0}),
        ((few,), {"axis": 3}),
        ((np.array([1.0, np.nan, np.nan]),), {"equal_nan": False}),
    ]


@program(cases=_repeated_with_parts, same="equal")
def unique(
    xp: Any,
    ar: Array,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct values, sorted; all NaNs are one unless `equal_nan=False`.

    With an axis: the distinct slices along it. On request also where each is found first, which
    one each element is, and how often each occurs. How many there are is a shape: the array is
    sorted, or its integers are counted, now.

    >>> import infinitensor as it
    >>> it.unique(it.asarray([3, 1, 3, 2])).numpy().tolist()
    [1, 2, 3]
    """
    asked = {
        "equal_nan": equal_nan,
        "index": return_index,
        "inverse": return_inverse,
        "counts": return_counts,
    }
    ndim = len(ar.shape)
    if axis is not None:
        axis = normalize_axis_index(axis, ndim)
    if axis is None or ndim == 1:
        found = _distinct_of_all(xp, ar, **asked)
    else:
        front = xp.moveaxis(ar, axis, 0)
        rest = tuple(front.shape[1:])
        found = _distinct(xp, front.reshape((front.shape[0], prod(rest))), **asked)
        values = found.values.reshape((found.values.shape[0], *rest))
        found = found._replace(values=xp.moveaxis(values, 0, axis))
    given = tuple(part for part in found if part is not None)
    return given[0] if len(given) == 1 else given


@program(cases=_repeat_cases, same="equal", oracle=lambda x: np.sort(np.unique_values(x)))
def unique_values(xp: Any, x: Array) -> Any:
    """The distinct values, sorted; each NaN counts for itself (Array API).

    >>> import infinitensor as it
    >>> it.unique_values(it.asarray([3, 1, 3, 2])).numpy().tolist()
    [1, 2, 3]
    """
    return _distinct_of_all(xp, x, equal_nan=False).values


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


@program(cases=_repeat_cases, same="equal")
def unique_counts(xp: Any, x: Array) -> UniqueCountsResult:
    """The distinct values and how often each occurs (Array API).

    >>> import infinitensor as it
    >>> it.unique_counts(it.asarray([3, 1, 3, 2])).counts.numpy().tolist()
    [1, 1, 2]
    """
    found = _distinct_of_all(xp, x, equal_nan=False, counts=True)
    return UniqueCountsResult(found.values, found.counts)


@program(  # NumPy numbers NaNs in no order
    cases=lambda rng: _repeat_cases(rng)[::2], same="equal"
)
def unique_inverse(xp: Any, x: Array) -> UniqueInverseResult:
    """The distinct values and which one each element is (Array API).

    >>> import infinitensor as it
    >>> it.unique_inverse(it.asarray([3, 1, 3, 2])).inverse_indices.numpy().tolist()
    [2, 0, 2, 1]
    """
    found = _distinct_of_all(xp, x, equal_nan=False, inverse=True)
    return UniqueInverseResult(found.values, found.inverse)


@program(cases=_repeat_cases, same="equal")
def unique_all(xp: Any, x: Array) -> UniqueAllResult:
    """The distinct values with first indices, inverse and counts (Array API).

    >>> import infinitensor as it
    >>> it.unique_all(it.asarray([3, 1, 3, 2])).indices.numpy().tolist()
    [1, 3, 0]
    """
    found = _distinct_of_all(xp, x, equal_nan=False, index=True, inverse=True, counts=True)
    return UniqueAllResult(*found)


# --- two sets ---------------------------------------------------------------------------------


def _pair(*extra: dict[str, Any]) -> Any:
    def cases(rng: Any) -> list[Any]:
        a, b = rng.integers(0, 9, (3, 4)), rng.integers(3, 12, 7)
        holes = np.array([1.0, np.nan, 4.0, np.nan])
        return [
            *(((a, b), more) for more in ({}, *extra)),
            ((a.astype(float), holes), {}),
            ((a, b.astype(np.uint8)), {}),
            ((a, b[:0]), {}),
            ((a[:0], b), {}),
            ((a > 4, b > 4), {}),
        ]

    return cases


@program(
    cases=_pair({"invert": True}, {"kind": "sort"}, {"kind": "hash"}, {"assume_unique": True}),
    same="equal",
)
def isin(
    xp: Any,
    element: Array,
    test_elements: Array,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Any:
    """True where an element is among the test elements, or is not with `invert=True`.

    The test elements are sorted and searched; only the elements are cut. `assume_unique` and
    `kind` change nothing.

    >>> import infinitensor as it
    >>> it.isin(it.arange(4), [1, 3]).tolist()
    [False, True, False, True]
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    common = result_type(element.dtype, test_elements.dtype)
    known = xp.sort(test_elements.reshape(-1).astype(common))
    n = known.shape[0]
    if not n:
        return xp.full(tuple(element.shape), invert, dtype=bool)
    element = element.astype(common)
    at = xp.minimum(xp.searchsorted(known, element), n - 1)
    found = xp.take(known, at)
    return found != element if invert else found == element


def _lines(xp: Any, ar1: Any, ar2: Any, assume_unique: bool) -> tuple[Any, Any]:
    if assume_unique:
        return ar1.reshape(-1), ar2.reshape(-1)
    return xp.unique(ar1), xp.unique(ar2)


@program(cases=_pair({"return_indices": True}), same="equal")
def intersect1d(
    xp: Any, ar1: Array, ar2: Array, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The sorted values that both have; on request also where each has them first.

    >>> import infinitensor as it
    >>> it.intersect1d([1, 3, 4, 3], [3, 1, 2]).tolist()
    [1, 3]
    """
    first, second = _lines(xp, ar1, ar2, assume_unique)
    both = xp._concatenate([first, second], 0)
    if not return_indices:
        both = xp.sort(both)
        return xp._masked(both[:-1], both[1:] == both[:-1])
    order = xp.argsort(both)
    both = xp.take(both, order, 0)
    twice = both[1:] == both[:-1]
    values, i, j = (xp._masked(x, twice) for x in (both[:-1], order[:-1], order[1:]))
    j = j - first.shape[0]
    if not assume_unique:
        i, j = (
            xp.take(xp.unique(x, return_index=True)[1], at, 0) for x, at in ((ar1, i), (ar2, j))
        )
    return values, i, j


@program(cases=_pair(), same="equal")
def union1d(xp: Any, ar1: Array, ar2: Array) -> Any:
    """The sorted values that one or both have.

    >>> import infinitensor as it
    >>> it.union1d([1, 3], [3, 2]).tolist()
    [1, 2, 3]
    """
    return xp.unique(xp._concatenate([ar1.reshape(-1), ar2.reshape(-1)], 0))


@program(cases=_pair({"assume_unique": True}), same="equal")
def setdiff1d(xp: Any, ar1: Array, ar2: Array, assume_unique: bool = False) -> Any:
    """The sorted values of the first that the second has not; in their order if they are unique.

    >>> import infinitensor as it
    >>> it.setdiff1d([1, 3, 4], [3, 2]).tolist()
    [1, 4]
    """
    values = ar1.reshape(-1) if assume_unique else xp.unique(ar1)
    return xp._masked(values, xp.isin(values, ar2, invert=True))


@program(cases=_pair(), same="equal")
def setxor1d(xp: Any, ar1: Array, ar2: Array, assume_unique: bool = False) -> Any:
    """The sorted values that exactly one of them has.

    >>> import infinitensor as it
    >>> it.setxor1d([1, 3], [3, 2]).tolist()
    [1, 2]
    """
    both = xp.sort(xp._concatenate(list(_lines(xp, ar1, ar2, assume_unique)), 0))
    differs = both[1:] != both[:-1]
    end = xp.ones((min(both.shape[0], 1),), dtype=bool)
    before, after = xp._concatenate([end, differs], 0), xp._concatenate([differs, end], 0)
    return xp._masked(both, before & after)

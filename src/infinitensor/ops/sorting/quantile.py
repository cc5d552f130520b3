"""Quantiles: the values beside the wanted rank.

With all ranks known at the call nothing is sorted. Where NaN is left out each line has ranks of its
own, and is. `overwrite_input` is taken and changes nothing.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.dtypes import HALVES, float32, float64, kind_of, result_type, to_torch
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.torch_bridge import dtype_of
from infinitensor.ops.sorting.rank_select import of_ranks
from infinitensor.ops.table.checks import host_values_of
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Callable

    Axis = int | tuple[int, ...] | None


# --- lines ------------------------------------------------------------------------------------


def as_lines(xp: Any, a: Any, axis: Axis) -> tuple[Any, tuple[int, ...]]:
    """The axes to reduce as one last axis, and which they are."""
    ndim = len(a.shape)
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim, "axis")
    kept = [i for i in range(ndim) if i not in axes]
    if axes == (ndim - 1,):
        return a, axes
    moved = xp.permute_dims(a, (*kept, *sorted(axes)))
    shape = tuple(a.shape[i] for i in kept)
    return moved.reshape((*shape, prod(a.shape[i] for i in axes))), axes


def with_kept(result: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    """The result with the reduced axes as size 1, if they are to be kept."""
    if not keepdims:
        return result
    lead = len(result.shape) - (len(shape) - len(axes))
    ones = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return result.reshape((*result.shape[:lead], *ones))


def is_nan(xp: Any, a: Any) -> Any:
    """The mask of the NaNs; None for dtypes that have none."""
    return xp.isnan(a) if kind_of(a.dtype) in "fc" else None


# --- ranks ------------------------------------------------------------------------------------


def _between(alpha: float, beta: float) -> Callable[..., Any]:
    return lambda m, n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _step_up(shift: float, stays: Callable[..., Any]) -> Callable[..., Any]:
    """The rank above n * q - 1 - shift, unless `stays` says that it is the one below."""

    def rank(m: Any, n: Any, q: Any) -> Any:
        exact = n * q - 1 - shift
        low = m.floor(exact)
        return m.maximum(m.where(stays(exact - low, low), low, low + 1), 0)

    return rank


_RANKS: dict[str, Callable[..., Any]] = {
    "inverted_cdf": _step_up(0, lambda part, low: part == 0),
    "averaged_inverted_cdf": lambda m, n, q: n * q - 1,
    "closest_observation": _step_up(0.5, lambda part, low: (part == 0) & (low % 2 == 1)),
    "interpolated_inverted_cdf": _between(0, 1),
    "hazen": _between(0.5, 0.5),
    "weibull": _between(0, 0),
    "linear": lambda m, n, q: (n - 1) * q,
    "median_unbiased": _between(1 / 3, 1 / 3),
    "normal_unbiased": _between(3 / 8, 3 / 8),
    "lower": lambda m, n, q: m.floor((n - 1) * q),
    "higher": lambda m, n, q: m.ceil((n - 1) * q),
    "midpoint": lambda m, n, q: (m.floor((n - 1) * q) + m.ceil((n - 1) * q)) * 0.5,
    "nearest": lambda m, n, q: m.rint((n - 1) * q),
}
"""The rank of quantile q among n values, from 0 and possibly between two; `m` has functions."""
_DISCRETE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
_SHARES: dict[str, Callable[..., Any]] = {
    "averaged_inverted_cdf": lambda m, part: m.where(part == 0, 0.5, 1.0),
    "midpoint": lambda m, part: m.where(part == 0, 0.0, 0.5),
}
"""How much of the upper neighbour counts, where it is not the rank's fraction."""


def _neighbours(m: Any, method: str, n: Any, q: Any) -> tuple[Any, Any, Any]:
    """The ranks below and above quantile q of n values, and the share of the upper one."""
    rank = _RANKS[method](m, n, q)
    low = m.floor(rank)
    part = rank - low
    share = _SHARES[method](m, part).astype(part.dtype) if method in _SHARES else part
    last = n - 1
    below = m.clip(low, 0, m.maximum(last, 0)).astype(np.int64)
    above = m.where((rank < 0) | (rank >= last), below, below + 1)
    return below, above, share


def _lerp(xp: Any, low: Any, high: Any, share: Any, weak: bool) -> Any:
    """From low to high by a share; from the nearer end, so that both ends are met exactly.

    A weak share gives way to the dtype of values, but only where it multiplies them, as NumPy's.
    """
    is_nearer, rest, distance = share >= 0.5, 1 - share, high - low
    if isinstance(share, np.ndarray) and share.size == 1:  # known at the call: one side of it
        share, rest = (float(x[0]) if weak else x[0] for x in (share, rest))
        return high - distance * rest if is_nearer[0] else low + distance * share
    if weak:
        dtype = result_type(low.dtype, 0.0)
        share, rest = share.astype(dtype), rest.astype(dtype)
    return xp.where(is_nearer, high - distance * rest, low + distance * share)


# --- quantiles --------------------------------------------------------------------------------


def _shares(xp: Any, q: Any, percent: bool) -> Any:
    """The shares, from 0 to 1, that quantiles or percentiles are asked for."""
    q = host_values_of(xp, float(q) if isinstance(q, Fraction) else q)
    q = np.true_divide(q, 100) if percent else q
    if q.size and not (q.min() >= 0 and q.max() <= 1):
        raise ValueError(
            "Percentiles must be in the range [0, 100]"
            if percent
            else "Quantiles must be in the range [0, 1]"
        )
    if q.ndim > 2:
        raise ValueError("q must be a scalar or 1d")
    return q


def _enter(name: str, doc: str) -> None:
    """Enter a function of quantiles, whose name says if q is in percent and if NaN is left out."""
    percent, skip_nan = name.endswith("percentile"), name.startswith("nan")

    def rule(
        xp: Any,
        a: Any,
        q: Any,
        axis: Axis = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Any = None,
    ) -> Any:
        if a.dtype.kind == "c":
            raise TypeError(f"{name}: a must be an array of real numbers")
        weak, q = type(q) in (int, float), _shares(xp, q, percent)
        if method not in _RANKS:
            raise ValueError(f"{method!r} is not a valid method. Use one of: {list(_RANKS)}")
        if skip_nan and 0 in a.shape:
            return xp.nanmean(a, axis=axis, keepdims=keepdims)  # as NumPy, whatever q is
        lines, axes = as_lines(xp, a, axis)
        if not lines.shape[-1]:
            raise IndexError(f"{name}: axis {axis} of shape {tuple(a.shape)} has no values")
        if weights is None:
            found = _unweighted(xp, lines, q.reshape(-1), method, weak, skip_nan)
        elif method != "inverted_cdf":
            raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
        else:
            weights = as_lines(xp, shaped_weights(xp, weights, a, axis), axis)[0]
            found = _weighted_quantile(xp, lines, weights, q.reshape(-1), skip_nan)
        found, more = xp.moveaxis(found, -1, 0), q.shape and len(found.shape) > 1
        found = xp._copy(found) if more else found  # as it is shown: in C order
        return with_kept(found.reshape((*q.shape, *found.shape[1:])), a.shape, axes, keepdims)

    rule.__doc__ = doc
    cases = _quantile_cases(100 if percent else 1, holes=skip_nan)
    program("a weights", name=name, cases=cases, wide=True)(rule)


def _unweighted(xp: Any, lines: Any, q: Any, method: str, weak: bool, skip_nan: bool) -> Any:
    nans = is_nan(xp, lines) if skip_nan else None
    last = None
    if nans is None:
        n = lines.shape[-1]
        below, above, share = _neighbours(np, method, n, q)
        ranks = np.unique(np.concatenate([below, above, [n - 1]]))
        values = of_ranks(xp, lines, ranks.tolist())
        low, high = (_values_at(xp, values, np.searchsorted(ranks, i)) for i in (below, above))
        last = values[..., -1:]
    else:
        ordered = xp.sort(lines, axis=-1)
        n = xp.sum(~nans, axis=-1, keepdims=True)
        n = n.astype(q.dtype) if kind_of(q.dtype) == "f" else n
        below, above, share = _neighbours(xp, method, n, xp.asarray(q))
        low, high = (xp.take_along_axis(ordered, i, -1) for i in (below, above))
    if method in _DISCRETE or (method == "linear" and q.dtype.kind in "iub"):
        return _nan_where_last_is(xp, low, last)
    return _nan_where_last_is(xp, _lerp(xp, low, high, share, weak), last)


def _values_at(xp: Any, values: Any, places: Any) -> Any:
    """The values at some places of the last axis; one is seen where it is."""
    if len(places) != 1:
        return xp.take(values, places, axis=-1)
    at = int(places[0])
    return values[..., at : at + 1]


def _nan_where_last_is(xp: Any, found: Any, last: Any) -> Any:
    """NaN where the largest value of a line, which is what NaN counts as, is one."""
    nans = None if last is None else is_nan(xp, last)
    return found if nans is None else xp.where(nans, np.nan, found)


def shaped_weights(xp: Any, weights: Any, a: Any, axis: Axis) -> Any:
    """Weights in the shape of `a`: its own, or that of the axes in their order."""
    if tuple(weights.shape) == tuple(a.shape):
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = normalize_axis_tuple(axis, len(a.shape), "axis")
    if tuple(weights.shape) != tuple(a.shape[i] for i in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    ordered = xp.permute_dims(weights, tuple(np.argsort(axes).tolist()))
    shape = tuple(n if i in axes else 1 for i, n in enumerate(a.shape))
    return xp.broadcast_to(ordered.reshape(shape), tuple(a.shape))


def _weighted_quantile(xp: Any, lines: Any, weights: Any, q: Any, skip_nan: bool) -> Any:
    """The first value whose share of the weights up to it reaches q."""
    if skip_nan and kind_of(lines.dtype) == "f":
        weights = xp.where(xp.isnan(lines), 0, weights)
    order = xp.argsort(lines, axis=-1)
    ordered = xp.take_along_axis(lines, order, -1)
    upto = xp.cumsum(xp.take_along_axis(weights, order, -1), axis=-1, dtype=np.float64)
    upto = upto / upto[..., -1:]
    upto = xp._ensured(upto, weights >= 0, "ValueError", "Weights must be non-negative.")
    upto = xp._ensured(
        upto, ~xp.isnan(upto), "ValueError", "Weights included NaN, inf or were all zero."
    )
    if kind_of(q.dtype) == "f":
        upto = upto.astype(q.dtype)
    upto = xp.where(upto == 0, -1, upto)  # what has no weight is never the answer
    rank = xp.sum(upto.reshape((*upto.shape, 1)) < q, axis=-2)
    found = xp.take_along_axis(ordered, xp.minimum(rank, lines.shape[-1] - 1), -1)
    nans = None if skip_nan else is_nan(xp, lines)
    if nans is None:
        return found
    return xp.where(xp.any(nans, axis=-1, keepdims=True), found.dtype.type(np.nan), found)


_NAN = np.nan


def _quantile_cases(scale: int, holes: bool) -> Callable[[Any], list[Any]]:
    def cases(rng: Any) -> list[Any]:
        x = rng.normal(size=(3, 4, 5))
        some = np.where(rng.random(x.shape) < 0.3, _NAN, x) if holes else x
        gap = x.copy()
        gap[1, 2, 3] = _NAN
        q = np.array([0.0, 0.3, 0.5, 1.0]) * scale
        # NumPy's own functions that leave NaN out fail with weights of one axis.
        weights = rng.random((4, 5)) if holes else np.arange(1, 5)
        calls: list[Any] = [((some, 0.4 * scale), {"axis": 1, "method": name}) for name in _RANKS]
        return [
            *calls,
            ((some, q), {}),
            ((some, q), {"axis": (0, 2), "keepdims": True}),
            ((some, q.reshape(2, 2)), {"axis": -1}),
            ((gap, 0.25 * scale), {"axis": 2, "keepdims": True}),
            ((rng.integers(0, 9, 8), q), {}),
            ((rng.integers(0, 9, 8), scale), {"method": "nearest"}),
            ((some.astype(np.float32), 0.7 * scale), {"axis": 0}),
            ((some[0], q), {"axis": 0, "weights": weights, "method": "inverted_cdf"}),
            ((np.float64(3), 0.5 * scale), {}),
        ]

    return cases


_enter(
    "quantile",
    """The q-th quantiles of the values: a share q of them is below. By any of NumPy's methods.

    A pass for each line, or over a long line a few, each with a piece of the values' digits.

    >>> import infinitensor as it
    >>> it.quantile(it.arange(11.0), [0.25, 0.5]).tolist()
    [2.5, 5.0]
    """,
)
_enter(
    "percentile",
    """As `quantile`, with q in percent.

    >>> import infinitensor as it
    >>> it.percentile(it.arange(11.0), 25).item()
    2.5
    """,
)
_enter(
    "nanquantile",
    """As `quantile`, of the values that are not NaN; NaN where there is none.

    >>> import infinitensor as it
    >>> it.nanquantile(it.asarray([1.0, it.nan, 3.0]), 0.5).item()
    2.0
    """,
)
_enter(
    "nanpercentile",
    """As `nanquantile`, with q in percent.

    >>> import infinitensor as it
    >>> it.nanpercentile(it.asarray([1.0, it.nan, 3.0]), 50).item()
    2.0
    """,
)


# --- medians ----------------------------------------------------------------------------------


def _middle_kernel(xp: Any, values: Any, out: Any) -> None:
    low, high, last = values[..., 0], values[..., -2], values[..., -1]
    dtype = float32 if dtype_of(values) in HALVES else dtype_of(out)  # as a mean adds them up
    if xp is np:
        low, high = low.astype(dtype), high.astype(dtype)
    elif dtype == dtype_of(out):
        if values.shape[-1] == 2:
            out.copy_(low)
        else:
            xp.add(low, high, out=out).div_(2)
        out.masked_fill_(last != last, np.nan)
        return
    else:
        low, high = low.to(to_torch(dtype)), high.to(to_torch(dtype))
    made = low if values.shape[-1] == 2 else (low + high) / 2
    out[...] = xp.where(last != last, np.nan, made)


@op(
    "mapped",
    kernel=_middle_kernel,
    scratch_bytes=lambda ins, outs, params: 6 * 16 * outs[0].n_elements + 1024,
    cases=lambda rng: [
        ((np.sort(x, -1),), {})
        for x in (
            rng.normal(size=(4, 3)),
            rng.normal(size=(4, 5, 2)).astype(np.float32),
            np.where(rng.random((9, 3)) < 0.3, np.nan, rng.normal(size=(9, 3))),
            rng.integers(0, 9, (4, 3)),
            rng.normal(size=3).astype(np.float16) * 30000,
        )
    ],
    oracle=lambda values: np.where(
        values[..., -1] != values[..., -1], np.nan, values[..., :-1].mean(-1)
    ).astype(np.mean(values[..., :-1], -1).dtype),
)
def _middle(values: Spec) -> Call:
    """The mean of one or two values in the middle of a line; NaN where its last value, which comes
    behind them, is NaN."""
    kept = tuple(range(values.ndim - 1))
    dtype = float64 if values.dtype.kind in "biu" else values.dtype
    along = values.ndim - 1
    form = AxisForm(values.shape, ((*kept, along),), (kept,), frozenset((along,)))
    return call(form, Spec(values.shape[:-1], dtype))


def _median_cases(rng: Any) -> list[Any]:
    x = rng.normal(size=(3, 4, 5))
    holes = np.where(rng.random(x.shape) < 0.3, _NAN, x)
    return [
        ((x,), {}),
        ((x, 1), {}),
        ((holes, 2), {"keepdims": True}),
        ((holes, (0, 1)), {}),
        ((np.where(x[0] > 0, _NAN, _NAN), 0), {}),
        ((x.astype(np.float16), 0), {}),
        ((rng.integers(0, 9, (4, 5)), 0), {}),
        ((x > 0, -1), {}),
        ((np.float32(2),), {}),
        ((np.zeros((3, 0)), 1), {}),
    ]


@program(cases=_median_cases, wide=True)
def median(
    xp: Any, a: Array, axis: Axis = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The middle value, or the mean of the two in the middle; NaN where there is a NaN.

    >>> import infinitensor as it
    >>> it.median(it.asarray([[3, 1, 2], [9, 7, 8]]), axis=1).tolist()
    [2.0, 8.0]
    """
    lines, axes = as_lines(xp, a, axis)
    n = lines.shape[-1]
    if not n:
        return with_kept(xp.mean(lines, axis=-1), a.shape, axes, keepdims)
    found = xp._middle(of_ranks(xp, lines, [*range((n - 1) // 2, n // 2 + 1), n - 1]))
    return with_kept(found, a.shape, axes, keepdims)


@program(cases=_median_cases, wide=True)
def nanmedian(
    xp: Any, a: Array, axis: Axis = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The median of the values that are not NaN; NaN where there is none.

    >>> import infinitensor as it
    >>> it.nanmedian(it.asarray([1.0, it.nan, 3.0, 5.0])).item()
    3.0
    """
    nans = is_nan(xp, a)
    if nans is None or not prod(a.shape):
        return xp.median(a, axis=axis, keepdims=keepdims)
    lines, axes = as_lines(xp, a, axis)
    ordered = xp.sort(lines, axis=-1)
    n = xp.sum(~xp.isnan(lines), axis=-1, keepdims=True)
    low, high = (xp.take_along_axis(ordered, i, -1) for i in ((n - 1) // 2, n // 2))
    # The mean of one value twice could overflow; without a value index -1 finds a NaN.
    pair = xp.mean(xp._concatenate([low, high], -1), axis=-1)
    return with_kept(xp.where(n[..., 0] % 2 == 1, low[..., 0], pair), a.shape, axes, keepdims)

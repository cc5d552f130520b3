"""Histograms: how many values are in each bin.

A value's bin is found in the sorted edges; counts of tiles are added up. The edges are few and are
known at the call: where they come from the data its smallest and largest value are computed now.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64, result_type
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.reduction import plain_combine
from infinitensor.ops.reduce.counts import (
    COUNTED_AT_ONCE,
    FLOAT,
    count_kernel,
    count_numpy,
    counts,
    ends_of,
    n_hands,
    real_weights,
    sharing,
)
from infinitensor.ops.reduce.histogram_triton import count_bins
from infinitensor.ops.table.checks import host_values_of, is_on_host
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Edges = np.ndarray[Any, Any]

# --- bins -------------------------------------------------------------------------------------


def bin_kernel(xp: Any, x: Any, edges: Any, axes: Any, n_threads: int = 1) -> tuple[Any]:
    """Counts of a tile in bins of one width; the last bin has its right edge too."""
    n = edges.shape[0] - 1
    count = loop("histogram", "count_bins", x.dtype) if xp is np else None
    if count is not None:
        number, lines = np.zeros(n, int64), np.ascontiguousarray(x)
        if count(lines, x.size, np.ascontiguousarray(edges), n, n_hands(n_threads), number):
            return (number,)
    if xp is np:
        number = np.zeros(n, int64)
        for lo in range(0, len(x), COUNTED_AT_ONCE):
            part = x[lo : lo + COUNTED_AT_ONCE]
            found = np.searchsorted(edges, part, "right") - 1
            number += count_numpy(np.where(part == edges[-1], n - 1, found), n)
        return (number,)
    number = count_bins(x, edges)
    if number is not None:
        return (number,)
    x = x.to(edges.dtype)
    found = xp.searchsorted(edges.contiguous(), x.contiguous(), right=True) - 1
    found = xp.where(x == edges[-1], n - 1, found)
    return count_kernel(xp, found, axes=axes, n=n)


def _bin_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    x, edges = ins
    n_threads = int(params.get("n_threads", 1))
    some = min(x.n_elements, COUNTED_AT_ONCE) if n_threads > 1 else x.n_elements
    own = x.n_bytes * (n_threads > 1) + 16 * n_threads * edges.n_elements
    return own + 80 * some + 40 * edges.n_elements + (1 << 19)


@op(
    "reduction",
    kernel=bin_kernel,
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
        first, last = ends_of(xp, a)
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
    width = float(_WIDTHS[rule](xp, a, _spread(*ends_of(xp, a)), span))
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
        number = xp._count_bins(a, wide, **sharing(xp, a, n))
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
        weights = real_weights("histogramdd", weights)
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

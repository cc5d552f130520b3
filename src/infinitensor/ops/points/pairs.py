"""All pairs of two sets of points, reduced where they are made: never an array of all distances.

Each op is an extended einsum over points x points, "jd,id->i...", with a combine for the points of
y, which come first. Both sets are cut, so that tiles, devices, budgets and files are those of every
other op. Distances are squared, of float64 differences, added feature by feature: the bits that
scikit-learn's trees have. Points should come in an order in which neighbours are close together
(`neighbour_order`); any order gives the same result.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float32, float64, int64
from infinitensor.ir.op import AxisForm, Call, Combine, Spec
from infinitensor.native import missed
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.gather import gather_form, is_empty
from infinitensor.ops.linalg.csr_matmul import Rows
from infinitensor.ops.points import pairs_cuda, pairs_numpy
from infinitensor.ops.points.pairs_c import (
    FEW_FEATURES,
    Search,
    is_compiled,
    rows64,
    rows_at_once,
    scratch_of,
)
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.op import At

Array = Any

PIVOTS = 64
"""Points around which others are put together, where there are many features."""
NO_LABEL = np.iinfo(np.int64).max
"""The number for no label, above all of them."""
NO_END = 2**62
"""The number for no end of an edge."""


def neighbour_order(x: Array) -> Array:
    """An order of the rows of x in which near ones are close together, in leaves of a kd-tree.

    >>> order = neighbour_order(np.array([[0.0], [9.0]] * 40))
    >>> sorted({int(place) % 2 for place in order[:32]})  # places of the zeros are even
    [0]
    """
    order = np.arange(len(x))
    by_halves = loop("pairs", "kd_order")
    if by_halves is not None and x.size and np.isfinite(x).all():
        x = rows64(x)
        n, d = x.shape
        n_pivots = min(n // 256, PIVOTS) if d > FEW_FEATURES else 0
        if by_halves(x, n, d, n_pivots, order) < 0:
            raise MemoryError(f"no memory for the order of {n} points")
    return order


# --- forms ------------------------------------------------------------------------------------

_J, _I, _D, _K = 0, 1, 2, 3


def _points(name: str, y: Spec, x: Spec) -> None:
    if y.ndim != 2 or x.ndim != 2 or y.shape[1] != x.shape[1]:
        raise ValueError(f"{name}: points of shapes {x.shape} and {y.shape} have no distances")


def _form(
    y: Spec, x: Spec, of_y: int, of_x: int, out: Sequence[tuple[int, ...]], k: int = 0
) -> Any:
    """Labels: points of y, points of x, features, and what only the output has."""
    sizes = (y.shape[0], x.shape[0], x.shape[1], *((k,) if k else ()))
    inputs = ((_J, _D), *((_J,),) * of_y, (_I, _D), *((_I,),) * of_x)
    return AxisForm(sizes, inputs, tuple(out), frozenset({_D, _K} if k else {_D}))


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Bytes that a search allocates, where tiles have to be copied first."""
    return _plain_scratch(ins, outs, params) + _copies(ins, always=True)


def _plain_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Bytes that a search in C allocates, where tiles are read in place."""
    points = [spec for spec in ins if spec.ndim == 2]
    made = sum(spec.n_bytes for spec in outs)
    return _tree_bytes(points) + _copies(ins) + made + made // 4


def _numpy_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Bytes that a search over NumPy's functions allocates: its operands in float64, and blocks."""
    points = [spec for spec in ins if spec.ndim == 2]
    m, n = points[0].shape[0], points[1].shape[0]
    blocks = 96 * min(max(n * m, 1), pairs_numpy.BLOCK["cpu"] + m)
    copies = 2 * sum(8 * spec.n_elements for spec in ins)
    return _tree_bytes(points) + blocks + copies + 3 * sum(spec.n_bytes for spec in outs)


def _tree_bytes(points: Sequence[Spec]) -> int:
    """The tree of y, and a list of the rows of x."""
    (m, d), n = points[0].shape, points[1].shape[0]
    return scratch_of(m, d, any(spec.dtype == float32 for spec in points)) + 16 * n


def _copies(ins: Sequence[Spec], always: bool = False) -> int:
    """Copies in float64 for C: none of points in float32, and of x only some rows."""
    _, x = (spec for spec in ins if spec.ndim == 2)
    total = 0
    for spec in ins:
        is_read = spec.dtype in (float64, float32) if spec.ndim == 2 else spec.dtype.itemsize == 8
        if always or not is_read:
            n = min(spec.shape[0], rows_at_once(spec.shape[1])) if spec is x else spec.shape[0]
            total += 8 * n * prod(spec.shape[1:])
    return total


def _cuda_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    points = [spec for spec in ins if spec.ndim == 2]
    (m, d), n = points[0].shape, points[1].shape[0]
    words = 96 * min(max(n * m, 1), pairs_numpy.BLOCK["cuda"]) + 8 * (n + m) * d
    kernels = pairs_cuda.scratch_of(n, m, d, params.get("k", 0))
    state = sum(8 * spec.n_bytes for spec in outs) + sum(2 * spec.n_bytes for spec in ins)
    return max(words, kernels) + state + (1 << 20)


def pair_op(kernel: Callable[..., Any], combine: Combine, **entry: Any) -> Callable[..., Any]:
    """An op over pairs: its tiles are bound by the points, not by the pairs.

    The kernel goes on from `before`, the results among other points of y, where it runs in C.
    """

    def going_on(
        xp: Any, *tiles: Array, before: tuple[Array, ...] | None = None, **named: Any
    ) -> Any:
        if before is None or in_c(xp):
            return kernel(xp, *tiles, before=before, **named)
        return combine.merge(xp, before, kernel(xp, *tiles, before=None, **named))

    return op(
        "reduction",
        kernel=going_on,
        combine=combine,
        pairs=True,
        scratch_bytes=_scratch,
        plain_scratch=_plain_scratch,
        scratches={"cuda": _cuda_scratch, "numpy": _numpy_scratch},
        same="equal",
        **entry,
    )


def in_c(xp: Any) -> bool:
    """Whether a search runs over C here."""
    return xp is np and is_compiled()


def _state(before: tuple[Array, ...] | None, *fresh: Array) -> tuple[Array, ...]:
    """Arrays that a search starts from: the results so far, which it may not write to, or none."""
    if before is None:
        return fresh
    for start, found in zip(fresh, before, strict=True):
        start[...] = found
    return fresh


def on_gpu(xp: Any, x: Array, y: Array, k: int = 0) -> pairs_cuda.Pairs | None:
    """The pairs for kernels on a GPU; None where a search runs in words, which is counted there."""
    if xp is np:
        return None
    made = pairs_cuda.searches(xp, x, y) if k <= pairs_cuda.MOST_NEAREST else None
    missed[0] += made is None and len(x) > 0 and len(y) > 0
    return made


# --- how many are near ------------------------------------------------------------------------


def _count(
    xp: Any, y: Array, weight: Array, x: Array, axes: Any, limit: float, enough: float, before: Any
) -> tuple[Array, ...]:
    if not in_c(xp):
        y, x = pairs_numpy.as_float64(xp, y), pairs_numpy.as_float64(xp, x)
        return (pairs_numpy.count_within(xp, x, y, weight, limit),)
    (total,) = _state(before, np.zeros(len(x)))
    Search("count", x, y, limit, weight=rows64(weight), sum=total, enough=enough).run()
    return (total,)


def _count_plain(
    xp: Any, y: Array, x: Array, axes: Any, limit: float, enough: float, before: Any
) -> tuple[Array, ...]:
    if not in_c(xp):
        pairs = on_gpu(xp, x, y)
        if pairs is not None:
            return (pairs.count(limit, enough),)
        y, x = pairs_numpy.as_float64(xp, y), pairs_numpy.as_float64(xp, x)
        return (pairs_numpy.count_within(xp, x, y, None, limit),)
    (total,) = _state(before, np.zeros(len(x)))
    Search("count", x, y, limit, sum=total, enough=enough).run()
    return (total,)


_SUM = Combine("sum", lambda xp, a, b: (a[0] + b[0],), exact=True)


def _some_points(rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Pairs of sets: low and high dimension, ties, one that is empty, float32."""
    grid = rng.integers(0, 3, (23, 2)).astype(float)
    wide = rng.normal(size=(21, 9))
    return [
        (grid, grid),
        (wide, wide[:17] + 0.5),
        (rng.normal(size=(19, 3)).astype(np.float32), rng.normal(size=(5, 3))),
        (np.zeros((0, 2)), grid),
        (grid, np.zeros((0, 2))),
    ]


def exact(x: Array, y: Array) -> Array:
    """All squared distances, for tests."""
    return pairs_numpy.squared_distances(np, as64(x), as64(y))


def as64(x: Array) -> Array:
    """Rows in float64."""
    return np.asarray(x, np.float64)


@pair_op(
    kernel=_count,
    combine=_SUM,
    cases=lambda rng: [((y, np.arange(len(y)) / 4, x, 2.0), {}) for y, x in _some_points(rng)],
    oracle=lambda y, weight, x, limit: (exact(x, y) <= limit) @ np.asarray(weight, float),
)
def _pairs_weigh(y: Spec, weight: Spec, x: Spec, limit: float) -> Call:
    """The weight of the points of y within a squared radius of each point of x."""
    _points("_pairs_weigh", y, x)
    out = Spec((x.shape[0],), float64)
    params = (("limit", float(limit)), ("enough", float("inf")))
    return Call(_form(y, x, 1, 0, [(_I,)]), (out,), params)


@pair_op(
    kernel=_count_plain,
    combine=_SUM,
    cases=lambda rng: [((y, x, 2.0), {}) for y, x in _some_points(rng)],
    oracle=lambda y, x, limit: (exact(x, y) <= limit).sum(1).astype(float),
)
def _pairs_count(y: Spec, x: Spec, limit: float, enough: float = float("inf")) -> Call:
    """How many points of y are within a squared radius of each point of x, as a float.

    Where there are `enough` the number may be any that is at least that.
    """
    _points("_pairs_count", y, x)
    out = Spec((x.shape[0],), float64)
    params = (("limit", float(limit)), ("enough", float(enough)))
    return Call(_form(y, x, 0, 0, [(_I,)]), (out,), params)


# --- the nearest ------------------------------------------------------------------------------


def _top(
    xp: Any, y: Array, yid: Array, x: Array, axes: Any, k: int, before: Any
) -> tuple[Array, Array]:
    if not in_c(xp):
        pairs = on_gpu(xp, x, y, k)
        if pairs is not None:
            return pairs.nearest(yid, k)
        y, x = pairs_numpy.as_float64(xp, y), pairs_numpy.as_float64(xp, x)
        return pairs_numpy.nearest(xp, x, y, yid, k)
    n = len(x)
    far, who, held = np.empty((n, k)), np.empty((n, k), np.int64), np.zeros(n, np.int64)
    if before is not None:
        _as_heaps(before, far, who, held)
    numbers = np.ascontiguousarray(yid, np.int64)
    Search("top", x, y, yid=numbers, k=k, far=far, who=who, held=held).run()
    sort = loop("pairs", "in_order")
    assert sort is not None
    sort(far, who, held, n, k)
    return far, who


def _as_heaps(found: tuple[Array, ...], far: Array, who: Array, held: Array) -> None:
    """Sorted lists of the nearest as the heaps of a search: the farthest first."""
    apart, number = found
    far[...], who[...] = apart[:, ::-1], number[:, ::-1]
    held[...] = (number >= 0).sum(1)
    for row in np.flatnonzero(held < far.shape[1]):  # what is missing stands last in both
        n = held[row]
        far[row, :n], who[row, :n] = apart[row, :n][::-1], number[row, :n][::-1]


def _merge_top(xp: Any, a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, Array]:
    k = a[0].shape[1]
    merge = loop("pairs", "merge_top") if xp is np else None
    if merge is None:
        return pairs_numpy.merge_nearest(xp, (a[0], a[1]), (b[0], b[1]), k)
    parts = [np.ascontiguousarray(part) for part in (*a, *b)]
    far, who = np.empty(a[0].shape), np.empty(a[0].shape, np.int64)
    merge(*parts, len(far), k, far, who)
    return far, who


def _top_oracle(y: Array, yid: Array, x: Array, k: int) -> tuple[Array, Array]:
    apart = exact(x, y)
    order = np.lexsort((np.broadcast_to(yid, apart.shape), apart), axis=1)[:, :k]
    far = np.full((len(x), k), np.inf)
    who = np.full((len(x), k), -1)
    far[:, : order.shape[1]] = np.take_along_axis(apart, order, 1)
    who[:, : order.shape[1]] = np.asarray(yid)[order]
    return far, who


@pair_op(
    kernel=_top,
    combine=Combine("top", _merge_top, exact=True),
    cases=lambda rng: [
        ((y, np.arange(len(y))[::-1] * 2, x, k), {}) for y, x in _some_points(rng) for k in (1, 5)
    ],
    oracle=_top_oracle,
)
def _pairs_top(y: Spec, yid: Spec, x: Spec, k: int) -> Call:
    """The k points of y nearest to each point of x: squared distances, and their numbers.

    Sorted by (distance, number). Where y has fewer: infinity, and -1.
    """
    _points("_pairs_top", y, x)
    shape = (x.shape[0], int(k))
    outs = (Spec(shape, float64), Spec(shape, int64))
    return Call(_form(y, x, 1, 0, [(_I, _K)] * 2, int(k)), outs, (("k", int(k)),))


# --- what hangs together ----------------------------------------------------------------------


def _unite(
    xp: Any,
    y: Array,
    yid: Array,
    x: Array,
    xid: Array,
    axes: Any,
    limit: float,
    n: int,
    own: bool,
    before: Any,
) -> tuple[Array, ...]:
    if not in_c(xp):
        pairs = on_gpu(xp, x, y)
        if pairs is not None:
            return (pairs.united(xid, yid, limit, n),)
        y, x = pairs_numpy.as_float64(xp, y), pairs_numpy.as_float64(xp, x)
        every = np.arange(n) if xp is np else xp.arange(n, device=x.device)
        return (pairs_numpy.united(xp, x, xid, y, yid, limit, every),)
    (parent,) = _state(before, np.arange(n))
    numbers = {"xid": np.ascontiguousarray(xid), "yid": np.ascontiguousarray(yid)}
    Search("unite", x, y, limit, parent=parent, own=int(own), **numbers).run()
    flatten = loop("pairs", "flatten")
    assert flatten is not None
    flatten(parent, n)
    return (parent,)


def _merge_forests(xp: Any, a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array]:
    join = loop("pairs", "join_forests") if xp is np else None
    if join is None:
        every = np.arange(len(a[0])) if xp is np else xp.arange(len(a[0]), device=a[0].device)
        parent = pairs_numpy.pointed(xp, a[0] + 0)
        return (pairs_numpy.pointed(xp, pairs_numpy.hooked(xp, parent, every, b[0])),)
    parent = np.array(a[0])
    join(parent, np.ascontiguousarray(b[0]), len(parent))
    flatten = loop("pairs", "flatten")
    assert flatten is not None
    flatten(parent, len(parent))
    return (parent,)


def _components(y: Array, yid: Array, x: Array, xid: Array, limit: float, n: int, own: bool) -> Any:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    nodes = (np.asarray(xid) >= 0)[:, None] & (np.asarray(yid) >= 0)
    a, b = np.nonzero((exact(x, y) <= limit) & nodes)
    graph = coo_array((np.ones(len(a)), (xid[a], yid[b])), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    first = np.full(n, n)
    np.minimum.at(first, label, np.arange(n))
    return first[label]


@pair_op(
    kernel=_unite,
    combine=Combine("forest", _merge_forests, exact=True),
    cases=lambda rng: (
        [
            ((y, np.arange(len(y)), y, np.arange(len(y)), limit, len(y), own), {})
            for y, _ in _some_points(rng)
            if len(y)
            for limit, own in ((0.6, True), (1.0, False))
        ]
        + [
            ((y, n, y, n, 1.0, len(y), False), {})
            for y in [x for x, _ in _some_points(rng)][:2]
            for n in [np.where(np.arange(len(y)) % 3, np.arange(len(y)), -1)]
        ]
    ),
    oracle=_components,
)
def _pairs_unite(y: Spec, yid: Spec, x: Spec, xid: Spec, limit: float, n: int, own: bool) -> Call:
    """Components of n nodes: an edge for each pair within a squared radius. Of each its smallest.

    A point with a number below 0 is no node. `own` says that x is y, with rising numbers: then each
    pair is looked at once.
    """
    _points("_pairs_unite", y, x)
    params = (("limit", float(limit)), ("n", int(n)), ("own", bool(own)))
    return Call(_form(y, x, 1, 1, [(_K,)], int(n)), (Spec((int(n),), int64),), params)


# --- the smallest label near ------------------------------------------------------------------


def _least(
    xp: Any, y: Array, label: Array, x: Array, axes: Any, limit: float, before: Any
) -> tuple[Array, ...]:
    if not in_c(xp):
        pairs = on_gpu(xp, x, y)
        if pairs is not None:
            return (pairs.least_label(label, limit, NO_LABEL),)
        y, x = pairs_numpy.as_float64(xp, y), pairs_numpy.as_float64(xp, x)
        return (pairs_numpy.least_label(xp, x, y, label, limit, NO_LABEL),)
    (least,) = _state(before, np.full(len(x), NO_LABEL))
    labels = np.ascontiguousarray(label, np.int64)
    Search("least", x, y, limit, label=labels, least=least).run()
    return (least,)


def _least_oracle(y: Array, label: Array, x: Array, limit: float) -> Array:
    near = np.where(exact(x, y) <= limit, label, NO_LABEL)
    return np.minimum(near.min(1, initial=NO_LABEL), NO_LABEL)


@pair_op(
    kernel=_least,
    combine=Combine("min", lambda xp, a, b: (xp.minimum(a[0], b[0]),), exact=True),
    cases=lambda rng: [
        ((y, np.arange(len(y))[::-1] % 7, x, 1.0), {}) for y, x in _some_points(rng)
    ],
    oracle=_least_oracle,
)
def _pairs_least(y: Spec, label: Spec, x: Spec, limit: float) -> Call:
    """The smallest label of the points of y within a squared radius; NO_LABEL where none is."""
    _points("_pairs_least", y, x)
    out = Spec((x.shape[0],), int64)
    return Call(_form(y, x, 1, 0, [(_I,)]), (out,), (("limit", float(limit)),))


# --- the lightest edge of each group ----------------------------------------------------------


def _edge(
    xp: Any,
    y: Array,
    yid: Array,
    ygroup: Array,
    ycore: Array,
    x: Array,
    xid: Array,
    xgroup: Array,
    xcore: Array,
    axes: Any,
    n_groups: int,
    before: Any,
) -> tuple[Array, ...]:
    if not in_c(xp):
        ends = (xid, xgroup, xcore), (yid, ygroup, ycore)
        pairs = on_gpu(xp, x, y)
        if pairs is not None:
            return pairs.lightest(*ends, n_groups)
        y, x = pairs_numpy.as_float64(xp, y), pairs_numpy.as_float64(xp, x)
        return pairs_numpy.lightest_edges(xp, x, y, *ends, n_groups)
    no_ends = np.full(n_groups, NO_END), np.full(n_groups, NO_END)
    weigh, lo, hi = _state(before, np.full(n_groups, np.inf), *no_ends)
    whole = {"xid": xid, "yid": yid, "xgroup": xgroup, "ygroup": ygroup}
    state: dict[str, Any] = {
        name: np.ascontiguousarray(value, np.int64) for name, value in whole.items()
    }
    state |= {"xcore": rows64(xcore), "ycore": rows64(ycore)}
    Search("edge", x, y, weigh=weigh, from_=lo, to=hi, **state).run()
    return weigh, lo, hi


def _merge_edges(xp: Any, a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    (wa, la, ha), (wb, lb, hb) = a, b
    tied = (wa == wb) & ((lb < la) | ((lb == la) & (hb < ha)))
    second = (wb < wa) | tied
    return tuple(xp.where(second, q, p) for p, q in zip(a, b, strict=True))


def _edge_oracle(*args: Any) -> tuple[Array, ...]:
    y, yid, ygroup, ycore, x, xid, xgroup, xcore, n_groups = args
    ends_x, ends_y = (xid, xgroup, xcore), (yid, ygroup, ycore)
    return pairs_numpy.lightest_edges(np, as64(x), as64(y), ends_x, ends_y, n_groups)


def _edge_cases(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for y, _ in _some_points(rng):
        n = len(y)
        points = (y, np.arange(n), np.arange(n) % 3, rng.integers(0, 3, n) / 2)
        found.append(((*points, *points, 3), {}))
    return found


@pair_op(
    kernel=_edge,
    combine=Combine("lightest", _merge_edges, exact=True),
    cases=_edge_cases,
    oracle=_edge_oracle,
)
def _pairs_edge(
    y: Spec,
    yid: Spec,
    ygroup: Spec,
    ycore: Spec,
    x: Spec,
    xid: Spec,
    xgroup: Spec,
    xcore: Spec,
    n_groups: int,
) -> Call:
    """Of each group of points its lightest edge to a point of another group.

    The weight of a pair is the largest of its squared distance and the two core values. The result
    is the weight, the smaller and the larger number of the ends; ties go to smaller ends.
    """
    _points("_pairs_edge", y, x)
    outs = (Spec((n_groups,), float64), Spec((n_groups,), int64), Spec((n_groups,), int64))
    form = _form(y, x, 3, 3, [(_K,)] * 3, int(n_groups))
    return Call(form, outs, (("n_groups", int(n_groups)),))


# --- all that are near, once they are counted -------------------------------------------------


def _found_need(box: Any, specs: Sequence[Spec], *, rows: Rows, **_: Any) -> tuple[Any, ...]:
    lo, hi = _rows_of(box, rows)
    whole = (0, specs[0].shape[0])
    features = (0, specs[0].shape[1])
    return (whole, features), (whole,), ((lo, hi), features)


def _rows_of(box: Any, rows: Rows) -> tuple[int, int]:
    """The rows whose entries are in a box of entries."""
    ((first, end),) = box
    if first >= end:
        return 0, 0
    lo, hi = np.searchsorted(rows.starts, first, "right"), np.searchsorted(rows.starts, end, "left")
    return int(lo) - 1, int(hi)


def _find_pairs(
    xp: Any,
    y: Array,
    yid: Array,
    x: Array,
    out: tuple[Array, Array],
    at: At,
    limit: float,
    rows: Rows,
    nearest_first: bool,
) -> None:
    if is_empty(at.outputs[0]):
        return
    first, end = at.outputs[0][0]
    lo, hi = _rows_of(at.outputs[0], rows)
    starts = rows.within(lo, hi)
    if in_c(xp):
        number, apart = _found_in_c(y, yid, x, limit, starts, nearest_first)
    else:
        y, x = pairs_numpy.as_float64(xp, y), pairs_numpy.as_float64(xp, x)
        number, apart = pairs_numpy.found_within(xp, x, y, yid, limit, nearest_first)
    skip = first - int(rows.starts[lo])
    out[0][...] = number[skip : skip + end - first]
    out[1][...] = apart[skip : skip + end - first]


def _found_in_c(
    y: Array, yid: Array, x: Array, limit: float, starts: Array, nearest_first: bool
) -> tuple[Array, Array]:
    n = int(starts[-1])
    number, apart, place = np.empty(n, np.int64), np.empty(n), starts[:-1].copy()
    numbers = np.ascontiguousarray(yid, np.int64)
    Search("fill", x, y, limit, yid=numbers, place=place, found=number, apart=apart).run()
    sort = loop("pairs", "sort_found")
    assert sort is not None
    if sort(starts, len(starts) - 1, int(nearest_first), number, apart) < 0:
        raise MemoryError("no memory to sort a row of neighbours")
    return number, apart


def _found_scratch(
    ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any], search: Any = _scratch
) -> int:
    rows: Rows = params["rows"]
    longest = int(np.diff(rows.starts).max(initial=0))
    found = 48 * (outs[0].n_elements + 2 * longest) + 8 * rows.n_rows
    return int(search(ins, outs, params)) + found


def _found_cases(rng: np.random.Generator) -> list[Any]:
    cases: list[Any] = []
    for y, x in _some_points(rng):
        counts = (exact(x, y) <= 1.0).sum(1)
        starts = np.concatenate(([0], np.cumsum(counts)))
        for nearest_first in (False, True):
            number = np.arange(len(y))
            cases.append(((y, number, x, 1.0, Rows(starts, len(y)), nearest_first), {}))
    return cases


def _found_oracle(
    y: Array, yid: Array, x: Array, limit: float, rows: Rows, nearest_first: bool
) -> tuple[Array, Array]:
    squares = exact(x, y)
    row, column = np.nonzero(squares <= limit)
    number, apart = np.asarray(yid)[column], squares[row, column]
    order = np.lexsort((number, apart, row) if nearest_first else (number, row))
    return number[order], apart[order]


@op(
    "gather",
    kernel=_find_pairs,
    need=_found_need,
    scratch_bytes=_found_scratch,
    scratches={"cuda": _cuda_scratch, "numpy": partial(_found_scratch, search=_numpy_scratch)},
    cases=_found_cases,
    oracle=_found_oracle,
)
def _pairs_found(
    y: Spec, yid: Spec, x: Spec, limit: float, rows: Rows, nearest_first: bool = False
) -> Call:
    """Numbers and squared distances of the points of y within a squared radius, row after row of x.

    `rows` says where each row starts: they were counted before. In a row they are sorted by number,
    or by (distance, number).
    """
    _points("_pairs_found", y, x)
    n = int(rows.starts[-1])
    params = (("limit", float(limit)), ("rows", rows), ("nearest_first", bool(nearest_first)))
    form = gather_form((y, yid, x), (n,), 2)
    return Call(form, (Spec((n,), int64), Spec((n,), float64)), params)

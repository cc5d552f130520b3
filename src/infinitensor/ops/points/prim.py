"""Prim's tree over points: a loop op, one task over points in one tile.

The weight of a pair is the largest of its distance / alpha and both core distances (mutual
reachability). Ties go to the smaller number, as in scikit-learn's HDBSCAN.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float64, int64
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.points.pairs_c import rows64
from infinitensor.ops.points.pairs_numpy import squared_distances
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = Any
Edges = tuple[Array, Array, Array]


def _kernel(
    xp: Any, x: Array, core: Array, number: Array, out: Edges, alpha: float, previous: bool
) -> None:
    if xp is np:
        found = tree_of(x, core, number, alpha, previous)
    else:  # a step is too little work for a GPU
        rows, cores, numbers = (one.cpu().numpy() for one in (x, core, number))
        edges = tree_of(rows, cores, numbers, alpha, previous)
        found = (xp.as_tensor(edges[0]), xp.as_tensor(edges[1]), xp.as_tensor(edges[2]))
    for target, values in zip(out, found, strict=True):
        target[...] = values


def tree_of(x: Array, core: Array, number: Array, alpha: float, previous: bool) -> Edges:
    """The edges in the order they are found: from, to, weight."""
    x, core, number = rows64(x), rows64(core), np.ascontiguousarray(number, np.int64)
    n = len(x)
    edges = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1)
    start = int(np.argmin(number))
    grow = loop("prim", "prim")
    if grow is None:

        def apart(i: int) -> Array:
            return np.sqrt(squared_distances(np, x[i : i + 1], x)[0]) / alpha

        by_number = np.argsort(number)
        found = tree_of_rows(lambda i: apart(by_number[i])[by_number], core[by_number], previous)
        return number[by_number][found[0]], number[by_number][found[1]], found[2]
    given = (x, n, x.shape[1], core, number, start, float(alpha), int(previous))
    if grow(*given, *edges) < 0:
        raise MemoryError(f"no memory for the tree of {n} points")
    return edges


def tree_of_rows(row: Callable[[int], Array], core: Array, previous: bool) -> Edges:
    """The same from rows of distances: `row(i)` are those of point i to all."""
    n = len(core)
    edges = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1)
    weight, source = np.full(n, np.inf), np.zeros(n, np.int64)
    in_tree = np.zeros(n, np.uint8)
    take = loop("prim", "prim_row")
    now = 0
    for step in range(n - 1):
        in_tree[now] = 1
        apart = np.ascontiguousarray(row(now), float)
        best = _row_taken if take is None else take
        after = best(apart, n, now, core, in_tree, weight, source)
        edges[0][step], edges[1][step] = now if previous else source[after], after
        edges[2][step] = weight[after]
        now = after
    return edges


def tree_of_graph(n: int, a: Array, b: Array, weight: Array) -> Edges:
    """Prim's tree of a connected graph of undirected edges, from node 0: from, to, weight."""
    starts, ends, weights = _adjacent(n, a, b, weight)
    edges = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1)
    grow = loop("prim", "sparse_prim")
    if grow is not None:
        found = grow(starts, ends, weights, n, *edges)
        if found < 0:
            raise MemoryError(f"no memory for the tree of {n} nodes")
    else:
        found = _grow_tree(starts, ends, weights, n, edges)
    assert found == n - 1, "the graph is not connected"
    return edges


def _adjacent(n: int, a: Array, b: Array, weight: Array) -> tuple[Array, Array, Array]:
    """The edges of each node: where they start, their other ends, their weights."""
    sort = loop("prim", "adjacent")
    if sort is None:
        row, column = np.concatenate((a, b)), np.concatenate((b, a))
        order = np.argsort(row, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=n))))
        return starts, column[order], np.concatenate((weight, weight))[order]
    a, b = np.ascontiguousarray(a, np.int64), np.ascontiguousarray(b, np.int64)
    m = len(a)
    made = np.zeros(n + 1, np.int64), np.empty(2 * m, np.int64), np.empty(2 * m)
    sort(a, b, rows64(weight), m, n, *made)
    return made


def _grow_tree(starts: Array, ends: Array, weights: Array, n: int, edges: Edges) -> int:
    least, source, in_tree = np.full(n, np.inf), np.zeros(n, np.int64), np.zeros(n, bool)
    heap: list[tuple[float, int]] = []
    now = 0
    for step in range(n - 1):
        in_tree[now] = True
        for e in range(starts[now], starts[now + 1]):
            node, w = int(ends[e]), float(weights[e])
            if not in_tree[node] and w < least[node]:
                least[node], source[node] = w, now
                heappush(heap, (w, node))
        while heap and in_tree[heap[0][1]]:
            heappop(heap)
        if not heap:
            return step
        w, now = heappop(heap)
        edges[0][step], edges[1][step], edges[2][step] = source[now], now, w
    return n - 1


def _row_taken(
    apart: Array, n: int, now: int, core: Array, in_tree: Array, weight: Array, source: Array
) -> int:
    nearer = np.maximum(np.maximum(apart, core[now]), core)
    better = (nearer < weight) & (in_tree == 0)
    weight[better], source[better] = nearer[better], now
    left = np.flatnonzero(in_tree == 0)
    return int(left[np.argmin(weight[left])])


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n, d = ins[0].shape
    return 8 * (n + 64) * (2 * d + 12) + 16 * (n // 32 + 4) * (d + 4) + 65_536


def _cases(rng: np.random.Generator) -> list[Any]:
    grid = rng.integers(0, 4, (40, 2)).astype(float)
    wide = rng.normal(size=(70, 9))
    return [
        ((x, rng.uniform(0, 1, len(x)), np.arange(len(x))[::step]), {**named})
        for x in (grid, wide)
        for step, named in ((1, {}), (-1, {"alpha": 0.7}), (1, {"previous": True}))
    ]


def _oracle(x: Any, core: Any, number: Any, alpha: float = 1.0, previous: bool = False) -> Any:
    by_number = np.argsort(number)
    x, core = np.asarray(x)[by_number], np.asarray(core)[by_number]
    apart = np.sqrt(squared_distances(np, x, x)) / alpha
    return tree_of_rows(lambda i: apart[i], core, previous)


@op("mapped", kernel=_kernel, scratch_bytes=_scratch, cases=_cases, oracle=_oracle, same="equal")
def _pairs_tree(
    x: Spec, core: Spec, number: Spec, alpha: float = 1.0, previous: bool = False
) -> Call:
    """Prim's tree from the point with the smallest number: from, to, weight of n - 1 edges.

    With `previous` an edge is said to come from the point that joined before it.
    """
    n, d = x.shape
    if n < 1 or core.shape != (n,) or number.shape != (n,):
        raise ValueError(f"_pairs_tree: {x.shape}, {core.shape}, {number.shape} do not belong")
    form = AxisForm((n, d, n - 1), ((0, 1), (0,), (0,)), ((2,),) * 3, frozenset({0, 1, 2}))
    outs = (Spec((n - 1,), int64), Spec((n - 1,), int64), Spec((n - 1,), float64))
    return Call(form, outs, (("alpha", float(alpha)), ("previous", bool(previous))))

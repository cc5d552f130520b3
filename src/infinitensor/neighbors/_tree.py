"""The tree of mutual reachability of points: Prim's where they are in one tile, else by groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.neighbors._euclidean import Ordered, nearest
from infinitensor.ops.points.prim import tree_of_graph

Array = Any
Edges = tuple[Array, Array, Array]


def prim_tree(points: Ordered, core: Array, alpha: float, previous: bool) -> Edges:
    """Edges of Prim's tree: from, to, weight. The points are in one memory."""
    in_order = core if points.order is None else core[points.order]
    numbers = points.numbers
    edges = call_op("_pairs_tree", points.rows, it.asarray(in_order), numbers, alpha, previous)
    it.compute(*edges)
    source, target, weight = (one.numpy() for one in edges)
    return source, target, weight


def grouped_tree(points: Ordered, k: int, alpha: float) -> Edges:
    """Edges of Prim's tree, tile by tile: points may be in files and on several devices.

    The lightest edge out of each group of points joins groups until there is one (Boruvka). Of the
    many trees of that weight Prim's is then found among those edges and the k nearest of each
    point: a tied weight is a core distance, and its edges are among these. Where plain distances
    are tied (grids) it may be another tree of the same weight.
    """
    squares, number = nearest(points, points, k)
    core = np.ascontiguousarray(squares[:, -1])
    scaled = core * (alpha * alpha)
    n = points.n
    group = _first_groups(squares, number, core, scaled)
    order = slice(None) if points.order is None else points.order
    cores = it.asarray(scaled[order])
    lows, highs, weighs = [], [], []
    while True:
        n_groups = int(group.max()) + 1
        if n_groups == 1:
            break
        sides = (points.rows, points.numbers, it.asarray(group[order]), cores)
        found = call_op("_pairs_edge", *sides, *sides, n_groups)
        it.compute(*found)
        weigh, low, high = (one.numpy() for one in found)
        lows.append(low)
        highs.append(high)
        weighs.append(weigh)
        joined = scipy.sparse.coo_array(
            (np.ones(n_groups, np.int8), (group[low], group[high])), shape=(n_groups, n_groups)
        )
        group = connected_components(joined, directed=False)[1][group].astype(np.int64)
    low = np.concatenate([*lows, np.repeat(np.arange(n), k)])
    high = np.concatenate([*highs, number.ravel()])
    square = np.concatenate([*weighs, squares.ravel()])
    reach = np.sqrt(core)
    weight = np.maximum(np.sqrt(square) / alpha, np.maximum(reach[low], reach[high]))
    # where a scaled core distance was the largest, rounding it twice must not raise the weight
    by_core = square <= np.maximum(scaled[low], scaled[high])
    weight = np.where(by_core, np.maximum(reach[low], reach[high]), weight)
    return tree_of_graph(n, low, high, weight)


def _first_groups(squares: Array, number: Array, core: Array, scaled: Array) -> Array:
    """Groups of points that are joined by one of their nearest, at the weight of their own core.

    No edge of a point is lighter than that, so each of these is a lightest one of its end: they are
    among the k nearest, which the tree is looked for in anyway.
    """
    n = len(core)
    joins = (core[number] <= core[:, None]) & (squares <= scaled[:, None])
    joins &= number != np.arange(n)[:, None]
    ends = number[np.arange(n), joins.argmax(1)]
    some = np.flatnonzero(joins.any(1))
    graph = scipy.sparse.coo_array((np.ones(len(some), np.int8), (some, ends[some])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)

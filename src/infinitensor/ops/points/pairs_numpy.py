"""Searches over all pairs of two tiles of points in the words of NumPy or torch.

What `pairs_c` does in C, block by block: on CPUs without a compiler, and on GPUs. Distances have
the same bits: squared differences in float64, added in the order of the features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.events import between_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = Any

BLOCK = {"cpu": 1 << 16, "cuda": 1 << 24}
"""Pairs that are looked at together."""


def _zeros(xp: Any, like: Array, shape: Any, dtype: str, value: Any = 0) -> Array:
    if xp is np:
        return np.full(shape, value, dtype)
    return xp.full(shape, value, dtype=getattr(xp, dtype), device=like.device)


def as_float64(xp: Any, tile: Array) -> Array:
    """A tile in float64."""
    return np.asarray(tile, np.float64) if xp is np else tile.to(xp.float64)


def squared_distances(xp: Any, x: Array, y: Array) -> Array:
    """(n, d) and (m, d) -> (n, m): direct differences, added feature by feature."""
    total = _zeros(xp, x, (len(x), len(y)), "float64")
    for f in range(x.shape[1]):
        gap = x[:, f, None] - y[None, :, f]
        gap *= gap
        total += gap
    return total


def blocks(xp: Any, x: Array, y: Array) -> Iterator[tuple[slice, slice]]:
    """Rows of x and of y to look at together, those of y within those of x."""
    most = BLOCK["cpu" if xp is np else "cuda"]
    columns = max(min(len(y), 4096), 1)
    rows = max(most // columns, 1)
    for i in range(0, len(x), rows):
        for j in range(0, len(y), columns):
            between_steps()
            yield slice(i, i + rows), slice(j, j + columns)


def count_within(xp: Any, x: Array, y: Array, weight: Array | None, limit: float) -> Array:
    """The number, or weight, of points of y within the radius of each of x."""
    total = _zeros(xp, x, (len(x),), "float64")
    for i, j in blocks(xp, x, y):
        near = squared_distances(xp, x[i], y[j]) <= limit
        if weight is None:
            total[i] += near.sum(1)
        else:
            total[i] += xp.where(near, weight[j], 0.0 * weight[j]).sum(1)
    return total


def nearest(xp: Any, x: Array, y: Array, yid: Array, k: int) -> tuple[Array, Array]:
    """The k nearest of y of each of x, sorted by (distance, number); -1 where there are fewer."""
    far = _zeros(xp, x, (len(x), k), "float64", float("inf"))
    who = _zeros(xp, x, (len(x), k), "int64", -1)
    for i, j in blocks(xp, x, y):
        apart = squared_distances(xp, x[i], y[j])
        number = xp.broadcast_to(yid[j], apart.shape)
        far[i], who[i] = merge_nearest(xp, (far[i], who[i]), (apart, number), k)
    return far, who


def merge_nearest(
    xp: Any, a: tuple[Array, Array], b: tuple[Array, Array], k: int
) -> tuple[Array, Array]:
    """The k nearest of two sets of (distance, number) of each row."""
    if xp is np:
        far, who = np.concatenate((a[0], b[0]), 1), np.concatenate((a[1], b[1]), 1)
        key = np.where(who < 0, np.iinfo(np.int64).max, who)
        order = np.lexsort((key, far), axis=1)[:, :k]
        return np.take_along_axis(far, order, 1), np.take_along_axis(who, order, 1)
    far, who = xp.cat((a[0], b[0]), 1), xp.cat((a[1], b[1]), 1)
    key = xp.where(who < 0, 2**63 - 1, who)
    first = xp.argsort(key, dim=1, stable=True)
    far, who = far.gather(1, first), who.gather(1, first)
    order = xp.argsort(far, dim=1, stable=True)[:, :k]
    return far.gather(1, order), who.gather(1, order)


def united(
    xp: Any, x: Array, xid: Array, y: Array, yid: Array, limit: float, parent: Array
) -> Array:
    """The forest with an edge between every pair within the radius; roots are the smallest."""
    for i, j in blocks(xp, x, y):
        near = squared_distances(xp, x[i], y[j]) <= limit
        a, b = xp.nonzero(near) if xp is np else xp.nonzero(near, as_tuple=True)
        a, b = xid[i][a], yid[j][b]
        nodes = (a >= 0) & (b >= 0)
        parent = hooked(xp, parent, a[nodes], b[nodes])
    return parent


def hooked(xp: Any, parent: Array, a: Array, b: Array) -> Array:
    """The forest with these edges too: roots hook onto smaller ones, paths are halved."""
    while len(a):
        a, b = parent[a], parent[b]
        apart = a != b
        a, b = a[apart], b[apart]
        if not len(a):
            break
        lo, hi = xp.minimum(a, b), xp.maximum(a, b)
        if xp is np:
            np.minimum.at(parent, hi, lo)
        else:
            parent.scatter_reduce_(0, hi, lo, "amin")
        parent = pointed(xp, parent)
    return parent


def pointed(xp: Any, parent: Array) -> Array:
    """Every node points at its root."""
    while True:
        up = parent[parent]
        if bool((up == parent).all()):
            return up
        parent = up


def least_label(xp: Any, x: Array, y: Array, label: Array, limit: float, none: int) -> Array:
    """The smallest label of the points of y within the radius of each of x."""
    least = _zeros(xp, x, (len(x),), "int64", none)
    for i, j in blocks(xp, x, y):
        near = squared_distances(xp, x[i], y[j]) <= limit
        found = xp.where(near, label[j], none)
        best = found.min(1) if xp is np else found.amin(1)
        least[i] = xp.minimum(least[i], best)
    return least


def found_within(
    xp: Any, x: Array, y: Array, yid: Array, limit: float, nearest_first: bool
) -> tuple[Array, Array]:
    """Numbers and squared distances of all pairs within the radius, row after row of x."""
    rows, numbers, gaps = [], [], []
    for i, j in blocks(xp, x, y):
        squares = squared_distances(xp, x[i], y[j])
        near = squares <= limit
        a, b = xp.nonzero(near) if xp is np else xp.nonzero(near, as_tuple=True)
        rows.append(a + i.start)
        numbers.append(yid[j][b])
        gaps.append(squares[a, b])
    join = np.concatenate if xp is np else xp.cat
    row, number, gap = join(rows), join(numbers), join(gaps)
    keys = (number, gap, row) if nearest_first else (number, row)
    order = sorted_by(xp, keys)
    return number[order], gap[order]


def sorted_by(xp: Any, keys: tuple[Array, ...]) -> Array:
    """The order by the last key, then by the one before, and so on."""
    if xp is np:
        return np.lexsort(keys)
    order = xp.argsort(keys[0], stable=True)
    for key in keys[1:]:
        order = order[xp.argsort(key[order], stable=True)]
    return order


def lightest_edges(
    xp: Any,
    x: Array,
    y: Array,
    points_x: tuple[Array, Array, Array],
    points_y: tuple[Array, Array, Array],
    n_groups: int,
) -> tuple[Array, Array, Array]:
    """Of each group its lightest edge to another: weight, smaller end, larger end.

    Points are (numbers, groups, squared core distances); the weight of a pair is the largest of its
    squared distance and both cores. Ties go to the smaller, then to the larger end.
    """
    (xid, xgroup, xcore), (yid, ygroup, ycore) = points_x, points_y
    weigh = _zeros(xp, x, (n_groups,), "float64", float("inf"))
    most = 2**62
    ends = _zeros(xp, x, (n_groups, 2), "int64", most)
    for i, j in blocks(xp, x, y):
        w = squared_distances(xp, x[i], y[j])
        w = xp.maximum(xp.maximum(w, xcore[i][:, None]), ycore[j][None, :])
        w[xgroup[i][:, None] == ygroup[j][None, :]] = float("inf")
        best = w.min(1) if xp is np else w.amin(1)
        tied = (w == best[:, None]) & (best < float("inf"))[:, None]
        lo = xp.minimum(xid[i][:, None], yid[j][None, :])
        hi = xp.maximum(xid[i][:, None], yid[j][None, :])
        lo = xp.where(tied, lo, most)
        first = lo.min(1) if xp is np else lo.amin(1)
        hi = xp.where(tied & (lo == first[:, None]), hi, most)
        second = hi.min(1) if xp is np else hi.amin(1)
        group = xgroup[i]
        weigh, ends = lighter_of(xp, group, best, first, second, weigh, ends)
    return weigh, ends[:, 0], ends[:, 1]


def lighter_of(
    xp: Any,
    group: Array,
    w: Array,
    lo: Array,
    hi: Array,
    weigh: Array,
    ends: Array,
) -> tuple[Array, Array]:
    """The lightest edge of each group, of those known and of some more."""
    join = np.concatenate if xp is np else xp.cat
    every = np.arange(len(weigh)) if xp is np else xp.arange(len(weigh), device=weigh.device)
    group, w = join((every, group)), join((weigh, w))
    lo, hi = join((ends[:, 0], lo)), join((ends[:, 1], hi))
    order = sorted_by(xp, (hi, lo, w, group))
    first = order[xp.searchsorted(group[order], every)]
    return w[first], xp.stack((lo[first], hi[first]), 1)

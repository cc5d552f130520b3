"""Searches among points by Euclidean distance: the pair ops, on points in an order of their own."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.ops.linalg.csr_matmul import Rows
from infinitensor.ops.points.pairs import NO_LABEL, neighbour_order

Array = Any

LEAST_GPU_ORDER_POINTS = 1024
"""Points from which on a GPU puts them in order."""
COPIES = 16
"""Room for so many copies of the points, in float64, is asked for then."""


class Ordered:
    """Points in an order in which neighbours are close together, and the index each had.

    Points on the host are put in that order, and so is what fits a GPU several times. Other tensors
    stay as they are, where they are.
    """

    def __init__(self, X: Array) -> None:
        self.n, self.d = X.shape
        self.order: Array = None
        self.back: it.Tensor | None = None
        """The new index of each given point, if a GPU put them in order."""
        if _fits_a_gpu(X):
            given = X if isinstance(X, it.Tensor) else it.asarray(X, copy=False)
            order = call_op("_pairs_order", given)
            self.rows = call_op("take", given, order, 0)
            self.back = it.argsort(order)
            it.compute(order, self.rows, self.back)
            self.order = order.numpy()
            self.numbers = order
            return
        if isinstance(X, it.Tensor):
            self.rows = X
            return
        self.order = order = neighbour_order(X)
        self.rows = it.asarray(np.ascontiguousarray(X[order]), copy=False)

    @cached_property
    def numbers(self) -> it.Tensor:
        """The place of each row among the points as they were given."""
        if self.order is None:
            return it.arange(self.n)
        return it.asarray(self.order, copy=False)

    def as_given(self, values: Array) -> Array:
        """Values of rows in the order the points were given in."""
        if self.order is None:
            return values
        placed = np.empty_like(values)
        placed[self.order] = values
        return placed

    def some(self, chosen: Array) -> Ordered:
        """Some of the rows, by their places in this order; numbered by their places there."""
        made = Ordered.__new__(Ordered)
        made.n, made.d = len(chosen), self.d
        made.order = made.back = None
        made.rows = call_op("take", self.rows, it.asarray(chosen), 0)
        return made


def _fits_a_gpu(X: Array) -> bool:
    """Whether the points are worth an order on a GPU, and have room there with what that takes."""
    mesh = it.Mesh.current()
    need = 8 * X.shape[0] * X.shape[1] * COPIES
    return (
        mesh.kind == "cuda"
        and X.shape[0] >= LEAST_GPU_ORDER_POINTS
        and need < mesh.devices[0].memory_bytes
    )


def nearest(among: Ordered, of: Ordered, k: int) -> tuple[Array, Array]:
    """The k nearest of each point: squared distances and numbers, sorted by both."""
    found: Any = call_op("_pairs_top", among.rows, among.numbers, of.rows, k)
    if of.back is not None:
        found = [call_op("take", one, of.back, 0) for one in found]
    it.compute(*found)
    if of.back is not None:
        return found[0].numpy(), found[1].numpy()
    return of.as_given(found[0].numpy()), of.as_given(found[1].numpy())


def nearest_others(points: Ordered, k: int, squared: bool) -> tuple[Array, Array] | None:
    """The k nearest others of each point, and how far they are, of points that a GPU put in order.

    The point itself is left out there. None for other points.
    """
    if points.back is None:
        return None
    found: Any = call_op("_pairs_top", points.rows, points.numbers, points.rows, k + 1)
    apart, number = (call_op("take", one, points.back, 0) for one in found)
    # its own column; the first where as many as were asked for are equal to it
    own = it.argmax(number == it.arange(points.n)[:, None], axis=1)
    column = it.arange(k)[None, :]
    column = column + (column >= own[:, None])
    apart = it.take_along_axis(apart if squared else it.sqrt(apart), column, 1)
    number = it.take_along_axis(number, column, 1)
    it.compute(apart, number)
    return apart.numpy(), number.numpy()


def within(
    among: Ordered, of: Ordered, limit: float, nearest_first: bool
) -> tuple[Array, Array, Array]:
    """All pairs within a squared radius: where rows start, numbers, squared distances.

    They are counted first.
    """
    counts = call_op("_pairs_count", among.rows, of.rows, limit).numpy().astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(counts)))
    rows = Rows(starts, among.n)
    number, apart = call_op(
        "_pairs_found", among.rows, among.numbers, of.rows, limit, rows, nearest_first
    )
    it.compute(number, apart)
    if of.order is None:
        return starts, number.numpy(), apart.numpy()
    given_starts = np.concatenate(([0], np.cumsum(of.as_given(counts))))
    # entry e of the result is that of its row in our order, as far from the row's start
    shift = np.repeat(of.as_given(starts[:-1]) - given_starts[:-1], of.as_given(counts))
    source = np.arange(len(shift)) + shift
    return given_starts, number.numpy()[source], apart.numpy()[source]


def density_labels(
    points: Ordered, limit: float, least: float, weight: Array | None
) -> tuple[Array, Array]:
    """Labels and core points of DBSCAN: memory grows with the points, not with the pairs.

    Core points within reach of each other are one cluster; clusters are numbered by their first
    core point. Another point is of the first cluster that has a core point within reach, or -1.
    """
    if weight is None:
        total = call_op("_pairs_count", points.rows, points.rows, limit, float(least))
    else:
        sorted_weight = weight if points.order is None else weight[points.order]
        total = call_op("_pairs_weigh", points.rows, it.asarray(sorted_weight), points.rows, limit)
    is_core = total.numpy() >= least
    place = np.arange(points.n) if points.order is None else points.order
    labels = _labels_in_place if points.order is None else _labels_of_some
    found = labels(points, limit, is_core, place) if is_core.any() else np.full(points.n, -1)
    return points.as_given(found.astype(np.intp)), np.sort(place[is_core])


def _labels_of_some(points: Ordered, limit: float, is_core: Array, place: Array) -> Array:
    """Core points apart from the others: then each is looked at no more often than need be."""
    core, rest = np.flatnonzero(is_core), np.flatnonzero(~is_core)
    cores = points.some(core)
    sides = (cores.rows, cores.numbers) * 2
    tree = call_op("_pairs_unite", *sides, limit, cores.n, True).numpy()
    labels = np.full(points.n, -1)
    labels[core] = label = _numbered_by_first(tree, place[core])
    if len(rest):
        others = points.some(rest).rows
        near = call_op("_pairs_least", cores.rows, it.asarray(label), others, limit).numpy()
        labels[rest] = np.where(near == NO_LABEL, -1, near)
    return labels


def _labels_in_place(points: Ordered, limit: float, is_core: Array, place: Array) -> Array:
    """The same without a copy of any point: they may be more than memory holds."""
    node = it.asarray(np.where(is_core, place, -1))
    sides = (points.rows, node) * 2
    tree = call_op("_pairs_unite", *sides, limit, points.n, False).numpy()
    label = np.full(points.n, NO_LABEL)
    label[is_core] = _numbered_by_first(tree[is_core], place[is_core])
    near = call_op("_pairs_least", points.rows, it.asarray(label), points.rows, limit).numpy()
    found = np.where(is_core, label, near)
    return np.where(found == NO_LABEL, -1, found)


def _numbered_by_first(tree: Array, place: Array) -> Array:
    """Numbers 0, 1, ... of components, by the smallest place that one of them has."""
    _, member = np.unique(tree, return_inverse=True)
    first = np.full(int(member.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, member, place)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[member]

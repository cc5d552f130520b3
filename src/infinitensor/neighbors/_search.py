"""One search among points: by Euclidean distance over pair ops, else over blocks of distances."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse

from infinitensor.neighbors import _euclidean as euclidean
from infinitensor.neighbors._blocks import Given, Metric, SparseGraph

Array = Any
EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")


class Search(Protocol):
    """The queries on fitted points; `asked` None means the points themselves."""

    def nearest(self, asked: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and indices of the k nearest, sorted by (distance, index)."""

    def within(
        self, asked: Array | None, radius: Any, nearest_first: bool
    ) -> tuple[Array, Array, Array]:
        """All within the radius: where rows start, indices, distances."""


def search_of(fitted: Array, metric: Any, params: dict[str, Any], by_pairs: bool = False) -> Search:
    """The search that suits the points and the metric; `by_pairs` as `Metric` has it."""
    if metric == "precomputed":
        return SparseGraph(fitted) if scipy.sparse.issparse(fitted) else Given(fitted)
    if metric in EUCLIDEAN and not scipy.sparse.issparse(fitted):
        return Euclidean(fitted, metric == "sqeuclidean")
    return Metric(fitted, metric, params, by_pairs)


def nearest_others(search: Search, k: int) -> tuple[Array, Array]:
    """Distances and indices of the k nearest others of each fitted point."""
    if isinstance(search, Euclidean):
        found = euclidean.nearest_others(search.points, k, search.squared)
        if found is not None:
            return found
    return _without_itself(*search.nearest(None, k + 1))


def _without_itself(apart: Array, number: Array) -> tuple[Array, Array]:
    """Each row without its own point; without its first where more points are equal to it."""
    n, k = number.shape
    if (number[:, 0] == np.arange(n)).all():
        return np.ascontiguousarray(apart[:, 1:]), np.ascontiguousarray(number[:, 1:])
    other = number != np.arange(n)[:, None]
    other[other.all(1), 0] = False
    return apart[other].reshape(n, k - 1), number[other].reshape(n, k - 1)


class Euclidean:
    """By the pair ops. Squared distances are compared, with the square of the radius."""

    def __init__(self, fitted: Array, squared: bool) -> None:
        self.points = euclidean.Ordered(fitted)
        self.squared = squared

    def _order_asked(self, asked: Array | None) -> euclidean.Ordered:
        if asked is None:
            return self.points
        if scipy.sparse.issparse(asked):
            asked = asked.toarray()
        return euclidean.Ordered(asked)

    def nearest(self, asked: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and indices of the k nearest, sorted by (distance, index)."""
        apart, number = euclidean.nearest(self.points, self._order_asked(asked), k)
        return (apart if self.squared else np.sqrt(apart)), number

    def within(
        self, asked: Array | None, radius: Any, nearest_first: bool
    ) -> tuple[Array, Array, Array]:
        """All within the radius: where rows start, indices, distances."""
        limit = np.asarray(radius, float)
        limit = limit if self.squared else np.where(limit < 0, -1.0, limit * limit)
        most = float(limit.max())
        rows = self._order_asked(asked)
        if most < 0:  # nothing is nearer than 0
            return np.zeros(rows.n + 1, np.intp), np.empty(0, np.intp), np.empty(0)
        starts, number, apart = euclidean.within(self.points, rows, most, nearest_first)
        if limit.ndim:
            kept = apart <= np.repeat(limit, np.diff(starts))
            starts = np.concatenate(([0], np.cumsum(kept)))[starts]
            number, apart = number[kept], apart[kept]
        return starts, number, (apart if self.squared else np.sqrt(apart))

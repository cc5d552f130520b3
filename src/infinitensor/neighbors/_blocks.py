"""Searches over distances that come in blocks of rows: other metrics, sparse points, given ones."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from sklearn.metrics import DistanceMetric

import infinitensor as it
from infinitensor.estimators.metric_names import (
    SPARSE,
    awake,
    between,
    block,
    choose_metric,
    row_steps,
    spread,
)
from infinitensor.estimators.metric_names import Metric as Named
from infinitensor.estimators.points import FLOATS, borrow, on_host
from infinitensor.ops.points.distances import check_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = Any
TOGETHER = 4
"""Blocks that are made at a time."""


class Blocks:
    """Distances to all fitted points, for a block of rows at a time."""

    n: int
    """Fitted points."""

    def rows(self, asked: Array | None) -> int:
        """How many points are asked about."""
        return self.n if asked is None else int(asked.shape[0])

    def block(self, asked: Array | None, part: slice) -> it.Tensor:
        """Distances from some of the points asked about to all fitted ones; they may wait."""
        raise NotImplementedError

    def blocks(self, asked: Array | None) -> Iterator[tuple[slice, it.Tensor]]:
        """All of them, block by block."""
        for part in row_steps(self.rows(asked), self.n):
            yield part, self.block(asked, part)

    def rounds(self, asked: Array | None) -> Iterator[list[tuple[slice, it.Tensor]]]:
        """All blocks, a few at a time, for workers to make together: each is about one task."""
        blocks = self.blocks(asked)
        while some := list(islice(blocks, TOGETHER)):
            yield some

    def nearest(self, asked: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and indices of the k nearest, sorted by (distance, index); NaN is last."""
        apart, number = [], []
        for some in self.rounds(asked):
            found = [it.topk(waiting, k, largest=False) for _, waiting in some]
            it.compute(*chain(*found))
            apart += [gap.numpy() for gap, _ in found]
            number += [place.numpy() for _, place in found]
        return np.concatenate(apart), np.concatenate(number)

    def within(
        self, asked: Array | None, radius: Any, nearest_first: bool
    ) -> tuple[Array, Array, Array]:
        """All within the radius: where rows start, indices, distances."""
        counts, numbers, gaps = [], [], []
        radius = np.asarray(radius)
        for some in self.rounds(asked):
            it.compute(*(waiting for _, waiting in some))
            for part, made in some:
                block = made.numpy()
                near = block <= (radius[part, None] if radius.ndim else radius)
                row, column = np.nonzero(near)
                gap = block[row, column]
                if nearest_first:
                    order = np.lexsort((column, gap, row))
                    column, gap = column[order], gap[order]
                counts.append(near.sum(1))
                numbers.append(column)
                gaps.append(gap)
        starts = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        return starts, np.concatenate(numbers), np.concatenate(gaps)


class Given(Blocks):
    """Distances that the user computed, as a dense matrix."""

    def __init__(self, fitted: Array) -> None:
        self.fitted = fitted
        self.n = fitted.shape[1]

    def rows(self, asked: Array | None) -> int:
        """How many points are asked about."""
        return int((self.fitted if asked is None else asked).shape[0])

    def block(self, asked: Array | None, part: slice) -> it.Tensor:
        """Rows of the matrix."""
        return borrow(floats(dense((self.fitted if asked is None else asked)[part])))


class SparseGraph:
    """Distances that the user computed, those in a sparse matrix only, sorted in each row."""

    def __init__(self, fitted: Array) -> None:
        self.fitted = fitted

    def nearest(self, asked: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and indices of the k nearest of those that are stored."""
        graph = self.fitted if asked is None else asked
        if not scipy.sparse.issparse(graph):
            return Given(graph).nearest(None, k)
        counts = np.diff(graph.indptr)
        least = int(counts.min())
        if least < k:
            raise ValueError(
                f"{k} neighbors per samples are required, but some samples have only {least} "
                "neighbors in precomputed graph matrix. Decrease number of neighbors used or "
                "recompute the graph with more neighbors."
            )
        entry = graph.indptr[:-1, None] + np.arange(k)
        return graph.data[entry], graph.indices[entry]

    def within(
        self, asked: Array | None, radius: Any, nearest_first: bool
    ) -> tuple[Array, Array, Array]:
        """The stored neighbours within the radius; they are sorted already."""
        graph = self.fitted if asked is None else asked
        if not scipy.sparse.issparse(graph):
            return Given(graph).within(None, radius, nearest_first)
        near = graph.data <= radius
        starts = np.concatenate(([0], np.cumsum(near)))[graph.indptr]
        return starts, graph.indices[near].astype(np.intp), graph.data[near]


class Metric(Blocks):
    """Distances by a metric, made block by block: dense ones in tiles, by all workers.

    `by_pairs`: as `pairwise_distances` has them, which is what scikit-learn's brute force uses
    where it has nothing better; else as its trees have them. They differ in the dtype of distances
    of float32, in `braycurtis`, and in whether a point is at distance 0 from itself by definition.
    """

    def __init__(
        self, fitted: Array, metric: Any, params: dict[str, Any], by_pairs: bool = False
    ) -> None:
        self.given, self.by_pairs = fitted, by_pairs
        self.n = fitted.shape[0]
        self.metric, self.params = metric, params
        if metric == "pyfunc":
            self.params = {name: value for name, value in params.items() if name != "func"}
            self.metric = params["func"]
        if isinstance(self.metric, str):
            self.fitted = floats(fitted)
            self.metric = awake(self._metric_of(metric))
        else:
            self.fitted = on_host(fitted)

    def _metric_of(self, metric: str) -> Named:
        """The metric of a name, with what it takes from the points."""
        known = ("p", "w", "V", "VI")
        given = {k: v for k, v in self.params.items() if k in known and v is not None}
        if metric != "seuclidean":
            covariance = given.pop("V", None)
            if metric == "mahalanobis" and covariance is not None and "VI" not in given:
                given["VI"] = np.linalg.inv(covariance).T
        role = {"seuclidean": "V", "mahalanobis": "VI"}.get(metric)
        if role and role not in given:
            given[role] = spread(tensor_of(self.fitted), metric)
        how = choose_metric(metric, given, is_tree=not self.by_pairs)
        shape = None if how.extra is None else how.extra.shape
        check_sizes(how.name, how.role, self.fitted.shape[1], shape)
        return how

    def block(self, asked: Array | None, part: slice) -> it.Tensor:
        """Distances from some of the points asked about to all fitted ones; they may wait."""
        own = part if asked is None or asked is self.given else None
        some = (self.fitted if asked is None or own is not None else asked)[part]
        if isinstance(self.metric, DistanceMetric):  # the user's own, as a function is
            return borrow(self.metric.pairwise(on_host(some), self.fitted))
        if callable(self.metric):
            xs, ys = rows_of(on_host(some)), rows_of(self.fitted)
            return borrow(np.array([[self.metric(x, y, **self.params) for y in ys] for x in xs]))
        some = floats(some)
        if scipy.sparse.issparse(some) or scipy.sparse.issparse(self.fitted):
            return borrow(self._sparse(some, own))
        own = own if self.by_pairs else None
        return between(tensor_of(some), tensor_of(self.fitted), self.metric, own)

    def row(self, i: int) -> Array:
        """Distances of one fitted point to all, on the host."""
        if not isinstance(self.metric, Named) or scipy.sparse.issparse(self.fitted):
            return self.block(None, slice(i, i + 1)).numpy()[0]
        found = self.metric.tile(self.fitted[i : i + 1], self.fitted)[0]
        if self.by_pairs:
            found[i] = 0
        return found

    def _sparse(self, some: Array, own: slice | None) -> Array:
        """By products where scikit-learn has them; metrics that need zeros get them."""
        x, y = some, self.fitted
        if self.metric.name not in (*SPARSE, "direct"):
            return self.metric.tile(dense(x), dense(y))
        if not self.by_pairs:
            x, y = x.astype(np.float64), y.astype(np.float64)
        found = block(x, y, self.metric)
        if own is not None:
            found[np.arange(len(found)), np.arange(own.start, own.stop)] = 0
        return found


def rows_of(x: Array) -> list[Array]:
    """Rows as a user's function gets them: of sparse points, matrices of one row."""
    return [x[[i], :] for i in range(x.shape[0])] if scipy.sparse.issparse(x) else list(x)


def dense(x: Array) -> Array:
    """A block with its zeros."""
    return x.toarray() if scipy.sparse.issparse(x) else x


def floats(x: Array) -> Array:
    """Points, or distances, as scikit-learn computes with them: float32 stays, the rest is wide."""
    return x if x.dtype in FLOATS else x.astype(np.float64)


def tensor_of(x: Array) -> it.Tensor:
    """A tensor as it is, one over an array's memory otherwise."""
    return x if isinstance(x, it.Tensor) else borrow(x)

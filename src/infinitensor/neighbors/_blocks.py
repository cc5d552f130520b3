"""Searches over distances that come in blocks of rows: other metrics, sparse points, given ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from sklearn.metrics import DistanceMetric

from infinitensor.estimators.distances import check_weights
from infinitensor.estimators.points import on_host
from infinitensor.ops.distance import ALIASES, BOOLEAN, METRICS, check_sizes, tile

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = Any
BLOCK_ELEMENTS = 1 << 20
"""Distances that are looked at together."""


class Blocks:
    """Distances to all fitted points, for a block of rows at a time."""

    n: int
    """Fitted points."""

    def rows(self, asked: Array | None) -> int:
        """How many points are asked about."""
        return self.n if asked is None else int(asked.shape[0])

    def block(self, asked: Array | None, part: slice) -> Array:
        """Distances from some of the points asked about to all fitted ones."""
        raise NotImplementedError

    def blocks(self, asked: Array | None) -> Iterator[tuple[slice, Array]]:
        """All of them, block by block."""
        n = self.rows(asked)
        step = max(BLOCK_ELEMENTS // max(self.n, 1), 1)
        for i in range(0, n, step):
            part = slice(i, min(i + step, n))
            yield part, self.block(asked, part)

    def nearest(self, asked: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and indices of the k nearest, sorted by (distance, index)."""
        n = self.rows(asked)
        apart, number = np.empty((n, k)), np.empty((n, k), np.intp)
        for part, block in self.blocks(asked):
            apart[part], number[part] = smallest(block, k)
        return apart, number

    def within(
        self, asked: Array | None, radius: Any, nearest_first: bool
    ) -> tuple[Array, Array, Array]:
        """All within the radius: where rows start, indices, distances."""
        counts, numbers, gaps = [], [], []
        radius = np.asarray(radius)
        for part, block in self.blocks(asked):
            limit = radius[part, None] if radius.ndim else radius
            near = block <= limit
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


def smallest(block: Array, k: int) -> tuple[Array, Array]:
    """The k smallest of each row and their columns, sorted by (value, column); NaN is last."""
    n, m = block.shape
    if k < m:
        border = np.partition(block, k - 1, axis=1)[:, k - 1, None]
        below = block < border
        tied = (block == border) | (np.isnan(block) & np.isnan(border))
        missing = k - below.sum(1, keepdims=True)
        chosen = below | (tied & (np.cumsum(tied, axis=1) <= missing))
        column = np.nonzero(chosen)[1].reshape(n, k)
    else:
        column = np.broadcast_to(np.arange(m), (n, m))
    value = np.take_along_axis(block, column, 1)
    order = np.argsort(value, axis=1, kind="stable")
    return np.take_along_axis(value, order, 1), np.take_along_axis(column, order, 1)


class Given(Blocks):
    """Distances that the user computed, as a dense matrix."""

    def __init__(self, fitted: Array) -> None:
        self.fitted = fitted
        self.n = fitted.shape[1]

    def rows(self, asked: Array | None) -> int:
        """How many points are asked about."""
        return int((self.fitted if asked is None else asked).shape[0])

    def block(self, asked: Array | None, part: slice) -> Array:
        """Rows of the matrix."""
        block = (self.fitted if asked is None else asked)[part]
        return block.toarray() if scipy.sparse.issparse(block) else np.asarray(block)


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
        """Those that are stored within the radius; they are sorted already."""
        graph = self.fitted if asked is None else asked
        if not scipy.sparse.issparse(graph):
            return Given(graph).within(None, radius, nearest_first)
        near = graph.data <= radius
        starts = np.concatenate(([0], np.cumsum(near)))[graph.indptr]
        return starts, graph.indices[near].astype(np.intp), graph.data[near]


class Metric(Blocks):
    """Distances by a metric, made block by block."""

    def __init__(self, fitted: Array, metric: Any, params: dict[str, Any]) -> None:
        self.fitted = fitted if scipy.sparse.issparse(fitted) else np.asarray(on_host(fitted))
        self.n = fitted.shape[0]
        self.metric, self.named = resolved(metric, params, self.fitted)
        self.is_euclidean = self.metric in ("euclidean", "l2", "sqeuclidean")
        if self.is_euclidean:
            self.lengths = squared_lengths(self.fitted)

    def block(self, asked: Array | None, part: slice) -> Array:
        """Distances from some of the points asked about to all fitted ones."""
        some = (self.fitted if asked is None else on_host(asked))[part]
        if self.is_euclidean:
            return self._euclidean(some, asked is None, part)
        if isinstance(self.metric, DistanceMetric):  # the user's own, as a function is
            return self.metric.pairwise(some, self.fitted)
        if callable(self.metric):
            ys = rows_of(self.fitted)
            return np.array([[self.metric(x, y, **self.named) for y in ys] for x in rows_of(some)])
        some, fitted = dense(some), dense(self.fitted)
        if self.metric in BOOLEAN:
            some, fitted = some != 0, fitted != 0
        return tile(np, some, fitted, self.metric, **self.named)

    def _euclidean(self, some: Array, own: bool, part: slice) -> Array:
        """By products, as scikit-learn has them for sparse points."""
        product = some @ self.fitted.T
        block = np.asarray(dense(product), float) * -2.0
        block += (self.lengths[part] if own else squared_lengths(some))[:, None]
        block += self.lengths
        np.maximum(block, 0, out=block)
        if own:
            block[np.arange(len(block)), np.arange(part.start, part.stop)] = 0
        return block if self.metric == "sqeuclidean" else np.sqrt(block, out=block)


def rows_of(x: Array) -> list[Array]:
    """Rows as a user's function gets them: of sparse points, matrices of one row."""
    return [x[[i], :] for i in range(x.shape[0])] if scipy.sparse.issparse(x) else list(x)


def dense(x: Array) -> Array:
    """A block with its zeros."""
    return x.toarray() if scipy.sparse.issparse(x) else x


def resolved(metric: Any, params: dict[str, Any], fitted: Array) -> tuple[Any, dict[str, Any]]:
    """A metric by the name that `ops/distance.py` has for it, and its parameters."""
    if metric == "pyfunc":
        others = {name: value for name, value in params.items() if name != "func"}
        return params["func"], others
    if not isinstance(metric, str):
        return metric, params
    name = {"infinity": "chebyshev", "p": "minkowski"}.get(metric, metric)
    name = ALIASES.get(name, name)
    named: dict[str, Any] = {}
    if name == "minkowski":
        named["p"] = float(params.get("p", 2))
    extra, role = params.get("w"), "w"
    if name == "seuclidean":
        extra, role = params.get("V"), "V"
        extra = np.var(dense(fitted), axis=0, ddof=1) if extra is None else extra
    elif name == "mahalanobis":
        extra, role = params.get("VI"), "VI"
        if extra is None:
            extra = np.linalg.inv(params["V"] if "V" in params else np.cov(dense(fitted).T)).T
    if extra is not None:
        named |= {"extra": np.asarray(extra, float), "role": role}
        check_weights(named["extra"] if role == "w" else None)
    elif name == "braycurtis":
        name = "braycurtis_tree"  # scikit-learn's searches have it so, those by brute force too
    if name in METRICS:
        shape = named["extra"].shape if named.get("role") else None
        check_sizes(name, named.get("role", ""), fitted.shape[1], shape)
    return name, named


def squared_lengths(x: Array) -> Array:
    """Of each row, in float64."""
    if scipy.sparse.issparse(x):
        return np.asarray(x.multiply(x).sum(1), float).reshape(-1)
    x = np.asarray(x, float)
    return np.einsum("ij,ij->i", x, x)

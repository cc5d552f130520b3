"""Sparse points as the k-means family reads them: a CSR matrix on the host, never shifted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.cluster.dense_rows import NO_LABEL
from infinitensor.ops.linalg.csr_matmul import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]


class SparseRows:
    """Rows of a CSR matrix; labels are found by an op over its entries, sums by SciPy."""

    def __init__(self, x: Any, weights: Array | None) -> None:
        self.host = x
        self.weights = weights
        self.n, self.d = x.shape
        self.dtype = np.dtype(x.dtype)
        self.shift = np.zeros(self.d, self.dtype)
        self._data = it.asarray(x.data, copy=False)
        self._indices = it.asarray(x.indices, copy=False)
        self._rows = Rows(x.indptr, self.d)

    def take(self, indices: Sequence[int] | Array) -> Array:
        """Some rows with their zeros."""
        return np.asarray(self.host[np.asarray(indices, np.int64)].toarray())

    def subset(self, indices: Array) -> SparseRows:
        """Some rows as a matrix of their own."""
        weights = None if self.weights is None else self.weights[indices]
        return SparseRows(self.host[indices], weights)

    def all_rows(self) -> Any:
        """All rows: what a callable `init` gets."""
        return self.host

    def nearest(self, centers: Array) -> Array:
        """The nearest centre of each row."""
        if not self.n:
            return np.zeros(0, np.int32)
        made: it.Tensor = call_op("_csr_nearest", self._data, self._indices, centers, self._rows)
        return made.numpy()

    def distances(self, points: Array) -> Array:
        """The squared distances of all rows to points, one line for each point."""
        wide = points.astype(np.float64)
        own = self._own_norms()
        far = (wide * wide).sum(1)[:, None] + own - 2 * np.asarray((self.host @ wide.T).T)
        return np.asarray(np.clip(far, 0, None).astype(self.dtype))

    def _own_norms(self) -> Array:
        data = self.host.data.astype(np.float64)
        return self._by_row(data * data)

    def _by_row(self, values: Array) -> Array:
        """The sum of a number for each entry over its row."""
        shape = (self.n, self.d)
        made = scipy.sparse.csr_array((values, self.host.indices, self.host.indptr), shape=shape)
        return np.asarray(made.sum(axis=1)).reshape(-1)

    def closer(self, points: Array, known: tuple[Any, ...] = ()) -> it.Tensor:
        """For each point each row's squared distance to the nearest seed, with that point."""
        far = self.distances(points)
        if known:
            np.minimum(far, np.asarray(known[0]), out=far)
        return it.asarray(far, copy=False)

    def small_copy(self, k: int) -> None:
        """No loop reads these rows as they are."""

    def start(self, k: int) -> SparseAssigning:
        """Labels of k centres, to be found and found again as the centres move."""
        return SparseAssigning(self, k)

    def own_distances(self, centers: Array, labels: Array) -> Array:
        """The squared distance of each row to its own centre."""
        wide = centers.astype(np.float64)
        rows = np.repeat(labels, np.diff(self.host.indptr))
        there = wide[rows, self.host.indices]
        part = (self.host.data - there) ** 2 - there * there
        far = self._by_row(part) + (wide * wide).sum(1)[labels]
        return np.asarray(np.clip(far, 0, None).astype(self.dtype))

    def inertia(self, centers: Array, labels: Array) -> Array:
        """For each label the weighted squared distances of its rows to its centre."""
        far = self.own_distances(centers, labels).astype(np.float64)
        far = far if self.weights is None else far * self.weights
        return np.bincount(labels, far, len(centers))


class SparseAssigning:
    """Labels of sparse rows, and what the rows of each label add up to."""

    means: Array | None = None

    def __init__(self, rows: SparseRows, k: int) -> None:
        self.rows = rows
        self.k = k
        self.labels = np.full(rows.n, NO_LABEL, np.int32)

    def follow(self, centers: Array, *, add_up: bool = True) -> int:
        """Compare with these centres; how many labels changed."""
        new = self.rows.nearest(centers)
        changed = int(np.count_nonzero(new != self.labels))
        self.labels = new
        return changed

    def totals(self) -> tuple[Array, Array, Array]:
        """Of each label: the sum of its rows, what they weigh, and whether one weighs something."""
        rows, n = self.rows, self.rows.n
        weights = np.ones(n) if rows.weights is None else rows.weights.astype(np.float64)
        entry = (weights, self.labels, np.arange(n + 1))
        members = scipy.sparse.csr_array(entry, shape=(n, self.k))
        sums = (members.T @ rows.host.astype(np.float64)).toarray()
        held = np.bincount(self.labels, weights != 0, self.k)
        return np.asarray(sums), np.bincount(self.labels, weights, self.k), held != 0

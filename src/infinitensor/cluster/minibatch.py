"""MiniBatchKMeans: scikit-learn's batches and steps; a step costs what its batch costs.

Batches are rows on the host, compared and added up by the loops of `ops/points/centres.c`. They are
drawn from a running sum of weights that is made once: NumPy's `choice` makes it anew at every draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn.cluster as theirs
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from infinitensor.cluster.kmeans import (
    CHECKS,
    OnTiles,
    checked_weights,
    labels_inertia,
    rows_of,
)
from infinitensor.cluster.seeding import normalise_weights
from infinitensor.cluster.sparse_rows import SparseRows
from infinitensor.estimators.points import Points, points
from infinitensor.ops import TABLE
from infinitensor.ops.backend.c_loops import loop

if TYPE_CHECKING:
    from infinitensor.cluster.dense_rows import DenseRows

Array = np.ndarray[Any, Any]


class Draws:
    """`choice(n, size, p=p)` of a RandomState, again and again with the same p.

    Holds one number a row: the running sums take the place of a float64 p.
    """

    def __init__(self, random_state: np.random.RandomState, p: Array, size: int) -> None:
        self.random_state = random_state
        self.sums, self.size, self.is_first = p, size, True

    def next(self) -> Array:
        """The next draw; the first is NumPy's own, with its checks."""
        if self.is_first:
            p, self.is_first = self.sums, False
            drawn = self.random_state.choice(len(p), self.size, p=p, replace=True)
            self.sums = np.cumsum(p, out=p if p.dtype == np.float64 else None, dtype=np.float64)
            self.sums /= self.sums[-1]
            return drawn
        return positions(self.sums, self.random_state.random_sample(self.size))


def positions(sums: Array, values: Array) -> Array:
    """`searchsorted(sums, values, "right")`, guessed as if the sums were even, then checked."""
    n = len(sums)
    guess = np.minimum((values * n).astype(np.int64), n - 1)
    before = np.where(guess > 0, sums[guess - 1], -1.0)
    wrong = ~((before <= values) & (values < sums[guess]))
    if wrong.any():
        guess[wrong] = np.searchsorted(sums, values[wrong], "right")
    return guess


def step_batch(x: Any, weights: Array, centers: Array, counts: Array) -> tuple[Array, Array, Array]:
    """New centres after a batch, its labels' counts added to, and squared distances before."""
    if isinstance(x, np.ndarray):
        labels, far = _find_nearest(x, centers)
        return _add_batch(x, weights, centers, counts, labels), labels, far
    rows = SparseRows(x, weights)
    labels = rows.nearest(centers)
    state = rows.start(len(centers))
    state.labels = labels
    sums, held, _ = state.totals()
    new = centers.copy()
    there = held > 0
    grown = (counts + held).astype(counts.dtype)
    alpha = 1 / grown[there][:, None]
    new[there] = (centers[there] * counts[there][:, None] + sums[there]) * alpha
    far = rows.own_distances(centers, labels)
    counts[:] = grown
    return new, labels, far


def _find_nearest(x: Array, centers: Array) -> tuple[Array, Array]:
    none = np.zeros(x.shape[1], x.dtype)
    labels, far = np.empty(len(x), np.int32), np.empty(len(x), x.dtype)
    TABLE["_nearest"].kernel_for("cpu")(np, x, none, centers, out=labels)
    TABLE["_label_distances"].kernel_for("cpu")(np, x, none, centers, labels, out=far)
    return labels, far


def _add_batch(x: Array, weights: Array, centers: Array, counts: Array, labels: Array) -> Array:
    """Centres as the means of all they ever got; `counts` grows."""
    k, new = len(centers), np.empty_like(centers)
    update = loop("centres", "batch_update", x.dtype)
    if update is not None:
        sums = np.empty(k, x.dtype)
        update(x, *x.shape, weights, labels, np.ascontiguousarray(centers), k, counts, sums, new)
        return new
    sums = np.zeros(k, x.dtype)
    np.add.at(sums, labels, weights)
    there = sums > 0
    new[...] = np.where(there[:, None], centers * counts[:, None], centers)
    kept = there[labels]
    np.add.at(new, labels[kept], x[kept] * weights[kept, None])
    counts[there] += sums[there]
    new[there] *= (1 / counts[there])[:, None]
    return new


class MiniBatchKMeans(OnTiles, theirs.MiniBatchKMeans):  # type: ignore[misc]
    """scikit-learn's `MiniBatchKMeans`: same parameters, same batches, same labels.

    >>> import numpy as np
    >>> from infinitensor.cluster import MiniBatchKMeans
    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> MiniBatchKMeans(n_clusters=2, random_state=0, batch_size=6).fit(X).n_steps_ > 0
    True
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MiniBatchKMeans:
        """Find the centres by steps over batches; labels by a pass over all points at the end."""
        given = points(X, self, **CHECKS)
        dense = given.sparse is None
        self._check_points(given, given.tensor.var(0).numpy() if dense and self.tol else 0.0)
        random_state = check_random_state(self.random_state)
        rows = rows_of(given, None, checked_weights(sample_weight, given), self.n_clusters)
        self._n_threads = _openmp_effective_n_threads()
        centers = self._best_start(rows, self._checked_init(given), random_state)
        self._counts = np.zeros(self.n_clusters, dtype=rows.dtype)
        self._ewa_inertia: Any = None
        self._ewa_inertia_min: Any = None
        self._no_improvement = self._n_since_last_reassign = 0
        n_steps = (self.max_iter * rows.n) // self._batch_size
        draws = Draws(random_state, normalise_weights(rows), self._batch_size)
        ones = np.ones(self._batch_size, rows.dtype)
        i = 0
        for i in range(n_steps):
            batch = _batch(rows, draws.next())
            new, inertia = self._step(batch, ones, centers, random_state)
            moved = np.sum((new - centers) ** 2) if self._tol > 0.0 else 0
            centers = new
            if self._mini_batch_convergence(i, n_steps, rows.n, moved, inertia):
                break
        self.cluster_centers_ = centers
        self._n_features_out = centers.shape[0]
        self.n_steps_ = i + 1
        self.n_iter_ = int(np.ceil(((i + 1) * self._batch_size) / rows.n))
        if self.compute_labels:
            self.labels_, self.inertia_ = labels_inertia(rows, centers)
        else:
            weight = rows.n if rows.weights is None else np.sum(rows.weights)
            ewa: Any = self._ewa_inertia
            self.inertia_ = ewa * weight
        return self

    def _best_start(self, rows: DenseRows | SparseRows, init: Any, random_state: Any) -> Array:
        """First centres of samples of the points, the best by another sample."""
        valid = rows.subset(random_state.randint(0, rows.n, self._init_size))
        best: tuple[Any, Array] | None = None
        for i in range(self._n_init):
            if self.verbose:
                print(f"Init {i + 1}/{self._n_init} with method {init}")
            centers = self._init_centroids(
                rows, None, init, random_state, None, init_size=self._init_size
            )
            inertia = labels_inertia(valid, centers)[1]
            if self.verbose:
                print(f"Inertia for init {i + 1}/{self._n_init}: {inertia}")
            if best is None or inertia < best[0]:
                best = (inertia, centers)
        assert best is not None
        return best[1]

    def _step(self, x: Any, weights: Array, centers: Array, random_state: Any) -> tuple[Array, Any]:
        """Centres after a batch, and its inertia before."""
        reassign = self._random_reassign()
        new, _, far = step_batch(x, weights, centers, self._counts)
        inertia = float(x.dtype.type(np.dot(far.astype(np.float64), weights.astype(np.float64))))
        if reassign and self.reassignment_ratio > 0:
            self._reassign(x, new, random_state)
        return new, inertia

    def _reassign(self, x: Any, new: Array, random_state: Any) -> None:
        """Centres that got little go to points of the batch, as scikit-learn draws them."""
        counts, n = self._counts, x.shape[0]
        little = counts < self.reassignment_ratio * counts.max()
        if little.sum() > 0.5 * n:
            little[np.argsort(counts)[int(0.5 * n) :]] = False
        n_little = little.sum()
        if n_little:
            chosen = random_state.choice(n, replace=False, size=n_little)
            if self.verbose:
                print(f"[MiniBatchKMeans] Reassigning {n_little} cluster centers.")
            picked = x[chosen]
            new[little] = picked if isinstance(x, np.ndarray) else picked.toarray()
        counts[little] = np.min(counts[~little])

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MiniBatchKMeans:
        """One step with the given points as its batch."""
        has_centers = hasattr(self, "cluster_centers_")
        given = points(X, self, reset=not has_centers, **CHECKS)
        self._random_state = getattr(self, "_random_state", check_random_state(self.random_state))
        rows = rows_of(given, None, checked_weights(sample_weight, given), self.n_clusters)
        self.n_steps_ = getattr(self, "n_steps_", 0)
        if not has_centers:
            self._start(given, rows)
        centers = np.ascontiguousarray(self.cluster_centers_, rows.dtype)
        weights = np.ones(rows.n, rows.dtype) if rows.weights is None else rows.weights
        self.cluster_centers_ = self._step(_whole(given), weights, centers, self._random_state)[0]
        if self.compute_labels:
            self.labels_, self.inertia_ = labels_inertia(rows, self.cluster_centers_)
        self.n_steps_ += 1
        self._n_features_out = self.cluster_centers_.shape[0]
        return self

    def _start(self, given: Points, rows: DenseRows | SparseRows) -> None:
        """First centres, of the first batch."""
        dense = given.sparse is None
        self._check_points(given, given.tensor.var(0).numpy() if dense and self.tol else 0.0)
        self._n_threads = _openmp_effective_n_threads()
        init = self._checked_init(given)
        size = self._init_size
        self.cluster_centers_ = self._init_centroids(
            rows, None, init, self._random_state, None, init_size=size
        )
        self._counts = np.zeros(self.n_clusters, dtype=rows.dtype)
        self._n_since_last_reassign = 0


def _batch(rows: DenseRows | SparseRows, indices: Array) -> Any:
    """Some points on the host, sparse ones as they are."""
    if isinstance(rows, SparseRows):
        return rows.host[indices]
    if rows.host is not None:
        return np.take(rows.host, indices, axis=0)
    return np.ascontiguousarray(rows.take(indices))


def _whole(given: Points) -> Any:
    if given.sparse is not None:
        return given.sparse
    return np.ascontiguousarray(given.host if given.host is not None else given.tensor.numpy())

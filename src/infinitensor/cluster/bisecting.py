"""BisectingKMeans: scikit-learn's tree of splits, each split a k-means of two on tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn.cluster as theirs
from sklearn.base import _fit_context
from sklearn.cluster._bisect_k_means import _BisectingTree
from sklearn.utils import check_random_state
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils.validation import check_is_fitted

from infinitensor.cluster.bisect_rows import part_of
from infinitensor.cluster.kmeans import CHECKS, OnTiles, checked_weights, moments, rows_of
from infinitensor.cluster.lloyd import Run, lloyd, total
from infinitensor.cluster.sparse_rows import SparseRows
from infinitensor.estimators.points import points

if TYPE_CHECKING:
    from infinitensor.cluster.dense_rows import DenseRows

Array = np.ndarray[Any, Any]


class BisectingKMeans(OnTiles, theirs.BisectingKMeans):  # type: ignore[misc]
    """scikit-learn's `BisectingKMeans` on tiles: same parameters, same splits, same labels.

    >>> import numpy as np
    >>> from infinitensor.cluster import BisectingKMeans
    >>> X = np.array([[1.0, 1], [10, 1], [3, 1], [10, 0], [2, 1], [10, 2], [10, 8], [10, 9]])
    >>> BisectingKMeans(n_clusters=3, random_state=0).fit(X).labels_
    array([0, 2, 0, 2, 0, 2, 1, 1], dtype=int32)
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BisectingKMeans:
        """Split the points in two, then the part that is largest, and so on."""
        given = points(X, self, **CHECKS)
        mean = variances = ends = None
        if given.sparse is None:
            mean, variances, ends = moments(given, self.tol)
        self._check_points(given, variances)
        self._random_state = check_random_state(self.random_state)
        rows = rows_of(given, mean, checked_weights(sample_weight, given), 2)
        self._n_threads = _openmp_effective_n_threads()
        if mean is not None:
            self._X_mean = mean
        middle = np.zeros(rows.d, rows.dtype)
        if isinstance(rows, SparseRows):
            middle = np.asarray(rows.host.mean(axis=0)).reshape(-1)
        elif ends is not None:
            rows.with_bounds(*ends)
        tree = _BisectingTree(indices=np.arange(rows.n), center=middle, score=0)
        self._bisecting_tree = tree
        for _ in range(self.n_clusters - 1):
            self._split(rows, tree.get_cluster_to_bisect())
        self.labels_ = np.full(rows.n, -1, dtype=np.int32)
        centers = np.empty((self.n_clusters, rows.d), dtype=rows.dtype)
        for i, node in enumerate(tree.iter_leaves()):
            self.labels_[node.indices] = i
            centers[i] = node.center
            node.label = i
            node.indices = None
        self.inertia_ = total(rows.inertia(centers, self.labels_), rows.dtype)
        self.cluster_centers_ = centers if mean is None else centers + mean
        self._n_features_out = self.cluster_centers_.shape[0]
        return self

    def _split(self, rows: DenseRows | SparseRows, node: Any) -> None:
        """Part the points of a node in two, by the best of `n_init` runs."""
        part: Any = rows
        if not isinstance(rows, SparseRows):
            part = part_of(rows, node.indices, node.center)
        elif len(node.indices) < rows.n:
            part = rows.subset(node.indices)
        best: Run | None = None
        for _ in range(self.n_init):
            run = lloyd(
                part,
                self._init_centroids(part, None, self.init, self._random_state, None, None, 2),
                max_iter=self.max_iter,
                tol=self.tol,
                verbose=bool(self.verbose),
                algorithm="lloyd" if self.n_clusters == 1 else self.algorithm,
            )
            # as scikit-learn: a little better is not better
            if best is None or run.inertia < best.inertia * (1 - 1e-6):
                best = run
        assert best is not None
        if self.verbose:
            print(f"New centroids from bisection: {best.centers}")
        if self.bisecting_strategy == "biggest_inertia":
            scores = best.parts
        else:
            scores = np.bincount(best.labels, minlength=2)
        node.split(best.labels, best.centers, scores)

    def predict(self, X: Any) -> Array:
        """The leaf that each point reaches, going to the nearer centre at every split."""
        check_is_fitted(self)
        given = self._check_test_data(X)
        labels = np.full(given.n, -1, dtype=np.int32)
        whole = np.arange(given.n)
        self._descend(rows_of(given, None, None, 2), whole, self._bisecting_tree, labels)
        return labels

    def _descend(self, rows: Any, indices: Array, node: Any, labels: Array) -> None:
        """Labels of the points at these places, which have come to a node."""
        if node.left is None:
            labels[indices] = node.label
            return
        if not len(indices):
            return
        centers = np.vstack((node.left.center, node.right.center))
        if hasattr(self, "_X_mean"):
            centers += self._X_mean
        is_left = rows.nearest(np.ascontiguousarray(centers, rows.dtype)) == 0
        for side, mask in ((node.left, is_left), (node.right, ~is_left)):
            if mask.any():
                part = (
                    rows if mask.all() or side.left is None else rows.subset(np.flatnonzero(mask))
                )
                self._descend(part, indices[mask], side, labels)

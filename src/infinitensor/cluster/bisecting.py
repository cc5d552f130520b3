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

import infinitensor as it
from infinitensor.cluster.bisect_rows import part_of
from infinitensor.cluster.kmeans import CHECKS, OnTiles, checked_weights, moments, rows_of
from infinitensor.cluster.lloyd import Run, lloyd, total
from infinitensor.cluster.sparse_rows import SparseRows
from infinitensor.estimators.points import points
from infinitensor.ops.points.bisect import NOT_PARTED, ROOT

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
        leaf_of = self._grow_in_one_task(rows, tree)
        if leaf_of is None:
            for _ in range(self.n_clusters - 1):
                self._split(rows, tree.get_cluster_to_bisect())
        label_of = np.full(rows.n if leaf_of is None else 2 * self.n_clusters, -1, dtype=np.int32)
        centers = np.empty((self.n_clusters, rows.d), dtype=rows.dtype)
        for i, node in enumerate(tree.iter_leaves()):
            label_of[node.indices] = i
            centers[i] = node.center
            node.label = i
            node.indices = None
        self.labels_ = label_of if leaf_of is None else label_of[leaf_of]
        self.inertia_ = total(rows.inertia(centers, self.labels_), rows.dtype)
        self.cluster_centers_ = centers if mean is None else centers + mean
        self._n_features_out = self.cluster_centers_.shape[0]
        return self

    def _grow_in_one_task(self, rows: DenseRows | SparseRows, root: Any) -> Array | None:
        """The leaf of each row, by one task on a GPU; the nodes' indices are their numbers.

        None, and nothing done, where that is not for these rows or a split has no two first rows.
        """
        is_random = isinstance(self.init, str) and self.init == "random"
        if not is_random or self.n_init != 1 or self.verbose or self.n_clusters == 1:
            return None
        if isinstance(rows, SparseRows) or not rows.is_one_task:
            return None
        scale, is_coarse = rows.units
        if is_coarse or rows.weights is not None:
            return None
        before = self._random_state.get_state()
        draws = self._random_state.random_sample((self.n_clusters - 1, 2))
        by_size = self.bisecting_strategy == "largest_cluster"
        how = {"max_iter": self.max_iter, "by_size": by_size}
        asked = rows.call("_bisect", scale, draws, np.array([float(self.tol)]), **how)
        it.compute(*asked)
        leaf_of, centers, scores, parents = (np.asarray(one.numpy()) for one in asked)
        if (parents == NOT_PARTED).any():
            self._random_state.set_state(before)
            return None
        nodes = {ROOT: root}
        for step, parent in enumerate(parents.tolist()):
            for number in (2 * step, 2 * step + 1):
                nodes[number] = _BisectingTree(centers[number], number, scores[number])
            nodes[parent].left, nodes[parent].right = nodes[2 * step], nodes[2 * step + 1]
            nodes[parent].indices = None
        return leaf_of

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

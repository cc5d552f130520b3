"""KMeans, k_means and kmeans_plusplus: scikit-learn's contract, its draws and its labels, on tiles.

Parameters, checks, texts and attributes are scikit-learn's own code; passes over the points are
ours. Labels are float64's decision, also for float32 points.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import sklearn.cluster as theirs
from sklearn.base import _fit_context
from sklearn.cluster._k_means_common import _is_same_clustering
from sklearn.cluster._kmeans import _BaseKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils.validation import (
    _check_sample_weight,
    _is_arraylike_not_scalar,
    check_is_fitted,
)

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.cluster.bisect_rows import RowsAt
from infinitensor.cluster.dense_rows import DenseRows
from infinitensor.cluster.lloyd import Run, lloyd, total
from infinitensor.cluster.seeding import draw_rows, seed
from infinitensor.cluster.sparse_rows import SparseRows
from infinitensor.estimators.checked_functions import like
from infinitensor.estimators.points import Points, on_host, points

Array = np.ndarray[Any, Any]
CHECKS: dict[str, Any] = {"accept_sparse": "csr", "order": "C", "accept_large_sparse": False}


class Shape:
    """The attributes of points that scikit-learn reads first: their shape and their variances."""

    def __init__(self, shape: tuple[int, int], variances: Any) -> None:
        self.shape = shape
        self.variances = variances

    def var(self, axis: int, **_: Any) -> Any:
        """The variance of each coordinate."""
        return self.variances


def rows_of(
    given: Points, shift: Array | None, weights: Array | None, k: int
) -> DenseRows | SparseRows:
    """Points as the passes read them that compare them with k centres."""
    if given.sparse is not None:
        return SparseRows(given.sparse, weights)
    shift = np.zeros(given.d, given.dtype) if shift is None else shift
    return DenseRows(given.tensor, given.host, shift, weights, k)


def checked_weights(sample_weight: Any, given: Points) -> Array | None:
    """Weights as scikit-learn checks them; None: every point weighs one."""
    if sample_weight is None:
        return None
    stand_in = np.broadcast_to(np.zeros((), given.dtype), (given.n, given.d))
    checked = _check_sample_weight(on_host(sample_weight), stand_in, dtype=given.dtype)
    return np.asarray(checked)


AT_A_TIME = 1 << 20
"""Labels that NumPy looks at in one call: it takes 8 bytes for each, whatever their dtype."""


def n_distinct(labels: Array, n: int) -> int:
    """How many of n labels occur."""
    seen = np.zeros(n, bool)
    for i in range(0, len(labels), AT_A_TIME):
        seen[labels[i : i + AT_A_TIME]] = True
    return int(np.count_nonzero(seen))


class OnTiles(_BaseKMeans):  # type: ignore[misc]
    """Seeding, prediction and distances of the k-means estimators, in passes of ours."""

    def _check_test_data(self, X: Any) -> Points:
        return points(X, self, reset=False, **CHECKS)

    def _check_points(self, given: Points, variances: Any) -> None:
        """Parameters against points; `variances` of their coordinates are for `tol`."""
        sparse = given.sparse is not None
        self._check_params_vs_input(
            given.sparse if sparse else Shape((given.n, given.d), variances)
        )

    def _checked_init(self, given: Points) -> Any:
        """`init`, a copy of it if it is an array."""
        if not _is_arraylike_not_scalar(self.init):
            return self.init
        init = check_array(self.init, dtype=given.dtype, copy=True, order="C")
        self._validate_center_shape(Shape((given.n, given.d), None), init)
        return init

    def _init_centroids(
        self,
        X: Any,
        x_squared_norms: Any,
        init: Any,
        random_state: Any,
        sample_weight: Any,
        init_size: int | None = None,
        n_centroids: int | None = None,
    ) -> Array:
        """The first centres; X is rows of ours, or an array."""
        rows: Any = X
        if not isinstance(X, DenseRows | SparseRows | RowsAt):
            given = points(X, **CHECKS)
            rows = rows_of(given, None, checked_weights(sample_weight, given), self.n_clusters)
        k = self.n_clusters if n_centroids is None else n_centroids
        if init_size is not None and init_size < rows.n:
            rows = rows.subset(random_state.randint(0, rows.n, init_size))
        if isinstance(init, str) and init == "k-means++":
            return seed(rows, k, random_state)[0]
        if isinstance(init, str):
            return np.asarray(rows.take(draw_rows(rows, random_state, k)))
        if _is_arraylike_not_scalar(self.init):
            return np.asarray(init)
        centers = init(rows.all_rows(), k, random_state=random_state)
        centers = check_array(centers, dtype=rows.dtype, copy=False, order="C")
        self._validate_center_shape(Shape((rows.n, rows.d), None), centers, n_centroids=k)
        return np.asarray(centers)

    def _centers_for(self, given: Points) -> Array:
        return np.ascontiguousarray(self.cluster_centers_, given.dtype)

    def predict(self, X: Any) -> Array:
        """The number of the nearest centre of each point."""
        check_is_fitted(self)
        given = self._check_test_data(X)
        return rows_of(given, None, None, self.n_clusters).nearest(self._centers_for(given))

    def transform(self, X: Any) -> Array:
        """The distance of each point to each centre."""
        check_is_fitted(self)
        return self._transform(self._check_test_data(X))

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, then the distance of each point to each centre."""
        self.fit(X, sample_weight=sample_weight)
        return self._transform(self._check_test_data(X))

    def _transform(self, X: Any) -> Array:
        given = X if isinstance(X, Points) else self._check_test_data(X)
        dtype = np.result_type(given.dtype, self.cluster_centers_.dtype)
        centers = np.ascontiguousarray(self.cluster_centers_, dtype)
        if given.sparse is not None:
            rows = SparseRows(given.sparse.astype(dtype, copy=False), None)
            return np.sqrt(rows.distances(centers).T)
        x = given.tensor if given.dtype == dtype else given.tensor.astype(dtype)
        made: it.Tensor = call_op("_distances_to", x, np.zeros(given.d, dtype), centers)
        return made.numpy()

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """The negative sum of weighted squared distances to the nearest centres."""
        check_is_fitted(self)
        given = self._check_test_data(X)
        rows = rows_of(given, None, checked_weights(sample_weight, given), self.n_clusters)
        return -labels_inertia(rows, self._centers_for(given))[1]


def labels_inertia(rows: DenseRows | SparseRows, centers: Array) -> tuple[Array, Any]:
    """The nearest centre of each row, and the weighted squared distances to them in all."""
    labels = rows.nearest(centers)
    return labels, total(rows.inertia(centers, labels), rows.dtype)


def moments(given: Points, tol: float) -> tuple[Array, Any, tuple[Array, Array]]:
    """Means, variances (where `tol` needs them) and both ends of each coordinate, in one pass."""
    asked = call_op("_columns", given.tensor)
    it.compute(*asked)
    mean, variances, low, high = [one.numpy() for one in asked]
    return mean, variances if tol else None, (low, high)


class KMeans(OnTiles, theirs.KMeans):  # type: ignore[misc]
    """scikit-learn's `KMeans` on tiles: same parameters, same draws, same labels.

    >>> import numpy as np
    >>> from infinitensor.cluster import KMeans
    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> KMeans(n_clusters=2, random_state=0).fit(X).labels_
    array([1, 1, 1, 0, 0, 0], dtype=int32)
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KMeans:
        """Find the centres. X may also be a tensor or the path of a file, of any size."""
        given = points(X, self, **CHECKS, ensure_all_finite=False)
        mean = ends = None
        variances = None
        finite = False
        if given.sparse is None:
            mean, variances, ends = moments(given, self.tol)
            finite = bool(np.isfinite([mean, *ends]).all())
        if not finite:
            points(X, self, **CHECKS)  # says what is not finite, in scikit-learn's words
        self._check_points(given, variances)
        random_state = check_random_state(self.random_state)
        weights = checked_weights(sample_weight, given)
        self._n_threads = _openmp_effective_n_threads()
        init = self._checked_init(given)
        rows = rows_of(given, mean, weights, self.n_clusters)
        if isinstance(rows, DenseRows) and ends is not None:
            rows.with_bounds(*ends)
            if isinstance(init, np.ndarray):
                init -= mean
        best = self._best_run(rows, init, random_state)
        centers = best.centers if mean is None else best.centers + mean
        distinct = n_distinct(best.labels, self.n_clusters)
        if distinct < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({distinct}) found smaller than "
                f"n_clusters ({self.n_clusters}). Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.cluster_centers_ = centers
        self._n_features_out = centers.shape[0]
        self.labels_ = best.labels
        self.inertia_ = best.inertia
        self.n_iter_ = best.n_iter
        return self

    def _best_run(self, rows: DenseRows | SparseRows, init: Any, random_state: Any) -> Run:
        """The run of least inertia; a run counts only if it parts the points in another way."""
        best: Run | None = None
        for _ in range(self._n_init):
            centers = self._init_centroids(rows, None, init, random_state, None)
            if self.verbose:
                print("Initialization complete")
            run = lloyd(
                rows,
                centers,
                max_iter=self.max_iter,
                tol=self._tol,
                verbose=bool(self.verbose),
                algorithm=self._algorithm,
            )
            if best is None or (
                run.inertia < best.inertia
                and not _is_same_clustering(run.labels, best.labels, self.n_clusters)
            ):
                best = run
        assert best is not None
        return best


@like(theirs.k_means, "X", asks=True)
def k_means(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    init: Any = "k-means++",
    n_init: Any = "auto",
    max_iter: int = 300,
    verbose: Any = False,
    tol: float = 1e-4,
    random_state: Any = None,
    copy_x: bool = True,
    algorithm: str = "lloyd",
    return_n_iter: bool = False,
) -> tuple[Any, ...]:
    """scikit-learn's `k_means`: centres, labels, inertia and, if asked, the iterations.

    >>> import numpy as np
    >>> from infinitensor.cluster import k_means
    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> k_means(X, n_clusters=2, n_init="auto", random_state=0)[1]
    array([1, 1, 1, 0, 0, 0], dtype=int32)
    """
    found = KMeans(
        n_clusters=n_clusters,
        init=init,
        n_init=n_init,
        max_iter=max_iter,
        verbose=verbose,
        tol=tol,
        random_state=random_state,
        copy_x=copy_x,
        algorithm=algorithm,
    ).fit(X, sample_weight=sample_weight)
    made = (found.cluster_centers_, found.labels_, found.inertia_)
    return (*made, found.n_iter_) if return_n_iter else made


@like(theirs.kmeans_plusplus, "X")
def kmeans_plusplus(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    x_squared_norms: Any = None,
    random_state: Any = None,
    n_local_trials: int | None = None,
) -> tuple[Array, Array]:
    """scikit-learn's `kmeans_plusplus`: seeds and their row numbers.

    `x_squared_norms` is checked as scikit-learn checks it; nothing is read from it.

    >>> import numpy as np
    >>> from infinitensor.cluster import kmeans_plusplus
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> kmeans_plusplus(X, n_clusters=2, random_state=0)[1]
    array([3, 2])
    """
    given = points(X, accept_sparse="csr")
    weights = checked_weights(sample_weight, given)
    if given.n < n_clusters:
        raise ValueError(f"n_samples={given.n} should be >= n_clusters={n_clusters}.")
    if x_squared_norms is not None:
        norms = check_array(x_squared_norms, dtype=given.dtype, ensure_2d=False)
        if norms.shape[0] != given.n:
            raise ValueError(
                f"The length of x_squared_norms {norms.shape[0]} should "
                f"be equal to the length of n_samples {given.n}."
            )
    rows = rows_of(given, None, weights, n_clusters)
    random_state = check_random_state(random_state)
    centers, chosen = seed(rows, n_clusters, random_state, n_local_trials)
    plain = X if isinstance(X, np.ndarray) else None
    return (centers if plain is None else plain[chosen]), chosen

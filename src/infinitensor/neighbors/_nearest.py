"""NearestNeighbors: scikit-learn's contract, its searches as ops over tiles."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.neighbors as theirs
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import DistanceMetric
from sklearn.metrics._dist_metrics import EuclideanDistance64
from sklearn.metrics._pairwise_distances_reduction import ArgKmin
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS
from sklearn.neighbors import VALID_METRICS_SPARSE, BallTree, KDTree
from sklearn.neighbors._base import NeighborsBase, _check_precomputed
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from infinitensor.estimators.points import FLOATS, points
from infinitensor.neighbors._search import Search, nearest_others, search_of

Array = Any


class NeighborSearch:
    """Fitting and queries, for every estimator that looks for neighbours."""

    def _fit(self: Any, X: Any, y: Any = None) -> Any:
        """Check and keep the points; nothing is built until somebody asks."""
        self._search = self._tree_metric = None
        if isinstance(X, KDTree | BallTree | NeighborsBase):
            super()._fit(X)  # type: ignore[misc]
            self._tree_metric = _metric_of(X)
            if not isinstance(X, NeighborsBase):
                self._fit_X = np.asarray(X.data)
            self._tree = Tree(self)
            return self
        self._feed(X)
        self._check_algorithm_metric()
        self._resolve_metric()
        if self.metric == "precomputed":
            self._fit_X = _check_precomputed(self._fit_X)
            if self._fit_X.shape[0] != self._fit_X.shape[1]:
                n, m = self._fit_X.shape
                raise ValueError(f"Precomputed matrix must be square. Input is a {n}x{m} matrix.")
            self.n_features_in_ = self._fit_X.shape[1]
        self.n_samples_fit_ = self._fit_X.shape[0]
        if self.n_samples_fit_ == 0:
            raise ValueError("n_samples must be greater than 0")
        self._choose_method()
        self._tree = None if self._fit_method == "brute" else Tree(self)
        return self

    def _feed(self: Any, X: Any) -> None:
        given = points(
            X,
            self,
            dtype="numeric",
            ensure_all_finite="allow-nan" if get_tags(self).input_tags.allow_nan else True,
            accept_sparse="csr",
            order="C",
        )
        self._fit_X = given.sparse if given.dense is None else given.host
        if self._fit_X is None:
            self._fit_X = given.dense

    def _resolve_metric(self: Any) -> None:
        """`effective_metric_`: a Minkowski metric that has a name of its own goes by it."""
        self.effective_metric_ = self.metric
        self.effective_metric_params_ = dict(self.metric_params or {})
        if self.metric != "minkowski":
            return
        power = self.effective_metric_params_.pop("p", self.p)
        weight = self.effective_metric_params_.pop("w", None)
        named = {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}
        if weight is None and power in named:
            self.effective_metric_ = named[power]
        else:
            self.effective_metric_params_ |= {"p": power, "w": weight}

    def _choose_method(self: Any) -> None:
        """`_fit_method`: what scikit-learn would search with. What it refuses is refused."""
        if scipy.sparse.issparse(self._fit_X):
            self._fit_method = "brute"
            if self.algorithm not in ("auto", "brute"):
                warnings.warn("cannot use tree with sparse input: using brute force", stacklevel=4)
            known = self.effective_metric_ in VALID_METRICS_SPARSE["brute"]
            if not known and isinstance(self.effective_metric_, str):
                raise ValueError(
                    f"Metric '{self.effective_metric_}' not valid for sparse input. Use "
                    "sorted(sklearn.neighbors.VALID_METRICS_SPARSE['brute']) to get valid options. "
                    "Metric can also be a callable function."
                )
            self._fit_X = self._fit_X.copy()
            return
        weight = self.effective_metric_params_.get("w") is not None
        minkowski = self.effective_metric_ == "minkowski"
        semi = minkowski and self.effective_metric_params_["p"] < 1
        self._fit_method = self.algorithm
        if self.algorithm == "auto":
            self._fit_method = self._automatic(semi, minkowski and weight)
        if semi and self._fit_method == "brute":
            warnings.warn(
                "Mind that for 0 < p < 1, Minkowski metrics are not distance metrics. Continuing "
                "the execution with `algorithm='brute'`.",
                stacklevel=4,
            )
        elif semi:
            raise ValueError(
                f'algorithm="{self._fit_method}" does not support 0 < p < 1 for the Minkowski '
                'metric. To resolve this problem either set p >= 1 or algorithm="brute".'
            )
        if self._fit_method == "kd_tree" and minkowski and weight:
            raise ValueError(
                "algorithm='kd_tree' is not valid for metric='minkowski' with a weight parameter "
                "'w': try algorithm='ball_tree' or algorithm='brute' instead."
            )

    def _automatic(self: Any, semi: bool, weighted: bool) -> str:
        n, d = self._fit_X.shape
        many = self.n_neighbors is not None and self.n_neighbors >= n // 2
        if self.metric == "precomputed" or d > 15 or many or semi:
            return "brute"
        if weighted:
            return "ball_tree"
        if self.effective_metric_ in theirs.VALID_METRICS["kd_tree"]:
            return "kd_tree"
        in_ball = self.effective_metric_ in theirs.VALID_METRICS["ball_tree"]
        return "ball_tree" if callable(self.effective_metric_) or in_ball else "brute"

    def __getstate__(self: Any) -> Any:
        state: Any = super().__getstate__()
        return {**state, "_search": None} if "_search" in state else state

    # --- asking -------------------------------------------------------------------------------

    def _make_search(self: Any, by_pairs: bool | None = None) -> Search:
        sets = self.effective_metric_ in PAIRWISE_BOOLEAN_FUNCTIONS and self._fit_method == "brute"
        if sets and self._fit_X.dtype != bool:
            text = f"Data was converted to boolean for metric {self.effective_metric_}"
            warnings.warn(text, DataConversionWarning, stacklevel=3)
        if self.__dict__.get("_search") is None:
            metric = "precomputed" if self.metric == "precomputed" else self.effective_metric_
            params = self.effective_metric_params_
            if self.__dict__.get("_tree_metric") is not None:
                metric, params = self._tree_metric
            by_pairs = self._is_by_pairs() if by_pairs is None else by_pairs
            self._search = search_of(self._fit_X, metric, params, by_pairs)
        return self._search  # type: ignore[no-any-return]

    def _is_by_pairs(self: Any) -> bool:
        """Whether scikit-learn takes distances of `pairwise_distances` here."""
        metric, X = self.effective_metric_, self._fit_X
        if self._fit_method != "brute" or isinstance(metric, DistanceMetric):
            return False
        if scipy.sparse.issparse(X) and isinstance(metric, str) and "euclidean" in metric:
            return True
        return X.dtype not in FLOATS or metric not in ArgKmin.valid_metrics()

    def _query(self: Any, X: Any) -> Any:
        """Points to ask about, checked; None: the fitted ones."""
        if X is None:
            return None
        if self.metric == "precomputed":
            matrix = _check_precomputed(X)
            if not scipy.sparse.issparse(matrix) and matrix.shape[1] != self.n_samples_fit_:
                n, m = matrix.shape
                raise ValueError(
                    "Precomputed metric requires shape (n_queries, n_indexed). Got "
                    f"({n}, {m}) for {self.n_samples_fit_} indexed."
                )
            return matrix
        given = points(
            X,
            self,
            reset=False,
            dtype="numeric",
            ensure_all_finite="allow-nan" if get_tags(self).input_tags.allow_nan else True,
            accept_sparse="csr",
            order="C",
        )
        asked = given.sparse if given.dense is None else given.host
        if scipy.sparse.issparse(asked) and self._fit_method in ("ball_tree", "kd_tree"):
            raise ValueError(
                f"{self._fit_method} does not work with sparse matrices. Densify the data, or set "
                "algorithm='brute'"
            )
        return given.dense if asked is None else asked

    def kneighbors(
        self: Any, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """The nearest fitted points of each point of X: distances and indices.

        Sorted by distance, ties by index. Without X the fitted points are asked about, and none is
        its own neighbour. Memory grows with the points and the neighbours, not with the pairs.
        """
        check_is_fitted(self)
        if n_neighbors is None:
            n_neighbors = self.n_neighbors
        elif n_neighbors <= 0:
            raise ValueError(f"Expected n_neighbors > 0. Got {n_neighbors}")
        elif not isinstance(n_neighbors, Integral):
            raise TypeError(
                f"n_neighbors does not take {type(n_neighbors)} value, enter integer value"
            )
        asked = self._query(X)
        itself = int(asked is None)
        if n_neighbors + itself > self.n_samples_fit_:
            n = self.n_samples_fit_ if asked is None else asked.shape[0]
            raise ValueError(
                f"Expected n_neighbors {'<' if itself else '<='} n_samples_fit, but n_neighbors = "
                f"{n_neighbors}, n_samples_fit = {self.n_samples_fit_}, n_samples = {n}"
            )
        search = self._make_search()
        if itself:
            apart, number = nearest_others(search, n_neighbors)
        else:
            apart, number = search.nearest(asked, n_neighbors)
        return (apart, number) if return_distance else number

    def radius_neighbors(
        self: Any,
        X: Any = None,
        radius: Any = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """The fitted points within the radius of each point of X: distances and indices.

        In each row sorted by index, or by (distance, index) if `sort_results`.
        """
        check_is_fitted(self)
        if sort_results and not return_distance:
            raise ValueError("return_distance must be True if sort_results is True.")
        asked = self._query(X)
        radius = self.radius if radius is None else radius
        starts, number, apart = self._make_search().within(asked, radius, sort_results)
        if asked is None:
            starts, number, apart = _rows_without_itself(starts, number, apart)
        indices = _split(number, starts)
        return (_split(apart, starts), indices) if return_distance else indices


def _metric_of(given: Any) -> tuple[Any, dict[str, Any]] | None:
    """The metric of a tree, or of an estimator that has one: it is searched by, whatever is asked.

    None for an estimator that searches by brute force: it gives its points only.
    """
    tree = given._tree if isinstance(given, NeighborsBase) else given
    if isinstance(tree, Tree):
        model = tree.model
        if model.__dict__.get("_tree_metric") is not None:
            return model._tree_metric  # type: ignore[no-any-return]
        return model.effective_metric_, model.effective_metric_params_
    if tree is None:
        return None
    metric = next(one for one in tree.__getstate__() if isinstance(one, DistanceMetric))
    return ("euclidean" if isinstance(metric, EuclideanDistance64) else metric), {}


def _rows_without_itself(starts: Array, number: Array, apart: Array) -> tuple[Array, Array, Array]:
    n = len(starts) - 1
    other = number != np.repeat(np.arange(n), np.diff(starts))
    kept = np.concatenate(([0], np.cumsum(other)))[starts]
    return kept, number[other], apart[other]


def _split(values: Array, starts: Array) -> Array:
    rows = np.empty(len(starts) - 1, dtype=object)
    for i in range(len(rows)):
        rows[i] = values[starts[i] : starts[i + 1]]
    return rows


class Tree:
    """Stands where scikit-learn keeps its tree: estimators that are given ours ask it."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def query(self, X: Any, k: int = 1, return_distance: bool = True) -> Any:
        """The k nearest, as a tree gives them."""
        return self.model.kneighbors(X, k, return_distance)

    def query_radius(
        self, X: Any, r: Any, return_distance: bool = False, sort_results: bool = False
    ) -> Any:
        """All within the radius, as a tree gives them: indices first."""
        found = self.model.radius_neighbors(X, r, return_distance, sort_results)
        return (found[1], found[0]) if return_distance else found


class NearestNeighbors(NeighborSearch, theirs.NearestNeighbors):  # type: ignore[misc]
    """scikit-learn's NearestNeighbors on tiles: same parameters, same answers.

    `algorithm`, `leaf_size` and `n_jobs` are checked and change nothing: distances are those of
    direct differences in float64, and ties go to the smaller index.

    >>> import numpy as np
    >>> from infinitensor.neighbors import NearestNeighbors
    >>> model = NearestNeighbors(n_neighbors=1).fit(np.array([[0.0], [1.0], [3.0]]))
    >>> model.kneighbors(np.array([[0.9]]), return_distance=False).tolist()
    [[1]]
    """

"""Pairwise distances, in tiles: a matrix of them, or only the nearest of each row."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import scipy.sparse
import sklearn.metrics as theirs
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics._pairwise_distances_reduction import ArgKmin
from sklearn.metrics.pairwise import check_pairwise_arrays
from sklearn.utils.validation import check_non_negative

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.estimators.checked_functions import like
from infinitensor.estimators.metric_names import (
    awake,
    between,
    block,
    check_sparse_metric,
    choose_metric,
    chunks_of,
    row_steps,
    spread,
)
from infinitensor.estimators.points import as_result, borrow, points
from infinitensor.ops.points.distances import BOOLEAN, metric_dtype

if TYPE_CHECKING:
    from infinitensor.estimators.metric_names import Metric


class Pair:
    """Two sets of checked points: tensors or sparse matrices; the second may be the first."""

    def __init__(self, X: Any, Y: Any, **checks: Any) -> None:
        self.is_same = Y is None or Y is X
        if isinstance(X, it.Tensor) or isinstance(Y, it.Tensor):
            self.x, self.y = self._stream_points(X, Y, checks)
        else:
            self.x, self.y = check_pairwise_arrays(X, Y, **checks)
        self.is_sparse = scipy.sparse.issparse(self.x) or scipy.sparse.issparse(self.y)

    def _stream_points(self, X: Any, Y: Any, checks: dict[str, Any]) -> tuple[Any, Any]:
        wanted = checks.pop("dtype", "infer_float")
        if wanted == "infer_float":
            wanted = [np.float64, np.float32]
        checks.pop("accept_sparse", None)
        first = points(X, "check_pairwise_arrays", dtype=wanted, **checks)
        second = first
        if not self.is_same:
            second = points(Y, "check_pairwise_arrays", dtype=wanted, **checks)
        if first.d != second.d:
            raise ValueError(
                "Incompatible dimension for X and Y matrices: "
                f"X.shape[1] == {first.d} while Y.shape[1] == {second.d}"
            )
        x, y = first.tensor, second.tensor
        if x.dtype != y.dtype:
            x, y = x.astype(np.float64), y.astype(np.float64)
        return x, y

    @property
    def tensors(self) -> tuple[it.Tensor, it.Tensor]:
        """Both as tensors."""
        if self.is_same:
            x = self.x if isinstance(self.x, it.Tensor) else borrow(self.x)
            return x, x
        x, y = (one if isinstance(one, it.Tensor) else borrow(one) for one in (self.x, self.y))
        return x, y

    def fit_metric(self, metric: str, params: dict[str, Any]) -> Metric:
        """The metric, with what it takes from the points if it was not given."""
        for one, name in (("V", "seuclidean"), ("VI", "mahalanobis")):
            if metric == name and params.get(one) is None:
                if not self.is_same:
                    _refuse_without(one, metric)
                params = {**params, one: spread(self.tensors[0], metric)}
        return awake(choose_metric(metric, params))


def _refuse_without(name: str, metric: str) -> NoReturn:
    raise ValueError(
        f"The '{name}' parameter is required for the {metric} metric when Y is passed."
    )


@like(theirs.pairwise_distances, "X", "Y")
def pairwise_distances(
    X: Any,
    Y: Any = None,
    metric: Any = "euclidean",
    *,
    n_jobs: Any = None,
    ensure_all_finite: Any = True,
    **kwds: Any,
) -> Any:
    """The distances of the rows of X to the rows of Y, or to each other, as scikit-learn has them.

    Computed in tiles on all devices; `n_jobs` changes nothing. A metric that is a Python function
    is called for each pair, on the host.

    >>> from infinitensor.metrics import pairwise_distances
    >>> pairwise_distances([[0.0, 0.0], [3.0, 4.0]], metric="manhattan").tolist()
    [[0.0, 7.0], [7.0, 0.0]]
    """
    checks = {"ensure_all_finite": ensure_all_finite}
    if metric == "precomputed":
        X, _ = check_pairwise_arrays(_host(X), _host(Y), precomputed=True, **checks)
        whom = "`pairwise_distances`. Precomputed distance  need to have non-negative values."
        check_non_negative(X, whom=whom)
        return X
    if callable(metric):
        return _call_metric(_host(X), _host(Y), metric, checks, kwds)
    if metric == "nan_euclidean":
        kwds, X, Y = _without_missing(kwds, X, Y)
        checks["ensure_all_finite"] = "allow-nan"
    norms = [kwds.pop(f"{name}_norm_squared", None) for name in "XY"]  # ours are computed anew
    _check_norms(norms, X, Y)
    if metric in BOOLEAN:
        checks["dtype"] = bool
        if any(_kind(one) != "b" for one in (X, Y) if one is not None):
            said = f"Data was converted to boolean for metric {metric}"
            warnings.warn(said, DataConversionWarning, stacklevel=3)
    if metric == "nan_euclidean":
        checks["accept_sparse"] = False
    elif metric == "haversine":
        X, Y = (one.toarray() if scipy.sparse.issparse(one) else one for one in (X, Y))
    elif scipy.sparse.issparse(X) or scipy.sparse.issparse(Y):
        check_sparse_metric(metric)
    pair = Pair(X, Y, **checks)
    if pair.is_sparse:
        made = block(pair.x, pair.y, choose_metric(metric, kwds))
        if pair.is_same and metric not in ("l1", "manhattan", "cityblock"):
            np.fill_diagonal(made, 0)
        return made
    x, y = pair.tensors
    own = slice(0, x.shape[0]) if pair.is_same else None
    return as_result(between(x, y, pair.fit_metric(metric, kwds), own))


def _host(X: Any) -> Any:
    return X.numpy() if isinstance(X, it.Tensor) else X


def _kind(X: Any) -> str:
    return str((getattr(X, "dtype", None) or np.asarray(X).dtype).kind)


def _call_metric(
    X: Any, Y: Any, metric: Any, checks: dict[str, Any], params: dict[str, Any]
) -> Any:
    X, Y = check_pairwise_arrays(X, Y, dtype=None, ensure_2d=False, **checks)
    return block(X, Y, metric, params)


def _without_missing(params: dict[str, Any], X: Any, Y: Any) -> tuple[dict[str, Any], Any, Any]:
    """Points with NaN for the missing value."""
    missing = params.pop("missing_values", np.nan)
    params.pop("copy", None)
    if missing != missing:
        return params, X, Y
    X, Y = check_pairwise_arrays(_host(X), _host(Y), accept_sparse=False)
    x = np.where(np.equal(X, missing), np.nan, X)
    return params, x, x if Y is X else np.where(np.equal(Y, missing), np.nan, Y)


def _check_norms(norms: list[Any], X: Any, Y: Any) -> None:
    """Given squared lengths must fit the points; that is all they are asked for."""
    for name, norm, rows in zip("XY", norms, (X, X if Y is None else Y), strict=True):
        if norm is None:
            continue
        shape, n = np.shape(norm), np.shape(rows)[0]
        if shape not in ((n,), (n, 1), (1, n)):
            raise ValueError(
                f"Incompatible dimensions for {name} of shape {np.shape(rows)} and "
                f"{name}_norm_squared of shape {shape}."
            )


# --- the nearest ------------------------------------------------------------------------------


def _nearest(
    X: Any, Y: Any, axis: int, metric: Any, params: dict[str, Any] | None
) -> tuple[Any, Any]:
    checks: dict[str, Any] = {
        "ensure_all_finite": "allow-nan" if metric == "nan_euclidean" else True
    }
    params = dict(params or {})
    if callable(metric):
        checks["dtype"] = None
        X, Y = _host(X), _host(Y)
    pair = Pair(X, Y, **checks)
    pair.is_same = False
    if axis == 0:
        pair.x, pair.y = pair.y, pair.x
    is_tree = metric in ArgKmin.valid_metrics()
    if callable(metric):
        return _nearest_in_blocks(pair, metric, params)
    if pair.is_sparse:
        if not is_tree or "euclidean" in metric:
            check_sparse_metric(metric)
        else:  # scikit-learn compares them by differences, in float64
            pair.x, pair.y = pair.x.astype(np.float64), pair.y.astype(np.float64)
        return _nearest_in_blocks(pair, choose_metric(metric, params, is_tree=is_tree), params)
    needed = {"seuclidean": "V", "mahalanobis": "VI"}.get(metric)
    if needed and params.get(needed) is None:
        _refuse_without(needed, metric)
    if is_tree and params.pop("squared", False):
        metric = "sqeuclidean"
    found = None
    how = awake(choose_metric(metric, params, is_tree=is_tree))
    x, y = pair.tensors
    for start, some in chunks_of(y):
        value, where = call_op("_nearest_by", x, some, *how.operands, **how.named)
        where = where + start
        if found is not None:
            better = value < found[0]
            value = it.where(better, value, found[0])
            where = it.where(better, where, found[1])
        found = value, where
    assert found is not None
    value = found[0] * found[0] if how.squared else found[0]
    return value.astype(metric_dtype(how.name, x.dtype, y.dtype)), found[1]


def _nearest_in_blocks(pair: Pair, how: Any, params: dict[str, Any]) -> tuple[Any, Any]:
    values, places = [], []
    for rows in row_steps(pair.x.shape[0], pair.y.shape[0]):
        far = block(pair.x[rows], pair.y, how, params)
        where = far.argmin(1)
        places.append(where)
        values.append(far[np.arange(len(where)), where])
    return np.concatenate(values), np.concatenate(places)


@like(theirs.pairwise_distances_argmin, "X", "Y")
def pairwise_distances_argmin(
    X: Any, Y: Any, *, axis: int = 1, metric: Any = "euclidean", metric_kwargs: Any = None
) -> Any:
    """Which row of Y is nearest to each row of X (axis 0: of X to each of Y); of equals the first.

    >>> from infinitensor.metrics import pairwise_distances_argmin
    >>> pairwise_distances_argmin([[0.0], [4.0]], [[1.0], [3.0]]).tolist()
    [0, 1]
    """
    return _out(_nearest(X, Y, axis, metric, metric_kwargs)[1])


@like(theirs.pairwise_distances_argmin_min, "X", "Y")
def pairwise_distances_argmin_min(
    X: Any, Y: Any, *, axis: int = 1, metric: Any = "euclidean", metric_kwargs: Any = None
) -> Any:
    """As `pairwise_distances_argmin`, and how far away each of them is.

    >>> from infinitensor.metrics import pairwise_distances_argmin_min
    >>> [one.tolist() for one in pairwise_distances_argmin_min([[0.0]], [[1.0], [3.0]])]
    [[0], [1.0]]
    """
    value, where = _nearest(X, Y, axis, metric, metric_kwargs)
    if isinstance(where, it.Tensor):
        it.compute(value, where)
    return _out(where), _out(value)


def _out(found: Any) -> Any:
    return as_result(found) if isinstance(found, it.Tensor) else found

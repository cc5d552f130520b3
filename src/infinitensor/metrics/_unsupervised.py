"""Scores of a clustering without the truth: silhouette, Calinski-Harabasz, Davies-Bouldin.

The distances of a silhouette are summed by label as they are made: never n by n of them.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.metrics as theirs
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics.cluster._unsupervised import check_number_of_labels
from sklearn.utils import check_random_state, check_X_y

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.estimators.checked_functions import like
from infinitensor.estimators.metric_names import (
    block,
    check_sparse_metric,
    choose_metric,
    chunks_of,
    owners,
    row_steps,
)
from infinitensor.estimators.points import borrow, points
from infinitensor.metrics._pairwise import Pair, _kind, pairwise_distances
from infinitensor.ops.points.distances import BOOLEAN, metric_dtype, tile


def _check_labels(X: Any, labels: Any, **checks: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Points, the code of each one's label, and how many points each label has."""
    if isinstance(X, it.Tensor):
        found = points(X, dtype=[np.float64, np.float32])
        stand_in = np.broadcast_to(np.zeros(()), (found.n, 1))
        _, labels = check_X_y(stand_in, _host(labels), ensure_all_finite=False)
        X = found.tensor
    else:
        X, labels = check_X_y(X, _host(labels), **checks)
    classes, codes = np.unique(labels, return_inverse=True)
    check_number_of_labels(len(classes), len(codes))
    return X, codes, np.bincount(codes)


def _host(labels: Any) -> Any:
    return labels.numpy() if isinstance(labels, it.Tensor) else labels


# --- silhouette -------------------------------------------------------------------------------


@like(theirs.silhouette_samples, "X")
def silhouette_samples(X: Any, labels: Any, *, metric: Any = "euclidean", **kwds: Any) -> Any:
    """How much nearer each point is to its own cluster than to the next one, from -1 to 1.

    Costs n² distances, made in tiles, and memory for n sums a label.

    >>> from infinitensor.metrics import silhouette_samples
    >>> silhouette_samples([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]).round(2).tolist()
    [0.89, 0.88, 0.88, 0.89]
    """
    if isinstance(metric, str) and metric in BOOLEAN and _kind(X) != "b":
        said = f"Data was converted to boolean for metric {metric}"
        warnings.warn(said, DataConversionWarning, stacklevel=3)
    X, codes, counts = _check_labels(X, labels, accept_sparse=["csr"])
    if metric == "precomputed":
        _check_diagonal(X)
    sums = _sums(X, codes, len(counts), metric, kwds)
    made = _coefficients(sums, codes, counts)
    return it.asarray(made) if it.config.lazy_results else made


def _check_diagonal(X: Any) -> None:
    diagonal = _host(X.diagonal())
    most = np.finfo(X.dtype).eps * 100 if X.dtype.kind == "f" else 0
    if np.any(np.abs(diagonal) > most):
        raise ValueError(
            "The precomputed distance matrix contains non-zero elements on the diagonal. "
            "Use np.fill_diagonal(X, 0)."
        )


def _sums(X: Any, codes: np.ndarray, n_codes: int, metric: Any, params: Any) -> np.ndarray:
    """The sum of the distances of each point to the points of each label."""
    if metric == "precomputed":
        X = X if isinstance(X, it.Tensor) else pairwise_distances(X, metric="precomputed")
        if scipy.sparse.issparse(X):
            return np.asarray((X.astype(np.float64) @ _one_hot(codes, n_codes)).astype(X.dtype))
        return np.asarray(_group(X.T, codes, n_codes).T.astype(X.dtype))
    if callable(metric) or scipy.sparse.issparse(X):
        return _sums_of_blocks(X, codes, n_codes, metric, params)
    pair = Pair(X, None, dtype=bool if metric in BOOLEAN else "infer_float")
    how = pair.fit_metric(metric, params)
    if how.squared and how.name != "euclidean":
        return _sums_of_blocks(X, codes, n_codes, metric, params)
    dtype = metric_dtype(how.name, pair.x.dtype)
    how = replace(how, name="sqeuclidean", squared=False) if how.squared else how
    x, _ = pair.tensors
    total: Any = None
    for start, some in chunks_of(x):
        here = it.asarray(codes[start : start + some.shape[0]])
        own = owners(slice(0, x.shape[0]), start)
        named = {**how.named, "n_codes": n_codes}
        sums = call_op("_distance_sums", x, some, own, here, *how.operands, **named)
        total = sums if total is None else total + sums
    return np.asarray(total.astype(dtype).numpy())


def _one_hot(codes: np.ndarray, n_codes: int) -> np.ndarray:
    return np.asarray(codes[:, None] == np.arange(n_codes), np.float64)


def _sums_of_blocks(
    X: Any, codes: np.ndarray, n_codes: int, metric: Any, params: Any
) -> np.ndarray:
    """Sparse points and metrics that are functions, some rows at a time."""
    if scipy.sparse.issparse(X) and not callable(metric):
        check_sparse_metric(metric)
    how = metric if callable(metric) else choose_metric(metric, params)
    hot = _one_hot(codes, n_codes)
    n, made = X.shape[0], []
    for rows in row_steps(n, n):
        is_all = rows.stop - rows.start == n
        far = block(_host(X) if is_all else _host(X[rows]), _host(X), how, params)
        if not callable(metric):
            far[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = 0
        made.append((far.astype(np.float64) @ hot).astype(far.dtype))
    return np.asarray(np.concatenate(made))


def _coefficients(sums: np.ndarray, codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    own = (np.arange(len(codes)), codes)
    with np.errstate(divide="ignore", invalid="ignore"):
        within = sums[own] / (counts - 1)[codes].astype(sums.dtype)
        sums[own] = np.inf
        sums /= counts.astype(sums.dtype)
        between = sums.min(1)
        found = (between - within) / np.maximum(within, between)
    return np.asarray(np.nan_to_num(found))  # a point that is alone has 0


@like(theirs.silhouette_score, "X")
def silhouette_score(
    X: Any,
    labels: Any,
    *,
    metric: Any = "euclidean",
    sample_size: Any = None,
    random_state: Any = None,
    **kwds: Any,
) -> float:
    """The mean of `silhouette_samples`, over all points or a random sample of them.

    >>> from infinitensor.metrics import silhouette_score
    >>> round(silhouette_score([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]), 3)
    0.889
    """
    if sample_size is not None:
        if not isinstance(X, it.Tensor):
            X, labels = check_X_y(X, _host(labels), accept_sparse=["csc", "csr"])
        chosen_rows = check_random_state(random_state).permutation(X.shape[0])[:sample_size]
        X = X[chosen_rows]
        X = X.T[chosen_rows].T if metric == "precomputed" else X
        labels = np.asarray(_host(labels))[chosen_rows]
    found = _silhouettes(X, labels, metric, kwds)
    return float(np.mean(_host(found)))


def _silhouettes(X: Any, labels: Any, metric: Any, params: dict[str, Any]) -> Any:
    return silhouette_samples(X, labels, metric=metric, **params)


# --- by the centres of clusters ---------------------------------------------------------------


def _group(x: Any, codes: np.ndarray, n_codes: int) -> np.ndarray:
    """The sum of the rows of each label, in float64."""
    tensor = x if isinstance(x, it.Tensor) else borrow(x)
    found = call_op("_group_sums", tensor, it.asarray(codes), n_codes)
    return np.asarray(found.numpy())


def _distances_to_means(
    X: Any, codes: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, it.Tensor]:
    """The mean of each label, and the squared distance of each point to its own, waiting."""
    x = X if isinstance(X, it.Tensor) else borrow(X)
    x = x.astype(np.float64) if x.dtype != np.float64 else x
    means = _group(x, codes, len(counts)) / counts[:, None]
    apart = x - it.take(it.asarray(means), it.asarray(codes), axis=0)
    return means, it.sum(apart * apart, axis=1)


@like(theirs.calinski_harabasz_score, "X")
def calinski_harabasz_score(X: Any, labels: Any) -> float:
    """How far clusters are from each other over how far their points are from their means.

    >>> from infinitensor.metrics import calinski_harabasz_score
    >>> calinski_harabasz_score([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1])
    162.0
    """
    X, codes, counts = _check_labels(X, labels)
    means, squares = _distances_to_means(X, codes, counts)
    n, k = len(codes), len(counts)
    middle = counts @ means / n
    between = float((counts[:, None] * (means - middle) ** 2).sum())
    within = float(squares.sum())
    return 1.0 if within == 0 else float(between * (n - k) / (within * (k - 1.0)))


@like(theirs.davies_bouldin_score, "X")
def davies_bouldin_score(X: Any, labels: Any) -> float:
    """How wide clusters are against how far they are from the one they resemble most.

    >>> from infinitensor.metrics import davies_bouldin_score
    >>> round(davies_bouldin_score([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]), 3)
    0.111
    """
    X, codes, counts = _check_labels(X, labels)
    means, squares = _distances_to_means(X, codes, counts)
    within = _group(it.sqrt(squares)[:, None], codes, len(counts))[:, 0] / counts
    between = tile(np, means, means, "euclidean")
    np.fill_diagonal(between, 0)
    if np.allclose(within, 0) or np.allclose(between, 0):
        return 0.0
    between[between == 0] = np.inf
    return float(np.mean(np.max((within[:, None] + within) / between, axis=1)))

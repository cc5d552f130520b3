"""Scores of a clustering against the truth: counts of label pairs in whole numbers, then formulas.

Labels of numbers are coded and counted as tensors, in tiles; what is left is as small as the number
of label pairs that occur, and is on the host.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.metrics as theirs
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln
from sklearn.metrics import cluster
from sklearn.metrics.cluster._supervised import check_clusterings
from sklearn.utils import deprecated
from sklearn.utils._sparse import _align_api_if_sparse
from sklearn.utils.validation import check_array, check_consistent_length

import infinitensor as it
from infinitensor.estimators.checked_functions import like

TERMS_AT_ONCE = 1 << 20
"""Terms of an expected mutual information that are computed together."""
MANY_TABLE_CELLS = 1 << 22
"""Cells of a contingency table above which pairs are sorted, not counted in place."""


def _codes(labels: Any) -> tuple[int, Any]:
    """How many labels there are, and the code of each: its place among them in order."""
    labels = labels if isinstance(labels, it.Tensor) else np.asarray(labels)
    is_few = isinstance(labels, np.ndarray) and labels.size <= it.config.small_elements
    if is_few or labels.dtype.kind not in "biuf":
        classes, codes = np.unique(labels, return_inverse=True)
        return len(classes), it.asarray(codes.reshape(-1), copy=False)
    found, codes = it.unique(it.asarray(labels), return_inverse=True)
    return int(found.shape[0]), codes.reshape(-1)


def _table(labels_true: Any, labels_pred: Any) -> Any:
    """How often each pair of labels occurs: exact, as a sparse array with sorted rows."""
    (n_true, true), (n_pred, pred) = _codes(labels_true), _codes(labels_pred)
    if true.shape != pred.shape:
        raise ValueError(f"labels of lengths {true.shape[0]} and {pred.shape[0]} are no pairs")
    shape = (n_true, n_pred)
    if not true.shape[0]:
        return scipy.sparse.csr_array(shape, dtype=np.int64)
    pairs = true * n_pred + pred
    if n_true * n_pred <= max(MANY_TABLE_CELLS, 4 * true.shape[0]):
        counts = it.bincount(pairs, minlength=n_true * n_pred).numpy()
        where = np.flatnonzero(counts)
        counts = counts[where]
    else:
        where, counts = (one.numpy() for one in it.unique(pairs, return_counts=True))
    starts = np.searchsorted(where, np.arange(n_true + 1) * n_pred)
    entries = (counts.astype(np.int64), where % n_pred, starts)
    return scipy.sparse.csr_array(entries, shape=shape)


def _contingency(labels_true: Any, labels_pred: Any) -> Any:
    """The table of labels that are checked as scikit-learn checks them."""
    return _table(*check_clusterings(_host(labels_true), _host(labels_pred)))


def _host(labels: Any) -> Any:
    return labels.numpy() if isinstance(labels, it.Tensor) else labels


def _margins(table: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sums of rows and of columns."""
    return tuple(np.asarray(table.sum(axis=axis)).reshape(-1) for axis in (1, 0))  # type: ignore[return-value]


@like(cluster.contingency_matrix)
def contingency_matrix(
    labels_true: Any,
    labels_pred: Any,
    *,
    eps: Any = None,
    sparse: bool = False,
    dtype: Any = np.int64,
) -> Any:
    """How many points have each label of the first kind (rows) and of the second (columns).

    >>> from infinitensor.metrics import contingency_matrix
    >>> contingency_matrix([0, 0, 1], ["a", "b", "b"]).tolist()
    [[1, 1], [0, 1]]
    """
    if eps is not None and sparse:
        raise ValueError("Cannot set 'eps' when sparse=True")
    table = _table(labels_true, labels_pred).astype(dtype)
    if sparse:
        return _align_api_if_sparse(table)
    return table.toarray() if eps is None else table.toarray() + eps


@like(cluster.pair_confusion_matrix)
def pair_confusion_matrix(labels_true: Any, labels_pred: Any) -> np.ndarray:
    """How many ordered pairs of points are together or apart in both labellings, or in one.

    >>> from infinitensor.metrics import pair_confusion_matrix
    >>> pair_confusion_matrix([0, 0, 1, 1], [0, 0, 1, 2]).tolist()
    [[8, 0], [2, 2]]
    """
    table = _contingency(labels_true, labels_pred)
    rows, columns = _margins(table)
    n, squares = int(rows.sum()), int((table.data**2).sum())
    by_rows, by_columns = int((rows**2).sum()), int((columns**2).sum())
    found = [
        [n * n - by_rows - by_columns + squares, by_columns - squares],
        [by_rows - squares, squares - n],
    ]
    return np.array(found, np.int64)


@like(theirs.rand_score)
def rand_score(labels_true: Any, labels_pred: Any) -> float:
    """The share of pairs of points that both labellings treat alike.

    >>> from infinitensor.metrics import rand_score
    >>> round(rand_score([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.833
    """
    pairs = pair_confusion_matrix(labels_true, labels_pred)
    alike, every = pairs.diagonal().sum(), pairs.sum()
    return 1.0 if alike == every or every == 0 else float(alike / every)


@like(theirs.adjusted_rand_score)
def adjusted_rand_score(labels_true: Any, labels_pred: Any) -> float:
    """The Rand score, less what chance gives: 1 for equal labellings, about 0 for random ones.

    >>> from infinitensor.metrics import adjusted_rand_score
    >>> adjusted_rand_score([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    (apart, only_pred), (only_true, together) = pair_confusion_matrix(
        labels_true, labels_pred
    ).tolist()
    if only_true == 0 and only_pred == 0:
        return 1.0
    top = 2.0 * (together * apart - only_true * only_pred)
    bottom = (together + only_true) * (only_true + apart)
    return float(top / (bottom + (together + only_pred) * (only_pred + apart)))


@like(theirs.fowlkes_mallows_score)
def fowlkes_mallows_score(labels_true: Any, labels_pred: Any) -> float:
    """The geometric mean of precision and recall over pairs of points.

    >>> from infinitensor.metrics import fowlkes_mallows_score
    >>> fowlkes_mallows_score([0, 0, 1, 1], [0, 0, 1, 1])
    1.0
    """
    table = _contingency(labels_true, labels_pred)
    rows, columns = _margins(table)
    n = rows.sum()
    both = (table.data**2).sum() - n
    if both == 0:
        return 0.0
    return float(np.sqrt(both / ((columns**2).sum() - n)) * np.sqrt(both / ((rows**2).sum() - n)))


# --- information ------------------------------------------------------------------------------


def _entropy(counts: np.ndarray) -> float:
    """Of labels that occur so many times."""
    if counts.sum() == 0:
        return 1.0
    if len(counts) == 1:
        return 0.0
    n = counts.astype(np.float64).sum()
    return float(-np.sum((counts / n) * (np.log(counts) - log(n))))


@deprecated(  # type: ignore[untyped-decorator]
    "`entropy` is deprecated in 1.8 and will be removed in 1.10."
)
def entropy(labels: Any) -> float:
    """The entropy of a labelling, in nats."""
    labels = labels if isinstance(labels, it.Tensor) else np.asarray(labels)
    if not labels.shape[0]:
        return 1.0
    n_labels, codes = _codes(labels)
    return _entropy(it.bincount(codes, minlength=n_labels).numpy())


def _information(rows: Any, columns: Any, counts: Any, sums: tuple[Any, Any]) -> float:
    """Mutual information of two labellings, from how often each pair of labels occurs."""
    by_row, by_column = sums
    if by_row.size == 1 or by_column.size == 1:
        return 0.0
    n = counts.sum()
    share = counts / n
    outer = by_row[rows].astype(np.int64) * by_column[columns].astype(np.int64)
    expected = -np.log(outer) + log(by_row.sum()) + log(by_column.sum())
    terms = share * (np.log(counts) - log(n)) + share * expected
    terms = np.where(np.abs(terms) < np.finfo(terms.dtype).eps, 0.0, terms)
    return float(np.clip(terms.sum(), 0.0, None))


def _of_table(table: Any) -> float:
    entries = table.tocoo()
    rows, columns = entries.coords
    return _information(rows, columns, entries.data, _margins(table))


@like(theirs.mutual_info_score)
def mutual_info_score(labels_true: Any, labels_pred: Any, *, contingency: Any = None) -> float:
    """Mutual information of two labellings, in nats.

    >>> from infinitensor.metrics import mutual_info_score
    >>> round(mutual_info_score([0, 0, 1, 1], [1, 1, 0, 0]), 4)
    0.6931
    """
    if contingency is None:
        return _of_table(_contingency(labels_true, labels_pred))
    accepted = {"accept_sparse": ["csr", "csc", "coo"], "dtype": [int, np.int32, np.int64]}
    table = scipy.sparse.csr_array(check_array(contingency, **accepted))
    table.sum_duplicates()
    table.eliminate_zeros()
    return _of_table(table)


@like(theirs.homogeneity_completeness_v_measure)
def homogeneity_completeness_v_measure(
    labels_true: Any, labels_pred: Any, *, beta: float = 1.0
) -> tuple[float, float, float]:
    """How pure clusters are, how whole classes stay, and the weighted harmonic mean of both.

    >>> from infinitensor.metrics import homogeneity_completeness_v_measure
    >>> homogeneity_completeness_v_measure([0, 0, 1, 1], [0, 0, 1, 1])
    (1.0, 1.0, 1.0)
    """
    table = _contingency(labels_true, labels_pred)
    rows, columns = _margins(table)
    if rows.sum() == 0:
        return 1.0, 1.0, 1.0
    shared, of_rows, of_columns = _of_table(table), _entropy(rows), _entropy(columns)
    pure = shared / of_rows if of_rows else 1.0
    whole = shared / of_columns if of_columns else 1.0
    both = 0.0 if pure + whole == 0 else (1 + beta) * pure * whole / (beta * pure + whole)
    return float(pure), float(whole), float(both)


@like(theirs.homogeneity_score)
def homogeneity_score(labels_true: Any, labels_pred: Any) -> float:
    """How pure clusters are: 1 if each has members of one class only.

    >>> from infinitensor.metrics import homogeneity_score
    >>> round(homogeneity_score([0, 0, 1, 1], [0, 1, 2, 3]), 9)
    1.0
    """
    return float(homogeneity_completeness_v_measure(labels_true, labels_pred)[0])


@like(theirs.completeness_score)
def completeness_score(labels_true: Any, labels_pred: Any) -> float:
    """How whole classes stay: 1 if each is in one cluster only.

    >>> from infinitensor.metrics import completeness_score
    >>> completeness_score([0, 0, 1, 1], [0, 0, 0, 0])
    1.0
    """
    return float(homogeneity_completeness_v_measure(labels_true, labels_pred)[1])


@like(theirs.v_measure_score)
def v_measure_score(labels_true: Any, labels_pred: Any, *, beta: float = 1.0) -> float:
    """The weighted harmonic mean of homogeneity and completeness.

    >>> from infinitensor.metrics import v_measure_score
    >>> v_measure_score([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    return float(homogeneity_completeness_v_measure(labels_true, labels_pred, beta=beta)[2])


def _mean(first: float, second: float, how: str) -> float:
    match how:
        case "min":
            return min(first, second)
        case "max":
            return max(first, second)
        case "geometric":
            return float(np.sqrt(first * second))
        case _:
            return float(np.mean([first, second]))


@like(theirs.normalized_mutual_info_score)
def normalized_mutual_info_score(
    labels_true: Any, labels_pred: Any, *, average_method: str = "arithmetic"
) -> float:
    """Mutual information over a mean of both entropies.

    >>> from infinitensor.metrics import normalized_mutual_info_score
    >>> normalized_mutual_info_score([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    table = _contingency(labels_true, labels_pred)
    if table.shape in ((1, 1), (0, 0)):
        return 1.0
    shared = _of_table(table)
    if shared == 0:
        return 0.0
    rows, columns = _margins(table)
    return float(shared / _mean(_entropy(rows), _entropy(columns), average_method))


@like(theirs.adjusted_mutual_info_score)
def adjusted_mutual_info_score(
    labels_true: Any, labels_pred: Any, *, average_method: str = "arithmetic"
) -> float:
    """Mutual information, less what chance gives: 1 for equal labellings, about 0 for random ones.

    >>> from infinitensor.metrics import adjusted_mutual_info_score
    >>> adjusted_mutual_info_score([0, 0, 1, 1], [0, 0, 1, 1])
    1.0
    """
    table = _contingency(labels_true, labels_pred)
    if table.shape in ((1, 1), (0, 0)):
        return 1.0
    if 1 in table.shape:
        return 0.0
    rows, columns = _margins(table)
    expected = expected_mutual_information(table, int(rows.sum()))
    least = np.finfo("float64").eps
    mean = _mean(_entropy(rows), _entropy(columns), average_method)
    above, below = _of_table(table) - expected, mean - expected
    above = min(above, -least) if above < 0 else max(above, least)
    below = min(below, -least) if below < 0 else max(below, least)
    return float(above / below)


def expected_mutual_information(contingency: Any, n_samples: int) -> float:
    """The mean mutual information of labellings with these sums of rows and columns, by chance.

    >>> from infinitensor.metrics import expected_mutual_information
    >>> round(expected_mutual_information(np.array([[2, 0], [0, 2]]), 4), 4)
    0.231
    """
    rows, columns = (
        np.asarray(contingency.sum(axis=axis)).reshape(-1).astype(np.int64) for axis in (1, 0)
    )
    if rows.size == 1 or columns.size == 1:
        return 0.0
    # equal sums have equal terms: each pair of them once, as often as it occurs
    (a, n_a), (b, n_b) = (np.unique(one, return_counts=True) for one in (rows, columns))
    first, second = (one.reshape(-1) for one in np.meshgrid(a, b, indexing="ij"))
    times = (n_a[:, None] * n_b).reshape(-1)
    least = np.maximum(1, first + second - n_samples)
    lengths = np.minimum(first, second) - least + 1
    total, ends = 0.0, np.cumsum(np.maximum(lengths, 0))
    at = 0
    while at < len(ends):
        done = ends[at - 1] if at else 0
        stop = max(int(np.searchsorted(ends, done + TERMS_AT_ONCE, "right")), at + 1)
        part = slice(at, stop)
        total += _terms(
            first[part], second[part], least[part], lengths[part], times[part], n_samples
        )
        at = stop
    return float(total)


def _terms(a: Any, b: Any, least: Any, lengths: Any, times: Any, n: int) -> float:
    """The terms of some pairs (a, b) of sums, for every count they can share."""
    which = np.repeat(np.arange(len(a)), lengths)
    before = np.cumsum(lengths) - lengths
    shared = (np.arange(len(which)) - before[which] + least[which]).astype(np.float64)
    a, b, times = a[which], b[which], times[which]
    gain = log(n) + np.log(shared) - np.log(a) - np.log(b)
    chance = gammaln(a + 1) + gammaln(b + 1) + gammaln(n - a + 1) + gammaln(n - b + 1)
    chance -= gammaln(shared + 1) + gammaln(n + 1) + gammaln(a - shared + 1)
    chance -= gammaln(b - shared + 1) + gammaln(n - a - b + shared + 1)
    return float(np.sum(times * (shared / n) * gain * np.exp(chance)))


# --- biclusters -------------------------------------------------------------------------------


@like(theirs.consensus_score)
def consensus_score(a: Any, b: Any, *, similarity: Any = "jaccard") -> float:
    """How alike two sets of biclusters are, each matched with the one most like it.

    >>> from infinitensor.metrics import consensus_score
    >>> a = ([[True, False], [False, True]], [[False, True], [True, False]])
    >>> consensus_score(a, (a[0][::-1], a[1][::-1]))
    1.0
    """
    for one in (a, b):
        check_consistent_length(*one)
    given = [[check_array(_host(part), ensure_2d=False) for part in one] for one in (a, b)]
    if similarity == "jaccard":
        alike = _jaccard(*given)
    else:
        (rows_a, columns_a), (rows_b, columns_b) = given
        alike = np.array(
            [
                [similarity(r, c, s, d) for s, d in zip(rows_b, columns_b, strict=True)]
                for r, c in zip(rows_a, columns_a, strict=True)
            ]
        )
    best = linear_sum_assignment(1.0 - alike)
    return float(alike[best].sum() / max(len(a[0]), len(b[0])))


def _jaccard(a: list[np.ndarray], b: list[np.ndarray]) -> np.ndarray:
    """Cells in both biclusters over cells in either, for every two: products of whole numbers."""
    (rows_a, columns_a), (rows_b, columns_b) = ([one.astype(float) for one in ab] for ab in (a, b))
    both = (rows_a @ rows_b.T) * (columns_a @ columns_b.T)
    sizes = [
        rows.sum(1) * columns.sum(1) for rows, columns in ((rows_a, columns_a), (rows_b, columns_b))
    ]
    found: np.ndarray = both / (sizes[0][:, None] + sizes[1] - both)
    return found

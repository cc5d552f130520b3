"""Metrics by scikit-learn's names: what they compute, and blocks of distances on the host.

Dense tensors go through the ops of `ops/distance.py` with `chosen(...).named`. Sparse points and
metrics that are Python functions have blocks: rows at a time, made on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from sklearn.metrics.pairwise import _pairwise_callable

from infinitensor.ops.distance import ALIASES, BOOLEAN, METRICS, metric_dtype, tile

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_ELEMENTS = 1 << 20
"""Distances of a block."""
SPARSE = ("euclidean", "cosine", "cityblock")
"""Metrics of sparse points."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric and its parameters, as the ops take them."""

    name: str
    p: float = 2.0
    role: str = ""
    extra: np.ndarray | None = None
    squared: bool = False
    """Whether distances are squared in the end (euclidean, nan_euclidean)."""

    @property
    def named(self) -> dict[str, Any]:
        """The parameters of an op besides the points and `extra`."""
        return {"metric": self.name, "p": self.p, "role": self.role}

    @property
    def operands(self) -> tuple[np.ndarray, ...]:
        """`extra`, if there is one."""
        return () if self.extra is None else (self.extra,)

    def tile(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Distances of rows to rows, on the host."""
        made: np.ndarray = tile(np, x, y, self.name, p=self.p, extra=self.extra, role=self.role)
        return made**2 if self.squared else made


def chosen(metric: str, params: dict[str, Any] | None = None, *, is_tree: bool = False) -> Metric:
    """The metric of a name and of parameters as scikit-learn takes them.

    Left out: `V` of seuclidean and `VI` of mahalanobis, which depend on the points (`fitted`).
    `is_tree`: as scikit-learn's trees and their kin have it. euclidean is then the root of the sum
    of squared differences, not of products, and braycurtis is over |x| + |y|.
    """
    given = dict(params or {})
    name = {"infinity": "chebyshev", "p": "minkowski", **ALIASES}.get(metric, metric)
    p = float(given.pop("p", 2.0)) if name == "minkowski" else 2.0
    if name == "minkowski" and not is_tree and p <= 0:
        raise ValueError("p must be greater than 0")
    squared = name in ("euclidean", "nan_euclidean") and bool(given.pop("squared", False))
    role, extra = "", None
    for one in ("w", "V", "VI"):
        if given.get(one) is not None:
            role, extra = one, np.asarray(given.pop(one), np.float64)
        given.pop(one, None)
    check_weights(extra if role == "w" else None)
    if given:
        raise TypeError(f"{metric}: unknown parameters {sorted(given)}")
    if name not in METRICS:
        raise ValueError(f"Unknown Distance Metric: {metric}")
    if name == "minkowski":
        name = {1.0: "cityblock", 2.0: "direct", np.inf: "chebyshev"}.get(p, name)
    if is_tree:
        name = {"euclidean": "direct", "braycurtis": "braycurtis_tree"}.get(name, name)
    return Metric(name, p, role, extra, squared)


def check_weights(weights: np.ndarray | None) -> None:
    """ValueError where a weight of a coordinate is below 0."""
    if weights is not None and (weights < 0).any():
        raise ValueError("Input weights should be all non-negative")


def converted(metric: Any, x: Any) -> np.dtype[Any] | None:
    """The dtype in which scikit-learn takes points for a metric of sets; None: as they are."""
    is_set = isinstance(metric, str) and metric in BOOLEAN
    return np.dtype(bool) if is_set and x.dtype != bool else None


def block(x: Any, y: Any, metric: Any, params: dict[str, Any] | None = None) -> np.ndarray:
    """The distances of some points to others, on the host: dense, sparse, or by a function.

    `metric` is a name that scikit-learn knows, a `Metric`, or a function of two rows.
    """
    if callable(metric):
        made: np.ndarray = _pairwise_callable(x, y, metric, ensure_all_finite=False, **params or {})
        return made
    how = metric if isinstance(metric, Metric) else chosen(metric, params)
    if scipy.sparse.issparse(x) or scipy.sparse.issparse(y):
        return _sparse_block(how, scipy.sparse.csr_array(x), scipy.sparse.csr_array(y))
    return how.tile(np.asarray(x), np.asarray(y))


def row_steps(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows, with a block of `width` numbers a row each."""
    step = max(BLOCK_ELEMENTS // max(width, 1), 1)
    return (slice(at, min(at + step, n)) for at in range(0, n, step))


def _sparse_block(how: Metric, x: Any, y: Any) -> np.ndarray:
    name = "euclidean" if how.name == "direct" else how.name
    if name not in SPARSE:
        raise TypeError(f"{how.name}: sparse points have the metrics {', '.join(SPARSE)} only")
    out = np.empty((x.shape[0], y.shape[0]), metric_dtype(name, x.dtype, y.dtype))
    if name == "cityblock":
        for rows in row_steps(x.shape[0], x.shape[1]):
            for columns in row_steps(y.shape[0], y.shape[1]):
                out[rows, columns] = tile(np, x[rows].toarray(), y[columns].toarray(), name)
        return out
    x, y = x.astype(np.float64), y.astype(np.float64)
    sizes = [np.asarray(one.multiply(one).sum(1)).reshape(-1) for one in (x, y)]
    found = (x @ y.T).toarray()
    if name == "cosine":
        roots = [np.where(size == 0, 1, np.sqrt(size)) for size in sizes]
        found /= roots[0][:, None]
        found /= roots[1]
        out[...] = np.clip(1 - found, 0, 2)
        return out
    found *= -2
    found += sizes[0][:, None]
    found += sizes[1]
    out[...] = np.maximum(found, 0, out=found)
    return out if how.squared else np.sqrt(out, out=out)

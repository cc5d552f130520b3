"""Metrics by scikit-learn's names: what they compute, and blocks of distances on the host.

Dense points go through the ops of `ops/points/distances.py` with `chosen(...).named`, the second
ones in chunks (`between`). Sparse points and metrics that are Python functions have blocks: rows at
a time, made on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from sklearn.metrics.pairwise import _pairwise_callable

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.api.session.session import current_session
from infinitensor.ops.points.distances import ALIASES, LOOPS, METRICS, metric_dtype, tile

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_ELEMENTS = 1 << 20
"""Distances of a block."""
CHUNK_ELEMENTS = 1 << 22
"""Elements of the second points that one op takes; it has them in one piece."""
BYTES_PER_CHUNK_ELEMENT, BYTES_PER_BLOCK_ELEMENT = 256, 64
"""Memory a device should have for each element of a chunk, in each kernel; of a block."""
SPARSE = ("euclidean", "cosine", "cityblock")
"""Metrics of sparse points."""
SPARSE_NAMES = ("euclidean", "l2", "l1", "manhattan", "cityblock", "cosine", "precomputed")
"""scikit-learn's names of them."""


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


def choose_metric(
    metric: str, params: dict[str, Any] | None = None, *, is_tree: bool = False
) -> Metric:
    """The metric of a name and of parameters as scikit-learn takes them.

    Left out: `V` of seuclidean and `VI` of mahalanobis, which depend on the points (`fit_metric`).
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


def check_sparse_metric(metric: str) -> None:
    """TypeError where scikit-learn has no distances of sparse points by a metric of this name."""
    if metric not in SPARSE_NAMES:
        raise TypeError("scipy distance metrics do not support sparse matrices.")


# --- on tiles ---------------------------------------------------------------------------------


def awake(metric: Metric) -> Metric:
    """The metric, with torch imported if it multiplies matrices.

    Workers give torch one thread each before they start; one that imports it while others run
    would not.
    """
    if metric.name not in LOOPS:
        import torch  # noqa: F401
    return metric


def spread(x: it.Tensor, metric: str) -> np.ndarray:
    """Variances of points for seuclidean, the inverse of their covariance for mahalanobis."""
    if metric == "seuclidean":
        return np.asarray(it.var(x, axis=0, ddof=1).numpy())
    return np.asarray(np.linalg.inv(np.atleast_2d(it.cov(x.T).numpy())).T)


def _fitting(n_elements: int, n_bytes: int) -> int:
    """So many numbers at a time, or fewer: with `n_bytes` for each they fit a device's memory."""
    devices = current_session().engine.mesh.devices
    return max(min(n_elements, min(one.memory_bytes for one in devices) // n_bytes), 1)


def chunks_of(y: it.Tensor) -> Iterator[tuple[int, it.Tensor]]:
    """Where each chunk of rows starts, and the chunk."""
    n, d = y.shape
    n_kernels = current_session().engine.mesh.n_least
    step = max(_fitting(CHUNK_ELEMENTS, BYTES_PER_CHUNK_ELEMENT * n_kernels) // max(d, 1), 1)
    return ((at, y[at : at + step] if step < n else y) for at in range(0, max(n, 1), step))


def owners(rows: slice, start: int) -> it.Tensor:
    """Which row of a chunk each of some rows is itself; -1: none of them."""
    if rows.start >= start:
        return it.arange(rows.start - start, rows.stop - start)
    return it.maximum(it.arange(rows.start, rows.stop) - start, -1)


def between(x: it.Tensor, y: it.Tensor, metric: Metric, own: slice | None = None) -> it.Tensor:
    """The distances of the rows of x to the rows of y; waiting.

    `own`: x is these rows of y, and a row's distance to itself is 0.
    """
    made = [
        call_op(
            "_distances",
            x,
            some,
            None if own is None else owners(own, start),
            *metric.operands,
            **metric.named,
        )
        for start, some in chunks_of(y)
    ]
    found: it.Tensor = made[0] if len(made) == 1 else it.concatenate(made, axis=1)
    return found * found if metric.squared else found


# --- on the host ------------------------------------------------------------------------------


def block(x: Any, y: Any, metric: Any, params: dict[str, Any] | None = None) -> np.ndarray:
    """The distances of some points to others, on the host: dense, sparse, or by a function.

    `metric` is a name that scikit-learn knows, a `Metric`, or a function of two rows.
    """
    if callable(metric):
        made: np.ndarray = _pairwise_callable(x, y, metric, ensure_all_finite=False, **params or {})
        return made
    how = metric if isinstance(metric, Metric) else choose_metric(metric, params)
    if scipy.sparse.issparse(x) or scipy.sparse.issparse(y):
        return _sparse_block(how, scipy.sparse.csr_array(x), scipy.sparse.csr_array(y))
    return how.tile(np.asarray(x), np.asarray(y))


def row_steps(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows, with a block of `width` numbers a row each."""
    step = max(_fitting(BLOCK_ELEMENTS, BYTES_PER_BLOCK_ELEMENT) // max(width, 1), 1)
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

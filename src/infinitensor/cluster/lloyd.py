"""Lloyd's iteration: rows go to their nearest centre, centres to the mean of their rows.

It serves `algorithm="elkan"` too: the passes keep bounds of their own, and results are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it
from infinitensor.ops.points.lloyd_triton import HAS_EMPTY

if TYPE_CHECKING:
    from infinitensor.cluster.bisect_rows import RowsAt
    from infinitensor.cluster.dense_rows import DenseRows
    from infinitensor.cluster.sparse_rows import SparseRows

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run of Lloyd's iteration."""

    labels: Array
    inertia: float
    centers: Array
    n_iter: int
    parts: Array
    """The inertia of each label."""


def lloyd(
    rows: DenseRows | SparseRows | RowsAt,
    centers: Array,
    *,
    max_iter: int,
    tol: float,
    verbose: bool = False,
    algorithm: str = "lloyd",
) -> Run:
    """Iterate until no label changes, or the centres move by no more than `tol` in all.

    Prints what scikit-learn prints.
    """
    k = len(centers)
    if not verbose and getattr(rows, "is_one_task", False):
        found = _run_in_one_task(rows, centers, max_iter, tol)
        if found is not None:
            return found
    state: Any = rows.start(k)
    strict = False
    i = 0
    for i in range(max_iter):
        n_changed = state.follow(centers)
        new, shift = _move_centers(rows, state, centers)
        if verbose:
            inertia = total(rows.inertia(centers, state.labels), rows.dtype)
            print(f"Iteration {i}, inertia {inertia}" + ("." if algorithm == "lloyd" else ""))
        centers = new
        if n_changed == 0:
            if verbose:
                print(f"Converged at iteration {i}: strict convergence.")
            strict = True
            break
        if shift <= tol:
            if verbose:
                text = f"center shift {shift} within tolerance {tol}."
                print(f"Converged at iteration {i}: {text}")
            break
    if not strict:
        state.follow(centers, add_up=False)
    parts = rows.inertia(centers, state.labels)
    labels = np.asarray(state.labels)
    return Run(labels, total(parts, rows.dtype), centers, i + 1, parts)


def _run_in_one_task(rows: Any, centers: Array, max_iter: int, tol: float) -> Run | None:
    """All iterations on a GPU; None where they are not for it, or a label is left without rows."""
    scale, is_coarse = rows.units
    if is_coarse or centers.dtype != rows.dtype:
        return None
    given = (scale, centers, np.array([float(tol)]), *rows._weighing)
    labels, moved, state = rows.call("_lloyd", *given, max_iter=max_iter)
    it.compute(labels, moved, state)
    how, n_iter = state.numpy().tolist()
    if how == HAS_EMPTY:
        return None
    centers = moved.numpy()
    parts = rows.inertia(centers, labels)
    return Run(np.asarray(labels.numpy()), total(parts, rows.dtype), centers, n_iter, parts)


def total(parts: Array, dtype: Any) -> Any:
    """The inertia of all labels, a Python float rounded as scikit-learn's dtype rounds it."""
    return float(np.dtype(dtype).type(parts.sum()))


def _move_centers(rows: Any, state: Any, centers: Array) -> tuple[Array, Any]:
    """The means of the rows of each label, and the squared way of all centres there."""
    new = state.means
    if new is None:
        sums, weights, present = state.totals()
        if not present.all():
            _relocate(rows, state.labels, centers, sums, weights, ~present)
        new = np.where(weights[:, None] > 0, sums, 0.0)
        np.multiply(new, 1.0 / np.where(weights > 0, weights, 1.0)[:, None], out=new)
        new[~(weights > 0)] = new[np.argmax(weights)]
        new = np.ascontiguousarray(new.astype(rows.dtype))
    far = np.sqrt(((new - centers) ** 2).sum(1))
    return new, (far**2).sum()


def _relocate(
    rows: Any, labels: Any, centers: Array, sums: Array, weights: Array, empty: Array
) -> None:
    """Labels without rows get those that are farthest from their own centre."""
    numbers = np.flatnonzero(empty)
    weights[empty] = 0
    far = rows.own_distances(centers, labels)
    farthest = np.argpartition(far, -len(numbers))[: -len(numbers) - 1 : -1]
    if np.max(far) == 0:  # more centres than different rows
        return
    values = rows.take(farthest).astype(np.float64)
    held = np.asarray(labels)[farthest]
    for number, row, value, label in zip(numbers, farthest, values, held, strict=True):
        weight = 1.0 if rows.weights is None else float(rows.weights[row])
        sums[label] -= value * weight
        sums[number] = value * weight
        weights[number] = weight
        weights[label] -= weight

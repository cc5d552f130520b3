"""Greedy k-means++: the draws of scikit-learn, over distances that stay in tiles.

Candidates are drawn on the host with NumPy's RandomState, in scikit-learn's order. A pass over the
rows gives what every candidate would leave; rows that are too near to their seed for a candidate to
matter are not compared with it.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils.parallel import _get_threadpool_controller

import infinitensor as it
from infinitensor.cluster.dense_rows import some_memory
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.points.seeds import even_draws
from infinitensor.ops.points.seeds_triton import MOST_TRIALS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from infinitensor.cluster.bisect_rows import RowsAt
    from infinitensor.cluster.dense_rows import DenseRows
    from infinitensor.cluster.sparse_rows import SparseRows

    Array = np.ndarray[Any, Any]

ON_HOST = 1 << 21
"""Distances up to which they are added up on the host, as scikit-learn adds them.

It does not depend on the memory there is: neither do results.
"""


def seed(
    rows: DenseRows | SparseRows | RowsAt,
    n_clusters: int,
    random_state: np.random.RandomState,
    n_local_trials: int | None = None,
) -> tuple[Array, Array]:
    """Rows chosen one after another, far from those before: their values and their numbers."""
    n_trials = 2 + int(np.log(n_clusters)) if n_local_trials is None else n_local_trials
    weights = np.ones(rows.n, rows.dtype) if rows.weights is None else rows.weights
    first = draw_rows(rows, random_state)
    if _is_one_task(rows, n_trials):
        chosen = _seeds_in_one_task(
            rows, first, random_state.uniform(size=(n_clusters - 1, n_trials))
        )
        return rows.take(chosen), chosen
    chosen = np.full(n_clusters, -1, int)
    centers = np.empty((n_clusters, rows.d), rows.dtype)
    chosen[0] = first
    centers[0] = rows.take(chosen[:1])[0]
    here = rows.small_copy(n_trials) if rows.n * n_trials <= ON_HOST else None
    kind = _Left if here is None else _FewLeft
    left = kind(rows if here is None else here, weights, centers, n_trials)
    left.use(centers[:1])
    with _few_threads(n_trials, left.multiplies):
        for c in range(1, n_clusters):
            draws = random_state.uniform(size=n_trials) * left.potential
            centers[c], chosen[c] = left.best_of(draws, c)
    return centers, chosen


def normalise_weights(rows: DenseRows | SparseRows | RowsAt) -> Array:
    """The weights of rows as probabilities."""
    weights = np.ones(rows.n, rows.dtype) if rows.weights is None else rows.weights
    return np.asarray(weights / weights.sum())


def draw_rows(
    rows: DenseRows | SparseRows | RowsAt,
    random_state: np.random.RandomState,
    size: int | None = None,
) -> Any:
    """What `choice` with the rows' weights draws: one row, or `size` different ones.

    It adds up all weights, one after the other, several times; for equal ones that is not needed.
    """
    n = rows.n
    if rows.weights is None and (size is None or size <= n):
        before = random_state.get_state()
        drawn = even_draws(random_state.random_sample(size), n)
        if drawn is not None:
            return drawn
        random_state.set_state(before)
    return random_state.choice(n, size=size, replace=size is None, p=normalise_weights(rows))


def _is_one_task(rows: Any, n_trials: int) -> bool:
    """Whether a GPU takes all seeds in one task.

    Not of so few rows in float32 that their sums are made as scikit-learn makes them.
    """
    if n_trials > MOST_TRIALS or not getattr(rows, "is_one_task", False):
        return False
    return bool(rows.dtype == np.float64 or rows.n * n_trials > ON_HOST)


def _seeds_in_one_task(rows: Any, first: int, draws: Array) -> Array:
    """The numbers of the seeds; the draws are those of the second seed and those after it."""
    padded = np.concatenate([np.zeros((1, draws.shape[1])), draws])
    found = rows.call("_seeds", padded, np.array([first]), *rows._weighing)
    return np.asarray(found.numpy())


def _few_threads(n_sums: int, are_products: bool) -> AbstractContextManager[Any]:
    """One thread for BLAS, if its sums are the same bits then: threads that wait take cores.

    Of as many sums as threads or more each is added up by one thread, whatever their number.
    """
    if not are_products or _openmp_effective_n_threads() > n_sums:
        return nullcontext()
    limited: AbstractContextManager[Any] = _get_threadpool_controller().limit(
        limits=1, user_api="blas"
    )
    return limited


KEPT_MEMORY_PART = 4
"""The distances left by all candidates are kept if they take less than this part of the memory;
else what the best one leaves is made again: to read the rows twice takes less than to evict all
that."""
BLOCK_ROWS = 1 << 16
"""Rows whose sums are looked through first: of what is left one block for each draw is enough."""


def _reached_in_blocks(left: Any, draws: Array) -> Array:
    """Where the running sum of many values reaches each draw, without all of that sum."""
    n = len(left)
    n_whole = n // BLOCK_ROWS * BLOCK_ROWS
    sums = left[:n_whole].reshape(-1, BLOCK_ROWS).sum(axis=1)
    totals = np.append(np.asarray(sums.numpy()), float(left[n_whole:].sum()))
    ends = np.cumsum(totals)
    found = np.empty(len(draws), np.int64)
    for k, block in enumerate(np.minimum(np.searchsorted(ends, draws), len(ends) - 1)):
        before = ends[block] - totals[block] if block else 0.0
        inside = np.cumsum(left[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS].numpy())
        found[k] = block * BLOCK_ROWS + np.searchsorted(before + inside, draws[k])
    return found


class _Left:
    """Each row's squared distance to the nearest seed, which seed that is, and their sum."""

    def __init__(self, rows: Any, weights: Array, centers: Array, n_trials: int) -> None:
        self.rows = rows
        self.weights = weights
        self.centers = centers
        self.n_trials = n_trials
        self.on_host = rows.n * n_trials <= ON_HOST and rows.host is not None
        """Whether what is left is kept beside the rows, where it is added up."""
        self.multiplies = rows.n * n_trials > FEW_VALUES and not self._is_summed(rows.dtype)
        """Whether BLAS adds up, and has threads for it."""
        self.closest: Any = None
        self.owner: Any = None
        self.potential: Any = None

    def use(self, first: Array) -> None:
        """Take the first seed."""
        far = self._as_array(self.rows.closer(first))
        self.potential = np.asarray(self._sums(far, self.weights)).reshape(-1)
        self.closest = far[0]
        self.owner = (np if self.on_host else it).zeros(self.rows.n, dtype=np.int32)

    def _as_array(self, far: Any) -> Any:
        return np.asarray(far) if self.on_host else it.asarray(far, copy=False)

    def search(self, draws: Array) -> Array:
        """The rows at which the sum of what is left reaches the draws."""
        if self.rows.n <= ON_HOST:
            return _reached(np.asarray(self.closest), self.rows.weights, draws)
        left = self.closest.astype(np.float64)
        if self.rows.weights is not None:
            left = left * it.asarray(self.weights, copy=False)
        return _reached_in_blocks(left, draws)

    def best_of(self, draws: Array, c: int) -> tuple[Array, Any]:
        """Of the rows that are drawn take the one that leaves least: its values and its number."""
        tried = np.minimum(self.search(draws), self.rows.n - 1)
        candidates = self.rows.take(tried)
        best = self._take_best(candidates, c)
        return candidates[best], tried[best]

    def _take_best(self, candidates: Array, c: int) -> int:
        wide, seeds = candidates.astype(np.float64), self.centers[:c].astype(np.float64)
        # as wide as for all seeds: one shape, and so one plan, for every pass
        reach = np.full((len(candidates), len(self.centers)), np.inf)
        reach[:, :c] = ((wide[:, None, :] - seeds) ** 2).sum(-1) * (0.25 - 1e-6)
        far = self._as_array(self.rows.closer(candidates, (self.closest, self.owner, reach)))
        is_kept = (
            self.on_host
            or KEPT_MEMORY_PART * far.nbytes <= it.Mesh.current().devices[0].memory_bytes
        )
        sums = self._sums(far, self.weights.reshape(-1, 1), is_kept)
        if not is_kept:
            del far
        potentials = np.asarray(sums).reshape(-1, 1)
        best = int(np.argmin(potentials))
        self.potential = potentials[best]
        if is_kept:
            nearer = far[best]
        else:
            one = slice(best, best + 1)
            known = (self.closest, self.owner, reach[one])
            nearer = self._as_array(self.rows.closer(candidates[one], known))[0]
        if self.on_host:
            self.owner[nearer < self.closest] = c
            self.closest = nearer
            return best
        self.owner = it.where(nearer < self.closest, np.int32(c), self.owner)
        self.closest = nearer
        it.compute(self.owner, self.closest)
        return best

    def _is_summed(self, dtype: np.dtype[Any]) -> bool:
        return dtype == np.float64 and self.rows.weights is None

    def _sums(self, far: Any, weights: Array, is_kept: bool = True) -> Any:
        """The weighted sums over rows, one for each candidate.

        What is added is computed with them, if it is kept. On the host by the same call that
        scikit-learn makes, for the same roundings: float32's are large enough to lead a draw to
        another row. float64's are not, and a sum takes less.
        """
        if far.size <= ON_HOST:
            values = np.asarray(far)
            return values.sum(1) if self._is_summed(values.dtype) else _product(values, weights)
        left = far.astype(np.float64)
        if self.rows.weights is not None:
            left = left * it.asarray(self.weights, copy=False)
        sums = left.sum(1)
        if is_kept:
            it.compute(far, sums)
        return sums


class _FewLeft(_Left):
    """The same for few rows on the host: all of a step but the sums is one call of a loop."""

    def use(self, first: Array) -> None:
        """Take the first seed."""
        super().use(first)
        n, d, dtype = self.rows.n, self.rows.d, self.rows.dtype
        self._seeds = np.zeros((len(self.centers), -(-d // 8) * 8))
        self._seeds[0, :d] = first
        self._rows = np.empty(self.n_trials, np.int64)
        self._candidates = np.empty((self.n_trials, d), dtype)
        self._far = np.empty((self.n_trials, n), dtype)
        self._best = -1

    def best_of(self, draws: Array, c: int) -> tuple[Array, Any]:
        """Of the rows that are drawn take the one that leaves least: its values and its number."""
        rows, n_trials = self.rows, self.n_trials
        of_rows = (rows.host, rows.n, rows.d, rows.shift, rows.weights)
        known = (self._best, c, self._seeds, self.closest, self.owner)
        made = (self._rows, self._candidates, self._far)
        try_seeds = loop("seeds", "try_seeds", rows.dtype)
        assert try_seeds is not None
        some_memory(try_seeds(*of_rows, draws, n_trials, *known, *made))
        potentials = np.asarray(self._sums(self._far, self.weights.reshape(-1, 1))).reshape(-1, 1)
        self._best = int(potentials.argmin())
        self.potential = potentials[self._best]
        return self._candidates[self._best], self._rows[self._best]


FEW_VALUES = 4096
"""Values whose running sum is made sooner than avoided, and whose product one thread makes."""
THREADED_PRODUCT_LENGTH = 10_000
"""Elements of a dot product from which on BLAS uses all its threads, which changes its rounding."""


def _product(values: Array, weights: Array) -> Array:
    """`values @ weights`, with the bits of as many threads as BLAS has.

    After a product that it shares out, BLAS's threads spin for some 50 ms, and ours wait for the
    cores. So one thread adds up the parts that they would have added up.
    """
    if len(values) > 1 or values.shape[1] <= THREADED_PRODUCT_LENGTH:
        return np.asarray(values @ weights)
    controller = _get_threadpool_controller().select(user_api="blas")
    n_threads = max((one.num_threads for one in controller.lib_controllers), default=1)
    if n_threads == 1 or not _adds_parts(n_threads, values.dtype):
        return np.asarray(values @ weights)
    return _product_of_parts(values, weights, n_threads)


def _product_of_parts(values: Array, weights: Array, n_threads: int) -> Array:
    n, begin, total = len(weights), 0, None
    with _get_threadpool_controller().limit(limits=1, user_api="blas"):
        for left in range(n_threads, 0, -1):
            end = begin - (begin - n) // left
            part = values[:, begin:end] @ weights[begin:end]
            total = part if total is None else total + part
            begin = end
    return np.asarray(total)


@cache
def _adds_parts(n_threads: int, dtype: Any) -> bool:
    """Whether BLAS, with so many threads, gives the bits of `_product_of_parts`: tried once."""
    rng = np.random.default_rng(0)
    for n in range(
        THREADED_PRODUCT_LENGTH + 1, 4 * THREADED_PRODUCT_LENGTH, THREADED_PRODUCT_LENGTH // 2 + 1
    ):
        values, weights = rng.random((1, n)).astype(dtype), rng.random((n, 1)).astype(dtype)
        if (values @ weights != _product_of_parts(values, weights, n_threads)).any():
            return False
    return True


def _reached(values: Array, weights: Array | None, draws: Array) -> Array:
    """Where the running sum of weighted values, one after another in their dtype, reaches draws."""
    find = loop("scan", "reached", values.dtype) if len(values) > FEW_VALUES else None
    if find is None:
        weighted = values if weights is None else weights * values
        return np.searchsorted(np.cumsum(weighted), draws)
    order = np.argsort(draws)
    rising = np.ascontiguousarray(draws[order], np.float64)
    found, places = np.empty((2, len(draws)), np.int64)
    find(values, weights, len(values), rising, len(rising), found)
    places[order] = found
    return places

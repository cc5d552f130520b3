"""Points as the k-means family reads them: rows less a shift, with weights.

`DenseRows` are in tiles and are read by the ops of `ops/points/centres.py`; `SparseRows` are a CSR
matrix on the host. Both answer the same questions, so that seeding and Lloyd's iteration ask
either.
"""

from __future__ import annotations

from functools import cached_property
from math import frexp
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it
from infinitensor.api.eager.row_parts import in_parts, parts_of, share
from infinitensor.api.evaluate.few_of_file import stored_rows
from infinitensor.api.record.late import call_op
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.points.centres import SECOND_UNIT_RATIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

NO_LABEL = -1
"""The label of rows that were not compared with centres yet."""
FEW_TAKEN_ROWS = 64
"""Rows of a tensor that are taken one by one; more are an index, which brings their tiles."""

LEAST_PART_PRODUCTS = 1 << 20
"""Products of coordinates that are worth a part of their own, of rows shared out among workers."""
ONE_THREAD_PARTS = 4
"""Parts up to which one thread is faster, where what comes between two passes is short."""

ONE_TASK_COPIES = 12
"""How often a GPU has room for the rows, and a few numbers for each, where all passes over them are
one task."""

COARSEST_UNIT = 2.0**-34
"""The largest unit of sums, as a part of the smallest difference that counts; else a second unit
is used."""


class Measured:
    """The units of sums, for rows on the host, in tiles, or at some places of others."""

    n: int
    weights: Array | None

    if TYPE_CHECKING:

        @property
        def most(self) -> Array:
            """The greatest absolute value of each coordinate."""

        @property
        def scale(self) -> Array:
            """By what coordinates and weights are made whole."""

        def take(self, indices: Sequence[int] | Array) -> Array:
            """Some rows, on the host."""

        def own_distances(self, centers: Array, labels: Any) -> Array:
            """The squared distance of each row to its own centre."""

        def farthest(self, centers: Array, labels: Any) -> float:
            """The greatest of these."""

        def _inertia(self, centers: Array, labels: Any, scale: float) -> Array:
            """The same by label, weighted, in units of `1 / scale`."""

    @cached_property
    def units(self) -> tuple[Array, bool]:
        """By what coordinates and weights are made whole, and whether that is coarse for them."""
        return self.scale, bool((1 / self.scale[:-1] > COARSEST_UNIT * self.typical).any())

    @property
    def total_weight(self) -> float:
        """The sum of the absolute weights of all rows."""
        return float(self.n if self.weights is None else np.abs(self.weights).sum(dtype=float))

    @cached_property
    def typical(self) -> Array:
        """How far apart coordinates are but for the most extreme, by a few rows.

        Of a coordinate that is the same in these rows: its greatest absolute value.
        """
        few = self.take(np.linspace(0, self.n - 1, min(FEW_TAKEN_ROWS, self.n)).astype(np.int64))
        wide = few.astype(np.float64)
        wide.sort(axis=0)
        away = np.abs(wide - wide[len(wide) // 2])
        away.sort(axis=0)
        found = away[9 * len(away) // 10]
        return np.where(found > 0, found, self.most)

    def inertia(self, centers: Array, labels: Any) -> Array:
        """For each label the weighted squared distances of its rows to its centre."""
        with np.errstate(over="ignore"):
            reach = float(((self.most + np.abs(centers).max(0)) ** 2).sum())
        if not np.isfinite(reach * self.total_weight):  # there is no unit for what may be infinite
            far = self.own_distances(centers, labels).astype(np.float64)
            far = far if self.weights is None else far * self.weights
            return np.bincount(np.asarray(labels), far, minlength=len(centers))
        scale = unit_for(reach * self.total_weight)
        found = self._inertia(centers, labels, scale)
        if self.n / (scale * SECOND_UNIT_RATIO) > COARSEST_UNIT * float(found.sum()):
            # a far row makes the unit coarse, though it may be at its own centre
            most = min(self.farthest(centers, labels) * (1 + 1e-6), reach)
            found = self._inertia(centers, labels, unit_for(most * self.total_weight))
        return found


class DenseRows(Measured):
    """Rows of a tensor less a shift; what is larger than a few rows stays in tiles."""

    def __init__(
        self, x: it.Tensor, host: Array | None, shift: Array, weights: Array | None, k: int = 16
    ) -> None:
        """`k`: about how many centres they are compared with."""
        self.x = x
        self.host = host
        self.shift = np.ascontiguousarray(shift)
        self.weights = weights
        self.n, self.d = x.shape
        self.dtype = np.dtype(x.dtype)
        self.k = k
        self.few = host is not None and _are_few(host, k)
        """Whether passes run at once, without a plan: rows are few, and on the host."""
        self.least = _least(self.d, k)
        """Rows that are worth a part of their own then."""
        self._weighing: tuple[Any, ...] = ()
        if weights is not None:
            self._weighing = (weights if self.few else it.asarray(weights, copy=False),)
        self._most: Array | None = None

    def with_bounds(self, low: Array, high: Array) -> DenseRows:
        """The same rows, whose least and greatest coordinates are known."""
        shift = self.shift.astype(np.float64)
        self._most = np.maximum(np.abs(low - shift), np.abs(high - shift)).astype(np.float64)
        return self

    @property
    def most(self) -> Array:
        """The greatest absolute value of each coordinate."""
        if self._most is None:
            low, high = self.x.min(0), self.x.max(0)
            it.compute(low, high)
            self.with_bounds(low.numpy(), high.numpy())
        assert self._most is not None
        return self._most

    @cached_property
    def scale(self) -> Array:
        """By what coordinates and weights are made whole."""
        weight = self.total_weight
        units = [unit_for(most * weight) for most in self.most.tolist()]
        return np.array([*units, unit_for(weight)])

    def take(self, indices: Sequence[int] | Array) -> Array:
        """Some rows, on the host."""
        where = np.asarray(indices, np.int64)
        if self.host is not None:
            rows = np.take(self.host, where, axis=0)
            rows -= self.shift
            return rows
        picked = stored_rows(self.x, where)
        if picked is None and len(where) <= FEW_TAKEN_ROWS:
            picked = np.stack([self.x[row].numpy() for row in where.tolist()])
        elif picked is None:
            picked = self.x[where].numpy()
        return np.asarray(picked - self.shift)

    def subset(self, indices: Array) -> DenseRows:
        """Some rows in tiles of their own; the shift is taken off."""
        weights = None if self.weights is None else self.weights[indices]
        none = np.zeros_like(self.shift)
        if self.host is None and (np.diff(indices) > 0).all():
            chosen = np.zeros(self.n, bool)
            chosen[indices] = True
            kept = self.x[it.asarray(chosen)] - self.shift
            it.compute(kept)
            part = DenseRows(kept, None, none, weights, self.k)
        else:
            values = self.take(indices)
            part = DenseRows(it.asarray(values, copy=False), values, none, weights, self.k)
        part._most = self._most  # no row is larger than all of them
        return part

    def all_rows(self) -> Array:
        """All rows, on the host: what a callable `init` gets."""
        values = self.host if self.host is not None else self.x.numpy()
        return np.asarray(values - self.shift)

    def remainders(self, scale: Array) -> it.Tensor:
        """The exact rounding error of each weighted coordinate in `_label_sums`, in its unit."""
        v = (self.x - self.shift).astype(np.float64)
        if self._weighing:
            v = v * self._weighing[0].astype(np.float64)[:, None]
        v = v * scale
        rest = v - it.trunc(v)
        up, down = (rest >= 0.5).astype(np.float64), (rest <= -0.5).astype(np.float64)
        made: it.Tensor = rest - up + down
        return made

    # passes over the rows

    @property
    def is_one_task(self) -> bool:
        """Whether many passes may be one task: one GPU has room for the rows and their copies."""
        mesh = it.Mesh.current()
        if self.few or mesh.kind != "cuda" or mesh.n_devices > 1 or not mesh.tools.has_triton:
            return False
        needed = ONE_TASK_COPIES * (self.n * self.d * self.dtype.itemsize + 32 * self.n)
        return needed <= mesh.devices[0].memory_bytes

    def call(self, name: str, *others: Any, n_points: int = 0, **params: Any) -> Any:
        """An op on the rows: tensors that wait, or arrays if rows are few.

        `n_points`: how many they are compared with, if not with the centres.
        """
        if self.few:
            assert self.host is not None
            arrays = (self.host, self.shift, *map(np.asarray, others))
            least = _least(self.d, n_points) if n_points else self.least
            return in_parts(name, least, *arrays, **params)
        return call_op(name, self.x, self.shift, *others, **params)

    def nearest(self, centers: Array) -> Array:
        """The nearest centre of each row."""
        return np.asarray(self.call("_nearest", centers))

    def closer(self, points: Array, known: tuple[Any, ...] = ()) -> Any:
        """For each point each row's squared distance to the nearest seed, with that point."""
        if not self.few:
            known = tuple(it.asarray(one, copy=False) for one in known)
        return self.call("_closer", points, *known, n_points=len(points))

    def small_copy(self, k: int) -> DenseRows | None:
        """These rows, if a loop over them for k points is done before it is shared out."""
        if not self.few or self.n >= ONE_THREAD_PARTS * _least(self.d, k):
            return None
        return self if loop("seeds", "try_seeds", self.dtype) is not None else None

    def start(self, k: int) -> Assigning:
        """Labels of k centres, to be found and found again as the centres move."""
        return FewAssigning(self, k) if self.few else Assigning(self, k)

    def _inertia(self, centers: Array, labels: Any, scale: float) -> Array:
        made = self.call("_label_inertia", centers, np.array([scale]), labels, *self._weighing)
        if not self.few:  # labels may wait still: one pass finds both
            it.compute(made, *([labels] if isinstance(labels, it.Tensor) else []))
        sums = np.asarray(made).astype(np.float64)
        return np.asarray((sums[:, 0] + sums[:, 1] / SECOND_UNIT_RATIO) / scale)

    def own_distances(self, centers: Array, labels: Any) -> Array:
        """The squared distance of each row to its own centre."""
        return np.asarray(self.call("_label_distances", centers, labels))

    def farthest(self, centers: Array, labels: Any) -> float:
        """The greatest of these."""
        return float(self.call("_label_distances", centers, labels).max())


class Assigning:
    """Labels that follow moving centres, and what the rows of each label add up to."""

    means: Array | None = None
    """The means of the rows of each label, where they are computed with the labels."""

    def __init__(self, rows: DenseRows, k: int) -> None:
        self.rows = rows
        self.k = k
        kind: Any = np if rows.few else it
        self.labels = kind.full(rows.n, NO_LABEL, dtype=np.int32)
        self.bounds = kind.zeros((rows.n, 2), dtype=np.float32)
        self.centers: Array | None = None
        self.sums = np.zeros((k + 1, rows.d + 2), np.int64)
        self.scale, is_coarse = rows.units
        self.left: Array | None = None
        self.finer = np.array([*[unit_for(rows.n)] * rows.d, 1.0])
        if is_coarse:
            self.left = np.zeros((k + 1, rows.d + 2), np.int64)

    def follow(self, centers: Array, *, add_up: bool = True) -> int:
        """Compare with these centres; how many labels changed.

        Without `add_up` that is not said: labels wait until they, or their inertia, are asked for.
        """
        rows = self.rows
        moves = _moves(self.centers, centers, rows.n)
        self.centers = centers.copy()
        old = self.labels
        new, bounds = rows.call("_nearest_moved", centers, old, self.bounds, moves)
        made = [new, bounds]
        if add_up:
            made.append(rows.call("_label_sums", self.scale, new, old, *rows._weighing, k=self.k))
            if self.left is not None:
                none = np.zeros(rows.d)
                rest = (rows.remainders(self.scale[:-1]), none, self.finer, new, old)
                made.append(call_op("_label_sums", *rest, k=self.k))
        if not rows.few and add_up:
            it.compute(*made)
        n_changed = 0
        if add_up:
            change = np.asarray(made[2])
            self.sums += change
            n_changed = int(change[self.k, 0])
            if self.left is not None:
                self.left += np.asarray(made[3])
        self.labels = new
        if add_up:  # else nobody follows again
            self.bounds = bounds
        return n_changed

    def totals(self) -> tuple[Array, Array, Array]:
        """Of each label: the sum of its rows, what they weigh, and whether one weighs something."""
        sums = self.sums[: self.k].astype(np.float64)
        if self.left is not None:
            sums[:, :-2] += self.left[: self.k, :-2] / self.finer[:-1]
        sums /= [*self.scale, 1.0]
        return sums[:, :-2], sums[:, -2], self.sums[: self.k, -1] != 0


def _least(d: int, k: int) -> int:
    """Rows of so many coordinates that are worth a part of their own, for k points."""
    return LEAST_PART_PRODUCTS // ((d + 16) * (k + 4)) + 1


def _are_few(host: Array, k: int) -> bool:
    """Whether to plan a pass over rows would take a good part of the time that the pass takes."""
    limit = it.config.small_elements
    n_points = max(4 * host.size, host.size * k)
    if not host.flags.c_contiguous or len(host) > 4 * limit or n_points > 4096 * limit:
        return False
    # what is more than one core's work is for a GPU, where there is one
    return (len(host) <= limit and n_points <= 256 * limit) or it.Mesh.current().kind == "cpu"


class FewAssigning(Assigning):
    """The same for few rows: a step is one call of a loop, or one for each part of the rows."""

    def __init__(self, rows: DenseRows, k: int) -> None:
        super().__init__(rows, k)
        loops = [loop("centres", name, rows.dtype) for name in ("step", "assign", "means")]
        self._loops: Any = None if loops[0] is None or self.left is not None else loops
        self._moves = np.zeros((k, 3), np.float32)
        self._parts = parts_of(rows.n, rows.least)

    def follow(self, centers: Array, *, add_up: bool = True) -> int:
        """As of many rows."""
        rows, k = self.rows, self.k
        known = self.means is not None and centers is self.means
        self.means = None
        if self._loops is None or centers.dtype != rows.dtype:
            return super().follow(centers, add_up=add_up)
        moves = self._moves if known else _moves(self.centers, centers, rows.n)
        new, bounds = np.empty_like(self.labels), np.empty_like(self.bounds)
        made = np.empty((k, rows.d), rows.dtype), np.empty((k, 3), np.float32)
        given = (np.ascontiguousarray(centers), moves, self.labels, self.bounds, new, bounds)
        n_changed = self._step_parts(given, made)
        self.centers, self.labels, self.bounds = centers, new, bounds
        if n_changed < 0:
            return -2 - n_changed
        self.means, self._moves = made
        return n_changed

    def _step_parts(self, given: tuple[Array, ...], made: tuple[Array, Array]) -> int:
        """The result of `step` in centres.c; of several parts it is put together."""
        rows, k, host = self.rows, self.k, self.rows.host
        assert host is not None
        step, assign, means = self._loops
        weights = rows._weighing[0] if rows._weighing else None
        if len(self._parts) == 1:
            points = (host, rows.n, rows.d, rows.shift, self.scale, weights, k)
            return some_memory(step(*points, *given, self.sums, *made))
        centers, moves, *of_rows = given
        changes: list[Array] = []

        def work(begin: int, end: int) -> None:
            here = slice(begin, end)
            weighing = None if weights is None else weights[here]
            change = np.zeros_like(self.sums)
            points = (host[here], end - begin, rows.d, rows.shift, self.scale, weighing, k)
            some_memory(assign(*points, centers, moves, *[one[here] for one in of_rows], change))
            changes.append(change)

        share(self._parts, work)
        change = sum(changes[1:], changes[0])
        self.sums += change
        n_changed = int(change[k, 0])
        is_empty = means(self.sums, k, rows.d, self.scale, centers, *made)
        return -2 - n_changed if is_empty else n_changed


def some_memory(code: int) -> int:
    """The result of a loop; -1: it found no memory for its own copies."""
    if code == -1:
        raise MemoryError("no memory for the centres that a loop over points packs")
    return code


def unit_for(most: float) -> float:
    """The power of two by which numbers that add up to at most `most` fit 62 bits."""
    return 2.0 ** min(max(61 - frexp(most)[1], -1000), 1000) if most > 0 else 1.0


def _moves(old: Array | None, new: Array, n: int) -> Array:
    """For each centre how far it has moved, how far any other has, and half the way to the next.

    Ways moved are rounded up, that to the next one down.
    """
    k = len(new)
    moves = np.zeros((k, 3), np.float32)
    if old is None:
        return moves
    wide = new.astype(np.float64)
    far = np.sqrt(((wide - old.astype(np.float64)) ** 2).sum(1)) * (1 + 1e-6) + 1e-37
    first, second = (np.partition(far, -2)[[-1, -2]]) if k > 1 else (far[0], 0.0)
    moves[:, 0] = far
    moves[:, 1] = np.where(far == first, second, first)
    if (far == first).sum() > 1:
        moves[:, 1] = first
    if k > 1 and n > 4 * k:
        norms = (wide * wide).sum(1)
        apart = norms[:, None] + norms - 2 * (wide @ wide.T)
        slack = (4 * new.shape[1] + 32) * 2.0**-52 * 4 * norms.max()
        np.fill_diagonal(apart, np.inf)
        moves[:, 2] = np.sqrt(np.clip(apart.min(1) - slack, 0, None)) * (0.5 - 1e-6)
    return moves

"""Rows of a node of a tree, to be parted by two centres: read in place, never copied.

What `BisectingKMeans` asks of rows on the host. Which of two centres is nearer takes one product a
row (`halves.c`), and most rows are known to stay at theirs without it. Labels, sums and so
centres are the bits that the ops of `ops/points/centres.py` give.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it
from infinitensor.api.eager.row_parts import parts_of, share
from infinitensor.cluster.dense_rows import DenseRows, Measured, some_memory
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.points.centres import SECOND_UNIT_RATIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

LEAST_PART_ROWS = 8_192
"""Rows that are worth a part of their own."""
UNPLANNED_ROW_TIMES = 16
"""Rows, in times `config.small_elements`, up to which they are read without a plan."""


def part_of(rows: DenseRows, indices: Array, center: Array) -> RowsAt | DenseRows:
    """The rows at some places, about a centre: a part where there is one, else a copy of them."""
    whole = len(indices) == rows.n
    if _may_part(rows):
        part = RowsAt(rows, None if whole else indices, center)
        if not part.units[1]:
            return part
    if whole:
        return rows
    copy = rows.subset(indices)
    copy.scale = rows.scale
    return copy


def _may_part(rows: DenseRows) -> bool:
    host, limit = rows.host, it.config.small_elements
    if host is None or not host.flags.c_contiguous or it.Mesh.current().kind != "cpu":
        return False
    if len(host) > UNPLANNED_ROW_TIMES * limit or host.size > 1024 * limit:
        return False
    return loop("halves", "halve", host.dtype) is not None


class RowsAt(Measured):
    """Rows of others at some places; None: all of them."""

    def __init__(self, rows: DenseRows, where: Array | None, center: Array) -> None:
        assert rows.host is not None
        self.rows = rows
        self.values: Array = rows.host
        self.where = where
        self.center = np.ascontiguousarray(center, rows.dtype)
        """The point about which the rows are centred."""
        self.n = rows.n if where is None else len(where)
        self.d, self.dtype, self.shift = rows.d, rows.dtype, rows.shift
        weights = rows.weights
        self.weights = weights if weights is None or where is None else weights[where]
        self.parts = parts_of(self.n, LEAST_PART_ROWS)

    @property
    def most(self) -> Array:
        """No row is larger than all of them."""
        return self.rows.most

    @property
    def scale(self) -> Array:
        """That of all rows, so that what they add up to is that of their parts."""
        return self.rows.scale

    def take(self, indices: Sequence[int] | Array) -> Array:
        """Some rows, on the host."""
        places = np.asarray(indices, np.int64)
        return self.rows.take(places if self.where is None else self.where[places])

    @cached_property
    def copy(self) -> DenseRows:
        """The rows by themselves: for what is asked seldom."""
        return self.rows if self.where is None else self.rows.subset(self.where)

    @property
    def host(self) -> Array | None:
        """The values of the rows by themselves."""
        return self.copy.host

    def all_rows(self) -> Array:
        """All rows: what a callable `init` gets."""
        return self.copy.all_rows()

    def closer(self, points: Array, known: tuple[Any, ...] = ()) -> Any:
        """For each point each row's squared distance to the nearest seed, with that point."""
        return self.copy.closer(points, known)

    def small_copy(self, k: int) -> DenseRows | None:
        """A copy of the rows, if a loop over them for k points is done before it is shared out."""
        return self.copy.small_copy(k)

    def own_distances(self, centers: Array, labels: Any) -> Array:
        """The squared distance of each row to its own centre."""
        return self.copy.own_distances(centers, labels)

    def farthest(self, centers: Array, labels: Any) -> float:
        """The greatest of these."""
        return self.copy.farthest(centers, labels)

    def start(self, k: int) -> Halving:
        """Labels of two centres, to be found and found again as the centres move."""
        assert k == 2
        return Halving(self)

    def _inertia(self, centers: Array, labels: Any, scale: float) -> Array:
        add = loop("centres", "label_inertia", self.dtype)
        assert add is not None
        found: list[Array] = []
        centers = np.ascontiguousarray(centers, self.dtype)

        def work(begin: int, end: int) -> None:
            sums = np.zeros((len(centers), 2), np.int64)
            values, where, weights = self.between(begin, end)
            given = (values, where, end - begin, self.d, self.shift, centers, len(centers))
            some_memory(add(*given, labels[begin:end], weights, float(scale), sums))
            found.append(sums)

        share(self.parts, work)
        sums = sum(found[1:], found[0]).astype(np.float64)
        return np.asarray((sums[:, 0] + sums[:, 1] / SECOND_UNIT_RATIO) / scale)

    def between(self, begin: int, end: int) -> tuple[Array, Array | None, Array | None]:
        """Rows begin .. end, as loops take them: the values, where in them, and what they weigh."""
        weights = None if self.weights is None else self.weights[begin:end]
        if self.where is None:
            return self.values[begin:end], None, weights
        return self.values, self.where[begin:end], weights


class Halving:
    """Labels that follow two moving centres, and what the rows of each label add up to."""

    def __init__(self, part: RowsAt) -> None:
        self.part = part
        self.labels = np.empty(part.n, np.int32)
        self.means: Array | None = None
        self.sums = np.zeros((3, part.d + 2), np.int64)
        self._room, self._away = np.empty((2, part.n), np.float32)
        self._drift = np.zeros(2)
        """By how much products with rows may have changed: by their length, and besides."""
        self._way: tuple[Array, float] | None = None
        self._moves = np.empty((2, 3), np.float32)

    def follow(self, centers: Array, *, add_up: bool = True) -> int:
        """Compare with these centres; how many labels changed."""
        part, is_first = self.part, self._way is None
        centers = np.ascontiguousarray(centers, part.dtype)
        self._drifted(centers)
        halve, means = loop("halves", "halve", part.dtype), loop("centres", "means", part.dtype)
        assert halve is not None
        assert means is not None
        changes: list[Array] = []

        def work(begin: int, end: int) -> None:
            change = np.zeros_like(self.sums)
            values, where, weights = part.between(begin, end)
            rows = (values, part.d, part.shift, where, end - begin)
            about = (centers, part.center, self._drift, part.scale, weights)
            kept = [one[begin:end] for one in (self.labels, self._room, self._away)]
            some_memory(halve(*rows, *about, int(is_first), int(add_up), *kept, change))
            changes.append(change)

        share(part.parts, work)
        change = sum(changes[1:], changes[0])
        self.means = None
        if add_up:
            self.sums += change
            made = np.empty((2, part.d), part.dtype)
            if not means(self.sums, 2, part.d, part.scale, centers, made, self._moves):
                self.means = made
        return int(change[2, 0])

    def _drifted(self, centers: Array) -> None:
        """A bound on how far products with rows changed since the centres last moved."""
        wide = centers.astype(np.float64)
        way = wide[1] - wide[0]
        beside = ((wide[0] + wide[1]) / 2 - self.part.center) @ way
        if self._way is not None:
            before, then = self._way
            slack = 1e-14 * self.part.d * (abs(beside) + abs(then))
            self._drift += (np.sqrt(((way - before) ** 2).sum()), abs(beside - then) + slack)
        self._way = way, float(beside)

    def totals(self) -> tuple[Array, Array, Array]:
        """Of each label: the sum of its rows, what they weigh, and whether one weighs something."""
        sums = self.sums[:2].astype(np.float64) / [*self.part.scale, 1.0]
        return sums[:, :-2], sums[:, -2], self.sums[:2, -1] != 0

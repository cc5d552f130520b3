"""Batches: consecutive groups that differ only in what they read become one family.

A loop over small tensors makes thousands of equal groups; as columns of one family they cost a few
numbers each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.tasks import Column, Family

if TYPE_CHECKING:
    from infinitensor.ir.graph import Operand


@dataclass(slots=True)
class Pattern:
    """A lowered group that others of its kin repeat: its family, counted from its tiles."""

    family: Family
    boxes: np.ndarray
    """The places of its output tiles."""
    owners: np.ndarray
    dtype: np.dtype[Any]
    order: np.ndarray
    """The output tile of each task."""
    bases: tuple[int, ...]
    """The first tile of each operand (0 for scalars)."""


@dataclass(slots=True)
class Batch:
    """Groups of one kin, one after another, none of which reads what another makes."""

    pattern: Pattern
    site: Any
    first_tile: int
    values: list[int] = field(default_factory=list)
    bases: list[list[int]] = field(default_factory=list)
    made: set[int] = field(default_factory=set)

    def takes(self, pattern: Pattern, site: Any, read: list[int]) -> bool:
        """Whether a group may join."""
        return pattern is self.pattern and site == self.site and self.made.isdisjoint(read)

    def add(self, value: int, bases: list[int]) -> int:
        """A group joins: what it makes, and the first tile (or the scalar) of each operand."""
        self.values.append(value)
        self.made.add(value)
        self.bases.append(bases)
        return self.first_tile + (len(self.values) - 1) * len(self.pattern.owners)

    def columns(self) -> dict[str, Any]:
        """The family of all groups."""
        before = self.pattern.family
        k = len(self.values)
        bases = np.asarray(self.bases, np.int64).reshape(k, len(before.reads))
        reads = []
        for c, column in enumerate(before.reads):
            tiles = bases[:, c, None] + (column.tiles - self.pattern.bases[c])[None, :]
            if column.scalar:
                tiles = np.repeat(bases[:, c], before.n)
            boxes = None if column.boxes is None else np.tile(column.boxes, (k, 1, 1))
            flat = tiles.reshape(-1).astype(np.int32)
            reads.append(Column(flat, boxes, column.access, column.scalar))
        steps = np.arange(k, dtype=np.int64)[:, None] * len(self.pattern.owners)
        writes = (self.first_tile + steps + self.pattern.order[None, :]).reshape(-1)
        return {
            "op": before.op,
            "site": self.site,
            "lane": before.lane,
            "devices": np.tile(before.devices, k),
            "run": before.run,
            "reads": tuple(reads),
            "writes": (writes.astype(np.int32),),
            "scratch_bytes": before.scratch_bytes,
            "in_place": before.in_place,
            "seconds": before.seconds,
            "values": tuple(self.values),
            "in_c": before.in_c,
        }


def reads_of(operands: tuple[Operand, ...], roots: tuple[int, ...]) -> list[int]:
    """The values whose tiles are read."""
    return [roots[o.value] for o in operands if o.value >= 0]

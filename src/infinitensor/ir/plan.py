"""Plan: how every label of every group is cut, where each piece runs, the layouts of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.region import grid_shape

if TYPE_CHECKING:
    from infinitensor.ir.graph import Analysed
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.op import Labels
    from infinitensor.ir.region import Box, Cuts
    from infinitensor.ir.space import Space


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group: the borders of its labels (C order of pieces = order of tasks), a device a task.

    An update has a task for each tile of its base that it may change: `tiles` numbers them.
    """

    space: Space
    cuts: Cuts
    devices: np.ndarray
    leaves: tuple[tuple[int, int], ...] = ()
    """(axis of the input, leaf length), outermost first: what fixes the order of rounding."""
    tiles: np.ndarray | None = None
    part: Box | None = None
    """The part of the space that is needed; pieces around it are never made."""
    chained: int = -1
    """The contracted label along which pieces are added one after another, each to the sum of those
    before it; -1: pieces are made apart, then combined."""
    kin: Any = None
    """The key that the cuts were chosen by: groups of equal kin are cut, reached and lowered
    alike."""
    sweep: int = -1
    """The first of the groups that one pass over the same rows can do with this one; -1: none."""

    def longest(self) -> list[int]:
        """The longest piece of each label, among those that are made."""
        part = self.part or tuple((0, borders[-1]) for borders in self.cuts)
        return [
            max((b - a for a, b in pairwise(borders) if lo <= a and b <= hi), default=0)
            for borders, (lo, hi) in zip(self.cuts, part, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """Layouts and places of everything in an analysed graph."""

    analysed: Analysed
    mesh: Mesh
    groups: tuple[GroupPlan, ...]
    layouts: dict[int, Layout]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A box of a value brought together in one buffer on one device, from its tiles."""

    value: int
    box: Any
    device: int
    tiles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """How one operand of one group reaches its tasks.

    `tiles[i]`: the tile of the value that task i reads in place, or -1; `fetches[i]`: the number of
    the fetch it reads instead, or -1 (both -1: it reads nothing). `boxes` is the view box of each
    task (task, axis, lo/hi); None for scalars. `span`: where tasks read across tiles of one piece,
    (borders, tiles) of all that each reads.
    """

    tiles: np.ndarray
    fetches: np.ndarray
    boxes: np.ndarray | None
    span: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """All routes (per group, per external operand) and fetches, with what they move."""

    routes: tuple[tuple[Route, ...], ...]
    fetches: tuple[Fetch, ...]
    moved: dict[tuple[int, int], int]
    """(from device, to device) -> bytes."""
    writes: dict[int, np.ndarray]
    """Plain writes: per group the view box that falls into each of its tiles."""


def piece_to_tile(plan: GroupPlan, labels: Labels) -> np.ndarray:
    """For each piece of a group the flat tile of an output with these labels."""
    grid = grid_shape(plan.cuts)
    flat = np.zeros((1,) * len(grid), np.int64)
    for label in labels:
        if label is None:
            continue
        shape = [1] * len(grid)
        shape[label] = grid[label]
        flat = flat * grid[label] + np.arange(grid[label]).reshape(shape)
    return np.broadcast_to(flat, grid).reshape(-1)

"""Task graphs by hand: a family for each task, a set for each tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.layout import Layout
from infinitensor.ir.tasks import COMPUTE, Column, Family, TaskGraph, TileSet

if TYPE_CHECKING:
    from collections.abc import Sequence

Task = tuple[tuple[int, ...], int]
"""The tiles that a task reads, and the one that it makes."""


def add_up(ins: list[Any], outs: list[Any], i: int) -> None:
    """The kernel of all of them."""
    outs[0][...] = sum(ins) + 1


def task_graph(
    tasks: Sequence[Task],
    lengths: Sequence[int],
    kept: Sequence[int],
    lanes: Sequence[int] = (),
    devices: Sequence[int] = (),
) -> TaskGraph:
    """Tasks in order over tiles of so many floats of eight bytes, some of which are kept."""
    where = devices or [0] * len(lengths)
    tiles = tuple(
        TileSet(t, np.dtype("f8"), np.asarray([[[0, n]]]), np.asarray([where[t]], np.int16), t)
        for t, n in enumerate(lengths)
    )
    made = {write: task for task, (_, write) in enumerate(tasks)}
    edges = [(made[t], task) for task, (reads, _) in enumerate(tasks) for t in reads if t in made]
    families = tuple(
        Family(
            first=k,
            op=f"op {k}",
            site=None,
            lane=lanes[k] if lanes else COMPUTE,
            devices=np.zeros(1, np.int16),
            run=add_up,
            reads=tuple(Column(np.asarray([t], np.int32)) for t in reads),
            writes=(np.asarray([write], np.int32),),
        )
        for k, (reads, write) in enumerate(tasks)
    )
    columns = np.asarray(edges, np.int64).reshape(-1, 2)
    held = {t: (t, Layout(((0, lengths[t]),), (0,))) for t in kept}
    return TaskGraph(families, tiles, columns[:, 0], columns[:, 1], len(tasks), len(lengths), held)

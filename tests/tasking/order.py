"""Which task comes before which in a Program, and what each touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.ir.region import Box
    from infinitensor.ir.tasks import Family, Program, TileSet


@dataclass(frozen=True)
class Touch:
    """One task and the tiles it reads and writes."""

    task: int
    family: Family
    place: int
    reads: frozenset[int]
    writes: frozenset[int]

    @property
    def tiles(self) -> frozenset[int]:
        return self.reads | self.writes


def touches(program: Program) -> Iterator[Touch]:
    """What every task that runs touches."""
    for family in program.graph.families:
        for place in range(family.n):
            task = family.first + place
            if not program.needed[task]:
                continue
            reads = {int(c.tiles[place]) for c in family.reads if c.scalar < 0}
            if family.many is not None:
                borders, sources = family.many
                reads.update(sources[borders[place] : borders[place + 1]].tolist())
            writes = {int(w[place]) for w in family.writes}
            yield Touch(task, family, place, frozenset(reads - {-1}), frozenset(writes))


def ancestors(program: Program) -> list[int]:
    """The tasks before each task, as bits; fails if some task could never start."""
    n = program.graph.n_tasks
    waits = program.waits.copy()
    above = [0] * n
    ready = np.flatnonzero(program.needed & (waits == 0)).tolist()
    seen = 0
    while ready:
        task = ready.pop()
        seen += 1
        for after in program.after[program.borders[task] : program.borders[task + 1]].tolist():
            above[after] |= above[task] | 1 << task
            waits[after] -= 1
            if not waits[after]:
                ready.append(after)
    assert seen == np.count_nonzero(program.needed), "a cycle"
    return above


def ordered(above: list[int], a: int, b: int) -> bool:
    """Whether one of two tasks waits for the other."""
    return a == b or bool(above[a] >> b & 1 or above[b] >> a & 1)


def set_of(program: Program, tile: int) -> TileSet:
    """The tile set a tile belongs to."""
    return next(t for t in program.graph.tiles if t.first <= tile < t.first + t.n)


def box_of(program: Program, tile: int) -> Box:
    """Where a tile is in its tensor."""
    tiles = set_of(program, tile)
    return tuple((int(lo), int(hi)) for lo, hi in tiles.boxes[tile - tiles.first])

"""TaskGraph and Program: families of tasks as columns, and the buffers they run in."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infinitensor.ir.call_tables import InC
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.region import Box
    from infinitensor.ir.view import Access

COMPUTE, LOAD, EVICT, PEER = range(4)
LANES = ("compute", "load", "evict", "peer")


@dataclass(frozen=True, slots=True)
class TileSet:
    """Tiles of one value, of its partial results, or of fetched regions: consecutive numbers.

    `boxes` (tile, axis, lo/hi) says where each is in its tensor.
    """

    first: int
    dtype: np.dtype[Any]
    boxes: np.ndarray
    devices: np.ndarray
    value: int
    leaf: int = -1
    """The leaf whose tiles these are, or -1."""
    whole: bool = False
    """Whether they are parts of one piece of memory, the value in C order."""

    @property
    def n(self) -> int:
        """How many tiles."""
        return len(self.devices)

    @property
    def span(self) -> slice:
        """The numbers of the tiles."""
        return slice(self.first, self.first + self.n)

    def box(self, tile: int) -> Box:
        """The box of one of the tiles, by its number."""
        return tuple([(lo, hi) for lo, hi in self.boxes[tile - self.first].tolist()])


@dataclass(frozen=True, slots=True)
class Column:
    """One operand of a family: the tile each task reads, and which part of it.

    `tiles[i]` -1: the task gets None. `boxes` None: the whole tile. `scalar`: `tiles` numbers the
    scalars bound to the run instead. `span`: where a task reads across tiles that are parts of one
    piece, (borders, tiles) of all that it reads; `tiles` has the first of them.
    """

    tiles: np.ndarray
    boxes: np.ndarray | None = None
    access: Access | None = None
    scalar: bool = False
    span: tuple[np.ndarray, np.ndarray] | None = None

    def touched(self) -> tuple[np.ndarray, np.ndarray]:
        """(task of the family, tile) of everything that is read."""
        if self.span is not None:
            borders, tiles = self.span
            return np.repeat(np.arange(len(borders) - 1), np.diff(borders)), tiles
        if self.scalar:
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        tasks = np.flatnonzero(self.tiles >= 0)
        return tasks, self.tiles if len(tasks) == len(self.tiles) else self.tiles[tasks]

    def touched_by(self, i: int) -> list[int]:
        """The tiles that one task reads."""
        if self.span is not None:
            borders, tiles = self.span
            return list(tiles[borders[i] : borders[i + 1]].tolist())
        return [] if self.scalar or self.tiles[i] < 0 else [int(self.tiles[i])]


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks of one kind: an op over an index grid.

    `run(ins, outs, i)` is the kernel of task i. Tasks with a varying number of inputs (fetches,
    combines, windows) have them in `many` as (borders, tiles); those of `reads` come after.
    """

    first: int
    op: str
    site: Any
    devices: np.ndarray
    run: Callable[[list[Any], list[Any], int], None]
    reads: tuple[Column, ...]
    writes: tuple[np.ndarray, ...]
    lane: int = COMPUTE
    many: tuple[np.ndarray, np.ndarray] | None = None
    scratch_bytes: int = 0
    in_place: bool = False
    """Whether an output may take the buffer of an input of the same size."""
    updates: bool = False
    """Whether the outputs are tiles that hold the version before."""
    renews: bool = False
    """Whether the outputs are tiles of a tensor made anew, from tiles around them of those before:
    a step of a stencil."""
    eager: bool = False
    """Whether its tasks run step by step although generated code would be worth it."""
    in_turn: bool = False
    """Whether its tasks get their memory in the order of their numbers, with what they need just
    before: they were put in an order that reads least."""
    seconds: float = 0.0
    values: tuple[int, ...] = ()
    """The results of the tasks, for errors and recovery: values finished by this family."""
    n_groups: int = 1
    """Groups that each task does one after another, block by block."""
    in_c: InC | None = None
    """The same tasks as calls of compiled functions, where they are nothing else."""
    sources: tuple[str, ...] = ()
    """The generated C that its first task needs: compiled when a program starts, all at once."""

    @property
    def n(self) -> int:
        """How many tasks."""
        return len(self.devices)

    @property
    def span(self) -> slice:
        """The numbers of its tasks."""
        return slice(self.first, self.first + self.n)

    def many_of(self, i: int) -> list[int]:
        """The tiles in `many` that one task reads."""
        if self.many is None:
            return []
        borders, tiles = self.many
        return list(tiles[borders[i] : borders[i + 1]].tolist())

    def read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(task of the family, tile) of everything that is read, part by part."""
        for column in self.reads:
            yield column.touched()
        if self.many is not None:
            borders, tiles = self.many
            yield np.repeat(np.arange(self.n), np.diff(borders)), tiles


@dataclass(frozen=True)
class TaskGraph:
    """Families in a legal order, with their dependences as (source, target) columns."""

    families: tuple[Family, ...]
    tiles: tuple[TileSet, ...]
    sources: np.ndarray
    targets: np.ndarray
    n_tasks: int
    n_tiles: int
    held: dict[int, tuple[int, Layout]]
    """Kept value -> (number of its first tile, layout)."""

    @cached_property
    def _family_firsts(self) -> list[int]:
        return [family.first for family in self.families]

    @cached_property
    def _tile_firsts(self) -> list[int]:
        return [tiles.first for tiles in self.tiles]

    def family_of(self, task: int) -> tuple[Family, int]:
        """The family of a task and its place in it."""
        family = self.families[bisect_right(self._family_firsts, task) - 1]
        return family, task - family.first

    def set_with(self, tile: int) -> TileSet:
        """The tiles that a tile is one of."""
        return self.tiles[bisect_right(self._tile_firsts, tile) - 1]

    def box_of(self, tile: int) -> Box:
        """The box of a tile."""
        return self.set_with(tile).box(tile)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a program moves between tiers, and what it takes of the lower ones."""

    loaded: int = 0
    evicted: int = 0
    host_peak: int = 0
    disk_peak: int = 0
    order: str = ""
    """The serial order that was best; empty: nothing had to be ordered."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why tasks cannot have their memory: the op that needs most, how much, where, and its line."""

    op: str
    need_bytes: int
    limit_bytes: int
    device: int
    site: object
    largest_tile: int = 0
    """Elements of the largest tile of the plan, from which smaller ones are derived."""


@dataclass(frozen=True, slots=True)
class Program:
    """Tasks with buffers and a proof: `peak_bytes` per device is reached before anything runs.

    `slots[t]` is the buffer of tile t; a slot used again makes its new writer wait for all users of
    the tile before. Successors of task t: `after[borders[t]:borders[t + 1]]`.
    """

    graph: TaskGraph
    slots: np.ndarray
    slot_bytes: np.ndarray
    slot_devices: np.ndarray
    slot_leaves: dict[int, tuple[int, int]]
    """Slot -> (leaf, tile of it) where the buffer comes with a leaf."""
    borders: np.ndarray
    after: np.ndarray
    waits: np.ndarray
    peak_bytes: dict[int, int]
    last_use: np.ndarray
    producers: np.ndarray
    needed: np.ndarray
    """Tasks that run; the others make nothing that is kept."""
    slot_pieces: dict[int, int] = field(default_factory=dict)
    """Slot -> the piece of memory it is a part of, for tiles that share one."""
    piece_bytes: tuple[int, ...] = ()
    moved: dict[tuple[int, int], int] = field(default_factory=dict)
    start: list[Any] = field(default_factory=list)
    """The state that every run begins with, once one has begun."""
    order: np.ndarray | None = None
    """The tasks that run in the serial order the buffers were given in; None: by their numbers."""
    final: dict[int, int] = field(default_factory=dict)
    """Tile -> the tile that has its values in the end, where it was evicted on the way."""
    retires: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Slot -> slots of other sizes whose memory goes back to the device before it is taken."""
    origins: dict[int, int] = field(default_factory=dict)
    """Tile that was loaded -> the tile that was evicted."""
    drops: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Task -> tiles in lower tiers that nothing reads after it."""
    cached: tuple[int, ...] = ()
    """Tiles read from lower tiers that are still there in the end: worth keeping for the next
    run."""
    traffic: Traffic = field(default_factory=lambda: Traffic())
    at_once: int = 0
    """Tasks that may run at a time on a CPU; 0: as many as there are workers."""

    @property
    def plan_bytes(self) -> int:
        """Bytes the columns take."""
        columns = [self.slots, self.borders, self.after, self.waits, self.last_use, self.producers]
        columns += [self.slot_bytes, self.slot_devices]
        for tiles in self.graph.tiles:
            columns += [tiles.boxes, tiles.devices]
        for family in self.graph.families:
            columns += [family.devices, *family.writes]
            for column in family.reads:
                columns.append(column.tiles)
                if column.boxes is not None:
                    columns.append(column.boxes)
        return sum(int(column.nbytes) for column in columns)

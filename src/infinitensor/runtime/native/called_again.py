"""Programs that C has run before, and runs again without a `Run`.

A `Run` knows where each tile is and what is done, so that it can be stopped, go on, and make lost
tiles again: 60 us in Python, more than what many programs compute. Calls of C cannot fail, and a
program that took some ms the last time need not be stopped: it takes its memory, and C runs all of
it.
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor import events
from infinitensor.devices.ledger import Buffer, ledgers_in_c
from infinitensor.errors import DeviceOutOfMemoryError
from infinitensor.native import address
from infinitensor.runtime.native.c_job import in_c
from infinitensor.runtime.native.c_program import (
    KEPT_BINDINGS,
    LEVELS,
    N_JOB,
    N_THREADS,
    OVER,
    SLICE_NS,
    WORK_NS,
    leaf_key,
)
from infinitensor.runtime.native.c_team import c_functions
from infinitensor.runtime.native.pace import Pace
from infinitensor.runtime.state.tile_table import TileTable

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from infinitensor.devices import Device, Ledger
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.native.c_program import Called, Memory
    from infinitensor.runtime.native.c_team import Team

MOST_NS = 20_000_000
"""Work of a program, on all cores together, that nobody needs to stop."""
FORGOTTEN = 256
"""The part of itself by which the least time of all work grows at a run."""
SHARED_NS = 20_000
"""Work for which a thread is woken: less is done before it has begun."""
MOST_IN_LEVELS = 64
"""Tasks of a level, on average, up to which threads take pieces of all of a level's tasks together,
and wait for each other after it. Of more there is always one ready, and nobody waits."""
HOOKS = ("run_start", "run_end", "task_start", "tile_commit")
"""Events that only a `Run` reports."""


class CalledAgain:
    """A program on CPUs, as C runs it when it is repeated: its memory is taken of some ledgers, its
    tasks run by a team."""

    way = "repeated"
    alone = None

    def __init__(
        self, program: Program, devices: Sequence[Device], ledgers: Sequence[Ledger], team: Team
    ) -> None:
        self._program = program
        self._devices, self._ledgers = devices, ledgers
        self._team = team
        self._jobs: dict[Hashable, Again] = {}
        """By the strides of leaves."""

    @property
    def peaks(self) -> dict[int, int]:
        """Bytes that it needs of each device."""
        return self._program.peak_bytes

    @cached_property
    def counts(self) -> dict[str, int]:
        """What a start of it adds to `stats()`."""
        n_tasks = int(self._program.needed.sum())
        return {"tasks": n_tasks, "tasks_in_c": n_tasks}

    def start(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any]
    ) -> dict[int, TileTable] | None:
        """Run it: the tables of what is held. None, and nothing done: a `Run` has to."""
        if events.hooks and not events.hooks.keys().isdisjoint(HOOKS):
            return None
        again = self._jobs.get(tuple([table.strides for table in leaves])) or self._bind(leaves)
        if again is None or not 0 <= again.called.work_ns <= MOST_NS:
            return None
        return again.run(leaves, scalars, self._team)

    def _bind(self, leaves: Sequence[TileTable]) -> Again | None:
        """The job on such leaves, where C has run all of the program on them."""
        program, key = self._program, leaf_key(leaves)
        called = program.start[0].bindings.find_called(key) if program.start else None
        if called is None or called.is_mixed or called.waves or None in called.held.values():
            return None
        if len(self._jobs) >= KEPT_BINDINGS:
            self._jobs.clear()
        again = self._jobs[key] = Again(program, called, self._devices, self._ledgers)
        return again


class Source(NamedTuple):
    """Where the memory at some place of a job comes from."""

    ledger: Ledger | None
    """It is taken of this one; else it is a leaf's."""
    n_bytes: int = 0
    leaf: int = -1
    part: int = -1
    """A tile of the leaf; -1: all of it."""
    is_given: bool = False
    """Whether the leaf is used up: its memory is the program's."""


class Again:
    """A binding, and the job that C is given each time: one evaluation at a time has it."""

    def __init__(
        self, program: Program, called: Called, devices: Sequence[Device], ledgers: Sequence[Ledger]
    ) -> None:
        self.called = called
        self._job = called.blank_job(bytearray(program.graph.n_tasks))
        self._words = self._job.view
        self._levels = find_levels(program, called.order)
        order, borders = self._levels
        self._is_in_levels = len(called.order) <= MOST_IN_LEVELS * (len(borders) - 1)
        if self._is_in_levels:
            self._job.words[LEVELS : LEVELS + 3] = (
                address(order),
                address(borders),
                len(borders) - 1,
            )
        self._blank = self._job.words.copy().data
        self._n_in_blank = 0
        """The number of threads in those words."""
        self._devices = devices
        self._pace: Pace | None = None
        given = {("slot", slot): found for slot, found in program.slot_leaves.items()}
        slots, pieces = program.slots, program.slot_pieces
        for tiles in program.graph.tiles:
            piece = pieces.get(int(slots[tiles.first]), -1) if tiles.leaf >= 0 else -1
            if piece >= 0:
                given["piece", piece] = (tiles.leaf, -1)
        self._sources = tuple(_source_of(memory, given, ledgers) for memory in called.memories)
        places = {(kind, number): k for k, (kind, number, *_) in enumerate(called.memories)}
        self._whole: tuple[tuple[int, tuple[Any, ...]], ...] = ()
        """Values in one array each: what C makes their tables of."""
        self._pieces = []
        """Values that are in one piece of memory: where that is, and its first array."""
        self._apart = []
        """Values whose tiles are in memory of their own, and where."""
        for value, held in called.held.items():
            assert held is not None
            if held.piece >= 0:
                first = called.pieces[held.piece]
                self._pieces.append((value, held, places["piece", held.piece], *first))
            else:
                own = [(places["slot", slot], device, shape) for slot, device, shape in held.tiles]
                self._apart.append((value, held, own))
        if _in_c is not None:
            self._leave_to_c()

    def _leave_to_c(self) -> None:
        """Let C make the tables of values that are in one array each."""
        pieces, apart = self._pieces, self._apart
        found = [(n, held, at, shape, dtype) for n, held, at, shape, dtype in pieces
                 if held.layout.n_tiles == 1 and held.dtype == dtype]  # fmt: skip
        if len(self._devices) == 1:
            found += [
                (n, held, *own[0][::2], held.dtype) for n, held, own in apart if len(own) == 1
            ]
        whole: list[tuple[int, tuple[Any, ...]]] = []
        for number, held, at, shape, dtype in found:
            model = TileTable(held.layout, held.dtype, [], [])
            _ = model.form
            one = (model, at, tuple(shape), dtype, self._sources[at].is_given and held.piece >= 0)
            whole.append((number, one))
        self._whole = tuple(whole)
        numbers = {number for number, _ in whole}
        self._pieces = [one for one in pieces if one[0] not in numbers]
        self._apart = [one for one in apart if one[0] not in numbers]

    def run(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any], team: Team
    ) -> dict[int, TileTable] | None:
        """Take memory and run all tasks; None if there is too little."""
        called = self.called
        n, is_timed = self._n_threads(team)
        begun = perf_counter_ns() if is_timed else 0
        try:
            tables = self._run_in_c(leaves, scalars, team, n)
            if tables is None:
                tables = self._run(leaves, scalars, team, n)
        except DeviceOutOfMemoryError:
            return None  # the other way takes it piece by piece, and says whose it is
        if is_timed and self._pace is not None:
            self._pace.note(n, perf_counter_ns() - begun)
        # those who share it take longer for the same: the least says what it is
        most = called.work_ns + called.work_ns // FORGOTTEN + 1
        called.work_ns = min(self._words[WORK_NS], most)
        return tables

    def _n_threads(self, team: Team) -> tuple[int, bool]:
        """How many threads are to run the job, and whether it is to be timed."""
        most = min(team.n_workers, self.called.work_ns // SHARED_NS)
        if most <= 1:
            return 1, False
        if self._pace is None:
            self._pace = Pace(team.n_workers, most)
        is_timed = self._pace.is_timed
        return min(self._pace.n_threads(self.called.work_ns), most), is_timed

    def _n_others(self, team: Team, n: int) -> int:
        """How many threads join this one; the words that say so are written."""
        if n != self._n_in_blank:
            blank = self._blank
            blank[N_THREADS], blank[N_THREADS + 1], blank[N_THREADS + 2] = n, *team.calls
            self._n_in_blank = n
        return (n if self._is_in_levels else min(n, self._levels.width)) - 1

    def _run_in_c(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any], team: Team, n: int
    ) -> dict[int, TileTable] | None:
        """All in one call, where every value is in one array; None where that cannot be."""
        if _in_c is None or events.hooks or self._pieces or self._apart:
            return None
        n_others = self._n_others(team, n)
        handle = team.handle if n_others > 0 else 0
        given = (self._sources, self._words, self._blank, 8 * N_JOB, self.called.codes)
        job = (self._whole, self._job.at, handle, n_others, OVER, SLICE_NS)
        c_functions()  # C knows them from then on
        found: dict[int, TileTable] = _in_c.run(*given, leaves, scalars, *job)
        return found

    def _run(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any], team: Team, n: int
    ) -> dict[int, TileTable]:
        """Step by step."""
        called = self.called
        n_others = self._n_others(team, n)
        if _in_c is None or events.hooks:
            homes, memories = self._take(leaves)
            self._words[:] = self._blank
            called.fill(self._job, scalars, memories)
        else:
            given = (self._sources, self._words, self._blank, 8 * N_JOB, called.codes)
            homes, memories = _in_c.take(*given, leaves, scalars)
        functions, at = c_functions(), self._job.at
        if n_others < 1:
            while functions.alone(at, OVER, SLICE_NS) != OVER:
                pass
        else:
            while functions.together(team.handle, at, n_others, SLICE_NS) != OVER:
                pass
        return self._tables(homes, memories)

    def _take(self, leaves: Sequence[TileTable]) -> tuple[list[Any], list[Any]]:
        """What holds the memories, and those."""
        homes: list[Any] = []
        memories: list[Any] = []
        for ledger, n_bytes, leaf, part, is_given in self._sources:
            if ledger is not None:
                buffer = ledger.take(n_bytes)
                homes.append(buffer)
                memories.append(buffer.block)
                continue
            table = leaves[leaf]
            homes.append(table.buffers[max(part, 0)] if is_given else None)
            if part < 0:
                memories.append(table.whole)
            else:
                memories.append(homes[-1].block if is_given else table.arrays[part])
        return homes, memories

    def _tables(self, homes: list[Any], memories: list[Any]) -> dict[int, TileTable]:
        """What is held, once it is made."""
        tables: dict[int, TileTable] = {}
        if _in_c is not None:
            tables = _in_c.give(self._whole, homes, memories)
        for value, held, at, shape, dtype in self._pieces:
            whole = memories[at]
            if not self._sources[at].is_given:
                whole = self._devices[0].array(whole, shape, dtype)
            tables[value] = held.in_piece(homes[at], whole)
        devices = self._devices
        for value, held, own in self._apart:
            dtype = held.dtype
            arrays = [devices[d].array(memories[at], shape, dtype) for at, d, shape in own]
            tables[value] = held.in_slots([homes[at] for at, _, _ in own], arrays, len(devices))
        return tables


def _source_of(
    memory: Memory, given: dict[tuple[str, int], tuple[int, int]], ledgers: Sequence[Ledger]
) -> Source:
    """Where some memory comes from; `given` says which of it is that of leaves that are used up."""
    kind, number, part, device, n_bytes = memory
    if kind in ("leaf", "tile"):
        return Source(None, 0, number, part)
    if (kind, number) in given:
        return Source(None, 0, *given[kind, number], True)
    return Source(ledgers[device], n_bytes)


class Levels(NamedTuple):
    """Tasks none of which waits for another, level by level."""

    order: np.ndarray
    borders: np.ndarray

    @property
    def width(self) -> int:
        """Tasks of a level, at most."""
        return int(np.diff(self.borders).max(initial=0))


def find_levels(program: Program, order: np.ndarray) -> Levels:
    """The levels of a program: as many tasks have to be done one after another before each."""
    levels = [0] * program.graph.n_tasks
    borders, after = program.borders.tolist(), program.after.tolist()
    for task in order.tolist():
        for follower in after[borders[task] : borders[task + 1]]:
            levels[follower] = max(levels[follower], levels[task] + 1)
    own = np.asarray(levels, np.int64)[order]
    ordered = order[np.argsort(own, kind="stable")]
    return Levels(ordered, np.concatenate([[0], np.cumsum(np.bincount(own))]).astype(np.int64))


_in_c = in_c(Buffer, TileTable, ledgers_in_c)
"""How C takes memory for a job and makes its tables; None: Python does."""

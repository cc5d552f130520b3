"""Programs that C has run before, and runs again without a `Run`.

A `Run` knows where each tile is and what is done, so that it can be stopped, go on, and make lost
tiles again: 60 us in Python, more than what many programs compute. Calls of C cannot fail, and a
program that took some ms the last time need not be stopped: it takes its memory, and C runs all of
it.
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from infinitensor import events
from infinitensor.ops.backend.blas import one_core_each
from infinitensor.runtime.native.c_program import (
    KEPT_BINDINGS,
    OVER,
    SLICE_NS,
    WORK_NS,
    leaf_key,
    take_memories,
)
from infinitensor.runtime.native.c_team import c_functions
from infinitensor.runtime.state.run_tiles import RunMemory

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.native.c_program import Called
    from infinitensor.runtime.native.c_team import Team
    from infinitensor.runtime.state.tile_table import TileTable

MOST_NS = 20_000_000
"""Work of a program, on all cores together, that nobody needs to stop."""
SHARED_NS = 50_000
"""Work for which a thread is woken: less is done before it has begun."""
SURE_NS = 2_000_000
"""Work that several threads do sooner, whatever else the cores do."""
TRIED_AGAIN = 64
"""After so many runs the way that was slower is tried again: other programs come and go."""
HOOKS = ("run_start", "run_end", "task_start", "tile_commit")
"""Events that only a `Run` reports."""


class CalledAgain:
    """A program on CPUs, as C runs it when it is repeated: its memory is taken of some ledgers, its
    tasks run by a team."""

    way = "repeated"

    def __init__(
        self, program: Program, devices: Sequence[Device], ledgers: Sequence[Ledger], team: Team
    ) -> None:
        self._program = program
        self._devices, self._ledgers = devices, ledgers
        self._team = team
        self._jobs: dict[Hashable, Again] = {}
        """By the strides of leaves."""

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
        key = leaf_key(leaves)
        again = self._jobs.get(key) or self._bind(key)
        if again is None or not 0 <= again.called.work_ns <= MOST_NS:
            return None
        return again.run(leaves, scalars, self._devices, self._ledgers, self._team)

    def _bind(self, key: Hashable) -> Again | None:
        """The job on such leaves, where C has run all of the program on them."""
        program = self._program
        called = program.start[0].bindings.find_called(key) if program.start else None
        if called is None or called.is_mixed or called.waves or None in called.held.values():
            return None
        if len(self._jobs) >= KEPT_BINDINGS:
            self._jobs.clear()
        again = self._jobs[key] = Again(program, called)
        return again


class Again:
    """A binding, and the job that C is given each time: one evaluation at a time has it."""

    def __init__(self, program: Program, called: Called) -> None:
        self.called = called
        self._job = called.blank_job(bytearray(program.graph.n_tasks))
        self._words = self._job.view
        self._blank = self._job.words.copy().data
        self._n_slots = len(program.slot_bytes)
        self._slots = tuple(program.slot_leaves.items())
        slots, pieces = program.slots, program.slot_pieces
        given = [
            (pieces.get(int(slots[tiles.first]), -1), tiles.leaf)
            for tiles in program.graph.tiles
            if tiles.leaf >= 0
        ]
        self._pieces = tuple((piece, leaf) for piece, leaf in given if piece >= 0)
        self._pace = Pace()
        self._held = tuple((value, held) for value, held in called.held.items() if held)

    def run(
        self,
        leaves: Sequence[TileTable],
        scalars: Sequence[Any],
        devices: Sequence[Device],
        ledgers: Sequence[Ledger],
        team: Team,
    ) -> dict[int, TileTable] | None:
        """Take memory and run all tasks; None if there is too little."""
        buffers: list[Buffer | None] = [None] * self._n_slots
        for slot, (leaf, k) in self._slots:
            buffers[slot] = leaves[leaf].buffers[k]
        pieces: dict[int, tuple[Buffer, Any]] = {}
        for piece, leaf in self._pieces:
            buffer = leaves[leaf].buffers[0]
            assert buffer is not None
            pieces[piece] = (buffer, leaves[leaf].whole)
        memory = RunMemory(leaves, buffers, pieces, {}, devices, ledgers)
        called = self.called
        addresses = take_memories(memory, called)
        if addresses is None:
            return None
        self._words[:] = self._blank
        called.fill(self._job, scalars, addresses)
        self._call(team)
        called.work_ns = self._words[WORK_NS]
        return {value: held.table(memory) for value, held in self._held}

    def _call(self, team: Team) -> None:
        functions, at, work_ns = c_functions(), self._job.at, self.called.work_ns
        n_others = min(team.n_workers, len(self.called.order), work_ns // SHARED_NS) - 1
        is_shared = n_others > 0 and (work_ns >= SURE_NS or self._pace.is_shared())
        begun = perf_counter_ns()
        if is_shared:
            with one_core_each():
                while functions.together(team.handle, at, n_others, SLICE_NS) != OVER:
                    pass
        else:
            while functions.alone(at, OVER, SLICE_NS) != OVER:
                pass
        self._pace.note(is_shared, perf_counter_ns() - begun)


class Pace:
    """How long a job takes alone, and how long with others: they have to be woken, and may find no
    core that is free. What took less is done; the other is tried now and then."""

    __slots__ = ("_ns", "_turn")

    def __init__(self) -> None:
        self._ns = [0, 0]
        """Alone and with others, of late; 0: not known."""
        self._turn = 0

    def is_shared(self) -> bool:
        """Whether others are to help the next time."""
        alone, shared = self._ns
        if not alone or not shared:
            return bool(alone)
        self._turn += 1
        return (shared < alone) != (self._turn % TRIED_AGAIN == 0)

    def note(self, is_shared: bool, ns: int) -> None:
        """It took so long; once much longer, for the core went to somebody else, says little."""
        before = self._ns[is_shared] or ns
        self._ns[is_shared] = before + (min(ns, 2 * before) - before) // 4

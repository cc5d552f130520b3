"""Programs that C has run before, and runs again without a `Run`.

A `Run` knows where each tile is and what is done, so that it can be stopped, go on, and make lost
tiles again: 60 us in Python, more than what many programs compute. Calls of C cannot fail, and a
program that took some ms the last time need not be stopped: it takes its memory, and C runs all of
it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from infinitensor import events
from infinitensor.ops.backend.blas import one_core_each
from infinitensor.runtime.native.c_program import OVER, SLICE_NS, WORK_NS, take_memories
from infinitensor.runtime.native.c_team import c_functions
from infinitensor.runtime.state.run_tiles import RunMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.native.c_program import Called
    from infinitensor.runtime.native.c_team import Team
    from infinitensor.runtime.state.tile_table import TileTable

MOST_NS = 20_000_000
"""Work of a program, on all cores together, that nobody needs to stop."""
ALONE_NS = 50_000
"""Work that is done before another thread has begun, or that it would gain nothing on."""
HOOKS = ("run_start", "run_end", "task_start", "tile_commit")
"""Events that only a `Run` reports."""


class CalledAgain:
    """A program on CPUs, as C runs it when it is repeated."""

    way = "repeated"

    def __init__(self, program: Program) -> None:
        self.program = program
        self._jobs: dict[int, Again] = {}
        """By the identity of a binding, which it holds."""

    @cached_property
    def counts(self) -> dict[str, int]:
        """What a start of it adds to `stats()`."""
        n_tasks = int(self.program.needed.sum())
        return {"tasks": n_tasks, "tasks_in_c": n_tasks}

    def start(
        self,
        leaves: Sequence[TileTable],
        scalars: Sequence[Any],
        devices: Sequence[Device],
        ledgers: Sequence[Ledger],
        team: Team,
    ) -> dict[int, TileTable] | None:
        """Run it: the tables of what is held. None, and nothing done: a `Run` has to."""
        program = self.program
        if not program.start or (events.hooks and not events.hooks.keys().isdisjoint(HOOKS)):
            return None
        called: Called | None = program.start[0].bindings.find_called(leaves)
        if called is None or not 0 <= called.work_ns <= MOST_NS:
            return None
        again = self._jobs.get(id(called))
        if again is None:
            if called.is_mixed or called.waves is not None or None in called.held.values():
                return None
            self._jobs.clear()  # bindings of before are as good as gone
            again = self._jobs[id(called)] = Again(program, called)
        return again.run(leaves, scalars, devices, ledgers, team)


class Again:
    """A binding, and the job that C is given each time: one evaluation at a time has it."""

    def __init__(self, program: Program, called: Called) -> None:
        self.program = program
        self._called = called
        self._job = called.blank_job(bytearray(program.graph.n_tasks))
        self._blank = self._job.words.copy()
        self._n_slots = len(program.slot_bytes)
        self._slots = tuple(program.slot_leaves.items())
        slots, pieces = program.slots, program.slot_pieces
        given = [
            (pieces.get(int(slots[tiles.first]), -1), tiles.leaf)
            for tiles in program.graph.tiles
            if tiles.leaf >= 0
        ]
        self._pieces = tuple((piece, leaf) for piece, leaf in given if piece >= 0)

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
        called, job = self._called, self._job
        addresses = take_memories(memory, self.program, called)
        if addresses is None:
            return None
        job.words[:] = self._blank
        called.fill(job, scalars, addresses)
        self._call(team)
        called.work_ns = int(job.words[WORK_NS])
        return {value: held.table(memory) for value, held in called.held.items() if held}

    def _call(self, team: Team) -> None:
        functions, at = c_functions(), self._job.at
        if team.n_workers < 2 or self._called.work_ns < ALONE_NS or len(self._called.order) < 2:
            while functions.alone(at, OVER, SLICE_NS) != OVER:
                pass
            return
        with one_core_each():
            while functions.together(team.handle, at, OVER, SLICE_NS) != OVER:
                pass

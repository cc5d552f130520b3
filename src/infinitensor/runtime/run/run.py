"""One run of a Program: what is ready runs, what is done is remembered.

A run that stops (Ctrl-C, an error in a task) keeps its state: tiles that are done stay done, and
`go` may be called again to finish the rest. A task that raised runs again then.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor import events
from infinitensor.config import config
from infinitensor.events import lane
from infinitensor.ir.tasks import COMPUTE, EVICT, LOAD
from infinitensor.runtime.native.c_program import run_called, take_memories
from infinitensor.runtime.native.pace import Pace
from infinitensor.runtime.replay.cuda_graphs import work_again
from infinitensor.runtime.run.gpu_lanes import Dispatcher
from infinitensor.runtime.run.kernel_calls import KernelCalls
from infinitensor.runtime.run.ready_tasks import ReadyTasks
from infinitensor.runtime.run.rebuild import Rebuilder
from infinitensor.runtime.run.results import is_value_made, table_of, tasks_without
from infinitensor.runtime.run.start import start_of
from infinitensor.runtime.state.error_site import explain_failure
from infinitensor.runtime.state.kept_reads import tables_with_reads
from infinitensor.runtime.state.run_status import Status
from infinitensor.runtime.state.run_tiles import Tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.devices import Device, Ledger
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.native.c_program import Called
    from infinitensor.runtime.native.workers import Workers
    from infinitensor.runtime.state.run_tiles import Tiers
    from infinitensor.runtime.state.tile_table import TileTable

N_LOADING = 2
"""Threads that load: a file system answers several questions faster than one."""
TASK_HOOKS = ("task_start", "tile_commit")


class Run:
    """A Program bound to leaves, scalars and devices.

    It chooses who works: C, a GPU's lanes, this thread, or workers. Its parts know what is done
    (`status`), where tiles are (`tiles`), how a task is called (`calls`), which are ready (`ready`,
    where several threads or lanes ask). None of them knows the run, so its memory goes with it.
    """

    def __init__(
        self,
        program: Program,
        leaves: Sequence[TileTable],
        scalars: Sequence[Any],
        devices: Sequence[Device],
        ledgers: Sequence[Ledger],
        tiers: Tiers | None = None,
    ) -> None:
        self.program = program
        self.start = start_of(program, devices)
        self.steps = self.start.steps
        self.status = Status(self.start.n_tasks, program.graph.n_tasks)
        self.tiles = Tiles(program, self.steps, leaves, devices, ledgers, tiers)
        self.rebuilder = Rebuilder(self.tiles, scalars, self.status)
        self.calls = KernelCalls(self.tiles, scalars, self.status, self.rebuilder)
        self.ready: ReadyTasks | None = None
        self.called: Called | None = None
        """The program that C runs, or has run."""
        self.abandoned: set[int] = set()
        """Kept values that are not wanted any more."""
        self.skipped: set[int] = set()
        """Tasks that do nothing when it is their turn: nobody wants what they make."""

    @property
    def leaves(self) -> list[TileTable]:
        """The tables that it reads."""
        return self.tiles.leaves

    # the loop

    def go(self, workers: Workers | None, tick: Callable[[], None], resumed: bool = False) -> None:
        """Run until all is done or something stops it; then raise what stopped it.

        A resumed run goes on past a task that raises, so that whatever does not depend on it is
        made. One that was asked to stop before it began does not begin.
        """
        status = self.status
        status.goes_past_failures = resumed
        # what waits for a failure would hold up the rest
        is_fixed = config.fixed_order and not resumed
        is_paced = not (resumed or is_fixed or status.n_done)
        pace = self._pace(workers.n) if is_paced and workers is not None else None
        status.n_workers = None if pace is None else pace.n_threads(pace.took_ns)
        begun = perf_counter_ns()
        if resumed or is_fixed or not self._has_called(workers, tick):
            status.failed.clear()
            self.tiles.enter_leaves()
            self._go(workers, tick, is_fixed)
        if status.stopping or status.failure is not None:
            for device in self.tiles.devices:
                device.synchronize()
        failure = status.failure
        is_interrupted = status.clear_stop()
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it would hold the frames, and so the tensors, of whoever asked
            if is_interrupted:
                raise KeyboardInterrupt
        assert status.is_finished(), "tasks that wait for each other"
        if pace is not None and status.n_workers is not None:
            pace.note(status.n_workers, perf_counter_ns() - begun)

    def _pace(self, n_workers: int) -> Pace:
        """How many of the workers are quickest."""
        paces = self.start.paces
        return paces.get(n_workers) or paces.setdefault(n_workers, Pace(n_workers, n_workers))

    def _go(self, workers: Workers | None, tick: Callable[[], None], is_fixed: bool) -> None:
        """Run tasks from Python."""
        status, start = self.status, self.start
        is_first = not status.n_done and not status.goes_past_failures
        if start.lanes is not None and self.tiles.devices[0].kind == "cuda":
            Dispatcher(self.fill(is_fixed), self.tiles, self.run_task).go()
        elif workers is None:
            with np.errstate(all="ignore"):
                if not is_first:
                    self._work_on(self.fill(is_fixed))
                elif start.replays is None or not work_again(
                    start.replays, self.tiles, self.calls.scalars, status, self.work_through
                ):
                    self.work_through()
        elif status.n_workers == 1 < workers.n and start.lanes is None and is_first:
            workers.run_here(self.work_through)  # one of several is quickest: it is over soon
        else:
            ready = self.fill(is_fixed, workers.call_another)
            others: list[Callable[[], None]] = []
            if start.lanes is not None:
                others += [partial(self._work, ready, LOAD)] * N_LOADING
                others.append(partial(self._work, ready, EVICT))
            try:
                n_first = None if ready.is_awaited else 1
                workers.run(
                    partial(self._work, ready, COMPUTE), tick, others, n_first, status.n_workers
                )
            except BaseException:
                status.halt()
                workers.join()  # what raised here must not take memory from those who still write
                status.stopping = status.is_interrupted
                raise

    def fill(self, is_fixed: bool, call_another: Callable[[], None] = lambda: None) -> ReadyTasks:
        """A queue of what is not done, where several threads or lanes take from it."""
        self.ready = ReadyTasks(self.program, self.start, self.status, is_fixed, call_another)
        return self.ready

    def work_through(self) -> None:
        """Run all tasks in the order of their numbers: where one thread works nothing waits."""
        status = self.status
        done = status.done
        for task in self.start.order:
            if status.stopping:
                break
            try:
                self.run_task(task)
            except BaseException as error:
                status.fail(task, error)
                break
            done[task] = 1
            status.n_done += 1
            if "tile_commit" in events.hooks:
                self._report_commit(task)

    def _work_on(self, ready: ReadyTasks) -> None:
        """In one thread, run what is not done and waits for nothing that failed."""
        for task in self.start.order:
            if self.status.stopping:
                break
            if self.status.done[task] or ready.waits[task]:
                continue
            ready.n_running += 1
            self._attempt(ready, task)
        ready.clear()

    def _work(self, ready: ReadyTasks, lane: int) -> None:
        """Take ready tasks of a lane and run them, until there is nothing left to start."""
        while tasks := ready.take(lane):
            for k, task in enumerate(tasks):
                if self.status.stopping:
                    ready.put_back(tasks[k:])
                    break
                self._attempt(ready, task)

    def _attempt(self, ready: ReadyTasks, task: int) -> None:
        """Run one of the tasks that were taken; it is done then, or has failed."""
        try:
            self.run_task(task)
        except BaseException as error:
            ready.fail(task, error)
            return
        ready.finish(task)
        if "tile_commit" in events.hooks:
            self._report_commit(task)

    def _report_commit(self, task: int) -> None:
        """Call the hooks on tiles that are there.

        What a hook raises stops the run, but the task is done: it may have changed its inputs and
        must not run twice.
        """
        if task in self.skipped:
            return
        step = self.steps[task]
        name = self.tiles.devices[step.device].name
        try:
            for out in step.outs:
                events.emit("tile_commit", op=step.family.op, tile=out.tile, device=name, run=self)
        except BaseException as error:
            self.status.halt(error)

    def run_task(self, task: int, in_lane: int = COMPUTE) -> None:
        """Run one task now, in this thread."""
        if task in self.skipped:
            return
        step = self.steps[task]
        family = step.family
        if "task_start" in events.hooks:
            name = self.tiles.devices[step.device].name
            events.emit("task_start", op=family.op, tile=step.i, device=name, run=self)
        lane.in_task = True
        lane.check = self.status.check_stop
        written: tuple[int, ...] = ()
        if family.updates:
            tile = step.outs[0].tile
            written = (tile, self.program.origins.get(tile, tile))
            self.rebuilder.writing.update(dict.fromkeys(written, task))
        try:
            if step.device or in_lane:
                # A flipped view is a kernel too: it belongs on our stream.
                with self.tiles.devices[step.device].running(in_lane):
                    self.calls.call(step)
            else:
                self.calls.call(step)
        except Exception as error:
            explain_failure(self.tiles, error, family, step.i)
            raise
        finally:
            lane.in_task = False
            lane.check = None  # it would hold this run
        for each in written:
            self.rebuilder.write(each, task)
        if family.lane != COMPUTE:
            self.calls.count_move(step)
        for tile in self.program.drops.get(task, ()):
            self.tiles.directory.leave(tile)

    # tasks in C

    def _has_called(self, workers: Workers | None, tick: Callable[[], None]) -> bool:
        """Run all tasks in C, if they are calls of compiled functions; else False.

        Hooks on tasks, and tiles that are lost, are Python's.
        """
        bindings, tiles, status = self.start.bindings, self.tiles, self.status
        if (
            bindings.is_over
            or status.n_done
            or tiles.directory.lost
            or not events.hooks.keys().isdisjoint(TASK_HOOKS)
        ):
            return False
        called = bindings.find(tiles, 1 if workers is None else workers.n)
        memories = None if called is None else take_memories(tiles.memory, called)
        if called is None or memories is None:
            return False
        status.failed.clear()
        if called.is_mixed:
            status.lock  # noqa: B018 - there may be workers
            tiles.enter_leaves()
        self.called, tiles.within = called, called.within
        job = called.blank_job(status.done)
        called.fill(job, self.calls.scalars, memories)
        run_called(called, job, status, self._attempt_called, workers, tick)
        if not status.is_finished():
            self._settle(called)
        return True

    def _attempt_called(self, task: int) -> bool:
        """Run a task between those of C; False if it failed."""
        try:
            self.run_task(task)
        except BaseException as error:
            self.status.fail(task, error)
            return False
        return True

    def _settle(self, called: Called) -> None:
        """C was stopped: say where all is that it has made, as if Python had run those tasks."""
        tiles, steps = self.tiles, self.steps
        tiles.enter_leaves()
        for slot in np.flatnonzero(called.within >= 0).tolist():
            shared = tiles.shared[int(self.program.slot_devices[slot])]
            tiles.directory.buffers[slot] = shared
        for task in self.start.order:
            if not self.status.done[task]:
                continue
            for out in steps[task].outs:
                if steps[task].family.updates:
                    self.rebuilder.write(out.tile, task)
                else:
                    tiles.output(out)

    # what is asked of it

    def stop(self) -> None:
        """Start no more tasks; those that run finish (safe in a signal handler: takes no lock)."""
        self.status.stop()

    def drop(self, tile: int) -> None:
        """Lose a tile, as a fault would; its next reader has it made again."""
        self.tiles.directory.lost.add(tile)

    def is_made(self, value: int) -> bool:
        """Whether every task that writes tiles of a kept value or its earlier versions is done."""
        if value in self.abandoned:
            return False
        return self.status.is_finished() or is_value_made(self.program, self.status.done, value)

    def abandon(self, wanted: Sequence[int]) -> None:
        """Make only these values from now on: tasks that nothing else needs do nothing.

        So a task that keeps failing stops nobody once its result is not wanted any more. They keep
        their turn: who waits for one of them waits for what that one waits for too, such as readers
        of the memory that all three use.
        """
        self.abandoned |= set(self.program.graph.held) - set(wanted)
        unneeded = tasks_without(self.tiles, reversed(self.start.order), wanted)
        self.skipped.update(task for task in unneeded if not self.status.done[task])

    def table(self, value: int) -> TileTable:
        """The stored tiles of a kept value; they leave the run with it."""
        if self.called is not None and self.status.is_finished():
            held = self.called.held[value]
            if held is not None:
                return held.table(self.tiles.memory)
            first, layout = self.program.graph.held[value]
            self.tiles.enter_made(first, layout.n_tiles)
        return table_of(self.tiles, value, self.calls.array)

    def tables_with_reads(self) -> dict[int, TileTable]:
        """Leaf -> its table with the tiles that this run has read and would keep."""
        return tables_with_reads(self.tiles)

    def take_counts(self) -> dict[str, int]:
        """The counts since this was asked last, by the names of `stats()`."""
        return self.status.take_counts()

    def release(self) -> None:
        """Let go of every buffer this run holds."""
        self.tiles.release()
        self.rebuilder.spare = []

"""One run of a Program: what is ready runs, what is done is remembered.

A run that stops (Ctrl-C, an error in a task) keeps its state: tiles that are done stay done, and
`go` may be called again to finish the rest. A task that raised runs again then.
"""

from __future__ import annotations

import heapq
import threading
import time
from array import array as int_array
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor import events
from infinitensor.config import config
from infinitensor.errors import CorruptTileError, DeviceOutOfMemoryError, gib
from infinitensor.events import lane
from infinitensor.ir.layout import DISK, Layout
from infinitensor.ir.region import box_size, overlap, relative
from infinitensor.ir.tasks import COMPUTE, EVICT, LOAD, PEER
from infinitensor.runtime.native.c_program import IS_STOPPED, run_called
from infinitensor.runtime.replay.cuda_graphs import work_again
from infinitensor.runtime.run.fixed_order import FixedOrder
from infinitensor.runtime.run.gpu_lanes import Dispatcher
from infinitensor.runtime.run.rebuild import load_remade, rebuild
from infinitensor.runtime.run.start import start_of
from infinitensor.runtime.state.error_site import explain_failure
from infinitensor.runtime.state.run_tiles import Tiles
from infinitensor.runtime.state.step import NOTHING, SCALAR, TILE
from infinitensor.runtime.state.tile_table import TileTable
from infinitensor.storage import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.native.c_program import Called
    from infinitensor.runtime.native.workers import Workers
    from infinitensor.runtime.state.run_tiles import Tiers
    from infinitensor.runtime.state.step import Span, Step

WINDOW = 4
"""Ready tasks a worker takes at a time."""
N_LOADING = 2
"""Threads that load: a file system answers several questions faster than one."""


_NO_WAITS = int_array("i")


class Left(BaseException):
    """A loop op was left between two steps, because its run stops."""


class Run:
    """A Program bound to leaves, scalars and devices."""

    def __init__(
        self,
        program: Program,
        leaves: Sequence[TileTable],
        scalars: Sequence[Any],
        devices: Sequence[Device],
        ledgers: Sequence[Ledger],
        tiers: Tiers | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.program = program
        self.scalars = scalars
        self.devices = devices
        self.ledgers = ledgers
        self.clock = clock
        graph = program.graph
        self._is_null = devices[0].kind == "null"
        start = start_of(program, devices)
        self.n_tasks = start.n_tasks
        self.n_done = 0
        self.done = bytearray(graph.n_tasks)
        self.moved_bytes = 0
        self.loaded_bytes = self.evicted_bytes = self.read_bytes = 0
        self.rebuilt = 0
        self.beside_bytes = [0] * len(devices)
        """Taken of each device, in all, to make lost tiles again: no part of the plan."""
        self.started_at = clock()
        self.failure: BaseException | None = None
        self.stopping = False
        self.is_interrupted = False
        self._waits: int_array[int] = _NO_WAITS
        self._order = start.order
        self._ranks = start.ranks
        self._lanes = start.lanes
        self._long = start.long
        self.steps = start.steps
        self.tiles = Tiles(program, start.steps, leaves, devices, ledgers, tiers)
        self._replays = start.replays
        self._bindings = start.bindings
        self.job: np.ndarray | None = None
        """What C works on now."""
        self.called: Called | None = None
        """What C runs, or has run."""
        self.n_called = 0
        """Tasks that C ran."""
        self.n_in_waves = 0
        """Those of them that were steps of a stencil, several of which went together."""
        self.spare: list[Buffer] = []
        """Memory of tiles that were lost and made again."""
        self.written_by: dict[int, int] = {}
        """The last task that wrote into a tile in place."""
        self.writing: dict[int, int] = {}
        """Tiles that tasks write into now: nothing else may be made from them meanwhile."""
        self._heaps: tuple[list[int], ...] = ([], [], [])
        """What is ready to be computed, loaded, evicted, as places in the order."""
        self._running = 0
        self.failed: list[int] = []
        self.abandoned: set[int] = set()
        """Kept values that are not wanted any more."""
        self.skipped: set[int] = set()
        """Tasks that do nothing when it is their turn: nobody wants what they make."""
        self._past_failures = False
        self.fixed: FixedOrder | None = None
        """The order that lanes keep to, where they may not take any ready task."""

    @property
    def leaves(self) -> list[TileTable]:
        """What it reads."""
        return self.tiles.leaves

    @cached_property
    def lock(self) -> threading.Condition:
        """What workers share; made before they begin, for a run in one thread never needs it."""
        return threading.Condition(threading.Lock())

    # the loop

    def go(self, workers: Workers | None, tick: Callable[[], None], resumed: bool = False) -> None:
        """Run until all is done or something stops it; then raise what stopped it.

        A resumed run goes on past a task that raises, so that whatever does not depend on it is
        made. One that was told to stop before it began does not begin.
        """
        self._past_failures = resumed
        self.fixed = None
        if config.fixed_order and not resumed:  # what waits for a failure would hold up the rest
            self.fixed = self._fixed_order()
        if self._has_called(workers, tick):
            pass
        elif self._lanes is not None and self.devices[0].kind == "cuda":
            self._count_waits()
            Dispatcher(self).go()
        elif workers is None and not self.n_done and not resumed:
            self.failed.clear()
            self.tiles.enter_leaves()
            with np.errstate(all="ignore"):
                if self._replays is None or not work_again(self, self._replays):
                    self.work_through()
        else:
            self._count_waits()
            if workers is None:
                with np.errstate(all="ignore"):
                    self._work_on()
            else:
                others: list[Callable[[], None]] = []
                if self._lanes is not None:
                    others += [partial(self.work, LOAD)] * N_LOADING
                    others.append(partial(self.work, EVICT))
                try:
                    workers.run(self.work, tick, others)
                except BaseException:
                    self._end(workers)
                    raise
        if self.stopping or self.failure is not None:
            for device in self.devices:
                device.synchronize()
        failure = self.failure
        is_interrupted = self.clear_stop()
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it would hold the frames, and so the tensors, of whoever asked
            if is_interrupted:
                raise KeyboardInterrupt
        assert self.n_done == self.n_tasks, "tasks that wait for each other"

    def _end(self, workers: Workers) -> None:
        """What raised here must not take memory from workers that still write to it."""
        with self.lock:
            self.stopping = True
            self.lock.notify_all()
        workers.join()
        self.stopping = self.is_interrupted

    def _has_called(self, workers: Workers | None, tick: Callable[[], None]) -> bool:
        """Run all tasks in C, if they are calls of compiled functions; else False.

        Hooks on tasks, and tiles that are lost, are Python's.
        """
        bindings = self._bindings
        if (
            bindings.is_over
            or self.n_done
            or self._past_failures
            or self.fixed is not None
            or self.tiles.directory.has_lost
            or not events.hooks.keys().isdisjoint(("task_start", "tile_commit"))
        ):
            return False
        called = bindings.find(self, 1 if workers is None else workers.n)
        if called is None:
            return False
        self.failed.clear()
        if called.is_mixed:
            self.lock  # noqa: B018 - there may be workers
            self.tiles.enter_leaves()
        self.called, self.tiles.within = called, called.within
        if not run_called(self, called, workers, tick):
            return False
        if called.is_mixed:
            done = np.frombuffer(self.done, np.bool_)
            self.n_called = int(np.count_nonzero(done & (called.in_python == 0)))
        else:
            self.n_called = self.n_done
        if called.waves is not None:
            done = np.frombuffer(self.done, np.bool_)
            self.n_in_waves = int(np.count_nonzero(done[called.waves.members]))
        if self.n_done < self.n_tasks:
            self._settle()
        return True

    def attempt_called(self, task: int) -> bool:
        """Run a task that lies between those of C; False if it failed."""
        try:
            self.run_task(task)
        except BaseException as error:
            with self.lock:
                self._running += 1
            self._fail(task, error)
            return False
        return True

    def _settle(self) -> None:
        """C was stopped: say where all is that it has made, as if Python had run those tasks."""
        self.tiles.enter_leaves()
        assert self.called is not None
        for slot in np.flatnonzero(self.called.within >= 0).tolist():
            shared = self.tiles.shared[int(self.program.slot_devices[slot])]
            self.tiles.directory.buffers[slot] = shared
        for task in self._order:
            if not self.done[task]:
                continue
            for out in self.steps[task].outs:
                if self.steps[task].family.updates:
                    self.tiles.directory.written(out.tile)
                    self.written_by[out.tile] = task
                else:
                    self.tiles.output(out)

    def work(self, lane: int = COMPUTE) -> None:
        """Take ready tasks of a lane and run them, until there is nothing left to start."""
        ready = self._heaps[lane]
        lock = self.lock
        while True:
            with lock:
                while (
                    not self._may_take(lane)
                    and not self.stopping
                    and (self._running or any(self._heaps))
                ):
                    lock.wait()
                if self.stopping or not ready:
                    lock.notify_all()
                    return
                n = 1 if self.fixed is not None else min(WINDOW, 1 + len(ready) // 8)
                tasks = [self._pop(ready)]
                while len(tasks) < n and not self._long[tasks[-1]]:
                    tasks.append(self._pop(ready))
                self._running += len(tasks)
                if self.fixed is not None:
                    self.fixed.start(lane)
                    lock.notify_all()  # a load may have its turn now
            for k, task in enumerate(tasks):
                if self.stopping:
                    self._put_back(tasks[k:])
                    break
                self._attempt(task)

    def _may_take(self, lane: int) -> bool:
        """Whether a lane has a task that it may start."""
        ready = self._heaps[lane]
        return bool(ready) and (self.fixed is None or self.fixed.next(lane) == ready[0])

    def _fixed_order(self) -> FixedOrder:
        """Lanes in the order of the program, of what is not done."""
        order, lanes = self._order, self._lanes
        if self._ranks is None:  # tasks are their own places
            return FixedOrder((task for task in order if not self.done[task]), lambda _: COMPUTE)
        assert lanes is not None
        left = (place for place, task in enumerate(order) if not self.done[task])
        return FixedOrder(left, lambda place: lanes[order[place]])

    def _attempt(self, task: int) -> None:
        """Run one of the tasks that were taken; it is done then, or has failed."""
        try:
            self.run_task(task)
        except BaseException as error:
            self._fail(task, error)
            return
        self._finish(task)
        if "tile_commit" in events.hooks:
            self._tell_commit(task)

    def _work_on(self) -> None:
        """In one thread, run what is not done and waits for nothing that failed."""
        for heap in self._heaps:
            heap.clear()
        for task in self._order:
            if self.stopping:
                break
            if self.done[task] or self._waits[task]:
                continue
            self._running += 1
            self._attempt(task)
        for heap in self._heaps:
            heap.clear()

    def _push(self, task: int) -> None:
        heap = self._heaps[COMPUTE if self._lanes is None else self._lanes[task]]
        heapq.heappush(heap, task if self._ranks is None else self._ranks[task])

    def _pop(self, heap: list[int]) -> int:
        place = heapq.heappop(heap)
        return place if self._ranks is None else self._order[place]

    def work_through(self) -> None:
        """Run all tasks in the order of their numbers: where one thread works nothing waits."""
        done = self.done
        for task in self._order:
            if self.stopping:
                break
            try:
                self.run_task(task)
            except BaseException as error:
                self._running += 1
                self._fail(task, error)
                break
            done[task] = 1
            self.n_done += 1
            if "tile_commit" in events.hooks:
                self._tell_commit(task)

    def _count_waits(self) -> None:
        """Find what each task still waits for and which are ready; those that failed are again."""
        self.lock  # noqa: B018 - from here on there may be workers
        self.tiles.enter_leaves()
        self.failed.clear()
        start = start_of(self.program, self.devices)
        if not self.n_done:
            self._waits, ready = start.waits[:], start.ready
        else:
            program = self.program
            done = np.frombuffer(self.done, np.bool_)
            met = program.after[np.repeat(done, np.diff(program.borders))]
            waits = program.waits - np.bincount(met, minlength=len(done))
            self._waits = int_array("i", waits.astype(np.int32).tobytes())
            ready = np.flatnonzero(program.needed & ~done & (waits == 0)).tolist()
        for heap in self._heaps:
            heap.clear()
        for task in ready:
            self._push(task)
        assert ready or self.n_done == self.n_tasks, "tasks that can never start"

    def _put_back(self, tasks: list[int]) -> None:
        with self.lock:
            self._running -= len(tasks)
            for task in tasks:
                self._push(task)
                if self.fixed is not None:
                    self.fixed.take_back(COMPUTE if self._lanes is None else self._lanes[task])
            self.lock.notify_all()

    def _finish(self, task: int) -> None:
        program = self.program
        after = program.after[program.borders[task] : program.borders[task + 1]].tolist()
        with self.lock:
            self._running -= 1
            self.done[task] = 1
            self.n_done += 1
            n_new = 0
            for successor in after:
                self._waits[successor] -= 1
                if not self._waits[successor]:
                    self._push(successor)
                    n_new += 1
            is_awaited = self._lanes is not None or self.fixed is not None
            if n_new > 1 or not self._running or (n_new and is_awaited):
                self.lock.notify_all()

    def _fail(self, task: int, error: BaseException) -> None:
        with self.lock:
            self._running -= 1
            self.failed.append(task)
            if self.failure is None and not isinstance(error, Left):
                self.failure = error
            if not self._past_failures or not isinstance(error, Exception):
                self.stopping = True
            self.lock.notify_all()

    def _check_stop(self) -> None:
        """Between the steps of a loop op: leave it if the run is to stop. It starts anew then."""
        if self.stopping:
            raise Left

    def stop(self) -> None:
        """Start no more tasks; those that run finish (safe in a signal handler: takes no lock)."""
        self.stopping = self.is_interrupted = True
        if self.job is not None:
            self.job[IS_STOPPED] = 1

    def clear_stop(self) -> bool:
        """It may go on; True if it was told to stop, which somebody must still hear of."""
        was, self.is_interrupted = self.is_interrupted, False
        self.failure, self.stopping = None, False
        return was

    # one task

    def run_task(self, task: int, in_lane: int = COMPUTE) -> None:
        """Run one task now, in this thread."""
        if task in self.skipped:
            return
        step = self.steps[task]
        family = step.family
        if "task_start" in events.hooks:
            name = self.devices[step.device].name
            events.emit("task_start", op=family.op, tile=step.i, device=name, run=self)
        lane.in_task = True
        lane.check = self._check_stop
        written: tuple[int, ...] = ()
        if family.updates:
            tile = step.outs[0].tile
            written = (tile, self.program.origins.get(tile, tile))
            self.writing.update(dict.fromkeys(written, task))
        try:
            if step.device or in_lane:
                # A flipped view is a kernel too: it belongs on our stream.
                with self.devices[step.device].running(in_lane):
                    self._run(step)
            else:
                self._run(step)
        except Exception as error:
            explain_failure(self.tiles, error, family, step.i)
            raise
        finally:
            lane.in_task = False
            lane.check = None  # it would hold this run
        for each in written:
            self.tiles.directory.written(each)
            self.written_by[each] = task
            self.writing.pop(each, None)
        if family.lane != COMPUTE:
            self._count_move(step)
        for tile in self.program.drops.get(task, ()):
            self.tiles.directory.leave(tile)

    def _run(self, step: Step) -> None:
        ins = self.inputs(step, self.array)
        if step.family.lane == EVICT and step.outs[0].device == DISK:
            self._spill(step, ins[0])
            return
        updates = step.family.updates
        # a file is read past all caches into memory that begins within a page as its bytes do
        shift = ins[0].shift if len(step.many) == 1 and isinstance(ins[0], Part) else 0
        output = self.tiles.output
        outs = [self.array(out.tile) if updates else output(out, shift) for out in step.outs]
        if self._is_null:
            return
        try:
            step.family.run(ins, outs, step.i)
        except CorruptTileError:
            if step.family.lane != LOAD or not load_remade(self, step, outs[0]):
                raise
        except (MemoryError, RuntimeError) as error:
            if not self.devices[step.device].is_refusal(error):
                raise
            self._run_trimmed(step, ins, outs)

    def _run_trimmed(self, step: Step, ins: list[Any], outs: list[Any]) -> None:
        """Run a kernel again whose scratch was refused, after all memory at rest was given back."""
        device, ledger = self.devices[step.device], self.ledgers[step.device]
        ledger.trim()
        try:
            step.family.run(ins, outs, step.i)
        except (MemoryError, RuntimeError) as error:
            if not device.is_refusal(error):
                raise
            n_bytes = step.family.scratch_bytes
            raise DeviceOutOfMemoryError(
                f"{device.name} has no {gib(n_bytes)} left for a kernel to work in although the "
                f"budget of {gib(ledger.budget_bytes)} allows it ({gib(ledger.used_bytes)} in use);"
                " something else uses this memory: give a smaller memory= to it.init",
                n_bytes,
            ) from None

    def _spill(self, step: Step, values: Any) -> None:
        """Write a tile to a file."""
        tiers = self.tiles.tiers
        assert tiers is not None
        out = step.outs[0]
        if not self._is_null:
            values = tiers.spill(self.devices[step.device].to_host(values))
        self.tiles.directory.enter(out.tile, -1, values)

    def _tell_commit(self, task: int) -> None:
        """Tell hooks that the tiles of a task are there.

        What a hook raises stops the run, but the task is done: it may have changed its inputs and
        must not run twice.
        """
        if task in self.skipped:
            return
        step = self.steps[task]
        name = self.devices[step.device].name
        try:
            for out in step.outs:
                events.emit("tile_commit", op=step.family.op, tile=out.tile, device=name, run=self)
        except BaseException as error:
            with self.lock:
                self.failure = self.failure or error
                self.stopping = True
                self.lock.notify_all()

    def _count_move(self, step: Step) -> None:
        lane = step.family.lane
        if lane != PEER:
            out = step.outs[0]
            n_bytes = prod(out.shape) * out.dtype.itemsize
            with self.lock:
                if lane == LOAD:
                    self.loaded_bytes += n_bytes
                    if step.many:
                        self.read_bytes += self._file_bytes(step)
                else:
                    self.evicted_bytes += n_bytes
            return
        target = self.steps.box_of(step.outs[0].tile)
        for tile in step.many:
            tiles = self.steps.tiles_of(tile)
            if int(tiles.devices[tile - tiles.first]) != step.device:
                common = overlap(self.steps.box_of(tile), target)
                if common is not None:
                    with self.lock:
                        self.moved_bytes += box_size(common) * tiles.dtype.itemsize

    def _file_bytes(self, step: Step) -> int:
        """What a move reads of files."""
        target = self.steps.box_of(step.outs[0].tile)
        total = 0
        for tile in step.many:
            tiles = self.steps.tiles_of(tile)
            common = overlap(self.steps.box_of(tile), target)
            if int(tiles.devices[tile - tiles.first]) == DISK and common is not None:
                total += box_size(common) * tiles.dtype.itemsize
        return total

    def inputs(self, step: Step, array: Callable[[int], Any]) -> list[Any]:
        """What a task is called with; `array` finds the values of a tile."""
        ins: list[Any] = [array(tile) for tile in step.many]
        for how, tile, look, span in step.reads:
            if how == TILE:
                values = array(tile)
                ins.append(values if look is None else look(values))
            elif how == SCALAR:
                ins.append(self.scalars[tile])
            elif how == NOTHING:
                ins.append(None)
            else:
                assert span is not None
                assert look is not None
                ins.append(self._across(span, look, array))
        return ins

    def _across(self, span: Span, look: Callable[[Any], Any], array: Callable[[int], Any]) -> Any:
        """What is seen of the piece that holds some tiles of a value."""
        if array == self.array and not self.tiles.directory.has_lost:
            return look(self.tiles.whole_of(span.held))
        values = [array(tile) for tile in span.tiles]
        if array == self.array:
            return look(self.tiles.whole_of(span.held))
        boxes = [self.steps.box_of(tile) for tile in span.tiles]  # lost tiles, made one by one
        hull = tuple(
            (min(b[a][0] for b in boxes), max(b[a][1] for b in boxes)) for a in range(len(boxes[0]))
        )
        out = np.empty(tuple(hi - lo for lo, hi in hull), span.held.dtype)
        for box, part in zip(boxes, values, strict=True):
            out[relative(box, hull)] = part
        return span.look(hull)(out)

    def array(self, tile: int) -> Any:
        """The values of a tile; a lost one is made again."""
        if self.tiles.directory.is_lost(tile):
            rebuild(self, tile)
        if self.job is not None and not self.tiles.directory.is_at_home(tile):
            return self.tiles.output(self.steps.out(tile))  # C has made it
        return self.tiles.directory.values(tile)

    def drop(self, tile: int) -> None:
        """Lose a tile, as a fault would; its next reader has it made again."""
        self.tiles.directory.lose(tile)

    # results

    def is_made(self, value: int) -> bool:
        """Whether every task that writes tiles of a kept value or its earlier versions is done."""
        if value in self.abandoned:
            return False
        first, layout = self.program.graph.held[value]
        tiles = np.zeros(self.program.graph.n_tiles, np.bool_)
        tiles[first : first + layout.n_tiles] = True
        tiles[self._final_tiles(value)] = True
        for family in self.program.graph.families:
            for writes in family.writes:
                for i in np.flatnonzero(tiles[writes]):
                    task = family.first + int(i)
                    if not self.done[task] and self.program.needed[task]:
                        return False
        return True

    def _final_tiles(self, value: int) -> list[int]:
        """The tiles that have the values of a kept value in the end."""
        first, layout = self.program.graph.held[value]
        final = self.program.final
        return [final.get(tile, tile) for tile in range(first, first + layout.n_tiles)]

    def abandon(self, wanted: Sequence[int]) -> None:
        """Make only these values from now on: tasks that nothing else needs do nothing.

        So a task that keeps failing stops nobody once its result is not wanted any more. They keep
        their turn: who waits for one of them waits for what that one waits for too, such as readers
        of the memory that all three use.
        """
        graph = self.program.graph
        self.abandoned |= set(graph.held) - set(wanted)
        tiles = np.zeros(graph.n_tiles, np.bool_)
        for value in wanted:
            first, layout = graph.held[value]
            tiles[first : first + layout.n_tiles] = True
            tiles[self._final_tiles(value)] = True
        for task in reversed(self._order):
            step = self.steps[task]
            if not step.outs:
                continue
            if any(tiles[out.tile] for out in step.outs):
                for source in step.sources():
                    tiles[source] = True
            elif not self.done[task]:
                self.skipped.add(task)

    def is_finished(self) -> bool:
        """Whether every task is done."""
        return self.n_done == self.n_tasks

    def table(self, value: int) -> TileTable:
        """The stored tiles of a kept value; they leave the run with it."""
        first, layout = self.program.graph.held[value]
        if self.called is not None and self.n_done == self.n_tasks:
            held = self.called.held[value]
            if held is not None:
                return held.table(self)
            self.tiles.enter_made(first, layout.n_tiles)
        tiles = self.steps.tiles_of(first)
        arrays = []
        buffers: list[Buffer | None] = []
        owners = layout.owner_array.tolist()
        final = self._final_tiles(value)
        for k, tile in enumerate(final):
            arrays.append(self.array(tile))
            slot = int(self.program.slots[tile])
            if tile != first + k:
                owners[k] = int(self.steps.tiles_of(tile).devices[0])
            if slot >= 0:
                buffers.append(self.tiles.directory.buffers[slot])
            elif owners[k] == DISK:
                buffers.append(None)
            else:
                buffers.append(self.leaves[tiles.leaf].buffers[k])
        if self.program.final:
            alike = owners[:1] if len(set(owners)) == 1 else owners
            layout = Layout(layout.cuts, tuple(alike))
        # what was evicted and brought back lies elsewhere than the piece it was a part of
        is_moved = any(tile != first + k for k, tile in enumerate(final))
        whole = None if is_moved else self.tiles.wholes.get(first)
        if whole is None and len(self.devices) == 1 and isinstance(arrays[0], np.ndarray):
            whole = arrays[0] if len(arrays) == 1 else None
        return TileTable(layout, tiles.dtype, buffers, arrays, whole=whole)

    def release(self) -> None:
        """Let go of every buffer this run holds."""
        self.tiles.release()
        self.spare = []

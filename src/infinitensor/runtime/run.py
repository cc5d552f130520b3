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
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from infinitensor import events
from infinitensor.config import config
from infinitensor.devices import copy_into
from infinitensor.errors import CorruptTileError, DeviceOutOfMemoryError, LostTileError, gib
from infinitensor.events import lane
from infinitensor.ir.layout import DISK, HOST, Layout
from infinitensor.ir.region import box_size, overlap, relative
from infinitensor.ir.slab import slab_bytes
from infinitensor.ir.tasks import COMPUTE, EVICT, LOAD, PEER
from infinitensor.runtime.called import IS_STOPPED, Bindings, run_called
from infinitensor.runtime.directory import Directory
from infinitensor.runtime.fixed import FixedOrder
from infinitensor.runtime.replay import Recording, replays_of
from infinitensor.runtime.step import NOTHING, SCALAR, TILE, Steps
from infinitensor.runtime.streams import Dispatcher
from infinitensor.runtime.table import TileTable
from infinitensor.storage import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.tasks import Family, Program, TileSet
    from infinitensor.runtime.called import Called
    from infinitensor.runtime.replay import Replays
    from infinitensor.runtime.step import Out, Span, Step
    from infinitensor.runtime.workers import Workers

WINDOW = 4
"""Ready tasks a worker takes at a time."""
LONG_S = 2e-4
"""Estimated seconds of a task from which it is taken alone: another worker may have the next."""
N_LOADING = 2
"""Threads that load: a file system answers several questions faster than one."""


class Tiers(Protocol):
    """Where tiles go that are evicted."""

    host: Ledger
    """Host memory that copies to and from GPUs are fast with."""

    def spill(self, values: np.ndarray) -> Any:
        """Write values to a file; they can be read until nobody holds the answer."""


_NO_WAITS = int_array("i")


class Left(BaseException):
    """A loop op was left between two steps, because its run stops."""


class _Start(NamedTuple):
    """What every run of a Program begins with."""

    n_tasks: int
    waits: int_array[int]
    ready: list[int]
    order: int_array[int]
    """The tasks that run, in their serial order: each after all that it waits for."""
    ranks: int_array[int] | None
    """The place of each task in that order; None: by their numbers."""
    lanes: bytes | None
    """The lane of each task; None: all are computed, or the one thread does everything."""
    steps: Steps
    replays: Replays | None
    bindings: Bindings
    long: bytes
    """Whether each task takes long."""


def _start_of(program: Program, devices: Sequence[Device]) -> _Start:
    if not program.start:
        n_tasks = int(np.count_nonzero(program.needed))
        order, ranks, lanes = np.flatnonzero(program.needed), None, None
        if program.order is not None:
            order = program.order
            places = np.full(program.graph.n_tasks, -1, np.int64)
            places[order] = np.arange(len(order))
            ranks = int_array("q", places.tobytes())
            lanes = _lanes_of(program)
        program.start.append(
            _Start(
                n_tasks,
                int_array("i", program.waits.astype(np.int32).tobytes()),
                np.flatnonzero((program.waits == 0) & program.needed).tolist(),
                int_array("q", order.astype(np.int64).tobytes()),
                ranks,
                lanes,
                Steps(program, devices[0].kind == "null"),
                replays_of(program, n_tasks, devices),
                Bindings(program, devices[0].kind),
                _long_of(program),
            )
        )
    start: _Start = program.start[0]
    return start


def _long_of(program: Program) -> bytes:
    long = bytearray(program.graph.n_tasks)
    for family in program.graph.families:
        if family.seconds >= LONG_S:
            long[family.first : family.first + family.n] = bytes([1]) * family.n
    return bytes(long)


def _lanes_of(program: Program) -> bytes:
    lanes = bytearray(program.graph.n_tasks)
    for family in program.graph.families:
        if family.lane in (LOAD, EVICT):
            lanes[family.first : family.first + family.n] = bytes([family.lane]) * family.n
    return bytes(lanes)


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
        self.leaves = list(leaves)
        self.scalars = scalars
        self.devices = devices
        self.ledgers = ledgers
        self.tiers = tiers
        self.clock = clock
        graph = program.graph
        self._is_null = devices[0].kind == "null"
        start = _start_of(program, devices)
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
        self._replays = start.replays
        self._bindings = start.bindings
        self.job: np.ndarray | None = None
        """What C works on now."""
        self.shared: dict[int, Buffer] = {}
        """By device: the slab in which its small slots lie, where C runs the tasks."""
        self.called: Called | None = None
        """What C runs, or has run."""
        self.n_called = 0
        """Tasks that C ran."""
        self.directory = Directory(graph.n_tiles, len(program.slot_bytes))
        self._spare: list[Buffer] = []
        self._pieces: dict[int, tuple[Buffer, Any]] = {}
        self._written_by: dict[int, int] = {}
        self._writing: dict[int, int] = {}
        """Tiles that tasks write into now: nothing else may be made from them meanwhile."""
        """The last task that wrote into a tile in place."""
        self._wholes: dict[int, Any] = {}
        """By its first tile: the array that the tiles of a value are parts of."""
        self._heaps: tuple[list[int], ...] = ([], [], [])
        """What is ready to be computed, loaded, evicted, as places in the order."""
        self._running = 0
        self._failed: list[int] = []
        self.abandoned: set[int] = set()
        self._past_failures = False
        self.fixed: FixedOrder | None = None
        """The order that lanes keep to, where they may not take any ready task."""
        self._are_leaves_entered = False
        self._bind_leaves()

    @cached_property
    def _lock(self) -> threading.Condition:
        """What workers share; made before they begin, for a run in one thread never needs it."""
        return threading.Condition(threading.Lock())

    def _bind_leaves(self) -> None:
        graph = self.program.graph
        for slot, (leaf, k) in self.program.slot_leaves.items():
            self.directory.buffers[slot] = self.leaves[leaf].buffers[k]
        for tiles in graph.tiles:
            if tiles.leaf >= 0:
                table = self.leaves[tiles.leaf]
                self._wholes[tiles.first] = table.whole
                piece = self.program.slot_pieces.get(int(self.program.slots[tiles.first]), -1)
                if piece >= 0:
                    assert table.buffers[0] is not None
                    self._pieces[piece] = (table.buffers[0], table.whole)

    def _enter_leaves(self) -> None:
        """Say where the tiles of leaves are; where C runs all tasks nobody asks."""
        if self._are_leaves_entered:
            return
        self._are_leaves_entered = True
        for tiles in self.program.graph.tiles:
            if tiles.leaf >= 0:
                table = self.leaves[tiles.leaf]
                for k, slot in enumerate(
                    self.program.slots[tiles.first : tiles.first + tiles.n].tolist()
                ):
                    self.directory.enter(tiles.first + k, slot, table.arrays[k])

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
            self._failed.clear()
            self._enter_leaves()
            with np.errstate(all="ignore"):
                if self._replays is None or not self._work_again(self._replays):
                    self._work_through()
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
                workers.run(self.work, tick, others)
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
            or self.directory.has_lost
            or not events.hooks.keys().isdisjoint(("task_start", "tile_commit"))
        ):
            return False
        called = bindings.find(self)
        if called is None:
            return False
        self._failed.clear()
        if called.is_mixed:
            self._lock  # noqa: B018 - there may be workers
            self._enter_leaves()
        self.called = called
        if not run_called(self, called, workers, tick):
            return False
        if called.is_mixed:
            done = np.frombuffer(self.done, np.bool_)
            self.n_called = int(np.count_nonzero(done & (called.in_python == 0)))
        else:
            self.n_called = self.n_done
        if self.n_done < self.n_tasks:
            self._settle()
        return True

    def attempt_called(self, task: int) -> bool:
        """Run a task that lies between those of C; False if it failed."""
        try:
            self.run_task(task)
        except BaseException as error:
            with self._lock:
                self._running += 1
            self._fail(task, error)
            return False
        return True

    def _settle(self) -> None:
        """C was stopped: say where all is that it has made, as if Python had run those tasks."""
        self._enter_leaves()
        assert self.called is not None
        for slot in np.flatnonzero(self.called.within >= 0).tolist():
            self.directory.buffers[slot] = self.shared[int(self.program.slot_devices[slot])]
        for task in self._order:
            if not self.done[task]:
                continue
            for out in self.steps[task].outs:
                if self.steps[task].family.updates:
                    self.directory.written(out.tile)
                    self._written_by[out.tile] = task
                else:
                    self._output(out)

    def work(self, lane: int = COMPUTE) -> None:
        """Take ready tasks of a lane and run them, until there is nothing left to start."""
        ready = self._heaps[lane]
        lock = self._lock
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

    def _work_through(self) -> None:
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

    def _work_again(self, replays: Replays) -> bool:
        """Start all kernels by one call, if they were recorded on the same memory; else False.

        What has come a second time is recorded.
        """
        if replays.is_over or not events.hooks.keys().isdisjoint(("task_start", "tile_commit")):
            return False
        key = self._memory(replays)
        if key is None:
            return False
        recording = replays.find(key)
        if recording is None:
            if not replays.is_seen(key) or not replays.has_room:
                return False
            recording = self._recorded(replays.scratch_bytes)
            replays.keep(key, recording)
            if recording is None:
                return False
        recording.start()
        self.moved_bytes += recording.moved_bytes
        self.done = bytearray(self.program.needed.tobytes())
        self.n_done = self.n_tasks
        for first, layout in self.program.graph.held.values():
            self._enter_called(first, layout.n_tiles)
        return True

    def _memory(self, replays: Replays) -> Any:
        """What this run reads and writes, and with which scalars; None where that is the host's."""
        buffers = self.directory.buffers
        if replays.alike is None:
            replays.alike = {}
            for slot in (slot for slot, buffer in enumerate(buffers) if buffer is None):
                kind = (int(self.program.slot_devices[slot]), int(self.program.slot_bytes[slot]))
                replays.alike.setdefault(kind, []).append(slot)
        for (device, n_bytes), slots in replays.alike.items():
            # by their places: then the same slabs mean the same memory, in whatever order they rest
            taken = [self.ledgers[device].take(n_bytes) for _ in slots]
            taken.sort(key=lambda buffer: buffer.block.data_ptr())
            for slot, buffer in zip(slots, taken, strict=True):
                buffers[slot] = buffer
        places = [buffer.block.data_ptr() for buffer in buffers if buffer is not None]
        for table in self.leaves:
            if min(table.layout.owners) < 0:
                return None
            places += [values.data_ptr() for values in table.arrays]
        # 0.0 and -0.0 are equal, but not the same
        scalars = [s.tobytes() if isinstance(s, np.generic) else repr(s) for s in self.scalars]
        return tuple(places), tuple(scalars)

    def _recorded(self, scratch_bytes: int) -> Recording | None:
        """Record all tasks; nothing runs meanwhile. None, and as before, where that fails."""
        at_home = self.directory.state()
        again = self.devices[0].record(self._work_through)
        moved, self.moved_bytes = self.moved_bytes, 0
        failed = self.failure is not None or again is None or self.n_done < self.n_tasks
        self.directory.restore(at_home)
        self.done = bytearray(len(self.done))
        self.n_done = 0
        if isinstance(self.failure, Exception):
            self.failure, self.stopping = None, self.is_interrupted
        self._failed.clear()
        return None if failed or again is None else Recording(again, moved, scratch_bytes)

    def _count_waits(self) -> None:
        """Find what each task still waits for and which are ready; those that failed are again."""
        self._lock  # noqa: B018 - from here on there may be workers
        self._enter_leaves()
        self._failed.clear()
        start = _start_of(self.program, self.devices)
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
        with self._lock:
            self._running -= len(tasks)
            for task in tasks:
                self._push(task)
                if self.fixed is not None:
                    self.fixed.take_back(COMPUTE if self._lanes is None else self._lanes[task])
            self._lock.notify_all()

    def _finish(self, task: int) -> None:
        program = self.program
        after = program.after[program.borders[task] : program.borders[task + 1]].tolist()
        with self._lock:
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
                self._lock.notify_all()

    def _fail(self, task: int, error: BaseException) -> None:
        with self._lock:
            self._running -= 1
            self._failed.append(task)
            if self.failure is None and not isinstance(error, Left):
                self.failure = error
            if not self._past_failures or not isinstance(error, Exception):
                self.stopping = True
            self._lock.notify_all()

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
            self._writing.update(dict.fromkeys(written, task))
        try:
            if step.device or in_lane:
                # A flipped view is a kernel too: it belongs on our stream.
                with self.devices[step.device].running(in_lane):
                    self._run(step)
            else:
                self._run(step)
        except Exception as error:
            self.explain_failure(error, family, step.i)
            raise
        finally:
            lane.in_task = False
            lane.check = None  # it would hold this run
        for each in written:
            self.directory.written(each)
            self._written_by[each] = task
            self._writing.pop(each, None)
        if family.lane != COMPUTE:
            self._count_move(step)
        for tile in self.program.drops.get(task, ()):
            self.directory.leave(tile)

    def _run(self, step: Step) -> None:
        ins = self._inputs(step, self._array)
        if step.family.lane == EVICT and step.outs[0].device == DISK:
            self._spill(step, ins[0])
            return
        updates = step.family.updates
        # a file is read past all caches into memory that begins within a page as its bytes do
        shift = ins[0].shift if len(step.many) == 1 and isinstance(ins[0], Part) else 0
        outs = [self._array(out.tile) if updates else self._output(out, shift) for out in step.outs]
        if self._is_null:
            return
        try:
            step.family.run(ins, outs, step.i)
        except CorruptTileError:
            if step.family.lane != LOAD or not self._load_remade(step, outs[0]):
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
        assert self.tiers is not None
        out = step.outs[0]
        if not self._is_null:
            values = self.tiers.spill(self.devices[step.device].to_host(values))
        self.directory.enter(out.tile, -1, values)

    def _load_remade(self, step: Step, out: Any) -> bool:
        """A tile that is damaged below is made again, if what it was made from is still there."""
        tile = int(self.program.origins.get(step.outs[0].tile, -1))
        if tile < 0:
            return False
        spare: list[Buffer] = []
        try:
            values = self._made_again(tile, {}, spare)
        except LostTileError:
            return False
        copy_into(out, values)
        with self._lock:
            self.rebuilt += 1
        return True

    def _tell_commit(self, task: int) -> None:
        """Tell hooks that the tiles of a task are there.

        What a hook raises stops the run, but the task is done: it may have changed its inputs and
        must not run twice.
        """
        step = self.steps[task]
        name = self.devices[step.device].name
        try:
            for out in step.outs:
                events.emit("tile_commit", op=step.family.op, tile=out.tile, device=name, run=self)
        except BaseException as error:
            with self._lock:
                self.failure = self.failure or error
                self.stopping = True
                self._lock.notify_all()

    def explain_failure(self, error: BaseException, family: Family, i: int) -> None:
        """Add where it happened to an error, once."""
        if family.lane in (LOAD, EVICT):
            if isinstance(error, CorruptTileError):
                self._name_leaf(error, self.steps[family.first + i])
            family, i = self._maker(family, i)
        if isinstance(error, DeviceOutOfMemoryError):
            error.op, error.tile = family.op, i
        notes = getattr(error, "__notes__", ())
        if not any("infinitensor: in" in note for note in notes):
            where = "" if family.site is None else f", recorded at {family.site}"
            boxes = [self.steps.box_of(int(writes[i])) for writes in family.writes[:1]]
            region = f" for region {boxes[0]}" if boxes else ""
            error.add_note(f"infinitensor: in {family.op!r}, tile {i}{region}{where}")

    def _maker(self, family: Family, i: int) -> tuple[Family, int]:
        """The task that made what an eviction or a load copies, if one did."""
        tile = int((family.writes[0] if family.lane == LOAD else family.reads[0].tiles)[i])
        producer = int(self.program.producers[self.program.origins.get(tile, tile)])
        return self.steps.family_of(producer) if producer >= 0 else (family, i)

    def _name_leaf(self, error: CorruptTileError, step: Step) -> None:
        """Say whose values are lost, where it is a tensor that was stored before."""
        made = step.outs[0].tile
        tile = step.many[0] if step.many else self.program.origins.get(made, made)
        leaf = self.steps.tiles_of(tile).leaf
        if leaf >= 0:
            self.leaves[leaf].name_in(error)

    def _count_move(self, step: Step) -> None:
        lane = step.family.lane
        if lane != PEER:
            out = step.outs[0]
            n_bytes = prod(out.shape) * out.dtype.itemsize
            with self._lock:
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
                    with self._lock:
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

    def _inputs(self, step: Step, array: Callable[[int], Any]) -> list[Any]:
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
        if array == self._array and not self.directory.has_lost:
            return look(self._whole_of(span.held))
        values = [array(tile) for tile in span.tiles]
        if array == self._array:
            return look(self._whole_of(span.held))
        boxes = [self.steps.box_of(tile) for tile in span.tiles]  # lost tiles, made one by one
        hull = tuple(
            (min(b[a][0] for b in boxes), max(b[a][1] for b in boxes)) for a in range(len(boxes[0]))
        )
        out = np.empty(tuple(hi - lo for lo, hi in hull), span.held.dtype)
        for box, part in zip(boxes, values, strict=True):
            out[relative(box, hull)] = part
        return span.look(hull)(out)

    def _array(self, tile: int) -> Any:
        if self.directory.is_lost(tile):
            self._rebuild(tile)
        if self.job is not None and not self.directory.is_at_home(tile):
            return self._output(self.steps.out(tile))  # C has made it
        return self.directory.values(tile)

    def _output(self, out: Out, shift: int = 0) -> Any:
        values = self._part(out) if out.tiles.whole else self._in_slot(out, shift)
        self.directory.enter(out.tile, out.slot, values)
        return values

    def _in_slot(self, out: Out, shift: int) -> Any:
        """A tile that has a slot of its own, or a part of the slab of small slots."""
        slot = out.slot
        device, ledger = self._place(out.device)
        if self.called is not None and self.called.within[slot] >= 0:
            block = self.shared[out.device].block[self.called.within[slot] :]
            return device.array(block, out.shape, out.dtype)
        buffer = self.directory.buffers[slot]
        if buffer is None:
            self._retire(slot)
            buffer = ledger.take(int(self.program.slot_bytes[slot]))
            self.directory.buffers[slot] = buffer
        return device.array(buffer.block, out.shape, out.dtype, shift)

    def take_memory(self) -> None:
        """Take what the plan has for tiles of devices, but for what others have to give back first.

        A task that takes memory of its own waits for all kernels that were started before it.
        """
        if self.n_done:
            return  # what is not there by now was given back
        program = self.program
        for slot in range(min(program.retires, default=len(program.slot_bytes))):
            device = int(program.slot_devices[slot])
            if device < 0 or slot in program.slot_pieces or slot in program.slot_leaves:
                continue
            if self.directory.buffers[slot] is None:
                try:
                    taken = self.ledgers[device].take(int(program.slot_bytes[slot]))
                except DeviceOutOfMemoryError as error:
                    tile = int(np.flatnonzero(program.slots == slot)[0])
                    self.explain_failure(error, *self.steps.family_of(program.producers[tile]))
                    raise
                self.directory.buffers[slot] = taken

    def takes_memory(self, task: int) -> bool:
        """Whether a task begins with memory that no task of this run has used."""
        return any(
            out.slot >= 0 and self.directory.buffers[out.slot] is None
            for out in self.steps[task].outs
        )

    def _place(self, owner: int) -> tuple[Device, Ledger]:
        if owner == HOST:
            assert self.tiers is not None
            return self.tiers.host.device, self.tiers.host
        return self.devices[owner], self.ledgers[owner]

    def _retire(self, slot: int) -> None:
        """Give memory back that a new slot of another size stands for: all who used it are done."""
        for old in self.program.retires.get(slot, ()):
            leaf = self.program.slot_leaves.get(old)
            if leaf is not None:
                table, k = self.leaves[leaf[0]], leaf[1]
                table.buffers[k] = table.whole = table.in_reach = None
                table.arrays = list(table.arrays)
                table.arrays[k] = None
            self._pieces.pop(self.program.slot_pieces.get(old, -1), None)
            tile = self.directory.leave_slot(old)
            if tile >= 0:
                self._wholes.pop(self.steps.tiles_of(tile).first, None)

    def _part(self, out: Out) -> Any:
        """A tile that is a part of one piece of memory, which the first of them takes."""
        whole = self._whole_of(out.tiles)
        return whole if out.part is None else whole[out.part]

    def _whole_of(self, tiles: TileSet) -> Any:
        """The piece of memory that tiles are parts of, taken if it is not there."""
        whole = self._wholes.get(tiles.first)
        if whole is None:
            with self._lock:
                whole = self._wholes.get(tiles.first)
                if whole is None:
                    whole = self._take_piece(tiles, int(self.program.slots[tiles.first]))
        return whole

    def _take_piece(self, tiles: TileSet, slot: int) -> Any:
        number = self.program.slot_pieces[slot]
        piece = self._pieces.get(number)
        if piece is None:
            self._retire(int(self.program.slots[tiles.first]))
            buffer = self.ledgers[0].take(self.program.piece_bytes[number])
            shape = tuple(tiles.boxes[:, :, 1].max(axis=0).tolist())
            whole = self.devices[0].array(buffer.block, shape, tiles.dtype)
            piece = self._pieces[number] = (buffer, whole)
        for each in self.program.slots[tiles.first : tiles.first + tiles.n].tolist():
            self.directory.buffers[each] = piece[0]
        self._wholes[tiles.first] = piece[1].view(tiles.dtype)
        return self._wholes[tiles.first]

    # losing and rebuilding tiles

    def drop(self, tile: int) -> None:
        """Lose a tile, as a fault would; its next reader has it made again."""
        self.directory.lose(tile)

    def _rebuild(self, tile: int) -> None:
        """Make a lost tile again, from the nearest tiles that are still there."""
        with self._lock:
            self.directory.found(tile)
            self.rebuilt += 1
        values = self._made_again(tile, {}, self._spare)
        out = self.steps.out(tile)
        if out.tiles.whole:  # others read it as a part of its piece
            part = self._part(out)
            part[...] = values
            values = part
        self.directory.enter(tile, -1, values)

    def _made_again(self, tile: int, made: dict[int, Any], spare: list[Buffer]) -> Any:
        """The values of a tile, in memory of their own if its slot holds something else by now."""
        if tile in made:
            return made[tile]
        slot = int(self.program.slots[tile])
        producer = int(self.program.producers[tile])
        if self.directory.is_home(tile, slot):
            if made:
                return self.directory.values(tile)
        elif producer < 0:
            raise LostTileError(f"tile {tile} is lost: it was stored, and nothing here makes it")
        if producer < 0:
            return self.directory.values(tile)
        step = self.steps[producer]
        family = step.family
        if self.directory.version(tile):
            raise LostTileError(
                f"a tile of {family.op!r} (recorded at {family.site}) is lost and cannot be made "
                "again: it was written to in place, and what was written over is gone"
            )
        made[tile] = None
        if family.lane == EVICT:  # a copy below that is gone, of a tile
            made[tile] = self._made_again(self._sources(step)[0], made, spare)
            return made[tile]
        ins = self._inputs(step, lambda source: self._as_read(source, step, made, spare))
        outs = [self._private(out, spare) for out in step.outs]
        try:
            with self.devices[step.device].running():
                family.run(ins, outs, step.i)
        except CorruptTileError:
            if tile not in self.program.origins:
                raise
            outs[0] = self._made_again(self.program.origins[tile], made, spare)
        for source in self._sources(step):
            if source not in made:  # it was read where it lies, beside tasks that run
                self._check_unwritten(source, step)
        for out, values in zip(step.outs, outs, strict=True):
            made[out.tile] = values
        return made[tile]

    def _as_read(self, source: int, step: Step, made: dict[int, Any], spare: list[Buffer]) -> Any:
        """A source of a task as the task saw it; what was written into it since is not that."""
        if source not in made:
            self._check_unwritten(source, step, is_read=False)
        return self._made_again(source, made, spare)

    def _check_unwritten(self, source: int, step: Step, is_read: bool = True) -> None:
        """Refuse a source that was written into since its task, or has left its slot since then."""
        written = max(self._written_by.get(source, -1), self._writing.get(source, -1))
        is_here = self.directory.is_home(source, int(self.program.slots[source]))
        if written > step.task or (is_read and not is_here):
            raise LostTileError(
                f"a tile of {step.family.op!r} (recorded at {step.family.site}) cannot be made "
                "again: what it was made from was written to in place since"
            )

    def _private(self, out: Out, spare: list[Buffer]) -> Any:
        """Memory for a tile beside the slots; it counts in the ledger while it is held."""
        n_bytes = int(slab_bytes(prod(out.shape) * out.dtype.itemsize))
        buffer = self.ledgers[out.device].take(n_bytes)
        with self._lock:
            self.beside_bytes[out.device] += n_bytes
        spare.append(buffer)
        return self.devices[out.device].array(buffer.block, out.shape, out.dtype)

    # results

    def is_made(self, value: int) -> bool:
        """Whether every task that writes tiles of a kept value or its earlier versions is done."""
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
        """Make only these values from now on: tasks that nothing else needs count as done.

        So a task that keeps failing stops nobody once its result is not wanted any more.
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
                for source in self._sources(step):
                    tiles[source] = True
            elif not self.done[task]:
                self.done[task] = 1
                self.n_done += 1

    def _sources(self, step: Step) -> list[int]:
        found = list(step.many)
        for read in step.reads:
            if read.span is not None:
                found += read.span.tiles
            elif read.how == TILE:
                found.append(read.tile)
        return found

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
            self._enter_called(first, layout.n_tiles)
        tiles = self.steps.tiles_of(first)
        arrays = []
        buffers: list[Buffer | None] = []
        owners = layout.owner_array.tolist()
        for k, tile in enumerate(self._final_tiles(value)):
            arrays.append(self._array(tile))
            slot = int(self.program.slots[tile])
            if tile != first + k:
                owners[k] = int(self.steps.tiles_of(tile).devices[0])
            if slot >= 0:
                buffers.append(self.directory.buffers[slot])
            elif owners[k] == DISK:
                buffers.append(None)
            else:
                buffers.append(self.leaves[tiles.leaf].buffers[k])
        if self.program.final:
            alike = owners[:1] if len(set(owners)) == 1 else owners
            layout = Layout(layout.cuts, tuple(alike))
        whole = self._wholes.get(first)
        if whole is None and len(self.devices) == 1 and isinstance(arrays[0], np.ndarray):
            whole = arrays[0] if len(arrays) == 1 else None
        return TileTable(layout, tiles.dtype, buffers, arrays, whole=whole)

    def _enter_called(self, first: int, n: int) -> None:
        """Say where tiles are that C has made."""
        self._enter_leaves()
        for tile in range(first, first + n):
            out = self.steps.out(tile)
            if out.slot >= 0 and self.directory.holder[out.slot] != tile:
                self._output(out)

    def release(self) -> None:
        """Let go of every buffer this run holds."""
        self.directory.clear()
        self._spare = []
        self._pieces = {}
        self._wholes = {}
        self.shared = {}
        self.leaves = []

"""Lanes on a GPU: one dispatcher fills the streams of the lanes a few tasks ahead.

A task is started when all it waits for is done, or has been started: then its stream waits for the
events of those. Of the first kind the first in the order is taken; of the second only what keeps a
lane from running dry. So what is chosen is chosen late, no lane waits for another while something
of its own is ready, and the host waits for nothing but to look at events.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.tasks import COMPUTE, EVICT, LOAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.runtime.run.fixed_order import FixedOrder
    from infinitensor.runtime.run.ready_tasks import ReadyTasks
    from infinitensor.runtime.state.run_tiles import Tiles

AHEAD = {COMPUTE: 8, LOAD: 3, EVICT: 3}
"""Tasks of a lane that are started and not done: one runs, the others wait behind it."""
LOOK_S = 2e-5
"""Between two looks at the events, where nothing can be started."""


class Dispatcher:
    """Runs all tasks of a run that are not done; `run_task` starts one in the stream of a lane."""

    def __init__(
        self, ready: ReadyTasks, tiles: Tiles, run_task: Callable[[int, int], None]
    ) -> None:
        self.ready = ready
        self.status = ready.status
        self.tiles = tiles
        self.run_task = run_task
        program = ready.program
        assert ready.lanes is not None
        self.lanes = ready.lanes
        n = program.graph.n_tasks
        self.after, self.borders = program.after.tolist(), program.borders.tolist()
        sources = np.repeat(np.arange(n), np.diff(program.borders))
        by_target = np.argsort(program.after, kind="stable")
        self.before = sources[by_target].tolist()
        self.before_at = np.searchsorted(program.after[by_target], np.arange(n + 1)).tolist()
        self.unstarted = list(ready.waits)
        """How many of the tasks that each waits for have not been started."""
        self.started = bytearray(ready.status.done)
        self.n_computed = 0
        self.events: dict[int, Any] = {}
        self.running: dict[int, deque[int]] = {lane: deque() for lane in AHEAD}
        self.soon: dict[int, list[int]] = {lane: [] for lane in AHEAD}
        # memory goes back to the device when such a task starts: all who used it must be done
        self.patient = {
            int(program.producers[tile])
            for slot in program.retires
            for tile in np.flatnonzero(program.slots == slot)[:1]
        }

    def go(self) -> None:
        """Until all is done, or something stops it."""
        status, devices = self.status, self.tiles.devices
        if not status.n_done:  # what is not there by now was given back
            self.tiles.take_all()
        for device in devices:
            begun = device.mark(COMPUTE)  # kernels before this run may have used what it takes
            for lane in (LOAD, EVICT):
                device.wait(lane, begun)
        while not status.is_finished() and not status.stopping:
            moved = False
            for lane in (LOAD, EVICT, COMPUTE):
                while len(self.running[lane]) < AHEAD[lane] and not status.stopping:
                    task = self._next(lane)
                    if task < 0:
                        break
                    self._start(task, lane)
                    moved = True
            for lane in AHEAD:
                moved |= self._finish_done(lane)
            if not moved:
                if not any(self.running.values()):
                    break
                time.sleep(LOOK_S)
        for device in devices:
            device.synchronize()
        for lane in AHEAD:
            self._finish_done(lane)
        self.ready.clear()  # what was started when it was not ready yet

    def _next(self, lane: int) -> int:
        """The first task of a lane that is ready; else the first that will be soon; else -1."""
        ready = self.ready
        if ready.fixed is not None:
            return self._next_fixed(lane, ready.fixed)
        while ready.heaps[lane]:
            task = ready.pop(lane)
            if not self.started[task]:
                return task
        soon = self.soon[lane]
        while soon:
            task = ready.order[heapq.heappop(soon)]
            if not self.started[task]:
                return task
        return -1

    def _next_fixed(self, lane: int, fixed: FixedOrder) -> int:
        """The next of a lane, if all it waits for has been started and it is its turn; else -1."""
        # of those that are started one runs, the others wait behind it
        place = fixed.next(lane, self.n_computed + bool(self.running[COMPUTE]))
        task = -1 if place < 0 else self.ready.order[place]
        if task < 0 or self.unstarted[task]:
            return -1
        if task in self.patient and self.ready.waits[task]:
            return -1
        fixed.start(lane)
        return task

    def _start(self, task: int, lane: int) -> None:
        tiles, ready = self.tiles, self.ready
        device = tiles.devices[tiles.steps[task].device]
        waited: set[int] = set()
        for before in self.before[self.before_at[task] : self.before_at[task + 1]]:
            if before in self.events and before not in waited and not self._in_turn(before, task):
                waited.add(before)
                device.wait(lane, self.events[before])
        if lane != COMPUTE and tiles.takes_memory(task):
            # kernels that were started may still use what they gave back: it is theirs by the order
            # of their own stream only
            device.wait(lane, device.mark(COMPUTE))
        self.started[task] = 1
        ready.n_running += 1
        try:
            self.run_task(task, lane)
        except BaseException as error:
            ready.fail(task, error)
            return
        self.events[task] = device.mark(lane)
        self.running[lane].append(task)
        ranks = ready.ranks
        for successor in self.after[self.borders[task] : self.borders[task + 1]]:
            self.unstarted[successor] -= 1
            if not self.unstarted[successor] and successor not in self.patient:
                assert ranks is not None
                heapq.heappush(self.soon[self.lanes[successor]], ranks[successor])

    def _in_turn(self, before: int, task: int) -> bool:
        """Whether two tasks are in one stream: there they run in the order they were started."""
        if self.lanes[before] != self.lanes[task]:
            return False
        steps, devices = self.tiles.steps, self.tiles.devices
        return devices[steps[before].device].shares_streams(devices[steps[task].device])

    def _finish_done(self, lane: int) -> bool:
        running = self.running[lane]
        any_done = False
        while running and self.events[running[0]].query():
            task = running.popleft()
            del self.events[task]
            self.ready.finish(task)
            self.n_computed += lane == COMPUTE
            any_done = True
        return any_done

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
    from infinitensor.runtime.run.fixed_order import FixedOrder
    from infinitensor.runtime.run.run import Run

AHEAD = {COMPUTE: 8, LOAD: 3, EVICT: 3}
"""Tasks of a lane that are started and not done: one runs, the others wait behind it."""
LOOK_S = 2e-5
"""Between two looks at the events, where nothing can be started."""


class Dispatcher:
    """Runs all tasks of a run that are not done."""

    def __init__(self, run: Run) -> None:
        self.run = run
        program = run.program
        assert run._lanes is not None
        self.lanes = run._lanes
        n = program.graph.n_tasks
        self.after, self.borders = program.after.tolist(), program.borders.tolist()
        sources = np.repeat(np.arange(n), np.diff(program.borders))
        by_target = np.argsort(program.after, kind="stable")
        self.before = sources[by_target].tolist()
        self.before_at = np.searchsorted(program.after[by_target], np.arange(n + 1)).tolist()
        self.unstarted = list(run._waits)
        """How many of the tasks that each waits for have not been started."""
        self.started = bytearray(run.done)
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
        run = self.run
        if not run.n_done:  # what is not there by now was given back
            run.tiles.take_all()
        for device in run.devices:
            begun = device.mark(COMPUTE)  # kernels before this run may have used what it takes
            for lane in (LOAD, EVICT):
                device.wait(lane, begun)
        while run.n_done < run.n_tasks and not run.stopping:
            moved = False
            for lane in (LOAD, EVICT, COMPUTE):
                while len(self.running[lane]) < AHEAD[lane] and not run.stopping:
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
        for device in run.devices:
            device.synchronize()
        for lane in AHEAD:
            self._finish_done(lane)
        for heap in run._heaps:
            heap.clear()  # what was started when it was not ready yet

    def _next(self, lane: int) -> int:
        """The first task of a lane that is ready; else the first that will be soon; else -1."""
        if self.run.fixed is not None:
            return self._next_fixed(lane, self.run.fixed)
        ready = self.run._heaps[lane]
        while ready:
            task = self.run._pop(ready)
            if not self.started[task]:
                return task
        soon = self.soon[lane]
        while soon:
            task = self.run._order[heapq.heappop(soon)]
            if not self.started[task]:
                return task
        return -1

    def _next_fixed(self, lane: int, fixed: FixedOrder) -> int:
        """The next of a lane, if all it waits for has been started and it is its turn; else -1."""
        # of those that are started one runs, the others wait behind it
        place = fixed.next(lane, self.n_computed + bool(self.running[COMPUTE]))
        task = -1 if place < 0 else self.run._order[place]
        if task < 0 or self.unstarted[task]:
            return -1
        if task in self.patient and self.run._waits[task]:
            return -1
        fixed.start(lane)
        return task

    def _start(self, task: int, lane: int) -> None:
        run = self.run
        device = run.devices[run.steps[task].device]
        waited: set[int] = set()
        for before in self.before[self.before_at[task] : self.before_at[task + 1]]:
            if before in self.events and before not in waited and not self._in_turn(before, task):
                waited.add(before)
                device.wait(lane, self.events[before])
        if lane != COMPUTE and run.tiles.takes_memory(task):
            # kernels that were started may still use what they gave back: it is theirs by the order
            # of their own stream only
            device.wait(lane, device.mark(COMPUTE))
        self.started[task] = 1
        run._running += 1
        try:
            run.run_task(task, lane)
        except BaseException as error:
            run._fail(task, error)
            return
        self.events[task] = device.mark(lane)
        self.running[lane].append(task)
        ranks = run._ranks
        for successor in self.after[self.borders[task] : self.borders[task + 1]]:
            self.unstarted[successor] -= 1
            if not self.unstarted[successor] and successor not in self.patient:
                assert ranks is not None
                heapq.heappush(self.soon[self.lanes[successor]], ranks[successor])

    def _in_turn(self, before: int, task: int) -> bool:
        """Whether two tasks are in one stream: there they run in the order they were started."""
        if self.lanes[before] != self.lanes[task]:
            return False
        steps, devices = self.run.steps, self.run.devices
        return devices[steps[before].device].shares_streams(devices[steps[task].device])

    def _finish_done(self, lane: int) -> bool:
        running = self.running[lane]
        any_done = False
        while running and self.events[running[0]].query():
            task = running.popleft()
            del self.events[task]
            self.run._finish(task)
            self.n_computed += lane == COMPUTE
            any_done = True
        return any_done

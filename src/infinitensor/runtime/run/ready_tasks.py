"""The tasks that are left of a run: what each waits for, which are ready, who takes them."""

from __future__ import annotations

import heapq
from array import array as int_array
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.tasks import COMPUTE
from infinitensor.runtime.run.fixed_order import FixedOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.run.start import Start
    from infinitensor.runtime.state.run_status import Status

WINDOW = 4
"""Ready tasks a worker takes at a time."""


class ReadyTasks:
    """A queue of ready tasks for each lane, from the first call of a run's `go` to its return.

    A task is given out once, when all it waits for is done, of each lane the first in the order of
    the program first; where the order is fixed, only when it is its turn. All of it is changed
    under the lock of the run's status, which `finish` and `fail` report the task to.
    """

    def __init__(
        self,
        program: Program,
        start: Start,
        status: Status,
        is_fixed: bool,
        call_another: Callable[[], None],
    ) -> None:
        self.program = program
        self.status = status
        self.lock = status.lock
        self.order, self.ranks, self.lanes = start.order, start.ranks, start.lanes
        self._long = start.long
        self.waits, ready = self._count_waits(start)
        self.heaps: tuple[list[int], ...] = ([], [], [])
        """Tasks that are ready to be computed, loaded, evicted, as places in the order."""
        self.n_running = 0
        self.fixed = self._fixed_order() if is_fixed else None
        """The order that lanes keep to, where they may not take any ready task."""
        self.is_awaited = self.lanes is not None or is_fixed
        """Whether threads may wait for some ready tasks only."""
        self.n_idle = 0
        """Threads that wait for a ready task."""
        self._call_another = call_another
        for task in ready:
            self._push(task)
        assert ready or status.is_finished(), "tasks that can never start"

    def _count_waits(self, start: Start) -> tuple[int_array[int], list[int]]:
        """How many tasks each task still waits for, and the tasks that wait for none."""
        if not self.status.n_done:
            return start.waits[:], start.ready
        program = self.program
        done = np.frombuffer(self.status.done, np.bool_)
        met = program.after[np.repeat(done, np.diff(program.borders))]
        waits = program.waits - np.bincount(met, minlength=len(done))
        ready = np.flatnonzero(program.needed & ~done & (waits == 0)).tolist()
        return int_array("i", waits.astype(np.int32).tobytes()), ready

    def _fixed_order(self) -> FixedOrder:
        """Lanes in the order of the program, of what is not done."""
        order, done = self.order, self.status.done
        if self.ranks is None:  # tasks are their own places
            return FixedOrder((task for task in order if not done[task]), self._lane_of)
        left = (place for place, task in enumerate(order) if not done[task])
        return FixedOrder(left, lambda place: self._lane_of(order[place]))

    def _lane_of(self, task: int) -> int:
        return COMPUTE if self.lanes is None else self.lanes[task]

    def _push(self, task: int) -> None:
        heap = self.heaps[COMPUTE if self.lanes is None else self.lanes[task]]
        heapq.heappush(heap, task if self.ranks is None else self.ranks[task])

    def pop(self, lane: int) -> int:
        """The first ready task of a lane that has one."""
        place = heapq.heappop(self.heaps[lane])
        return place if self.ranks is None else self.order[place]

    def take(self, lane: int) -> list[int]:
        """Some ready tasks of a lane, waited for; none when there is nothing left to start."""
        ready, fixed, status = self.heaps[lane], self.fixed, self.status
        with self.lock:
            while (
                not (ready and (fixed is None or fixed.next(lane) == ready[0]))
                and not status.stopping
                and (self.n_running or any(self.heaps))
            ):
                self.n_idle += 1
                self.lock.wait()
                self.n_idle -= 1
            if status.stopping or not ready:
                self.lock.notify_all()
                return []
            n = 1 if fixed is not None else min(WINDOW, 1 + len(ready) // 8)
            tasks = [self.pop(lane)]
            while len(tasks) < n and not self._long[tasks[-1]]:
                tasks.append(self.pop(lane))
            self.n_running += len(tasks)
            if fixed is not None:
                fixed.start(lane)
                self.lock.notify_all()  # a load may have its turn now
            elif not self.is_awaited:
                self._offer(len(ready))
        return tasks

    def _offer(self, n: int) -> None:
        """Have somebody take some of n ready tasks. Each who comes does so again: threads that all
        come at once are in each other's way."""
        for _ in range(min(n, 2)):
            if self.n_idle:
                self.lock.notify()
            else:
                self._call_another()

    def put_back(self, tasks: list[int]) -> None:
        """Tasks that were taken are not run."""
        with self.lock:
            self.n_running -= len(tasks)
            for task in tasks:
                self._push(task)
                if self.fixed is not None:
                    self.fixed.take_back(self._lane_of(task))
            self.lock.notify_all()

    def finish(self, task: int) -> None:
        """A task that was taken is done: those that waited for it alone are ready."""
        program, status, waits = self.program, self.status, self.waits
        after = program.after[program.borders[task] : program.borders[task + 1]].tolist()
        with self.lock:
            self.n_running -= 1
            status.done[task] = 1
            status.n_done += 1
            n_new = 0
            for successor in after:
                waits[successor] -= 1
                if not waits[successor]:
                    self._push(successor)
                    n_new += 1
            if not self.n_running or (n_new and self.is_awaited):
                self.lock.notify_all()
            elif n_new > 1:  # this thread goes on with one of them
                self._offer(n_new - 1)

    def fail(self, task: int, error: BaseException) -> None:
        """A task that was taken has raised."""
        self.status.fail(task, error)
        with self.lock:
            self.n_running -= 1
            self.lock.notify_all()

    def clear(self) -> None:
        """Ready tasks were started by other means, in the order of the program."""
        for heap in self.heaps:
            heap.clear()

"""How far a run is, whether it is to stop, and what it did."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

IS_STOPPED = 23
"""The word of a job (`Job` in `native/c_program.c`) by which C is asked to stop."""


class Left(BaseException):
    """A loop op was left between two steps, because its run stops."""


class Status:
    """Which tasks are done or have failed, whether to go on, and counts for `stats()`.

    Every part of a run shares it, and it knows none of them. Threads change it under `lock`, but
    for `stop`, which a signal handler calls and which takes no lock.
    """

    def __init__(self, n_tasks: int, n_numbers: int) -> None:
        self.n_tasks = n_tasks
        """Tasks that run; `n_numbers` have a number."""
        self.n_done = 0
        self.done = bytearray(n_numbers)
        self.failed: list[int] = []
        self.failure: BaseException | None = None
        self.goes_past_failures = False
        """Whether tasks run that do not depend on one that has failed."""
        self.stopping = False
        self.is_interrupted = False
        self.n_workers: int | None = None
        """Workers that may run tasks; None: all."""
        self.job: np.ndarray | None = None
        """The job that C works on now."""
        self.counts: defaultdict[str, int] = defaultdict(int)
        """The counts since they were last asked for, by the names of `stats()`, but for tasks."""
        self._n_reported = 0

    @cached_property
    def lock(self) -> threading.Condition:
        """The lock of threads; made before they begin, for a run in one thread never needs it."""
        return threading.Condition(threading.Lock())

    def is_finished(self) -> bool:
        """Whether every task is done."""
        return self.n_done == self.n_tasks

    def stop(self) -> None:
        """Start no more tasks; those that run finish."""
        self.stopping = self.is_interrupted = True
        if self.job is not None:
            self.job[IS_STOPPED] = 1

    def check_stop(self) -> None:
        """Between the steps of a loop op: leave it if the run is to stop. It starts anew then."""
        if self.stopping:
            raise Left

    def clear_stop(self) -> bool:
        """It may go on; True if it was asked to stop, which somebody must still hear of."""
        was, self.is_interrupted = self.is_interrupted, False
        self.failure, self.stopping = None, False
        return was

    def fail(self, task: int, error: BaseException) -> None:
        """A task has raised."""
        with self.lock:
            self.failed.append(task)
            if self.failure is None and not isinstance(error, Left):
                self.failure = error
            if not self.goes_past_failures or not isinstance(error, Exception):
                self.stopping = True
            self.lock.notify_all()

    def halt(self, error: BaseException | None = None) -> None:
        """Something else has raised: start no more tasks."""
        with self.lock:
            self.failure = self.failure or error
            self.stopping = True
            self.lock.notify_all()

    def take_counts(self) -> dict[str, int]:
        """The counts since this was asked last, by the names of `stats()`."""
        taken = {"tasks": self.n_done - self._n_reported, **self.counts}
        self._n_reported = self.n_done
        self.counts.clear()
        return taken

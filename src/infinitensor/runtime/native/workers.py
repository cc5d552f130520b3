"""Threads of Python that run CPU tasks: started once, woken for each run, one intra-op thread each.

Tasks in C have other threads: `threads.c`.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.events import lane
from infinitensor.ops.backend.torch_loading import calm, n_calmed, n_user_threads
from infinitensor.runtime.native.c_team import Team
from infinitensor.threads import end_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def loaded_torch() -> Any:
    """torch, if a kernel has needed it: nothing is said to it before, nor while it is imported."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        return None
    return torch


def _give_back_threads(n_user: int | None) -> None:
    """Let torch use as many threads for the user's ops as before workers said that they have one
    core each; None: it was loaded since, and found so many."""
    torch = loaded_torch()
    if n_user is None and n_user_threads:
        n_user = n_user_threads[0]
    if torch is not None and n_user is not None:
        torch.set_num_threads(n_user)


class Workers:
    """A fixed set of threads. `run(job)` calls `job()` in each and returns when all are back.

    Each sleeps at a lock of its own, so that a run wakes those that it needs and nobody else: with
    many cores more time went into waking all than into small runs. Other jobs that come with one
    have threads of their own.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._bells: list[threading.Lock] = []
        """Locked, until there is a job for the thread of this number."""
        self._jobs: list[Callable[[], None] | None] = []
        self._back = threading.Condition()
        self._busy = 0
        self._left: list[int] = []
        """Workers that the run may still call."""
        self._closed = False
        self.team = Team(n)
        """Those who run tasks in C: threads of C and the caller, or these and what is Python's."""

    def run(
        self,
        job: Callable[[], None],
        tick: Callable[[], None],
        others: Sequence[Callable[[], None]] = (),
        n_first: int | None = None,
        n_most: int | None = None,
    ) -> None:
        """Run `job` in every worker, or in so many, until one calls `call_another`; in `n_most` of
        them at most.

        `tick()` is called in this thread now and then meanwhile.
        """
        n_most = self.n if n_most is None else max(1, min(n_most, self.n))
        n_first = n_most if n_first is None else max(1, min(n_first, n_most))
        self._start(self.n + len(others))
        torch = loaded_torch()
        n_user = None if torch is None else torch.get_num_threads()
        n_calm = n_calmed[0]
        called = [*range(n_first), *range(self.n, self.n + len(others))]
        with self._back:
            self._jobs = [*[job] * self.n, *others]
            self._busy = len(called)
            self._left = list(range(n_most - 1, n_first - 1, -1))
        for number in called:
            self._bells[number].release()
        with self._back:
            while self._busy:
                self._back.wait(0.1)
                tick()
            self._jobs = []
        if n_calmed[0] != n_calm:
            _give_back_threads(n_user)
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its frames would hold the run

    def run_here(self, job: Callable[[], None]) -> None:
        """Run `job` in this thread as a worker would, with one core: where nobody else is needed,
        to wake one takes longer than many programs."""
        torch = loaded_torch()
        n_user = None if torch is None else torch.get_num_threads()
        was_worker, lane.is_worker = lane.is_worker, True
        n_calm = n_calmed[0]
        try:
            if torch is not None and n_user != 1:
                torch.set_num_threads(1)
            with np.errstate(all="ignore"):
                job()
        finally:
            lane.is_worker = was_worker
            if n_user != 1 and (torch is not None or n_calmed[0] != n_calm):
                _give_back_threads(n_user)

    def call_another(self) -> None:
        """Within a job: one more worker begins with it, if any is left."""
        if self._left:
            with self._back:
                number = self._left.pop() if self._left else None
                self._busy += number is not None
            if number is not None:
                self._bells[number].release()

    def join(self) -> None:
        """Wait until all are back."""
        with self._back:
            self._left = []
            while self._busy:
                self._back.wait()

    def _start(self, n: int) -> None:
        for k in range(len(self._threads), n):
            bell = threading.Lock()
            bell.acquire()
            self._bells.append(bell)
            thread = threading.Thread(
                target=self._loop, args=(k, bell), name=f"infinitensor-{k}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _loop(self, number: int, bell: threading.Lock) -> None:
        lane.is_worker = True
        with np.errstate(all="ignore"):
            while bell.acquire() and not self._closed:
                job = self._jobs[number]
                try:
                    torch = loaded_torch()
                    if torch is not None:
                        calm(torch)
                    if job is not None:
                        job()
                except BaseException as error:  # a thread that ends would be waited for, always
                    self._error = self._error or error
                finally:
                    job = None  # else this thread would hold the run until the next one
                    with self._back:
                        self._busy -= 1
                        if not self._busy:
                            self._back.notify_all()

    def close(self) -> None:
        """End the threads, and those of C."""
        self._closed = True
        for bell in self._bells:
            if bell.locked():
                bell.release()
        for thread in self._threads:
            thread.join(timeout=5)
        self._threads, self._bells = [], []
        self.team.close()
        end_threads()

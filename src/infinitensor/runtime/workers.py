"""Threads that run CPU tasks: started once, woken for each run, one intra-op thread each."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


class Workers:
    """A fixed set of threads. `run(job)` calls `job()` in each and returns when all are back."""

    def __init__(self, n: int) -> None:
        import torch  # noqa: F401 - it takes seconds: when a session opens, not in its first run

        self.n = n
        self._threads: list[threading.Thread] = []
        self._wake = threading.Condition()
        self._job: Callable[[], None] | None = None
        self._generation = 0
        self._busy = 0
        self._closed = False

    def run(self, job: Callable[[], None], tick: Callable[[], None]) -> None:
        """Run `job` in every worker; `tick()` is called in this thread now and then meanwhile."""
        self._start()
        with self._wake:
            self._job = job
            self._busy = self.n
            self._generation += 1
            self._wake.notify_all()
            while self._busy:
                self._wake.wait(0.1)
                tick()
            self._job = None

    def _start(self) -> None:
        if self._threads:
            return
        import torch

        n_user = torch.get_num_threads()
        for k in range(self.n):
            thread = threading.Thread(target=self._loop, name=f"infinitensor-{k}", daemon=True)
            self._threads.append(thread)
            thread.start()
        # workers set their own intra-op threads to one; new threads of the user's get the user's
        # number again
        torch.set_num_threads(n_user)

    def _loop(self) -> None:
        import torch

        torch.get_num_threads()  # torch sets a new thread up at its first question, then we may
        torch.set_num_threads(1)
        seen = 0
        with np.errstate(all="ignore"):
            while True:
                with self._wake:
                    while self._generation == seen and not self._closed:
                        self._wake.wait()
                    if self._closed:
                        return
                    seen = self._generation
                    job = self._job
                try:
                    if job is not None:
                        job()
                finally:
                    job = None  # else this thread would hold the run until the next one
                    with self._wake:
                        self._busy -= 1
                        self._wake.notify_all()

    def close(self) -> None:
        """End the threads."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)
        self._threads = []

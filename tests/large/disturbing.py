"""What comes between while all live values are computed: a signal, or an error out of a task.

Only computing is disturbed, never a line: whether a line that was stopped has been run, or half of
it, nobody could say. Afterwards every live value is compared.
"""

from __future__ import annotations

import gc
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

EVENTS = ("task_start", "allocate", "tile_commit")
MOST_EVENTS = 60
LONGEST_S = 0.05
SOON_S = 0.0002


class DisturbedError(Exception):
    """What is raised on purpose."""


def is_collecting(frame: Any) -> bool:
    """Whether a callback of the garbage collector runs."""
    codes = {getattr(each, "__code__", None) for each in gc.callbacks}
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


@contextmanager
def interrupts(rng: random.Random) -> Iterator[None]:
    """A handler of a signal raises after a while."""

    def stop(number: int, frame: Any) -> None:
        if is_collecting(frame):  # what is raised there is lost; who notes it holds our frames
            signal.setitimer(signal.ITIMER_REAL, SOON_S)
            return
        raise DisturbedError("a signal")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, LONGEST_S))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def faults(rng: random.Random) -> Iterator[None]:
    """A task, an allocation or the commit of a tile raises."""
    from infinitensor import events

    left = [int(MOST_EVENTS ** rng.random())]
    lock = threading.Lock()

    def fail(**what: object) -> None:
        with lock:
            left[0] -= 1
            is_now = left[0] == 0
        if is_now:
            raise DisturbedError("a fault")

    with events.on(rng.choice(EVENTS), fail):
        yield


DISTURBANCES = {"interrupts": interrupts, "faults": faults}


def disturbed(kind: str, rng: random.Random, compute: Callable[[], object]) -> None:
    """Compute what may be stopped on the way."""
    import infinitensor as it

    with suppress(DisturbedError, it.TaskError), DISTURBANCES[kind](rng):
        compute()

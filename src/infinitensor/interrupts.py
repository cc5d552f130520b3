"""Ctrl-C at a moment of our choice: between tasks, or after what must not be torn."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.signal makes enums: 15 us a run
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGINT = int(signal.SIGINT)


class Stoppable(Protocol):
    """What can be told to stop, in a signal handler."""

    def stop(self) -> None:
        """Stop soon."""


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C comes at the end: what is done here takes no longer than anyone notices."""
    held = Held()
    restore = catch_interrupts(held)
    try:
        yield
    finally:
        restore()
    if held.is_stopped:
        raise KeyboardInterrupt


class Held:
    """Remembers that it was to stop."""

    is_stopped = False

    def stop(self) -> None:
        """Not now."""
        self.is_stopped = True


def catch_interrupts(work: Stoppable) -> Callable[[], None]:
    """Turn Ctrl-C into `work.stop()` while work is on, so that nothing is left torn."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before = _signal.getsignal(_SIGINT)
    if before is not signal.default_int_handler:
        return lambda: None
    _signal.signal(_SIGINT, lambda number, frame: work.stop())

    def restore() -> None:
        _signal.signal(_SIGINT, before)

    return restore

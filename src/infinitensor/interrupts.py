"""Ctrl-C at a moment of our choice: between tasks, or after what must not be torn."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.signal makes enums: 15 us a run
import signal
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_SIGINT = int(signal.SIGINT)


class Stoppable(Protocol):
    """What can be told to stop, in a signal handler."""

    def stop(self) -> None:
        """Stop soon."""


class Held:
    """Remembers that it was to stop, and stops at the end of its block.

    Whatever else leaves the block: who presses Ctrl-C must hear of it, and what was raised is its
    context. (No generator: every evaluation has two of them.)
    """

    is_stopped = False

    def stop(self) -> None:
        """Not now."""
        self.is_stopped = True

    def __enter__(self) -> None:
        self._restore = catch_interrupts(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        if self.is_stopped:
            raise KeyboardInterrupt


def without_interrupts() -> Held:
    """Ctrl-C comes at the end: what is done here takes no longer than anyone notices."""
    return Held()


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

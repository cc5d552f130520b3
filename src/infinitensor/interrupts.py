"""Exceptions of signal handlers, raised between tasks or at the end of a block.

A handler (of Ctrl-C, or of a time limit) may raise in the main thread before any step of Python.
While something is held the handlers run as they would, at once, but what they raise waits, and
running work is asked to stop. It is raised when the outermost block ends.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.signal makes enums: 15 us a run
import signal
import threading
from operator import is_
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import CodeType, FrameType, TracebackType

Made = TypeVar("Made")
_MAIN = threading.main_thread().ident
_SIGNALS = tuple(
    sorted(
        {int(number) for number in signal.valid_signals()}
        - {getattr(signal, name, 0) for name in ("SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS")}
    )
)


class Stoppable(Protocol):
    """Work that a signal handler can ask to stop."""

    def stop(self) -> None:
        """Stop soon."""


_held: list[Stoppable | None] = []
"""The blocks that the main thread is in, with the work that is to stop."""
_before: dict[int, Any] = {}
"""The handlers of the user's, while ours is in their places."""
_seen: tuple[Any, ...] = ()
"""All handlers, as the last block found them."""
_raised: list[BaseException] = []
"""The exceptions that they have raised."""
_open: list[int] = []
"""How many blocks there are where handlers may raise all the same, for the last is not torn."""


finalisers: set[CodeType] = set()
"""Functions that are called when an object is gone, beside `__del__` and callbacks of `weakref`."""


def _is_finalising(frame: FrameType | None) -> bool:
    """Whether something that is gone is being put away.

    Python would drop what is raised there, and what was to be put away would stay.
    """
    while frame is not None:
        name = frame.f_globals.get("__name__")
        code = frame.f_code
        if name in ("weakref", "_weakrefset") or code.co_name == "__del__" or code in finalisers:
            return True
        frame = frame.f_back
    return False


def _note(number: int, frame: Any) -> None:
    """Call the user's handler; what it raises waits."""
    if _open and _open[-1] == len(_held) and not _is_finalising(frame):
        _before[number](number, frame)
        return
    try:
        _before[number](number, frame)
    except BaseException as error:
        _raised.append(error.with_traceback(None))  # its frames would hold all that they see
        for work in _held:
            if work is not None:
                work.stop()


_CALLS = (_signal.getsignal, _signal.signal)


def hold_in_python(
    calls: tuple[Callable[..., Any], Callable[..., Any]],
    numbers: tuple[int, ...],
    seen: tuple[Any, ...],
    users: dict[int, Any],
    note: Any,
) -> bool:
    """Put our handler in the place of every one of the user's, if all handlers are as before.

    Else False, and nothing is done.
    """
    get, put = calls
    if len(numbers) != len(seen) or not all(map(is_, map(get, numbers), seen)):
        return False
    for number in users:
        put(number, note)
    return True


def restore_in_python(
    calls: tuple[Callable[..., Any], Callable[..., Any]], users: dict[int, Any], note: Any
) -> None:
    """Give signals that have our handler back to those of the user's."""
    get, put = calls
    for number, handler in users.items():
        if get(number) is note:  # a handler may have put another in its place
            put(number, handler)


_hold, _put_back = hold_in_python, restore_in_python


def look_in_c(module: Any) -> None:
    """Ask by `interrupts.c` from now on: every evaluation asks for all of 60 signals."""
    global _hold, _put_back
    _hold, _put_back = module.hold, module.restore


def _hold_handlers() -> None:
    """Put our handler in the places of the user's; mostly they are those of the last time."""
    global _seen
    while not _hold(_CALLS, _SIGNALS, _seen, _before, _note):
        seen = tuple(map(_signal.getsignal, _SIGNALS))
        _before.clear()
        for number, handler in zip(_SIGNALS, seen, strict=True):
            if handler is not None and type(handler) is not int:
                _before[number] = handler
        _seen = seen


def _restore() -> None:
    """Give signals back to their handlers; one that raises meanwhile is heard like the others."""
    try:
        _put_back(_CALLS, _before, _note)
    except BaseException as error:
        _raised.append(error)
        _restore()


class Uninterrupted:
    """A block in which no signal handler raises; what one raised leaves the outermost block.

    Whatever else leaves it: who presses Ctrl-C must hear of it, and what was raised is its context.
    (No generator: every evaluation has several of them.)
    """

    __slots__ = ("_work",)

    def __init__(self, work: Stoppable | None = None) -> None:
        self._work = work

    def __enter__(self) -> None:
        if get_ident() != _MAIN:  # only there handlers run
            return
        if not _held:
            del _raised[:]
            try:
                _hold_handlers()
            except BaseException:
                _restore()
                _raised.clear()
                raise
        _held.append(self._work)
        if _raised and self._work is not None:  # before it began
            self._work.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if get_ident() != _MAIN:
            return
        del _held[-1:]
        if _held:
            return
        _restore()
        if _raised:
            first = _raised[0]
            del _raised[:]
            try:
                if error is None or kind is not KeyboardInterrupt:
                    raise first
                if kind is not type(first):  # a run says by it that it was stopped, whatever by
                    raise first from error.__context__
            finally:
                del first, error, trace  # else this frame, which they hold, holds them and all runs


def without_interrupts() -> AbstractContextManager[Any]:
    """Exceptions of handlers come at the end: this takes no longer than anyone notices."""
    return _WITHIN if _held and not _open and get_ident() == _MAIN else _OUTERMOST


def hold_back() -> AbstractContextManager[Any]:
    """A block that has begun, for C, which ends it."""
    block = without_interrupts()
    block.__enter__()
    return block


_OUTERMOST = Uninterrupted()
"""Without work to stop, one is as good as another."""

_WITHIN: AbstractContextManager[Any] = threading.RLock()
"""A block within another, where nothing is to be done: a lock that only the main thread takes, for
it is C's, and every buffer is taken in such a block."""


def look() -> None:
    """Within a block, where nothing is torn: raise what waits to be raised."""
    if _raised and get_ident() == _MAIN:
        raise KeyboardInterrupt  # in its place, at the end of the block, what was raised


def interruptible(function: Callable[..., Made], *args: Any) -> Made:
    """Within a block, call a function that leaves nothing torn: handlers may raise in it."""
    if not _held or get_ident() != _MAIN:
        return function(*args)
    look()
    _open.append(len(_held))
    try:
        return function(*args)
    finally:
        del _open[-1:]

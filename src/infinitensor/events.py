"""Hooks: where tests inject faults and where progress is watched.

A hook is a callable that gets keyword arguments; what it raises is raised at that place. With no
hook on a name, `emit` is one dictionary look-up.

>>> from infinitensor.events import emit, on
>>> seen = []
>>> with on("task_start", lambda **what: seen.append(what["op"])):
...     emit("task_start", op="add")
>>> emit("task_start", op="mul")
>>> seen
['add']
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

NAMES = ("allocate", "task_start", "tile_commit", "run_start", "run_end", "evaluated", "file")
OF_RUNS = ("run_start", "run_end", "task_start", "tile_commit")
"""Events that only a `Run` reports."""
hooks: dict[str, list[Callable[..., Any]]] = {}


def watches_runs() -> bool:
    """Whether somebody wants to know of runs: then there has to be one."""
    return bool(hooks) and not hooks.keys().isdisjoint(OF_RUNS)


class Left(Protocol):
    """Work that is left before something else is due."""

    def is_done(self) -> bool:
        """Whether nothing is left."""

    def spend(self, work: int) -> None:
        """So much was done."""


class Lane(threading.local):
    """The state of a thread: `in_task` while it runs a kernel, `check` to ask whether to go on;
    `is_worker`: it is one of ours, several of which run kernels at a time; `noted`: while kernels
    are recorded, the steps among them that generated code may replace: what is left until then,
    and how much of that they are; `read`: the arrays that they read besides tiles, which stay as
    long as the recording; `checks`: where it is a list, a kernel may go on before it knows that its
    operands are right, and say here how to see it once the device is done; `is_first`: a program
    runs for the first time, which may be its last: nothing is compiled beside it."""

    in_task = False
    is_worker = False
    check: Callable[[], None] | None = None
    noted: list[tuple[Left, int]] | None = None
    read: list[Any] | None = None
    checks: list[Callable[[], bool]] | None = None
    is_first = False


lane = Lane()


class Hook:
    """A registered callback; a context manager that takes itself off again."""

    def __init__(self, name: str, callback: Callable[..., Any]) -> None:
        self.name = name
        self.callback = callback
        self._is_on = True

    def off(self) -> None:
        """Take the callback off; does nothing the second time."""
        if not self._is_on:
            return
        self._is_on = False
        remaining = list(hooks[self.name])
        remaining.remove(self.callback)
        if remaining:
            hooks[self.name] = remaining
        else:
            hooks.pop(self.name, None)

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.off()


def on(name: str, callback: Callable[..., Any]) -> Hook:
    """Call `callback(**what)` whenever `name` happens, until the returned hook is taken off."""
    if name not in NAMES:
        raise ValueError(f"no event {name!r}; events are {', '.join(NAMES)}")
    hooks[name] = [*hooks.get(name, ()), callback]
    return Hook(name, callback)


def between_steps() -> None:
    """Called by a loop op between its steps: where a run that stops leaves the task."""
    if lane.check is not None:
        lane.check()


def emit(name: str, **what: Any) -> None:
    """Call every hook on `name`."""
    for callback in hooks.get(name, ()):
        callback(**what)

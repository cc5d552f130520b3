"""The results of recording: nodes and versions. Plain slotted objects, made on every call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from infinitensor.errors import SessionClosedError

if TYPE_CHECKING:
    import threading
    import weakref
    from types import CodeType

    import numpy as np

    from infinitensor.ir.op import Call, Op
    from infinitensor.ir.view import Access
    from infinitensor.runtime import TileTable

_PACKAGE = __name__.partition(".")[0] + "."


class Site:
    """A place in the user's program; its text is made only when somebody reads it."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti

    def __str__(self) -> str:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.lasti < end and number is not None:
                line = number
        return f"{self.code.co_filename}:{line}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and self.code is other.code and self.lasti == other.lasti

    def __hash__(self) -> int:
        return hash((self.code, self.lasti))

    def key(self) -> tuple[CodeType, int]:
        """The program point."""
        return (self.code, self.lasti)


_ours: set[int] = set()
"""The globals of our own modules by identity: they live as long as the process."""


def user_site() -> Site:
    """The innermost call that is not ours."""
    frame: Any = sys._getframe(1)
    while True:
        names = frame.f_globals
        if id(names) not in _ours:
            name = names.get("__name__", "")
            if not name.startswith(_PACKAGE) and name != _PACKAGE[:-1]:
                break
            if sys.modules.get(name) is not None and sys.modules[name].__dict__ is names:
                _ours.add(id(names))
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Site(frame.f_code, frame.f_lasti)


generation = [0]
"""How many forks this process is away from the first: asked on every call, so no system call."""


class Recording:
    """The state of a session that recorded calls read or change: slots, where C finds them too."""

    __slots__ = (
        "closed",
        "cut_next",
        "dropped",
        "generation",
        "graveyard",
        "lock",
        "seq",
        "tape",
        "waiting_bytes",
        "writes",
    )
    closed: bool
    cut_next: bool
    """Whether it is cut before the next call: the caller still holds what was just written."""
    dropped: list[Version]
    """Versions of cells that are gone; finalisers hand them over, in any thread."""
    generation: int
    graveyard: list[Node]
    """Nodes of versions that are gone or computed, likewise."""
    lock: threading.RLock
    seq: int
    tape: list[weakref.ref[Version]]
    waiting_bytes: int
    writes: bool
    """Whether something was written to: then a loop is cut behind a write, if it can wait."""

    def check_open(self) -> None:
        """Raise if nothing can run here any more."""
        if self.closed:
            raise SessionClosedError(
                "this tensor's session has been shut down and its values are gone; "
                "make the tensor again, or take .numpy() before it.shutdown()"
            )
        if self.generation != generation[0]:
            raise SessionClosedError(
                "this tensor belongs to the parent process: threads and devices do not survive a "
                "fork. Make the tensor in the child, or pass .numpy() values to it"
            )


class Node:
    """One recorded call. `inputs` holds versions and, in their places, scalars."""

    __slots__ = (
        "accesses",
        "alive",
        "call",
        "inputs",
        "op",
        "outs",
        "region",
        "seq",
        "shapes",
        "site",
        "stopped",
    )

    def __init__(
        self,
        op: Op,
        call: Call,
        inputs: tuple[Any, ...],
        accesses: tuple[Access | None, ...],
        shapes: tuple[tuple[int, ...], ...],
        site: Site,
        seq: int,
        region: Access | None = None,
    ) -> None:
        self.op = op
        self.call = call
        self.inputs = inputs
        self.accesses = accesses
        self.shapes = shapes
        self.site = site
        self.seq = seq
        self.region = region
        self.outs: tuple[weakref.ref[Version], ...] = ()
        self.alive = 0
        self.stopped: Any = None

    @property
    def is_stopped(self) -> bool:
        """Whether a run that was to make it was stopped and is not finished."""
        return self.stopped is not None and self.stopped.run is not None


class Version:
    """One value of a tensor: waiting (`node`), small on the host (`host`), or in tiles (`table`).

    Where tiles are parts of one piece of host memory, `host` is that piece too. The one mutable
    thing of a graph: `live` counts the cells that show it, `readers` the waiting nodes that will
    read it, `exported` the views given out of its memory. By these, and never by reference counts,
    it is decided what may be overwritten.
    """

    __slots__ = (
        "__weakref__",
        "dtype",
        "exported",
        "host",
        "host_table",
        "live",
        "node",
        "out",
        "readers",
        "session",
        "shape",
        "table",
    )
    host_table: TileTable
    """Small host values as plans see them; there once a plan has read them."""

    def __init__(self, session: Recording, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.session = session
        self.shape = shape
        self.dtype = dtype
        self.node: Node | None = None
        self.out = 0
        self.host: np.ndarray | None = None
        self.table: TileTable | None = None
        self.live = 0
        self.readers = 0
        self.exported = 0

    @property
    def is_waiting(self) -> bool:
        """Whether it has no values yet."""
        return self.node is not None

    def __del__(self) -> None:
        # only hand over: what follows is done by the session, under its lock, without recursion
        if self.node is not None:
            if not self.session.closed:
                self.session.graveyard.append(self.node)
            self.node = None

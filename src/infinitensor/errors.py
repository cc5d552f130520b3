"""The errors that are raised. Every message says what, where, by how much, and what to do."""

from __future__ import annotations

from typing import Any


def gib(n_bytes: int) -> str:
    """A byte count for people.

    >>> gib(3 << 30)
    '3.0 GiB'
    """
    amount = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


class InfiniTensorError(Exception):
    """Base of every error this library defines."""

    def __reduce__(self) -> tuple[Any, ...]:
        # not by __init__, which takes what the message is made of
        return _remade, (type(self), self.args), vars(self)


def _remade(kind: type[InfiniTensorError], args: tuple[Any, ...]) -> InfiniTensorError:
    """An error that comes from another process."""
    return Exception.__new__(kind, *args)


class MemoryBudgetError(InfiniTensorError, MemoryError):
    """A plan needs more memory than it may use; raised before anything runs."""

    def __init__(
        self, op: str, need_bytes: int, limit_bytes: int, device: str, built_at: str, remedy: str
    ) -> None:
        self.op = op
        self.need_bytes = need_bytes
        self.limit_bytes = limit_bytes
        self.device = device
        self.built_at = built_at
        super().__init__(
            f"{op!r} does not fit on {device}: it needs {gib(need_bytes)} "
            f"({need_bytes} bytes), the budget is {gib(limit_bytes)} ({limit_bytes} bytes).\n"
            f"  built at: {built_at}\n  remedy:   {remedy}"
        )


class DeviceOutOfMemoryError(InfiniTensorError, MemoryError):
    """A device refused an allocation that the budget allowed.

    By then other tensors were evicted, and smaller tiles were tried where nothing was used up.
    `op` and `tile` say for what; what was made stays made, and the next compute goes on from there.
    """

    op = ""
    tile = -1

    def __init__(self, message: str, n_bytes: int = 0) -> None:
        self.n_bytes = n_bytes
        super().__init__(message)


class TaskError(InfiniTensorError):
    """A task failed for a reason that is not the user's own exception."""


class LostTileError(InfiniTensorError):
    """A tile is gone and what it was made from is gone too."""


class SpillSpaceError(InfiniTensorError):
    """No folder for spilled tiles has room for another one; what is in memory is kept."""

    def __init__(self, path: str, needed: int, free: int, why: str = "") -> None:
        self.path = path
        self.needed = needed
        self.free = free
        super().__init__(
            f"no room to spill a tile of {gib(needed)} ({needed} bytes) to {path}: "
            f"{gib(free)} free.{f' {why}.' if why else ''}\n"
            f"  remedy:   free space there, name another folder in spill_dir, or raise disk"
        )


class CorruptTileError(InfiniTensorError):
    """A spilled tile is not what was written: bits changed, or the file was cut or removed."""

    def __init__(self, path: str, offset: int, why: str) -> None:
        self.path = path
        self.offset = offset
        super().__init__(f"spilled tile {path} cannot be read at byte {offset}: {why}")


class SessionClosedError(InfiniTensorError):
    """A tensor needs a session that has been shut down, or that belongs to another process."""


class LayoutError(InfiniTensorError, ValueError):
    """A layout that does not fit the tensor or the devices."""

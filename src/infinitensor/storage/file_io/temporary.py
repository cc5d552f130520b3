"""Temporary files and folders beside the name they are meant for, and what takes their place.

They are locked while their writer lives: what a dead one left for a name is removed by the next
writer to that name.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from infinitensor.storage.file_io.syscalls import open_file, remove, rename, report_call, sync_path

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable
    from typing import Self

EXCHANGE = 2
AT_CWD = -100


class Unfinished(ABC):
    """A file that appears under its name when `commit` is called, or not at all: leaving a `with`
    block commits, an exception in it removes what was written."""

    _discard: weakref.finalize[..., Any]
    _file: int

    @abstractmethod
    def _finish(self) -> None:
        """Put what was written on the disk, and under its name."""

    def commit(self) -> None:
        """Put it under its name, on the disk; if that fails nothing is left of it."""
        try:
            self._finish()
        except BaseException:
            self.abort()
            raise
        self._discard.detach()
        os.close(self._file)

    def abort(self) -> None:
        """Remove what was written; does nothing the second time or after a commit."""
        self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()


def new_file(path: str) -> tuple[str, int]:
    """A new locked file beside `path`, and its descriptor."""

    def make(name: str) -> int:
        return open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)

    return _lock_new(path, make)


def new_folder(path: str) -> tuple[str, int]:
    """A new locked folder beside `path`, and its descriptor."""

    def make(name: str) -> int:
        report_call("open", name)
        os.mkdir(name)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    return _lock_new(path, make)


def _lock_new(path: str, make: Callable[[str], int]) -> tuple[str, int]:
    folder, name = os.path.split(path)
    for old in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name)}.*.tmp")):
        _remove_if_dead(old)
    while True:
        made = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
        file = make(made)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(
                file, fcntl.LOCK_EX
            )  # waits for a writer that just takes it for a dead one's
        if os.fstat(file).st_nlink:  # else another writer took it for a dead one's, before the lock
            return made, file
        os.close(file)


def _remove_if_dead(path: str) -> None:
    """Remove a file that can be locked: no living process owns it."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(file)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        report_call("remove", path)
        shutil.rmtree(path)
    else:
        remove(path)


def discard(path: str, file: int, owner: int) -> None:
    """Close and remove what was not finished; a forked child only closes it."""
    os.close(file)
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            _remove(path)


def put_file(made: str, path: str) -> None:
    """`path` is the file that was called `made`, from one moment to the next, also on the disk."""
    rename(made, path)
    sync_path(os.path.dirname(path))


def put_folder(made: str, path: str) -> None:
    """As `put_file`; a folder that had the name is removed afterwards."""
    if os.path.isdir(path):
        report_call("rename", path)
        _exchange(made, path)
        with contextlib.suppress(OSError):
            _remove(made)
    else:
        rename(made, path)
    sync_path(os.path.dirname(path))


def _exchange(one: str, other: str) -> None:
    """Two names for each other; where the system cannot, by way of a third."""
    names = (os.fsencode(one), os.fsencode(other))
    with contextlib.suppress(AttributeError):
        call = ctypes.CDLL(None, use_errno=True).renameat2
        if call(AT_CWD, names[0], AT_CWD, names[1], EXCHANGE) == 0:
            return
    third = f"{one}.old"
    os.rename(other, third)
    os.rename(one, other)
    os.rename(third, one)

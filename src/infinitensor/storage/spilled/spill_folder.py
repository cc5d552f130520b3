"""The folder a process keeps its spilled tiles in: private, and gone with the process.

Its name is random and nobody else may enter it. A file in it is locked while its owner lives; a
folder whose lock can be had was left by a process that died, and the next one to spill removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import tempfile
import time
import weakref
from pathlib import Path

from infinitensor.storage.file_io.byte_runs import PAGE_BYTES, aligned_bytes
from infinitensor.storage.file_io.syscalls import open_file, read_at, remove, report_call, write_at

PREFIX = "infinitensor-spill-"
OWNER = "owner"
GRACE_S = 60.0
"""A folder without an owner for this long was left by a process that died while it made it."""
_living: weakref.WeakSet[ProcessFolder] = weakref.WeakSet()


def default_folder() -> str:
    """The folder that tiles are spilled to by default."""
    return tempfile.gettempdir()


def is_memory(folder: str | os.PathLike[str]) -> bool:
    """Whether files in a folder are kept in memory (tmpfs, ramfs), and so count as memory.

    >>> is_memory("/proc")
    False
    """
    path = os.path.abspath(folder)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return False
    kinds = {line.split(" - ", 1)[1].split()[0] for line in mounts if line.split()[2] == wanted}
    return bool(kinds & {"tmpfs", "ramfs"})


def start_time(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


class ProcessFolder:
    """A folder of this process inside `parent`, made now, removed by `close` or with the process.

    Its files are found under an open descriptor, never again by the path.
    """

    def __init__(self, parent: str) -> None:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        self.path = os.path.join(parent, PREFIX + secrets.token_hex(8))
        report_call("open", self.path)
        os.mkdir(self.path, 0o700)  # fails where anything, a link too, has the name
        self._handle = open_file(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        self._locks: list[int] = []
        weakref.finalize(self, _drop, self.path, self._handle, self._locks, os.getpid())
        try:
            self._own()
            self.is_memory = is_memory(self.path)
            self.is_direct = not self.is_memory and self._takes_direct()
        except BaseException:
            self.close()
            raise
        _living.add(self)

    def _own(self) -> None:
        """Lock a file that says who lives here."""
        found = os.fstat(self._handle)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise PermissionError(errno.EPERM, "others may enter the folder", self.path)
        lock = self.create("new")
        self._locks.append(lock)
        os.write(lock, f"{os.getpid()} {start_time(os.getpid())}\n".encode())
        with contextlib.suppress(OSError):  # a file system without locks: pid and start time count
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename("new", OWNER, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def _takes_direct(self) -> bool:
        """Whether files here are read and written past the page cache, by trying it."""
        page = aligned_bytes(PAGE_BYTES)
        path = os.path.join(self.path, "probe")
        try:
            file = self.create("probe", direct=True)
            try:
                write_at(file, path, 0, page.data)
                return read_at(file, path, 0, page.data) == PAGE_BYTES
            finally:
                os.close(file)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return False
            raise
        finally:
            self.remove("probe")

    def create(self, name: str, direct: bool = False) -> int:
        """A new file for this user alone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | (direct and os.O_DIRECT)
        return open_file(os.path.join(self.path, name), flags, 0o600, self._handle)

    def open(self, name: str, direct: bool) -> int:
        """A file that was made here."""
        flags = os.O_RDWR | os.O_NOFOLLOW | (direct and os.O_DIRECT)
        return open_file(os.path.join(self.path, name), flags, 0, self._handle)

    def remove(self, name: str) -> None:
        """Remove a file, as far as that can be done."""
        with contextlib.suppress(OSError):
            remove(os.path.join(self.path, name), self._handle)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        _remove(self.path, self._handle)


def _drop(path: str, handle: int, locks: list[int], owner: int) -> None:
    """Remove the folder; a forked child only lets go of it."""
    if os.getpid() == owner:
        _remove(path, handle)
    for descriptor in (handle, *locks):
        os.close(descriptor)


def _remove(path: str, handle: int) -> None:
    """The files and the folder; nothing is followed, folders within are none of ours."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(handle), key=OWNER.__eq__):  # the lock last
            remove(os.path.join(path, name), handle)
        os.rmdir(path)


def remove_stale(parent: str) -> None:
    """Remove what dead processes of this user left in `parent`."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(PREFIX):
                _remove_if_dead(os.path.join(parent, name))


def _remove_if_dead(path: str) -> None:
    with contextlib.suppress(OSError):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(path, flags)
        try:
            found = os.fstat(handle)
            if found.st_uid == os.geteuid() and _is_dead(handle, found.st_mtime):
                _remove(path, handle)
        finally:
            os.close(handle)


def _is_dead(handle: int, changed_s: float) -> bool:
    """Whether the owner's lock can be had; where locks do not work, whether its pid is gone."""
    try:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        owner = os.open(OWNER, flags, dir_fd=handle)
    except FileNotFoundError:
        return time.time() - changed_s > GRACE_S
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pid, _, began = os.read(owner, 64).decode("ascii", "replace").strip().partition(" ")
        return pid.isdigit() and start_time(int(pid)) != began
    else:
        return True
    finally:
        os.close(owner)


def _let_go() -> None:
    """In a forked child: the locks are the parent's, and end with it."""
    for folder in _living:
        while folder._locks:
            os.close(folder._locks.pop())


os.register_at_fork(after_in_child=_let_go)

"""The calls to the system that the file layer makes, each announced to the hooks on "file".

What a hook raises is raised in place of the call: that is how tests let a disk be full or a rename
fail. With no hook a call costs one dictionary look-up more.
"""

from __future__ import annotations

import ctypes
import errno
import os

from infinitensor import events

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of the system where there is no more room."""
MOST_CALL_BYTES = 256 << 20
"""Of one call: Ctrl-C waits for it."""


def report_call(call: str, path: str, offset: int = 0, n_bytes: int = 0) -> None:
    """Call the hooks on `file`, if there are any."""
    if "file" in events.hooks:
        events.emit("file", call=call, path=path, offset=offset, n_bytes=n_bytes)


def open_file(path: str, flags: int, mode: int = 0o600, folder: int | None = None) -> int:
    """A descriptor that programs started by us do not get.

    With `folder`, an open descriptor, the last name of the path is looked up there, whatever the
    path leads to by now.
    """
    report_call("open", path)
    name = path if folder is None else os.path.basename(path)
    return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=folder)


def read_at(file: int, path: str, offset: int, into: memoryview) -> int:
    """Bytes read at `offset`: all that `into` holds, fewer only where the file ends."""
    n_read = 0
    while n_read < len(into):
        piece = into[n_read : n_read + MOST_CALL_BYTES]
        report_call("read", path, offset + n_read, len(piece))
        n = os.preadv(file, [piece], offset + n_read)
        if not n:
            break
        n_read += n
    return n_read


def write_at(file: int, path: str, offset: int, values: memoryview) -> None:
    """Write all of `values` at `offset`."""
    n_written = 0
    while n_written < len(values):
        piece = values[n_written : n_written + MOST_CALL_BYTES]
        report_call("write", path, offset + n_written, len(piece))
        n_written += os.pwrite(file, piece, offset + n_written)


def reserve(file: int, path: str, offset: int, n_bytes: int) -> None:
    """Make a file longer; a disk without room for it says so now, if it can."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is not None and call(file, 0, ctypes.c_int64(offset), ctypes.c_int64(n_bytes)) == 0:
        return
    if call is not None and ctypes.get_errno() in FULL:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    os.ftruncate(file, offset + n_bytes)


def sync(file: int, path: str) -> None:
    """Wait until all that was written is on the disk."""
    report_call("sync", path)
    os.fsync(file)


def sync_path(path: str) -> None:
    """A file, or the names in a folder, are on the disk when this returns."""
    file = open_file(path, os.O_RDONLY)
    try:
        sync(file, path)
    finally:
        os.close(file)


def rename(old: str, new: str) -> None:
    """`new` is the file that was called `old`, from one moment to the next."""
    report_call("rename", new)
    os.replace(old, new)


def remove(path: str, folder: int | None = None) -> None:
    """Take a name away; a name that is not there is none to take."""
    report_call("remove", path)
    try:
        os.unlink(path if folder is None else os.path.basename(path), dir_fd=folder)
    except FileNotFoundError:
        return

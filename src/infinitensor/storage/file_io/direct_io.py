"""Reads and writes past the page cache: files of our own, and large ones of others.

Measured on ext4 in a control group smaller than the data: tiles come back at 4.6 GB/s instead of
2 GB/s and take a tenth of the processor time, and no page of them counts as memory. The system
asks for whole pages at page borders, so a file is padded to them. Memory that does not begin at a
page goes through a buffer of this thread.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from infinitensor.storage.file_io.byte_runs import PAGE_BYTES, aligned_bytes
from infinitensor.storage.file_io.syscalls import MOST_CALL_BYTES, read_at, report_call, write_at

BOUNCE_BYTES = 1 << 20


class _Bounce(threading.local):
    held: np.ndarray[Any, Any] | None = None


_bounce = _Bounce()


def padded_bytes(n_bytes: int) -> int:
    """The length of a file that holds so many bytes.

    >>> padded_bytes(1), padded_bytes(4096), padded_bytes(0)
    (4096, 4096, 0)
    """
    return -(-n_bytes // PAGE_BYTES) * PAGE_BYTES


def _bounced() -> np.ndarray[Any, Any]:
    if _bounce.held is None:
        _bounce.held = aligned_bytes(BOUNCE_BYTES)
    return _bounce.held


def _n_straight(held: np.ndarray[Any, Any]) -> int:
    """The bytes, from the first on, that need no buffer."""
    return 0 if held.ctypes.data % PAGE_BYTES else held.size // PAGE_BYTES * PAGE_BYTES


def read_direct(file: int, path: str, offset: int, into: memoryview) -> int:
    """As `read_at`, for an offset at a page border."""
    held = np.frombuffer(into, np.uint8)
    n_read = _n_straight(held)
    if n_read and (n := read_at(file, path, offset, into[:n_read])) < n_read:
        return n
    while n_read < held.size:
        wanted = min(held.size - n_read, BOUNCE_BYTES)
        piece = _bounced()[: padded_bytes(wanted)]
        n = min(read_at(file, path, offset + n_read, piece.data), wanted)
        held[n_read : n_read + n] = piece[:n]
        n_read += n
        if n < wanted:
            break
    return n_read


def read_anywhere(file: int, path: str, offset: int, into: memoryview) -> int:
    """As `read_at`, past the page cache, at any offset of a file of any length.

    Where the memory begins within a page as its bytes do in the file, whole pages come straight to
    it; else through the buffer of this thread. Fewer bytes than asked for: the file ends there, or
    the system gave less; what is left has to be read in the usual way.
    """
    held = np.frombuffer(into, np.uint8)
    n_read = 0
    if (held.ctypes.data - offset) % PAGE_BYTES == 0:
        while n_read < held.size:
            wanted = min(held.size - n_read, MOST_CALL_BYTES - (offset + n_read) % PAGE_BYTES)
            n = _read_pages(file, path, offset + n_read, held[n_read : n_read + wanted])
            n_read += n
            if n < wanted:
                break
        return n_read
    while n_read < held.size:
        skip = (offset + n_read) % PAGE_BYTES
        wanted = min(held.size - n_read, BOUNCE_BYTES - skip)
        piece = _bounced()[: padded_bytes(skip + wanted)]
        report_call("read", path, offset + n_read, wanted)
        n = min(os.preadv(file, [piece.data], offset + n_read - skip) - skip, wanted)
        if n > 0:
            held[n_read : n_read + n] = piece[skip : skip + n]
            n_read += n
        if n < wanted:
            break
    return n_read


def _read_pages(file: int, path: str, offset: int, held: np.ndarray[Any, Any]) -> int:
    """One read into memory at the file's offset within a page; only of its first and last page,
    which are not all its own, the bytes come through the buffer."""
    skip = offset % PAGE_BYTES
    n_head = min(-skip % PAGE_BYTES, held.size)
    end = n_head + (held.size - n_head) // PAGE_BYTES * PAGE_BYTES
    first, last = _bounced()[:PAGE_BYTES], _bounced()[PAGE_BYTES : 2 * PAGE_BYTES]
    pieces = [first.data] if skip else []
    pieces += [held[n_head:end].data] if end > n_head else []
    pieces += [last.data] if end < held.size else []
    report_call("read", path, offset, held.size)
    n = max(min(os.preadv(file, pieces, offset - skip) - skip, held.size), 0)
    held[: min(n, n_head)] = first[skip : skip + min(n, n_head)]
    if n > end:
        held[end:n] = last[: n - end]
    return n


class DirectWriter:
    """Writes a file from its start, in pieces of any length; `close` fills the last page."""

    def __init__(self, file: int, path: str) -> None:
        self._file = file
        self._path = path
        self._offset = 0
        self._n_held = 0

    def write(self, piece: memoryview) -> None:
        """The next bytes."""
        values = np.frombuffer(piece, np.uint8)
        at = 0 if self._n_held else _n_straight(values)
        write_at(self._file, self._path, self._offset, piece[:at])
        self._offset += at
        while at < values.size:
            n = min(values.size - at, BOUNCE_BYTES - self._n_held)
            _bounced()[self._n_held : self._n_held + n] = values[at : at + n]
            self._n_held += n
            at += n
            if self._n_held == BOUNCE_BYTES:
                self._flush()

    def close(self) -> None:
        """Write what is held, and zeros to the end of its page."""
        _bounced()[self._n_held : padded_bytes(self._n_held)] = 0
        self._flush()

    def _flush(self) -> None:
        n = padded_bytes(self._n_held)
        write_at(self._file, self._path, self._offset, _bounced()[:n].data)
        self._offset += n
        self._n_held = 0

"""`.npy` files: read box by box, written box by box and put under their name whole."""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype
from infinitensor.errors import gib
from infinitensor.ir.region import Box, box_size
from infinitensor.storage.file_io.byte_runs import PAGE_BYTES, gather, is_run, scatter, steps_of
from infinitensor.storage.file_io.direct_io import read_anywhere
from infinitensor.storage.file_io.page_cache import CachedPages
from infinitensor.storage.file_io.strided_read import read_points, read_runs
from infinitensor.storage.file_io.syscalls import open_file, read_at, reserve, sync, write_at
from infinitensor.storage.file_io.temporary import Unfinished, discard, new_file, put_file
from infinitensor.storage.formats import npy_header
from infinitensor.storage.formats.stored_array import InFile, check_box

if TYPE_CHECKING:
    from infinitensor.storage.formats.stored_array import Points

KEPT_BYTES = 64 << 20
"""A larger file is read past the page cache where it is not in there already: a pass over it fills
no memory, and the disk reads each page once. Where the file system cannot, pages are given back
once they are read (readahead that is given back with them is read again: a quarter more).

Boxes with gaps are read through the page cache, and their pages stay until the system needs them:
the boxes beside them are in them too.
"""
DIRECT_BYTES = 256 << 10
"""Of a run: shorter ones wait longer for the disk than they save."""
FOLIO_BYTES = 2 << 20
"""The system keeps pages together up to this size, and gives them back together."""
ALIGNED_BYTES = 64
AHEAD_RUNS = 256
AHEAD_BYTES = 16 << 20
"""Runs that are apart, announced to the system before they are read."""


class NpyFile(InFile):
    """The array of a .npy file, of any order of bytes and axes; nothing is unpickled.

    The file stays open: one that is replaced under its name is read as it was. One that is changed
    in place is noticed by its size and time, and `read` raises OSError.
    """

    def __init__(self, path: str | os.PathLike[str], head: npy_header.Header | None = None) -> None:
        """Open a file whose values are stored as `head` says; None: as the file's header says."""
        self.path = os.path.abspath(path)
        self._file = open_file(self.path, os.O_RDONLY | os.O_NONBLOCK)
        weakref.finalize(self, os.close, self._file)
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{self.path}: no regular file")
        self._stamp = (found.st_size, found.st_mtime_ns)
        self.key = (self.path, found.st_size, found.st_mtime_ns, found.st_ino)
        try:
            self._header = head or self._read_header(found.st_size)
        except ValueError as error:
            raise type(error)(f"{self.path}: {error}") from None
        self.shape = self._header.shape
        self.dtype = self._header.dtype
        self._apart = steps_of(self.shape, self.dtype.itemsize)
        if self._header.fortran_order:
            self._apart = steps_of(self.shape[::-1], self.dtype.itemsize)[::-1]
        self._direct = self._open_direct() if found.st_size > KEPT_BYTES else -1
        self._cached = CachedPages(self._file, self.path, found) if self._direct >= 0 else None
        self._forgets = found.st_size > KEPT_BYTES and self._direct < 0
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def _open_direct(self) -> int:
        """A second descriptor of the same file, for reads past the page cache; -1: there is none.

        By its descriptor, not its name: that may be another file by now.
        """
        if not hasattr(os, "O_DIRECT"):
            return -1
        try:
            found = os.open(f"/proc/self/fd/{self._file}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError:  # tmpfs and some others
            return -1
        weakref.finalize(self, os.close, found)
        return found

    def _read_header(self, n_file_bytes: int) -> npy_header.Header:
        start = bytearray(12)
        n_start = read_at(self._file, self.path, 0, memoryview(start))
        begin, n_bytes = npy_header.n_header_bytes(bytes(start[:n_start]))
        text = bytearray(n_bytes)
        if read_at(self._file, self.path, begin, memoryview(text)) < n_bytes:
            raise ValueError(f"truncated: a header of {n_bytes} bytes, {n_file_bytes} in the file")
        return npy_header.parse(bytes(text), begin + n_bytes, n_file_bytes)

    def read(
        self, box: Box, out: np.ndarray[Any, Any], steps: tuple[int, ...] | None = None
    ) -> None:
        """Fill `out` with the values of a box, or of each axis of it with every so many."""
        check_box(box, self.shape, self.dtype, out, self.path, steps)
        apart = self._apart if steps is None else tuple(map(mul, self._apart, steps))
        first = sum(lo * step for (lo, _), step in zip(box, self._apart, strict=True))
        if self._header.fortran_order:
            box, out, apart = box[::-1], out.transpose(), apart[::-1]
        self._unchanged()
        start = self._header.offset + first
        gather(self._fetch, start, apart, self._header.kind, out, self._fetch_runs)
        self._unchanged()
        if self._forgets and out.size and steps is None:
            last = sum((hi - 1) * step for (_, hi), step in zip(box, apart, strict=True))
            if last - first + self.dtype.itemsize == out.nbytes:
                before = min(start, FOLIO_BYTES)  # pages that the block before this one shared
                n_bytes = before + out.nbytes
                os.posix_fadvise(self._file, start - before, n_bytes, os.POSIX_FADV_DONTNEED)

    def read_points(self, wanted: Points, out: np.ndarray[Any, Any]) -> None:
        """Fill each `out[i]` with what is wanted at the i-th point."""
        axes, points, box, steps = wanted
        kept = [step for axis, step in enumerate(self._apart) if axis not in axes]
        start = sum(lo * step for (lo, _), step in zip(box, kept, strict=True))
        offsets = np.full(len(out), self._header.offset + start, np.int64)
        for axis, at in zip(axes, points, strict=True):
            offsets += at * self._apart[axis]
        apart = tuple(map(mul, kept, steps))
        if self._header.fortran_order:
            out = out.transpose(0, *range(out.ndim - 1, 0, -1))
            apart = apart[::-1]
        self._unchanged()
        order = np.argsort(offsets, kind="stable")  # as they are stored in the file
        if not self._fetch_points(offsets, order, apart, out):
            for i in order.tolist():
                begin = int(offsets[i])
                gather(self._fetch, begin, apart, self._header.kind, out[i, ...], self._fetch_runs)
        self._unchanged()

    def _fetch_points(
        self,
        offsets: np.ndarray[Any, Any],
        order: np.ndarray[Any, Any],
        apart: tuple[int, ...],
        out: np.ndarray[Any, Any],
    ) -> bool:
        """Whether all points were read in C: each must be one run of the file."""
        if not is_run(out[0, ...], apart, self._header.kind):
            return False
        window = max(min(AHEAD_RUNS, AHEAD_BYTES // out[0].nbytes), 1)
        n_read = read_points(self._file, self.path, offsets, order, window, out)
        if n_read is not None and n_read < len(out):
            raise changed_file_error(self.path, f"wanted {len(out)} points, got {n_read}")
        return n_read is not None

    def shift(self, box: Box) -> int:
        """How far behind the start of a page the bytes of a box begin, if they are read past the
        page cache: straight into memory that does so too. Kernels want multiples of 64."""
        if self._direct < 0 or self._header.fortran_order:
            return 0
        first = sum(lo * step for (lo, _), step in zip(box, self._apart, strict=True))
        found = (self._header.offset + first) % PAGE_BYTES
        return 0 if found % ALIGNED_BYTES else found

    def _fetch(self, offset: int, into: memoryview) -> None:
        n_read = 0
        if len(into) >= DIRECT_BYTES and self._cached and not self._cached.has(offset, len(into)):
            n_read = read_anywhere(self._direct, self.path, offset, into)
        if n_read < len(into):
            n_read += read_at(self._file, self.path, offset + n_read, into[n_read:])
        if n_read < len(into):
            how = f"wanted {len(into)} bytes at {offset}, got {n_read}"
            raise changed_file_error(self.path, how)

    def _fetch_runs(self, offset: int, step: int, out: np.ndarray[Any, Any]) -> bool:
        window = max(min(AHEAD_RUNS, AHEAD_BYTES // out[0].nbytes), 1)
        n_read = read_runs(self._file, self.path, offset, step, window, out)
        if n_read is not None and n_read < len(out):
            raise changed_file_error(self.path, f"wanted {len(out)} runs at {offset}, got {n_read}")
        return n_read is not None

    def _unchanged(self) -> None:
        found = os.fstat(self._file)
        if (found.st_size, found.st_mtime_ns) != self._stamp:
            was, now = gib(self._stamp[0]), gib(found.st_size)
            how = f"it had {was}, it has {now}, written at {found.st_mtime_ns} ns"
            raise changed_file_error(self.path, how)

    def __repr__(self) -> str:
        return f"NpyFile({self.path!r}, shape={self.shape}, dtype={self.dtype})"


def changed_file_error(path: str, how: str) -> OSError:
    """The error for a file that is not what it was."""
    text = f"the file was changed after it was opened ({how}); open it again"
    return OSError(errno.ESTALE, text, path)


class NpyWriter(Unfinished):
    """A .npy file that appears under its name whole, when `commit` is called, or not at all.

    Boxes are put from any thread. Until the commit a file that had the name keeps it. Leaving a
    `with` block commits; an exception in it, `abort`, or letting go of the writer removes what was
    written. Of several writers to one name the last to commit wins, whole.

    >>> import numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> with NpyWriter(path, (2, 3), np.dtype("int64")) as writer:
    ...     writer.put(((0, 2), (0, 3)), np.arange(6).reshape(2, 3))
    >>> np.load(path).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """

    def __init__(
        self, path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.path = os.path.realpath(path)  # a link stays a link, to the new file
        self.shape = shape
        self.dtype = as_dtype(dtype)
        self._steps = steps_of(shape, self.dtype.itemsize)
        self._lock = threading.Lock()
        self._n_missing = box_size(tuple((0, n) for n in shape))
        head = npy_header.header_bytes(shape, self.dtype)
        self._offset = len(head)
        self._made, self._file = new_file(self.path)
        self._discard = weakref.finalize(self, discard, self._made, self._file, os.getpid())
        try:
            write_at(self._file, self._made, 0, memoryview(head))
            if self._n_missing:  # its blocks at once: a disk without room says so now
                n_bytes = self._n_missing * self.dtype.itemsize
                reserve(self._file, self._made, self._offset, n_bytes)
        except BaseException:
            self.abort()
            raise

    def put(self, box: Box, values: np.ndarray[Any, Any]) -> None:
        """Write the values of a box."""
        check_box(box, self.shape, self.dtype, values, self.path)
        first = sum(lo * step for (lo, _), step in zip(box, self._steps, strict=True))
        scatter(self._store, self._offset + first, self._steps, self.dtype, values)
        with self._lock:
            self._n_missing -= values.size

    def _store(self, offset: int, values: memoryview) -> None:
        write_at(self._file, self._made, offset, values)

    def _finish(self) -> None:
        if self._n_missing > 0:
            raise ValueError(f"{self.path}: {self._n_missing} values were never put")
        sync(self._file, self._made)
        put_file(self._made, self.path)

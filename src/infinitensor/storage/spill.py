"""Tiles that left memory: one file each, in a private folder, every block of it with a checksum.

A read gives exactly the bits that were written, or raises CorruptTileError. A tile that nobody
holds gives its file back at once.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.errors import CorruptTileError, SessionClosedError, SpillSpaceError
from infinitensor.storage.calls import read_at, write_at
from infinitensor.storage.crc import crc32c, crc32c_blocks
from infinitensor.storage.folder import ProcessFolder, default_folder, is_memory, remove_stale
from infinitensor.storage.runs import aligned, gather, scatter, steps_of
from infinitensor.storage.stored import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.region import Box

BLOCK_BYTES = 256 << 10
"""What one checksum is of: a part is read in whole blocks."""


class Spill:
    """Folders for spilled tiles, tried in order; `limit_bytes` bounds all of them together.

    Nothing is made before the first write. Threads may write and read at once.
    """

    def __init__(
        self, folders: Sequence[str | os.PathLike[str]] = (), limit_bytes: int | None = None
    ) -> None:
        self.folders = tuple(os.path.abspath(folder) for folder in folders or [default_folder()])
        self.limit_bytes = limit_bytes
        self.written_bytes = 0
        self.read_bytes = 0
        self._used_bytes = 0
        self._freed: deque[int] = deque()  # filled by finalizers, which may take no lock
        self._lock = threading.Lock()
        self._names = itertools.count()
        self._made: dict[str, ProcessFolder] = {}
        self._owner = os.getpid()
        self._closed = False
        for folder in self.folders:
            remove_stale(folder)

    @property
    def used_bytes(self) -> int:
        """Bytes of the tiles that are held now."""
        with self._lock:
            return self._counted()

    def _counted(self) -> int:
        while self._freed:
            self._used_bytes -= self._freed.popleft()
        return self._used_bytes

    def is_memory(self) -> bool:
        """Whether the first folder's files are kept in memory."""
        return is_memory(self.folders[0])

    def write(self, values: np.ndarray[Any, Any]) -> Spilled:
        """The values, in a file of the first folder that has room; else SpillSpaceError."""
        n_bytes = values.nbytes
        self._reserve(n_bytes)
        failed: list[tuple[str, OSError]] = []
        for parent in self.folders:
            try:
                spilled = self._write_to(parent, values)
            except OSError as error:
                failed.append((parent, error))
                continue
            except BaseException:
                self._freed.append(n_bytes)
                raise
            with self._lock:
                self.written_bytes += n_bytes
            return spilled
        self._freed.append(n_bytes)
        why = "; ".join(f"{parent}: {error.strerror or error}" for parent, error in failed)
        raise SpillSpaceError(failed[-1][0], n_bytes, _free(failed[-1][0]), why) from failed[-1][1]

    def _reserve(self, n_bytes: int) -> None:
        if os.getpid() != self._owner or self._closed:
            raise SessionClosedError("this spill is closed, or belongs to another process")
        with self._lock:
            free = None if self.limit_bytes is None else self.limit_bytes - self._counted()
            if free is None or n_bytes <= free:
                self._used_bytes += n_bytes
                return
        why = f"the limit for spilled tiles is {self.limit_bytes} bytes"
        raise SpillSpaceError(self.folders[0], n_bytes, max(free, 0), why)

    def _write_to(self, parent: str, values: np.ndarray[Any, Any]) -> Spilled:
        with self._lock:
            folder = self._made.get(parent)
            if folder is None:
                folder = self._made[parent] = ProcessFolder(parent)
            name = f"{next(self._names):x}"
        sums = _Sums()
        file = folder.create(name)
        path = os.path.join(folder.path, name)

        def store(offset: int, piece: memoryview) -> None:
            sums.add(piece)
            write_at(file, path, offset, piece)

        try:
            scatter(store, 0, steps_of(values.shape, values.itemsize), values.dtype, values)
        except BaseException:
            folder.remove(name)
            raise
        finally:
            os.close(file)
        return Spilled(self, folder, name, values, sums.whole())

    def _count_read(self, n_bytes: int) -> None:
        with self._lock:
            self.read_bytes += n_bytes

    def close(self) -> None:
        """Remove every tile and the folders; a later write or read is an error."""
        self._closed = True
        with self._lock:
            made, self._made = self._made, {}
        for folder in made.values():
            folder.close()


def _free(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


class Spilled:
    """A tile in a file; `Stored`. The file is removed when nobody holds this any more."""

    chunks = None

    def __init__(
        self,
        spill: Spill,
        folder: ProcessFolder,
        name: str,
        values: np.ndarray[Any, Any],
        crcs: np.ndarray[Any, Any],
    ) -> None:
        self.path = os.path.join(folder.path, name)
        self.shape = values.shape
        self.dtype = values.dtype
        self.n_bytes = values.nbytes
        self._spill = spill
        self._folder = folder
        self._name = name
        self._crcs = crcs
        gone = weakref.finalize(self, _gone, folder, name, spill._freed, self.n_bytes, spill._owner)
        gone.atexit = False  # the folder goes as a whole

    @property
    def key(self) -> tuple[str, int]:
        return (self.path, self.n_bytes)

    def read(self, box: Box, out: np.ndarray[Any, Any]) -> None:
        """Fill `out` with the values of a box; every block it lies in is checked."""
        checked(box, self.shape, self.dtype, out, self.path)
        steps = steps_of(self.shape, self.dtype.itemsize)
        first = sum(lo * step for (lo, _), step in zip(box, steps, strict=True))
        try:
            file = self._folder.open(self._name)
        except OSError as error:
            raise CorruptTileError(self.path, 0, error.strerror or str(error)) from error
        try:
            gather(_Checked(self, file).fetch, first, steps, self.dtype, out)
        finally:
            os.close(file)
        self._spill._count_read(out.nbytes)

    def __repr__(self) -> str:
        return f"Spilled({self.path!r}, shape={self.shape}, dtype={self.dtype})"


def _gone(folder: ProcessFolder, name: str, freed: deque[int], n_bytes: int, owner: int) -> None:
    freed.append(n_bytes)
    if os.getpid() == owner:
        folder.remove(name)


class _Sums:
    """The checksums of a tile's blocks, from its bytes in pieces of any length."""

    def __init__(self) -> None:
        self._sums: list[np.ndarray[Any, Any]] = [np.empty(0, np.uint32)]
        self._n_open = 0  # bytes in the last block, if it is not full

    def add(self, piece: memoryview) -> None:
        if self._n_open:
            head = piece[: BLOCK_BYTES - self._n_open]
            last = self._sums[-1]
            last[-1] = crc32c(head, int(last[-1]))
            self._n_open = (self._n_open + len(head)) % BLOCK_BYTES
            piece = piece[len(head) :]
        if len(piece):
            self._sums.append(crc32c_blocks(piece, BLOCK_BYTES))
            self._n_open = len(piece) % BLOCK_BYTES

    def whole(self) -> np.ndarray[Any, Any]:
        return np.concatenate(self._sums)


class _Checked:
    """Reads of one open tile: whole blocks, each checked before any of its bytes is handed out."""

    def __init__(self, tile: Spilled, file: int) -> None:
        self.tile = tile
        self.file = file
        self.held = -1
        self.block: np.ndarray[Any, Any] | None = None

    def fetch(self, offset: int, into: memoryview) -> None:
        end = offset + len(into)
        at = offset
        while at < end:
            block, skip = divmod(at, BLOCK_BYTES)
            n_whole = (min(end, self.tile.n_bytes) - at) // BLOCK_BYTES
            if not skip and end == self.tile.n_bytes:
                n = end - at
            elif not skip and n_whole:
                n = n_whole * BLOCK_BYTES
            else:
                held = self._block(block)
                n = min(len(held) - skip, end - at)
                into[at - offset : at - offset + n] = held[skip : skip + n]
                at += n
                continue
            self._read(block, into[at - offset : at - offset + n])
            at += n

    def _block(self, block: int) -> memoryview:
        """One block, kept until another is asked for."""
        if self.block is None:
            self.block = aligned(BLOCK_BYTES)
        n = min(BLOCK_BYTES, self.tile.n_bytes - block * BLOCK_BYTES)
        held = self.block[:n].data
        if block != self.held:
            self.held = -1
            self._read(block, held)
            self.held = block
        return held

    def _read(self, block: int, into: memoryview) -> None:
        """Whole blocks, checked."""
        offset, path = block * BLOCK_BYTES, self.tile.path
        try:
            n_read = read_at(self.file, path, offset, into)
        except OSError as error:
            raise CorruptTileError(path, offset, error.strerror or str(error)) from error
        if n_read < len(into):
            why = f"the file ends there: wanted {len(into)} bytes, got {n_read}"
            raise CorruptTileError(path, offset + n_read, why)
        found = crc32c_blocks(into, BLOCK_BYTES)
        wrong = np.flatnonzero(found != self.tile._crcs[block : block + len(found)])
        if wrong.size:
            at = offset + int(wrong[0]) * BLOCK_BYTES
            raise CorruptTileError(path, at, "its bits are not those that were written (CRC32C)")

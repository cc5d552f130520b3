"""Tiles that left memory: one file each, in a private folder, every block of it with a checksum.

A read gives exactly the bits that were written, or raises CorruptTileError. The file of a large
tile that nobody holds any more waits for the next tile of its length: to remove it takes some
systems longer than to write it (ext4 that discards: 1.2 ms a MiB). Files never take more than the
tiles once did, nor more than the limit; a thread removes those that wait when for two seconds no
tile was freed.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import weakref
from collections import defaultdict, deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from infinitensor.errors import SessionClosedError, SpillSpaceError
from infinitensor.storage.file_io.byte_runs import scatter, steps_of
from infinitensor.storage.file_io.direct_io import DirectWriter, padded_bytes
from infinitensor.storage.file_io.syscalls import FULL, write_at
from infinitensor.storage.spilled.spill_folder import ProcessFolder, default_folder, remove_stale
from infinitensor.storage.spilled.spilled_tile import Spilled, Sums, goes_direct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Freed = deque[tuple[ProcessFolder, str, int]]

QUIET_S = 2.0
"""How long files wait for tiles of their length."""


class Spill:
    """Folders for spilled tiles, tried in order; `limit_bytes` bounds all of them together.

    Nothing is made before the first write. Threads may write and read at once.

    >>> import numpy as np, tempfile
    >>> spill = Spill([tempfile.mkdtemp()])
    >>> tile = spill.write(np.arange(6.0).reshape(2, 3))
    >>> out = np.empty((2, 1))
    >>> tile.read(((0, 2), (1, 2)), out)
    >>> out.tolist(), spill.used_bytes
    ([[1.0], [4.0]], 48)
    >>> del tile
    >>> spill.used_bytes
    0
    >>> spill.close()
    """

    def __init__(
        self, folders: Sequence[str | os.PathLike[str]] = (), limit_bytes: int | None = None
    ) -> None:
        self.folders = tuple(os.path.abspath(folder) for folder in folders or [default_folder()])
        self.limit_bytes = limit_bytes
        self.written_bytes = 0
        self.read_bytes = 0
        self._used_bytes = 0
        self._most_bytes = 0
        self._lock = threading.Lock()
        self._freed: Freed = deque()  # filled by finalizers, which may take no lock
        self._idle: defaultdict[tuple[ProcessFolder, int], list[str]] = defaultdict(list)
        self._idle_bytes = 0
        self._names = itertools.count()
        self._made: dict[str, ProcessFolder] = {}
        self._owner = os.getpid()
        self._sweeper: Sweeper | None = None
        self._closed = False
        for folder in self.folders:
            remove_stale(folder)

    @property
    def used_bytes(self) -> int:
        """Bytes of the tiles that are held now."""
        with self._lock:
            self._settle()
            return self._used_bytes

    def write(self, values: np.ndarray[Any, Any]) -> Spilled:
        """The values, in a file of the first folder that has room; else SpillSpaceError."""
        if os.getpid() != self._owner or self._closed:
            raise SessionClosedError("this spill is closed, or belongs to another process")
        self._reserve(values.nbytes)
        try:
            tile = self._write_somewhere(values)
        except BaseException:
            with self._lock:
                self._used_bytes -= values.nbytes
            raise
        with self._lock:
            self.written_bytes += values.nbytes
        return tile

    def close(self) -> None:
        """Remove every tile and the folders; a later write is an error."""
        self._closed = True
        with self._lock:
            made, self._made = self._made, {}
            self._idle.clear()
            self._idle_bytes = 0
        if self._sweeper is not None:
            self._sweeper.stop()
        for folder in made.values():
            folder.close()

    # --- room ------------------------------------------------------------------------------------

    def _reserve(self, n_bytes: int) -> None:
        with self._lock:
            self._settle()
            free = n_bytes if self.limit_bytes is None else self.limit_bytes - self._used_bytes
            if n_bytes <= free:
                self._used_bytes += n_bytes
                self._most_bytes = max(self._most_bytes, self._used_bytes)
                return
        why = f"The limit for spilled tiles is {self.limit_bytes} bytes"
        raise SpillSpaceError(self.folders[0], n_bytes, max(free, 0), why)

    def _settle(self) -> None:
        """Count what finalizers have freed; called under the lock."""
        while self._freed:
            folder, name, n_bytes = self._freed.popleft()
            self._used_bytes -= n_bytes
            if goes_direct(folder, n_bytes) and not self._closed:
                self._idle[folder, padded_bytes(n_bytes)].append(name)
                self._idle_bytes += padded_bytes(n_bytes)

    def sweep(self, keep_bytes: int = 0) -> int:
        """Remove files that wait for a tile, beyond so many bytes; says how many."""
        doomed = []
        with self._lock:
            self._settle()
            for (folder, n_bytes), names in self._idle.items():
                while names and self._idle_bytes > keep_bytes:
                    doomed.append((folder, names.pop()))
                    self._idle_bytes -= n_bytes
        for folder, name in doomed:
            folder.remove(name)
        return len(doomed)

    # --- files -----------------------------------------------------------------------------------

    def _write_somewhere(self, values: np.ndarray[Any, Any]) -> Spilled:
        failed = []  # texts: an error would keep the values alive
        for parent in self.folders:
            for _ in range(2):
                try:
                    return self._write_to(parent, values)
                except OSError as error:
                    why = f"{parent}: {error.strerror or error}"
                    is_full, is_gone = error.errno in FULL, error.errno == errno.ENOENT
                if not (is_gone or (is_full and self.sweep())):
                    break
            failed.append(why)
        raise SpillSpaceError(parent, values.nbytes, _free_bytes(parent), "; ".join(failed))

    def _write_to(self, parent: str, values: np.ndarray[Any, Any]) -> Spilled:
        folder, old = self._place(parent, values.nbytes)
        self.sweep(self._most_bytes - self._used_bytes)
        direct = goes_direct(folder, values.nbytes)
        name = f"{next(self._names):x}" if old is None else old
        try:
            file = folder.create(name, direct) if old is None else folder.open(name, direct)
            try:
                sums = _write_tile(file, os.path.join(folder.path, name), values, direct)
            finally:
                os.close(file)
        except BaseException as error:
            folder.remove(name)
            if isinstance(error, FileNotFoundError):  # somebody removed the folder: make another
                self._made.pop(parent, None)
            raise
        tile = Spilled(folder, name, values, sums, self._count_read)
        assert self._sweeper is not None
        tile.when_gone(
            _discard_tile, folder, name, tile.n_bytes, self._freed, self._sweeper, self._owner
        )
        return tile

    def _place(self, parent: str, n_bytes: int) -> tuple[ProcessFolder, str | None]:
        """The folder, and a file in it that waits for a tile of this length."""
        with self._lock:
            self._settle()
            folder = self._made.get(parent)
            if folder is None:
                folder = self._made[parent] = ProcessFolder(parent)
            if self._sweeper is None:
                self._sweeper = Sweeper(self)
            waiting = self._idle.get((folder, padded_bytes(n_bytes)))
            if not waiting:
                return folder, None
            self._idle_bytes -= padded_bytes(n_bytes)
            return folder, waiting.pop()

    def _count_read(self, n_bytes: int) -> None:
        with self._lock:
            self.read_bytes += n_bytes


def _write_tile(
    file: int, path: str, values: np.ndarray[Any, Any], direct: bool
) -> np.ndarray[Any, Any]:
    """Write the values in C order; the checksums of their blocks."""
    sums, writer = Sums(), DirectWriter(file, path)

    def store(offset: int, piece: memoryview) -> None:
        sums.add(piece)
        if direct:
            writer.write(piece)
        else:
            write_at(file, path, offset, piece)

    scatter(store, 0, steps_of(values.shape, values.itemsize), values.dtype, values)
    if direct:
        writer.close()
    return sums.block_sums()


def _discard_tile(
    folder: ProcessFolder, name: str, n_bytes: int, freed: Freed, sweeper: Sweeper, owner: int
) -> None:
    """A tile that nobody holds: its file waits, or goes at once where that takes no time."""
    if os.getpid() != owner:
        return
    freed.append((folder, name, n_bytes))
    if goes_direct(folder, n_bytes):
        sweeper.wake()
    else:
        folder.remove(name)


class Sweeper:
    """The thread that removes files, which may wait long for the system, beside everything else."""

    def __init__(self, spill: Spill) -> None:
        self._calls: SimpleQueue[bool] = SimpleQueue()  # may be filled by finalizers
        weakref.finalize(spill, self._calls.put, False).atexit = False
        work = (weakref.ref(spill), self._calls)
        name = "infinitensor-spill"
        self._thread = threading.Thread(target=_sweep_on, args=work, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Have a look at what waits."""
        self._calls.put(True)

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._calls.put(False)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _sweep_on(spill: weakref.ref[Spill], calls: SimpleQueue[bool]) -> None:
    go_on = calls.get()
    while go_on:
        try:
            go_on = calls.get(timeout=QUIET_S)
        except Empty:
            if (alive := spill()) is not None:
                alive.sweep()
            del alive
            go_on = calls.get()


def _free_bytes(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize

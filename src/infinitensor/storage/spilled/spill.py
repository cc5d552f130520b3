"""Tiles that left memory: one file each, in a private folder, every block of it with a checksum.

A read gives exactly the bits that were written, or raises CorruptTileError. The file of a large
tile that nobody holds any more waits for the next tile of its length: to remove it takes some
systems longer than to write it (ext4 that discards: 1.2 ms a MiB). Files never take more than the
tiles once did, nor more than the limit; a thread removes those that wait when for two seconds no
tile was gone.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import weakref
from collections import defaultdict, deque
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
        self._tiles: dict[tuple[ProcessFolder, str], _Held] = {}
        """Those that somebody holds."""
        self._gone: deque[_Held] = deque()
        """Those that nobody holds any more, and that are not counted yet."""
        self._n_gone = 0
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
        """Count what is gone; called under the lock."""
        while self._gone and os.getpid() == self._owner:
            self._discard(self._gone.popleft())

    def _discard(self, held: _Held) -> None:
        """A tile that nobody holds: its file waits, or goes at once where that takes no time."""
        folder, name, n_bytes = held.folder, held.name, held.n_bytes
        del self._tiles[folder, name]
        self._used_bytes -= n_bytes
        self._n_gone += 1
        if self._closed:
            return
        if goes_direct(folder, n_bytes):
            self._idle[folder, padded_bytes(n_bytes)].append(name)
            self._idle_bytes += padded_bytes(n_bytes)
        else:
            folder.remove(name)

    def tidy(self, n_gone: int, work: threading.Event) -> int:
        """Remove files that wait if no more tiles are gone than these; says how many are.

        `work` is cleared when nothing is left to look for.
        """
        with self._lock:
            self._settle()
            found = self._n_gone
        if found == n_gone:
            self.sweep()
            with self._lock:
                if not self._tiles and not self._idle_bytes:
                    work.clear()
        return found

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
        with self._lock:
            self._tiles[folder, name] = _Held(tile, self._gone, folder, name)
            assert self._sweeper is not None
            self._sweeper.work.set()
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


class _Held(weakref.ref[Spilled]):
    """A tile that somebody holds. When it is gone C appends this to those that are: what a signal
    handler raises in a finalizer of Python's would be lost, and half of its work left undone."""

    __slots__ = ("folder", "n_bytes", "name")

    def __new__(cls, tile: Spilled, gone: deque[_Held], folder: ProcessFolder, name: str) -> _Held:
        return super().__new__(cls, tile, gone.append)

    def __init__(self, tile: Spilled, gone: deque[_Held], folder: ProcessFolder, name: str) -> None:
        self.folder, self.name, self.n_bytes = folder, name, tile.n_bytes


class Sweeper:
    """The thread that removes files, which may wait long for the system, beside everything else.

    While there are tiles or files (`work`) it looks every now and then whether it is quiet.
    """

    def __init__(self, spill: Spill) -> None:
        self.work = threading.Event()
        self._end = threading.Event()
        weakref.finalize(spill, _end_sweeping, self._end, self.work).atexit = False
        name = "infinitensor-spill"
        given = (weakref.ref(spill), self.work, self._end)
        self._thread = threading.Thread(target=_sweep_on, args=given, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        _end_sweeping(self._end, self.work)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _end_sweeping(end: threading.Event, work: threading.Event) -> None:
    end.set()
    work.set()


def _sweep_on(spill: weakref.ref[Spill], work: threading.Event, end: threading.Event) -> None:
    n_gone = 0
    while not end.is_set():  # before there is work, which `tidy` may have cleared after the end
        work.wait()
        if end.wait(QUIET_S) or (alive := spill()) is None:
            return
        n_gone = alive.tidy(n_gone, work)
        del alive


def _free_bytes(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize

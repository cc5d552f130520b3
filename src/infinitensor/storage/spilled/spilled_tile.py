"""A spilled tile: its bits as they were written, or an error."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.errors import CorruptTileError
from infinitensor.storage.file_io.byte_runs import aligned_bytes, gather, steps_of
from infinitensor.storage.file_io.checksum import crc32c, crc32c_blocks
from infinitensor.storage.file_io.direct_io import read_direct
from infinitensor.storage.file_io.syscalls import read_at
from infinitensor.storage.formats.stored_array import InFile, check_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.region import Box
    from infinitensor.storage.spilled.spill_folder import ProcessFolder

CHECKSUM_BLOCK_BYTES = 256 << 10
"""Bytes of one checksum: a part is read in whole blocks."""


DIRECT_BYTES = 256 << 10
"""Smaller tiles go through the page cache: what they would save there is less than the wait."""
_serials = itertools.count()


def goes_direct(folder: ProcessFolder, n_bytes: int) -> bool:
    """Whether a tile of this size is written and read past the page cache."""
    return folder.is_direct and n_bytes >= DIRECT_BYTES


class Sums:
    """The checksums of a tile's blocks, from its bytes in pieces of any length."""

    def __init__(self) -> None:
        self._sums: list[np.ndarray[Any, Any]] = [np.empty(0, np.uint32)]
        self._n_open = 0  # bytes in the last block, if it is not full

    def add(self, piece: memoryview) -> None:
        """Go on with these bytes."""
        if self._n_open:
            head = piece[: CHECKSUM_BLOCK_BYTES - self._n_open]
            last = self._sums[-1]
            last[-1] = crc32c(head, int(last[-1]))
            self._n_open = (self._n_open + len(head)) % CHECKSUM_BLOCK_BYTES
            piece = piece[len(head) :]
        if len(piece):
            self._sums.append(crc32c_blocks(piece, CHECKSUM_BLOCK_BYTES))
            self._n_open = len(piece) % CHECKSUM_BLOCK_BYTES

    def block_sums(self) -> np.ndarray[Any, Any]:
        """One checksum for each block."""
        return np.concatenate(self._sums)


class Spilled(InFile):
    """A tile in a file; `Stored`."""

    def __init__(
        self,
        folder: ProcessFolder,
        name: str,
        values: np.ndarray[Any, Any],
        sums: np.ndarray[Any, Any],
        count: Callable[[int], None],
    ) -> None:
        self.path = os.path.join(folder.path, name)
        self.shape = values.shape
        self.dtype = values.dtype
        self.key = (self.path, next(_serials))  # a file may be used again
        self.is_direct = goes_direct(folder, self.n_bytes)
        self._folder = folder
        self._name = name
        self._sums = sums
        self._count = count

    def read(self, box: Box, out: np.ndarray[Any, Any]) -> None:
        """Fill `out` with the values of a box; every block it is in is checked."""
        check_box(box, self.shape, self.dtype, out, self.path)
        if not out.size:
            return
        steps = steps_of(self.shape, self.dtype.itemsize)
        first = sum(lo * step for (lo, _), step in zip(box, steps, strict=True))
        try:
            file = self._folder.open(self._name, self.is_direct)
        except OSError as error:
            raise CorruptTileError(self.path, 0, error.strerror or str(error)) from error
        try:
            gather(_Checked(self, file).fetch, first, steps, self.dtype, out)
        finally:
            os.close(file)
        self._count(out.nbytes)

    def __repr__(self) -> str:
        return f"Spilled({self.path!r}, shape={self.shape}, dtype={self.dtype})"


class _Checked:
    """Reads of one open tile: whole blocks, each checked before any of its bytes is handed out."""

    def __init__(self, tile: Spilled, file: int) -> None:
        self._tile = tile
        self._file = file
        self._held = -1
        self._block: np.ndarray[Any, Any] | None = None

    def fetch(self, offset: int, into: memoryview) -> None:
        at, end = offset, offset + len(into)
        while at < end:
            block, skip = divmod(at, CHECKSUM_BLOCK_BYTES)
            n = end - at
            if end < self._tile.n_bytes:
                n -= n % CHECKSUM_BLOCK_BYTES
            if n and not skip:  # whole blocks, straight into the memory
                self._read(block, into[at - offset : at - offset + n])
            else:
                held = self._one(block)
                n = min(len(held) - skip, end - at)
                into[at - offset : at - offset + n] = held[skip : skip + n]
            at += n

    def _one(self, block: int) -> memoryview:
        """One block, kept until another is asked for."""
        if self._block is None:
            self._block = aligned_bytes(CHECKSUM_BLOCK_BYTES)
        n = min(CHECKSUM_BLOCK_BYTES, self._tile.n_bytes - block * CHECKSUM_BLOCK_BYTES)
        held = self._block[:n].data
        if block != self._held:
            self._held = -1
            self._read(block, held)
            self._held = block
        return held

    def _read(self, block: int, into: memoryview) -> None:
        """Whole blocks, checked."""
        offset, path = block * CHECKSUM_BLOCK_BYTES, self._tile.path
        read = read_direct if self._tile.is_direct else read_at
        try:
            n_read = read(self._file, path, offset, into)
        except OSError as error:
            raise CorruptTileError(path, offset, error.strerror or str(error)) from error
        if n_read < len(into):
            why = f"the file ends there: wanted {len(into)} bytes, got {n_read}"
            raise CorruptTileError(path, offset + n_read, why)
        found = crc32c_blocks(into, CHECKSUM_BLOCK_BYTES)
        wrong = np.flatnonzero(found != self._tile._sums[block : block + len(found)])
        if wrong.size:
            at = offset + int(wrong[0]) * CHECKSUM_BLOCK_BYTES
            raise CorruptTileError(path, at, "its bits are not those that were written (CRC32C)")

"""CRC32C, the checksum of spilled tiles: C with the processor's instruction, or slower, but right.

In C it runs without Python's lock at memory speed. Where C was not built with the package and there
is no compiler, or the processor has no such instruction, NumPy does it (tens of MB/s).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.native import CompilerError, fixed_library, missed

if TYPE_CHECKING:
    from collections.abc import Callable

    Blocks = Callable[[np.ndarray[Any, Any], int, int, np.ndarray[Any, Any]], None]

POLYNOMIAL = 0x82F63B78


def crc32c(data: Any, value: int = 0) -> int:
    """The checksum of bytes, going on from the checksum of those before them.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    True
    """
    held = np.frombuffer(data, np.uint8)
    if not held.size:
        return value
    out = np.empty(1, np.uint32)
    _implementation()(held, held.size, value, out)
    return int(out[0])


def crc32c_blocks(data: Any, n_block_bytes: int) -> np.ndarray[Any, Any]:
    """The checksum of each block of bytes, the last one shorter."""
    held = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    out = np.empty(-(-held.size // n_block_bytes), np.uint32)
    if out.size:
        _implementation()(held, n_block_bytes, 0, out)
    return out


@cache
def _implementation() -> Blocks:
    return in_c() or in_python


def in_c() -> Blocks | None:
    """The C function; None without a compiler, or without the instruction."""
    try:
        found = fixed_library("storage/file_io/crc32c")
    except CompilerError:
        return None
    if not found.has_instruction():
        return None
    function = found.crc32c_blocks
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    function.argtypes = [pointer, size, size, ctypes.c_uint32, pointer]
    function.restype = None

    def blocks(held: np.ndarray, n_block: int, value: int, out: np.ndarray) -> None:
        function(held.ctypes.data, held.size, n_block, value, out.ctypes.data)

    return blocks


LANE_BYTES = 512


@cache
def _tables() -> tuple[np.ndarray[Any, Any], list[list[int]]]:
    """Tables of a checksum after one more byte, and of each of its bytes after LANE_BYTES zeros."""
    value: np.ndarray[Any, Any] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = value >> 1 ^ np.where(value & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    places = 8 * np.arange(4, dtype=np.uint32)
    shifted = np.arange(256, dtype=np.uint32)[None] << places[:, None]
    for _ in range(LANE_BYTES):
        shifted = value[shifted & 255] ^ shifted >> 8
    return value, shifted.tolist()


def in_python(held: np.ndarray, n_block: int, value: int, out: np.ndarray) -> None:
    """A byte at a time, of many lanes at once; counted."""
    missed[0] += 1
    for i in range(out.size):
        out[i] = _of_one(held[i * n_block : (i + 1) * n_block], value)


def _of_one(held: np.ndarray, value: int) -> int:
    table, shifted = _tables()
    crc = ~value & 0xFFFFFFFF
    n_lanes = held.size // LANE_BYTES
    lanes = held[: n_lanes * LANE_BYTES].reshape(n_lanes, LANE_BYTES).T.astype(np.uint32)
    sums = np.zeros(n_lanes, np.uint32)
    for byte in lanes:  # each lane as if nothing had been before it
        sums = table[(sums ^ byte) & 255] ^ sums >> 8
    a, b, c, d = shifted
    for lane in sums.tolist():
        crc = a[crc & 255] ^ b[crc >> 8 & 255] ^ c[crc >> 16 & 255] ^ d[crc >> 24] ^ lane
    for byte in held[n_lanes * LANE_BYTES :].tolist():
        crc = int(table[(crc ^ byte) & 255]) ^ crc >> 8
    return ~crc & 0xFFFFFFFF

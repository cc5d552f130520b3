"""How much a compressed chunk unpacks to, found out before memory is taken for it.

A file of 2 MB can unpack to 2 GB, whatever the array's metadata says. Formats that say how long
their values are, are asked; others are unpacked once, in small pieces that are dropped.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

COMPRESSORS = frozenset(("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"))
READ_PIECE_BYTES = 1 << 20
MOST_RATIO = 1100
"""Of zlib: 1,032 equal bytes take one."""
UNPACKERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "zlib": zlib.decompressobj,
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}


def unpacks_beyond(path: str, codec: str, most_bytes: int) -> bool:
    """Whether a compressed file unpacks to more than this, as far as can be known.

    What is no such file is not found out here: its codec says so.
    """
    with open(path, "rb") as file:
        if codec not in UNPACKERS:
            return (_stated_length(codec, file.read(32)) or 0) > most_bytes
        n_bytes, unpacker = 0, UNPACKERS[codec]()
        packed: bytes | None = file.read(READ_PIECE_BYTES)
        if codec in ("gzip", "zlib") and len(packed or b"") * MOST_RATIO <= most_bytes:
            return False
        while n_bytes <= most_bytes:
            if packed is None:
                packed = file.read(READ_PIECE_BYTES)
                if not packed:
                    return False
            try:
                n_bytes += len(unpacker.decompress(packed, READ_PIECE_BYTES))
            except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError):
                return False
            packed = _rest(unpacker)
            if unpacker.eof:
                unpacker = UNPACKERS[codec]()
    return True


def _rest(unpacker: Any) -> bytes | None:
    """The input of the unpacker next; None: the next piece of the file."""
    if unpacker.eof:
        return unpacker.unused_data or None
    if hasattr(unpacker, "unconsumed_tail"):
        return unpacker.unconsumed_tail or None
    return None if unpacker.needs_input else b""


def _stated_length(codec: str, start: bytes) -> int | None:
    """The length that the first bytes of a file say; None: they say none."""
    if codec == "blosc" and len(start) >= 16:
        return int.from_bytes(start[4:8], "little")
    if codec == "lz4" and len(start) >= 4:
        return int.from_bytes(start[:4], "little")
    if codec != "zstd" or start[:4] != b"\x28\xb5\x2f\xfd":
        return None
    flags = start[4]
    is_single = flags >> 5 & 1
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    width = (is_single, 2, 4, 8)[flags >> 6]
    if not width:
        return None
    return int.from_bytes(start[at : at + width], "little") + (256 if width == 2 else 0)

"""Memory maps of NumPy's as files: what they show is read box by box, and not kept in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from infinitensor.storage.formats.npy import NpyFile
from infinitensor.storage.formats.npy_header import Header

if TYPE_CHECKING:
    import numpy as np

MAPS = "/proc/self/maps"


def file_of_map(array: np.memmap[Any, Any]) -> NpyFile | None:
    """The file behind a memory map that cannot be written through, or behind a part of one.

    None where it is not known for sure, or where the part is not contiguous. The file must
    not change from then on; that it did is an error when it is read.

    >>> import numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(6).reshape(3, 2))
    >>> file_of_map(np.load(path, mmap_mode="r")[1:]).shape
    (2, 2)
    """
    if array.mode != "r" or not array.size or not isinstance(array.filename, str | os.PathLike):
        return None
    in_c_order, in_fortran = array.flags.c_contiguous, array.flags.f_contiguous
    start = array.__array_interface__["data"][0]
    offset = _offset(start, array.nbytes, os.fspath(array.filename))
    if offset is None or not (in_c_order or in_fortran):
        return None
    return NpyFile(array.filename, Header(array.shape, array.dtype, not in_c_order, offset))


def _offset(start: int, n_bytes: int, path: str) -> int | None:
    """The offset of mapped memory in its file, if it is the file that has this name now."""
    try:
        found = os.stat(path)
        with open(MAPS, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                span, _, offset, device, inode, *name = line.split(maxsplit=5)
                first, end = (int(part, 16) for part in span.split("-"))
                if first <= start < end:
                    major, minor = (int(part, 16) for part in device.split(":"))
                    # (a layered file system has numbers of its own for its devices)
                    known = os.makedev(major, minor) == found.st_dev
                    known = known or name == [os.path.realpath(path) + "\n"]
                    same = known and int(inode) == found.st_ino
                    at = int(offset, 16) + start - first
                    return at if same and at + n_bytes <= found.st_size else None
    except OSError:
        return None
    return None

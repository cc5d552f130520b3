"""Whether pages of a file are in memory: then reading them past the page cache is a waste."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Any

import numpy as np

from infinitensor.storage.file_io.byte_runs import PAGE_BYTES


@cache
def _mincore() -> Any:
    try:
        function = ctypes.CDLL(None, use_errno=True).mincore
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return function


class CachedPages:
    """Looks at which pages of a file are in memory. Reads nothing, and holds no page.

    The system shows this to the owner of a file and to who may write to it; to others every file
    looks as if it were in memory, so for them nothing is.
    """

    def __init__(self, file: int, path: str, found: os.stat_result) -> None:
        self._map: np.ndarray[Any, Any] | None = None
        may_ask = os.geteuid() in (0, found.st_uid) or os.access(path, os.W_OK)
        if _mincore() is None or not may_ask or not found.st_size:
            return
        try:
            held = mmap.mmap(file, found.st_size, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return
        self._map = np.frombuffer(held, np.uint8)

    def has(self, offset: int, n_bytes: int) -> bool:
        """Whether all pages of these bytes are in memory."""
        if self._map is None or not n_bytes or offset + n_bytes > self._map.size:
            return False
        begin = offset // PAGE_BYTES * PAGE_BYTES
        n_pages = -(-(offset + n_bytes - begin) // PAGE_BYTES)
        pages = np.empty(n_pages, np.uint8)
        address = self._map.ctypes.data + begin
        if _mincore()(address, offset + n_bytes - begin, pages.ctypes.data):
            return False
        return bool((pages & 1).all())

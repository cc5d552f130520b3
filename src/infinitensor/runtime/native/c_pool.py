"""Threads of C that run the tasks of a program, and the functions of `c_program.c`."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from infinitensor.native import fixed_library


@cache
def c_functions() -> Any:
    """The functions of `c_program.c`."""
    found = fixed_library("runtime/native/c_program")
    for name in ("alone", "together", "next_of_python"):
        getattr(found, name).restype = ctypes.c_int64
    found.alone.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    found.together.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    found.next_of_python.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    found.leave.argtypes, found.leave.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    found.open_pool.argtypes, found.open_pool.restype = [ctypes.c_int64], ctypes.c_void_p
    found.close_pool.argtypes, found.close_pool.restype = [ctypes.c_void_p], None
    return found


class Pool:
    """Threads of C that help the one which asks; made when they are first needed."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._handle: int | None = None
        self._process = 0

    @property
    def handle(self) -> int:
        """C's handle of it; a child of a fork has none of its parent's threads."""
        if self._handle is None or self._process != os.getpid():
            self._handle = c_functions().open_pool(self.n)
            self._process = os.getpid()
            if self._handle is None:
                raise MemoryError
        return self._handle

    def close(self) -> None:
        """End the threads."""
        if self._handle is not None and self._process == os.getpid():
            c_functions().close_pool(self._handle)
        self._handle = None

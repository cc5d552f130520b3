"""Those who run the tasks of a program in C together, and the functions of `c_program.c`."""

from __future__ import annotations

import ctypes
import os
from functools import cache, cached_property
from typing import Any

from infinitensor.native import fixed_library
from infinitensor.runtime.native.c_job import call_directly
from infinitensor.threads import function_address


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
    found.open_team.argtypes = [*[ctypes.c_void_p] * 4, ctypes.c_int64]
    found.open_team.restype = ctypes.c_void_p
    found.close_team.argtypes, found.close_team.restype = [ctypes.c_void_p], None
    call_directly(found)
    return found


class Team:
    """Up to so many threads, of the process's or Python's, and what they wait by.

    Who runs a program calls the others; it is made when it is first needed.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._handle: int | None = None
        self._process = 0

    @property
    def handle(self) -> int:
        """C's handle of it; what a fork finds locked nobody unlocks in the child."""
        if self._handle is None or self._process != os.getpid():
            names = ("offer_job", "withdraw", "help_others", "thread_number")
            own = map(function_address, names)
            self._handle = c_functions().open_team(*own, self.n_workers - 1)
            self._process = os.getpid()
            if self._handle is None:
                raise MemoryError
        return self._handle

    @cached_property
    def calls(self) -> tuple[int, int]:
        """The functions of `threads.c` by which a task calls others, and waits for them."""
        return function_address("offer"), function_address("withdraw")

    def close(self) -> None:
        """Give back what it holds; the next use makes it again."""
        if self._handle is not None and self._process == os.getpid():
            c_functions().close_team(self._handle)
        self._handle = None

"""The threads of C of this process: one pool, which every loop and program in C shares.

`threads.c` has them. They start when somebody has work for them, look for more for 100 us when they
have none, then sleep. Who calls C gives it the addresses of functions: `share` does some work in
this thread and others, `share_parts` does numbered parts, or all of them here where threads are
late; `offer` lets others begin, and `withdraw` waits until they are done.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from infinitensor.config import config
from infinitensor.native import CompilerError, fixed_library, not_compiled


@cache
def _functions() -> Any:
    """The functions of `threads.c`; `CompilerError` where it cannot be had."""
    found = fixed_library("threads")
    found.end_threads.restype = None
    found.count_threads.restype = ctypes.c_int64
    return found


def function_address(name: str) -> int:
    """The address of a function of `threads.c`, for other C; `CompilerError` without."""
    return ctypes.cast(getattr(_functions(), name), ctypes.c_void_p).value or 0


def share_address(name: str = "share") -> int:
    """The address of `share` or its kin; 0, and why in `not_compiled`, where it cannot be had."""
    try:
        return function_address(name)
    except CompilerError as error:
        not_compiled["threads.c"] = str(error)
        return 0


def number_address() -> int:
    """The address of the number that `use_threads` sets."""
    return ctypes.addressof(_n_threads)


def n_sharing() -> int:
    """The number that `use_threads` sets."""
    return _n_threads.value


def choose_n_workers(wanted: int) -> int:
    """So many as are wanted; 0: one for each core this process may use."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return wanted or int(n_cores or 1)


_n_threads = ctypes.c_int64(choose_n_workers(config.workers))
"""How many threads share a call that is not planned, the caller's among them."""


def use_threads() -> None:
    """Share calls that are not planned among as many threads as a session has workers."""
    _n_threads.value = choose_n_workers(config.workers)


def count_threads() -> int:
    """How many threads there are, beside those of Python."""
    return int(_functions().count_threads()) if _functions.cache_info().currsize else 0


def end_threads() -> None:
    """End the threads: at once those that have nothing to do, the others after what they do.

    Nobody needs them: what is offered meanwhile is done by who offers it, or starts new ones.
    """
    if _functions.cache_info().currsize:
        _functions().end_threads()

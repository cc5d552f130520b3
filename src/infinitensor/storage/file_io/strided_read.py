"""Short runs of a file, far apart, read in one call of C without Python's lock.

A column of tiles of a file in rows is tens of thousands of runs of some KiB each: from Python a run
takes 15 µs, from C 3.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor import events
from infinitensor.native import CompilerError, fixed_library, missed

if TYPE_CHECKING:
    from collections.abc import Callable


ELEMENTS_A_CALL = 1 << 16
NUMBER, POINTER = ctypes.c_int64, ctypes.c_void_p
ARGUMENTS = {
    "read_runs": [*[NUMBER] * 4, POINTER, NUMBER, NUMBER],
    "read_points": [POINTER, POINTER, NUMBER, NUMBER, POINTER, NUMBER, NUMBER],
}


@cache
def _function(name: str) -> Callable[..., int] | None:
    try:
        found = fixed_library("storage/file_io/strided_read")
    except CompilerError:
        return None
    function: Callable[..., int] = getattr(found, name)
    function.argtypes = [ctypes.c_int, *ARGUMENTS[name]]  # type: ignore[attr-defined]
    function.restype = NUMBER  # type: ignore[attr-defined]
    return function


def _ready(name: str) -> Callable[..., int] | None:
    """The function; None where hooks want to see every read, or there is no compiler."""
    if "file" in events.hooks:
        return None
    function = _function(name)
    if function is None:
        missed[0] += 1
    return function


def read_runs(
    file: int, path: str, offset: int, step: int, window: int, out: np.ndarray[Any, Any]
) -> int | None:
    """How many of the runs `out[i]` were read, which are `step` bytes apart in the file.

    None: nothing was done, since there is no compiler or hooks want to see every read.
    """
    function = _ready("read_runs")
    if function is None:
        return None
    memory, out_step = out.ctypes.data, out.strides[0]
    n_bytes = out[0].nbytes
    n = function(file, offset, step, len(out), n_bytes, memory, out_step, window)
    if n < 0:
        raise OSError(-n, os.strerror(-n), path)
    return n


def read_points(
    file: int,
    path: str,
    offsets: np.ndarray[Any, Any],
    order: np.ndarray[Any, Any],
    window: int,
    out: np.ndarray[Any, Any],
) -> int | None:
    """How many of the runs `out[i]` were read, which are at `offsets[i]`; None as above."""
    function = _ready("read_points")
    if function is None:
        return None
    n_bytes, memory, step = out[0].nbytes, out.ctypes.data, out.strides[0]
    n_all = 0
    for lo in range(0, len(out), ELEMENTS_A_CALL):  # an interrupt waits for one call
        part = np.ascontiguousarray(order[lo : lo + ELEMENTS_A_CALL])
        n = function(
            file, offsets.ctypes.data, part.ctypes.data, len(part), n_bytes, memory, step, window
        )
        if n < 0:
            raise OSError(-n, os.strerror(-n), path)
        n_all += n
        if n < len(part):
            break
    return n_all

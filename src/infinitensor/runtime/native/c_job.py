"""What each run of a program in C is given, the addresses of its memories and its scalars, and the
calls that run it.

In C (`c_job.c`) where it can be compiled; what is here says what that does, and is complete.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from infinitensor.config import config
from infinitensor.ir.call_tables import REAL, REAL_PART, WHOLE
from infinitensor.native import address, extension

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np


def in_python(
    words: memoryview,
    start: int,
    arrays: list[np.ndarray],
    scalars: Sequence[Any],
    codes: list[int],
) -> None:
    """Write the addresses of arrays from a byte on, then a word of each code: which scalar, how."""
    kinds = ["q"] * len(arrays) + ["q" if code & 3 == WHOLE else "d" for code in codes]
    found = [word_of(scalars[code >> 2], code & 3) for code in codes]
    struct.pack_into("".join(kinds), words, start, *map(address, arrays), *found)


def word_of(value: Any, how: int) -> float | int:
    """A scalar as it is packed."""
    if how == WHOLE:
        number = int(value)
        return number - (1 << 64) if number >= 1 << 63 else number
    if how == REAL:
        return float(value)
    return float(value.real if how == REAL_PART else value.imag)


_module = None if config.compile == "never" else extension("runtime/native/c_job")
fill: Callable[[memoryview, int, list[Any], Sequence[Any], list[int]], None] = (
    in_python if _module is None else _module.fill
)


def call_directly(functions: Any) -> None:
    """Let `alone` and `together` be called without `ctypes`, which takes longer than many tasks."""
    if _module is not None:
        found = (functions.alone, functions.together)
        _module.use(*(ctypes.cast(function, ctypes.c_void_p).value for function in found))
        functions.alone, functions.together = _module.alone, _module.together


class InC(NamedTuple):
    """What C does for a job that is run again."""

    take: Callable[..., Any]
    """Take memory and fill the words."""
    give: Callable[..., Any]
    """Make the tables of values in one array each."""
    run: Callable[..., Any]
    """Both, and run the job between."""


def in_c(*given: Any) -> InC | None:
    """None without C. `given`: the classes of buffers and tables, and how slabs are taken in C."""
    if _module is None or given[-1] is None:
        return None
    _module.install(*given)
    return InC(_module.take, _module.give, _module.run)

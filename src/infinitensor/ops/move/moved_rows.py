"""Rows of host arrays moved in one call of C, on all cores: `moved_rows.c`.

Each function answers False or None where it has done nothing that counts: without the C file, for
arrays that are not in C order or not of one dtype, and where an index is out of bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.config import config
from infinitensor.native import extension
from infinitensor.threads import number_address, share_address

if TYPE_CHECKING:
    import numpy as np


def join(arrays: list[Any], axis: int, is_new: bool, most: int) -> Any:
    """Arrays joined along an axis, one that is new or not: a new array.

    The shape that it would have, where that is more than so many elements. None for arrays that are
    not in C order, not of one dtype, or do not fit.
    """
    return None


def join_into(arrays: list[Any], axis: int, out: np.ndarray) -> bool:
    """Whether arrays were joined along an axis, one of theirs or a new one, into `out`."""
    return False


def take(x: np.ndarray, index: np.ndarray, axis: int, out: np.ndarray) -> bool:
    """Whether `out` was filled by the rows of an axis at the indices."""
    return False


def take_along(x: np.ndarray, index: np.ndarray, axis: int, out: np.ndarray) -> bool:
    """Whether `out[...] = np.take_along_axis(x, index, axis)` was done."""
    return False


def add_at(out: np.ndarray, index: np.ndarray, rows: np.ndarray) -> bool:
    """Whether `np.add.at(out, index, rows)` was done; if not, `out` is as it was."""
    return False


def _in_c() -> None:
    global join, join_into, take, take_along, add_at
    module = None if config.compile == "never" else extension("ops/move/moved_rows")
    if module is None:
        return
    module.use(share_address(), number_address())
    join, join_into, add_at = module.join, module.join_into, module.add_at
    take, take_along = module.take, module.take_along


_in_c()

"""Kernels over a block of rows with few columns: products with a small matrix, and sums over rows.

The numbers of columns are constants of the source, so that what is summed stays in registers.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from infinitensor.dtypes import HALVES
from infinitensor.tasking.c.expressions import Unsupported, c_type
from infinitensor.tasking.c.loops import header

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


class RowWalk(NamedTuple):
    """How many rows a call gets, and the strides of all it reads and writes; as a `Walk`."""

    n_rows: int
    steps: Any
    n: int = 0
    n_outer: int = 0
    shape: Any = (ctypes.c_int64 * 1)()
    folded: Any = (ctypes.c_int64 * 1)()
    n_same: int = 1


class RowKernel:
    """A kernel of a family over rows, as `Compiled` is one: of arrays alone, with one output."""

    def __init__(self, source: str, n_operands: int) -> None:
        self.source = source
        self.scalars: list[int] = []
        self.arrays = list(range(n_operands))
        self.n_plain = n_operands + 1

    def pack(self, values: list[Any]) -> bytes:
        """It has no scalars."""
        return b""

    def walk(self, tiles: Sequence[np.ndarray], shape: tuple[int, ...]) -> RowWalk:
        """The steps of arrays with these strides."""
        strides = [step for tile in tiles for step in (*tile.strides, 0)[:2]]
        return RowWalk(shape[0], (ctypes.c_int64 * len(strides))(*strides))


@lru_cache(256)
def multiplied(
    a: np.dtype[Any], b: np.dtype[Any], dtype: np.dtype[Any], n: int, m: int
) -> RowKernel:
    """`out = x @ y` where rows of x have n elements, and y has m columns."""
    return RowKernel(_source("times.h", a, b, dtype, n, m, a == dtype), 2)


@lru_cache(256)
def added_product(
    a: np.dtype[Any], b: np.dtype[Any], dtype: np.dtype[Any], n: int, m: int
) -> RowKernel:
    """`out += x.T @ y` where x has n columns and y has m."""
    return RowKernel(_source("added.h", a, b, dtype, n, m, b == dtype), 2)


@lru_cache(256)
def summed_rows(a: np.dtype[Any], dtype: np.dtype[Any], n: int) -> RowKernel:
    """`out += x` for every row of n elements, one after another."""
    return RowKernel(_source("summed.h", a, a, dtype, n, n, a == dtype), 1)


def _source(
    name: str,
    a: np.dtype[Any],
    b: np.dtype[Any],
    dtype: np.dtype[Any],
    n: int,
    m: int,
    is_same: bool,
) -> str:
    if not {a, b, dtype}.isdisjoint(HALVES):
        raise Unsupported(f"products of {a} and {b}")
    left, right = c_type(a), c_type(b)
    constants = {"T": c_type(dtype), "A": left, "N": n, "M": m, "IS_SAME": int(is_same)}
    return "\n".join(
        [
            "#include <stdint.h>",
            *(f"#define {key} {value}" for key, value in constants.items()),
            header("products.h"),
            *(f"READS({kind})" for kind in dict.fromkeys((left, right))),
            f"#define READ_A read_{left}",
            f"#define READ_B read_{right}",
            header(name),
        ]
    )

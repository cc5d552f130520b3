"""Sums and moments of NumPy arrays in the order that generated code has (`fold_order.py`), by C."""

from __future__ import annotations

import ctypes
import warnings
from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.native import NO_COMPILER, CompilerError, address, fixed_library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

C_TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
"""What numbers are added up in; integers may be added in any order."""


FUNCTIONS = ("sum_lines", "add_lines", "moments_of_lines", "moments_of_rows")
"""Of the C file, for either."""


class FoldWalk(NamedTuple):
    """How an array is walked: axes as `folds.c` takes them, and what is made of it."""

    axes: tuple[Any, ...]
    is_along: bool
    shape: tuple[int, ...]
    """Of the result; where the line is kept, it is the last."""
    place: int
    """Where it belongs, counted from the last."""


def can_fold(dtype: np.dtype[Any]) -> bool:
    """Whether C adds up numbers of a dtype."""
    return dtype in C_TYPES and _library() is not None


def sums(x: np.ndarray, axes: Sequence[int], line: tuple[int, ...]) -> np.ndarray:
    """The sums over some axes; those of a line (`line_axes`) are counted from the last."""
    walk = _walk(x.shape, x.strides, tuple(axes), line)
    out = np.empty(walk.shape, x.dtype)
    name = "sum_lines" if walk.is_along else "add_lines"
    _function(name, x.dtype)(address(x), *walk.axes, address(out))
    return out if walk.place == -1 else np.moveaxis(out, -1, walk.place)


def moments(
    x: np.ndarray, axes: Sequence[int], line: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Likewise the means, and the sums of squared distances from them."""
    walk = _walk(x.shape, x.strides, tuple(axes), line)
    mean, squares = np.empty(walk.shape, x.dtype), np.empty(walk.shape, x.dtype)
    name = "moments_of_lines" if walk.is_along else "moments_of_rows"
    _function(name, x.dtype)(address(x), *walk.axes, address(mean), address(squares))
    if walk.place == -1:
        return mean, squares
    return np.moveaxis(mean, -1, walk.place), np.moveaxis(squares, -1, walk.place)


def fold_addresses() -> tuple[int, ...]:
    """The addresses of the functions of C for float32, then for float64; 0 without."""
    if _library() is None:
        return (0,) * (len(FUNCTIONS) * len(C_TYPES))
    found = [_function(name, dtype) for dtype in C_TYPES for name in FUNCTIONS]
    return tuple(ctypes.cast(one, ctypes.c_void_p).value or 0 for one in found)  # type: ignore[arg-type]


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return fixed_library("ops/forms/folds")
    except CompilerError as error:  # nor is anything generated then
        if NO_COMPILER not in str(error):
            warnings.warn(f"{error}; sums run over NumPy's words", RuntimeWarning, stacklevel=4)
        return None


@cache
def _function(name: str, dtype: np.dtype[Any]) -> Callable[..., None]:
    function: Any = getattr(_library(), f"{name}_{C_TYPES[dtype]}")
    function.restype = None
    function.argtypes = [ctypes.c_void_p] * (6 if "moments" in name else 5)
    return function  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)
def _walk(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    axes: tuple[int, ...],
    line: tuple[int, ...],
) -> FoldWalk:
    along = [len(shape) + axis for axis in line]
    kept = [a for a in range(len(shape)) if a not in axes and a not in along]
    reduced = [a for a in axes if a not in along]
    made = [shape[a] for a in kept]
    is_along = along[-1] in axes
    place = -1
    if not is_along:
        place = -1 - sum(a > along[-1] for a in kept)
        made.append(shape[along[-1]])
    parts = (_join_axes(shape, strides, some) for some in (kept, reduced, along))
    return FoldWalk(tuple(parts), is_along, tuple(made), place)


def _join_axes(shape: tuple[int, ...], strides: tuple[int, ...], axes: Sequence[int]) -> Any:
    """Axes as C takes them; neighbours that can be walked as one are."""
    found: list[list[int]] = []
    for a in axes:
        n, step = shape[a], strides[a]
        if n == 1 and (found or a != axes[-1]):
            continue
        if found and found[-1][1] == n * step:
            found[-1] = [found[-1][0] * n, step]
        else:
            found.append([n, step])
    numbers = [len(found), prod(shape[a] for a in axes)]
    numbers += [n for n, _ in found] + [step for _, step in found]
    return (ctypes.c_int64 * len(numbers))(*numbers)

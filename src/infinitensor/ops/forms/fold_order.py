"""The order in which floating-point numbers are added up on CPUs: it depends on shapes alone.

One loop goes along a line: an axis, or several. If it is reduced, an element of it goes to the lane
of its index, lanes are added in a tree (`sums.h`), and blocks of 1024 elements, line after line,
with what their additions round away. If it is kept, lines are added element by element, one after
another.
Kernels of ops (`folds.py`) and generated code both go by it, so that what a group computes does not
depend on whether it is compiled.
"""

from __future__ import annotations

from math import prod

LEAST_ROW = 16
"""Elements of a row from which a loop over it is worth its beginning and end."""
SHORT_ROW_ELEMENTS = 64
"""Rows are short that have fewer elements."""


def has_short_rows(shape: tuple[int, ...]) -> bool:
    """Whether the last of several axes is short."""
    return len(shape) > 1 and 1 < shape[-1] < SHORT_ROW_ELEMENTS


def is_short(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether what is computed on a shape, and then reduced along some axes (counted from the
    last), is computed on many rows at once.

    >>> is_short((1000, 3), ()), is_short((1000, 3), (-1,)), is_short((1000, 3), (-2,))
    (True, True, False)
    """
    return has_short_rows(shape) and axes in ((), (-1,))


def adds_short_rows(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether short rows are reduced element by element, one after another: several of them may be
    computed at once before.

    >>> adds_short_rows((1000, 20), (-2,)), adds_short_rows((1000, 3), (-2,))
    (True, False)
    """
    return has_short_rows(shape) and -1 not in axes and line_axes(shape, axes) == (-1,)


def line_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of the inner loop where some are reduced, counted from the last: the last one that
    is not short, or that many rows can be. Reduced neighbours of a short one are one line with it.

    >>> line_axes((4, 100), ()), line_axes((50, 40, 3), (-2,)), line_axes((50, 40, 3), (-1,))
    ((-1,), (-2,), (-1,))
    >>> line_axes((50, 40, 3), (-2, -1)), line_axes((50, 100), (-2, -1))
    ((-2, -1), (-1,))
    """
    if is_short(shape, axes):
        return (-1,)
    for last in range(-1, -len(shape) - 1, -1):
        line = _line_to(last, shape, axes)
        if prod(shape[axis] for axis in line) >= LEAST_ROW:
            return line
    return (-1,)


def _line_to(last: int, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """An axis and, where it is short and reduced, reduced ones in front of it."""
    line: tuple[int, ...] = (last,)
    if last in axes and shape[last] < SHORT_ROW_ELEMENTS:
        for axis in range(last - 1, -len(shape) - 1, -1):
            if axis in axes:
                line = (axis, *line)
            elif shape[axis] != 1:
                break
    return line

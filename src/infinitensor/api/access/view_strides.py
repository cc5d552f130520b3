"""Views of views: NumPy itself says what an index, a transpose or a reshape does to strides."""

from __future__ import annotations

import operator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from infinitensor.ir.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

_byte = np.zeros(1, np.int8)


def through(view: View, change: Callable[[np.ndarray], np.ndarray]) -> View:
    """The view that `change` makes of a view, by letting NumPy change an array with its strides.

    The array has one-byte elements and is never read, so strides count elements and the change of
    its address is the change of the offset.
    """
    ghost = as_strided(_byte, view.shape, view.strides)
    seen = change(ghost)
    if isinstance(seen, np.generic):
        seen = ghost  # what NumPy makes of a 0-d array that it leaves as it is
    offset = seen.__array_interface__["data"][0] - ghost.__array_interface__["data"][0]
    if 0 in seen.shape:
        offset = 0
    most = prod(view.base_shape)  # a step like 2**62 of one element leads beyond it
    strides = tuple(
        step if n > 1 or -most <= step <= most else 1
        for n, step in zip(seen.shape, seen.strides, strict=True)
    )
    return View(view.base_shape, seen.shape, view.offset + offset, strides, view.part)


@lru_cache(maxsize=4096)
def _change_view(view: View, change: Callable[..., np.ndarray], *given: Any) -> View:
    n, *names = given[-1]
    args, named = given[:n], dict(zip(names, given[n:-1], strict=True))
    return through(view, lambda ghost: change(ghost, *args, **named))


def change_view(view: View, change: Callable[..., np.ndarray], *args: Any, **named: Any) -> View:
    """The view that a function of NumPy makes of a view; it is asked once for the same numbers."""
    given = (*args, *named.values())
    if all(map(_is_plain, given)):
        return _change_view(view, change, *given, (len(args), *named))
    return through(view, lambda ghost: change(ghost, *args, **named))


def _is_plain(value: Any) -> bool:
    """Whether it is no number, an integer, or some: what is equal to them may be refused."""
    if type(value) is tuple:
        return all(type(n) is int for n in value)
    return value is None or type(value) is int


def basic(view: View, index: Any) -> View:
    """The view of a basic index (integers, slices, None, ...) of a view; NumPy's errors."""
    items = index if isinstance(index, tuple) else (index,)
    seen = of_integers_and_slices(view, items)
    if seen is not None:
        return seen
    if not any(item is Ellipsis for item in items):
        items = (*items, Ellipsis)  # else NumPy gives a scalar, not a view, for a full index
    # an array without axes is an integer, but NumPy copies what it selects
    items = tuple([operator.index(i) if isinstance(i, np.ndarray) else i for i in items])
    return through(view, lambda ghost: ghost[items])


def of_integers_and_slices(view: View, items: tuple[Any, ...]) -> View | None:
    """The common case without NumPy, a tenth of the time; None for any other, errors too.

    That is integers, slices, new axes and what `...` leaves as it is.
    """
    base_shape, lengths, offset, steps, part = view
    n_axes = len(lengths)
    shape = []
    strides = []
    axis = 0
    for at, item in enumerate(items):
        if item is None:
            shape.append(1)
            strides.append(0)
            continue
        if item is Ellipsis:
            behind = items[at + 1 :]
            if any([other is Ellipsis for other in behind]):
                return None
            kept = n_axes - axis - len(behind) + sum([other is None for other in behind])
            if kept < 0:
                return None
            shape += lengths[axis : axis + kept]
            strides += steps[axis : axis + kept]
            axis += kept
            continue
        if axis == n_axes:
            return None
        length, stride = lengths[axis], steps[axis]
        axis += 1
        if type(item) is int:
            if not -length <= item < length:
                return None
            offset += (item + length if item < 0 else item) * stride
        elif type(item) is slice:
            try:
                start, stop, step = item.indices(length)
            except TypeError:  # another item may be worse
                return None
            kept = len(range(start, stop, step))
            if not kept:
                return None
            offset += start * stride
            shape.append(kept)
            strides.append(step * stride if -length <= step <= length else stride)
        else:
            return None
    return View(base_shape, (*shape, *lengths[axis:]), offset, (*strides, *steps[axis:]), part)


@lru_cache(maxsize=4096)
def reshaped(view: View, shape: tuple[int, ...]) -> View | None:
    """The reshape of a view, or None where NumPy would copy."""
    try:
        return through(view, lambda ghost: ghost.reshape(shape, copy=False))
    except ValueError:
        return None


def tight(shape: tuple[int, ...]) -> str:
    """A shape as NumPy writes it in its errors."""
    return "(" + ",".join(str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"

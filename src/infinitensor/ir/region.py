"""Boxes: the regions that dependence, tiles and moves are counted in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Box: TypeAlias = tuple[tuple[int, int], ...]
"""Half-open ranges, one per axis."""
Cuts: TypeAlias = tuple[tuple[int, ...], ...]
"""Per axis the borders of its pieces, 0 first and the size last; (0, 0) for an empty axis."""


def whole_box(shape: Sequence[int]) -> Box:
    """The box of a whole tensor."""
    return tuple((0, n) for n in shape)


def box_shape(box: Box) -> tuple[int, ...]:
    """Lengths of a box."""
    return tuple(hi - lo for lo, hi in box)


def box_size(box: Box) -> int:
    """Elements in a box."""
    return prod(hi - lo for lo, hi in box)


def overlap(a: Box, b: Box) -> Box | None:
    """The common part, or None where there is no element in it.

    >>> overlap(((0, 4), (2, 5)), ((3, 9), (0, 3)))
    ((3, 4), (2, 3))
    """
    common = []
    for (alo, ahi), (blo, bhi) in zip(a, b, strict=True):
        lo, hi = max(alo, blo), min(ahi, bhi)
        if lo >= hi:
            return None
        common.append((lo, hi))
    return tuple(common)


def relative(box: Box, origin: Box) -> tuple[slice, ...]:
    """The slices that take `box` out of an array that holds `origin`."""
    return tuple(slice(lo - at, hi - at) for (lo, hi), (at, _) in zip(box, origin, strict=True))


def pick_in_tile(
    box: Box, steps: tuple[int, ...], tile: Box
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Of every so many elements of a box, those in a tile: as slices of what is picked, and of the
    array that both are in. None where there are none.

    >>> pick_in_tile(((1, 9),), (3,), ((4, 8),))
    ((slice(1, 3, None),), (slice(4, 8, 3),))
    """
    there, here = [], []
    for (lo, hi), step, (start, stop) in zip(box, steps, tile, strict=True):
        first = lo - (lo - start) // step * step if start > lo else lo
        end = min(hi, stop)
        if first >= end:
            return None
        there.append(slice((first - lo) // step, -(-(end - lo) // step)))
        here.append(slice(first, end, step))
    return tuple(there), tuple(here)


def cut_evenly(size: int, step: int) -> tuple[int, ...]:
    """Borders of pieces of `step`, the last one shorter.

    >>> cut_evenly(7, 3), cut_evenly(0, 3)
    ((0, 3, 6, 7), (0, 0))
    """
    return (*range(0, size, step), size) if size else (0, 0)


def grid_shape(cuts: Cuts) -> tuple[int, ...]:
    """How many pieces each axis has."""
    return tuple(len(axis) - 1 for axis in cuts)


def boxes_of(cuts: Cuts) -> Iterator[Box]:
    """Every tile's box, in C order."""
    return product(*(tuple(pairwise(axis)) for axis in cuts))


def tile_box(cuts: Cuts, index: int) -> Box:
    """The box of the tile with this flat (C-order) index."""
    box = []
    for axis in reversed(cuts):
        index, i = divmod(index, len(axis) - 1)
        box.append((axis[i], axis[i + 1]))
    return tuple(reversed(box))


def tiles_over(cuts: Cuts, box: Box) -> list[int]:
    """Flat indices of the tiles that share elements with `box`, in C order.

    >>> tiles_over(((0, 2, 4), (0, 3, 6)), ((1, 3), (3, 5)))
    [1, 3]
    """
    flat = [0]
    for axis, (lo, hi) in zip(cuts, box, strict=True):
        if lo >= hi:
            return []
        first = bisect_right(axis, lo) - 1
        last = bisect_left(axis, hi)
        n = len(axis) - 1
        flat = [f * n + i for f in flat for i in range(first, last)]
    return flat


def piece_boxes(cuts: Cuts, labels: Sequence[int | None], tail: tuple[int, ...]) -> np.ndarray:
    """The box that each piece of the grid of `cuts` has over some of its labels, then a tail."""
    grid = grid_shape(cuts)
    n = prod(grid)
    boxes = np.empty((*grid, len(labels) + len(tail), 2), np.int64)
    for axis, label in enumerate(labels):
        if label is None:
            boxes[..., axis, :] = (0, 1)
            continue
        shape = [1] * len(grid)
        shape[label] = grid[label]
        borders = np.asarray(cuts[label], np.int64)
        boxes[..., axis, 0] = borders[:-1].reshape(shape)
        boxes[..., axis, 1] = borders[1:].reshape(shape)
    for k, length in enumerate(tail):
        boxes[..., len(labels) + k, :] = (0, length)
    return boxes.reshape(n, len(labels) + len(tail), 2)

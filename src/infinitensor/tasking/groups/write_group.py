"""Plain writes: the part of a view that falls into one tile."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from infinitensor.ir.region import Box
    from infinitensor.ir.view import Access


class Place(NamedTuple):
    """The place of a box of a view in an array, and how a value is transposed to its axes.

    Base axes are walked forwards; where the view walks backwards the value is flipped instead,
    because torch has no negative steps.
    """

    at: tuple[Any, ...]
    part: str
    flips: tuple[int, ...]
    kept: tuple[Any, ...] | None
    """The axes of the value that the base has; None: all."""
    order: tuple[int, ...] | None
    """The permutation of the value's axes to the base's order; None: as they are."""

    def put(self, array: Any, value: Any) -> None:
        """Write an array of the box's shape, or a scalar."""
        target = array
        if self.part:
            target = array.real if self.part == "real" else array.imag
        if np.ndim(value):
            if self.flips:
                is_numpys = isinstance(value, np.ndarray)
                value = np.flip(value, self.flips) if is_numpys else value.flip(self.flips)
            if self.kept is not None:
                value = value[self.kept]
            if self.order is not None:
                is_numpys = isinstance(value, np.ndarray)
                value = value.transpose(self.order) if is_numpys else value.permute(self.order)
        elif isinstance(value, np.generic) and not isinstance(array, np.ndarray):
            value = value.item()
        target[self.at] = value


def place(access: Access, box: Box, origin: Box) -> Place:
    """The part of an array, which holds `origin` of the base, that a box of the view names."""
    index: list[Any] = [at - lo for at, (lo, _) in zip(access.fixed, origin, strict=True)]
    flips = []
    bases = []
    for v, (walked, (lo, hi)) in enumerate(zip(access.axes, box, strict=True)):
        if walked is None:
            continue
        base, start, step = walked
        ends = (start + step * lo - origin[base][0], start + step * (hi - 1) - origin[base][0])
        index[base] = slice(min(ends), max(ends) + 1, abs(step))
        bases.append(base)
        if step < 0:
            flips.append(v)
    kept = None
    if len(bases) < len(access.axes):
        kept = tuple([slice(None) if walked is not None else 0 for walked in access.axes])
    order = None
    if any([a > b for a, b in pairwise(bases)]):
        order = tuple(sorted(range(len(bases)), key=bases.__getitem__))
    return Place(tuple(index), access.part, tuple(flips), kept, order)


def put(array: Any, access: Access, box: Box, origin: Box, value: Any) -> None:
    """Write `value` (an array of the box's shape, or a scalar) to what a box of the view names."""
    place(access, box, origin).put(array, value)

"""Plain writes: the part of a view that falls into one tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from infinitensor.ir.region import Box
    from infinitensor.ir.view import Access


def put(array: Any, access: Access, box: Box, origin: Box, value: Any) -> None:
    """Write `value` (an array of the box's shape, or a scalar) to what a box of the view names.

    Base axes are walked forwards; where the view walks backwards the value is flipped instead,
    because torch has no negative steps.
    """
    index: list[Any] = [at - lo for at, (lo, _) in zip(access.fixed, origin, strict=True)]
    flips = []
    order = []
    for v, (walked, (lo, hi)) in enumerate(zip(access.axes, box, strict=True)):
        if walked is None:
            continue
        base, start, step = walked
        ends = (start + step * lo - origin[base][0], start + step * (hi - 1) - origin[base][0])
        index[base] = slice(min(ends), max(ends) + 1, abs(step))
        order.append(base)
        if step < 0:
            flips.append(v)
    target = array
    if access.part:
        target = array.real if access.part == "real" else array.imag
    if np.ndim(value):
        if flips:
            value = (
                np.flip(value, tuple(flips)) if isinstance(value, np.ndarray) else value.flip(flips)
            )
        value = value[tuple(slice(None) if walked is not None else 0 for walked in access.axes)]
        if order:
            rank = np.argsort(order, kind="stable").tolist()
            value = value.transpose(rank) if isinstance(value, np.ndarray) else value.permute(rank)
    elif isinstance(value, np.generic) and not isinstance(array, np.ndarray):
        value = value.item()
    target[tuple(index)] = value

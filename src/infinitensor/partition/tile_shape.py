"""Tile shapes: a pure function of a shape and a bound, so that equal shapes get equal tiles."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinitensor.ir.mesh import Mesh

LEAF_ELEMENTS = {"cpu": 1 << 17, "null": 1 << 17, "cuda": 1 << 26}
"""Reductions round in leaves of this many elements; larger tiles are unions of leaves."""


SHORT_KEPT_LENGTH = 512
"""Length to which a contraction's kept labels are cut before its contracted ones are."""


def wanted_pieces(mesh: Mesh) -> int:
    """Pieces wanted at least: two for each worker on CPUs (for balance), else one a device."""
    return max(mesh.n_devices, 2 * mesh.workers) if mesh.kind != "cuda" else mesh.n_devices


def floor_power(n: int) -> int:
    """The largest power of two that is at most n (n >= 1)."""
    return 1 << (n.bit_length() - 1)


@lru_cache(maxsize=4096)
def tile_shape(shape: tuple[int, ...], bound: int) -> tuple[int, ...]:
    """The tile of at most `bound` elements that follows C order: trailing axes whole, one axis cut
    by a power of two, leading axes by one.

    Tiles of a larger bound are unions of tiles of a smaller one.

    >>> tile_shape((1000, 300), 2048), tile_shape((1000, 300), 7)
    ((4, 300), (1, 4))
    """
    left = max(bound, 1)
    tile = [1] * len(shape)
    for axis in range(len(shape) - 1, -1, -1):
        n = max(shape[axis], 1)
        if n <= left:
            tile[axis] = n
            left //= n
        else:
            tile[axis] = floor_power(left)
            left = 1
    return tuple(tile)


def bound_for(n_elements: int, default: int, given: int, n_parts: int, leaf: int) -> int:
    """The tile bound of an op over `n_elements`: what the user gave, or the device's default, less
    (but never less than a leaf) where there would be too few tiles for every device and worker."""
    if given:
        return given
    if n_parts <= 1:
        return default
    share = max(n_elements // max(n_parts, 1), 1)
    return max(leaf, min(default, floor_power(share)))


def halve_until(
    lengths: list[int],
    volumes: list[tuple[int, ...]],
    bound: int,
    first: list[int],
    free: list[int],
) -> None:
    """Shorten the longest label of the largest volume until each volume is within `bound`.

    `volumes` lists the labels of each operand; only labels in `free` are shortened. In place.
    """
    while True:
        over = [v for v in volumes if prod(lengths[label] for label in v) > bound]
        if not over:
            return
        widest = max(over, key=lambda v: prod(lengths[label] for label in v))
        choices = [
            label for label in widest if label in first and lengths[label] > SHORT_KEPT_LENGTH
        ]
        choices = choices or [label for label in widest if label in free and lengths[label] > 1]
        if not choices:
            volumes = [v for v in volumes if v is not widest]
            continue
        label = max(choices, key=lambda c: (lengths[c], -c))
        lengths[label] = floor_power(lengths[label] - 1)

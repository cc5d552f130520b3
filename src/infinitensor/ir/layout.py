"""Layouts: how one tensor is cut into tiles, and which device owns each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.region import box_size, boxes_of, grid_shape, tile_box, tiles_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.ir.region import Box, Cuts

HOST = -1
"""The owner of tiles in host memory, beside the devices."""
DISK = -2
"""The owner of tiles in files: no kernel reads them there."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Tiles by cut points, uneven if need be, each owned by one device.

    `owners[i]` is the device of tile i in C order; where one owns all it is there once.
    """

    cuts: Cuts
    owners: tuple[int, ...]

    def __post_init__(self) -> None:
        # one form for one layout: plans are found by it
        if len(self.owners) > 1 and self.owners.count(self.owners[0]) == len(self.owners):
            object.__setattr__(self, "owners", self.owners[:1])

    @cached_property
    def _hash(self) -> int:
        return hash((self.cuts, self.owners))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Layout) or self._hash != other._hash:
            return False
        return self.cuts == other.cuts and self.owners == other.owners

    @cached_property
    def is_in_lower_tier(self) -> bool:
        """Whether some of its tiles are on the host or in files, not on a device."""
        return min(self.owners) < 0

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """Tiles along each axis."""
        return grid_shape(self.cuts)

    @cached_property
    def n_tiles(self) -> int:
        """Tiles in all."""
        return prod(self.grid)

    @cached_property
    def owner_array(self) -> np.ndarray:
        """Owner of each tile."""
        if len(self.owners) == 1:
            return np.full(self.n_tiles, self.owners[0], np.int16)
        return np.asarray(self.owners, np.int16)

    def tile(self, index: int) -> Box:
        """The box of a tile."""
        return tile_box(self.cuts, index)

    @cached_property
    def slices(self) -> tuple[tuple[slice, ...], ...]:
        """The index of each tile in an array of all of them."""
        return tuple(
            tuple(slice(lo, hi) for lo, hi in self.tile(index)) for index in range(self.n_tiles)
        )

    def owner(self, index: int) -> int:
        """The device of a tile."""
        return self.owners[0] if len(self.owners) == 1 else self.owners[index]

    def box(self, device: int) -> Box | None:
        """The hull of what a device holds; None if it holds nothing."""
        held = [b for i, b in enumerate(boxes_of(self.cuts)) if self.owner(i) == device]
        if not held:
            return None
        return tuple(
            (min(b[a][0] for b in held), max(b[a][1] for b in held)) for a in range(len(self.cuts))
        )

    def overlaps(self, region: Box) -> Iterator[tuple[int, Box]]:
        """Tiles that share elements with a region, with their boxes."""
        for index in tiles_over(self.cuts, region):
            yield index, self.tile(index)

    def elements_on(self, device: int) -> int:
        """Elements a device holds."""
        return sum(
            box_size(b) for i, b in enumerate(boxes_of(self.cuts)) if self.owner(i) == device
        )

    def __str__(self) -> str:
        pieces = "×".join(str(n) for n in self.grid) or "1"
        devices = sorted(set(self.owners))
        names = ",".join(place_name(d) for d in devices)
        return f"{pieces} tile{'s' if self.n_tiles != 1 else ''} on {names}"


def place_name(owner: int) -> str:
    """An owner for people.

    >>> place_name(0), place_name(HOST), place_name(DISK)
    ('0', 'host', 'disk')
    """
    return {HOST: "host", DISK: "disk"}.get(owner) or str(owner)


@lru_cache(maxsize=4096)
def single(shape: tuple[int, ...], owner: int) -> Layout:
    """One tile on one device."""
    return Layout(tuple((0, n) for n in shape), (owner,))

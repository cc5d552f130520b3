"""Facts of a serial order before it is walked: when each tile is used, what can be read or
made again and for how many seconds, what is read from lower tiers, and what of that may stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.layout import DISK
from infinitensor.ir.tasks import LOAD
from infinitensor.memory.residency import staying
from infinitensor.memory.uses import FOREVER
from infinitensor.price import tier_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.tasks import Family
    from infinitensor.memory.uses import Uses


class Foresight:
    """An order of tasks, seen as a whole. `ahead`: slots that a GPU reads into beside what it
    computes with; None: all there is, and nothing stays."""

    def __init__(
        self, uses: Uses, order: np.ndarray, n_devices: int, mesh: Mesh, ahead: int | None
    ) -> None:
        self.uses = uses
        self.graph = uses.graph
        self.mesh = mesh
        self.order: list[int] = order.tolist()
        self.tile_bytes: list[int] = uses.tile_bytes.tolist()
        rank = np.full(self.graph.n_tasks, -1, np.int64)
        rank[order] = np.arange(len(order))
        at = rank[uses.users]
        tiles = np.repeat(np.arange(self.graph.n_tiles), np.diff(uses.user_borders))
        self.at: list[int] = at[np.lexsort((at, tiles))].tolist()
        """When in the order tiles are used: those of a tile stand from `first` to `end`."""
        self.first: list[int] = uses.user_borders[:-1].tolist()
        self.end: list[int] = uses.user_borders[1:].tolist()
        touched, borders = uses.tiles_by_task()
        self._touched: list[int] = touched.tolist()
        self._touched_at: list[int] = borders.tolist()
        self.is_held: list[bool] = (uses.last_use == FOREVER).tolist()
        self.again: dict[int, float] = {}
        """Tiles that a task makes from nothing that has to be kept: seconds to make them again."""
        self.from_lower_tier: set[int] = set()
        """The tiles that are read from a lower tier."""
        self._find_again()
        self.last_streamed = max(
            (self.at[self.end[tile] - 1] for tile in self.from_lower_tier), default=-1
        )
        """When the last of them is read."""
        self.is_streamed = mesh.kind == "cuda" and bool(self.from_lower_tier)
        """Whether a GPU reads from a lower tier while it computes: there one task runs at a
        time."""
        self.stays = {} if ahead is None else staying(uses, sorted(self.from_lower_tier))
        """Of tiles that may stay when this is over: bytes of all that stay before, and of it."""
        self.ring = dict.fromkeys(range(n_devices), 0)
        """Bytes of slots for what is computed with, and what is read meanwhile."""
        self._find_ring(ahead)

    def touched(self, task: int) -> set[int]:
        """The tiles that a task reads and writes."""
        return set(self._touched[self._touched_at[task] : self._touched_at[task + 1]])

    def _find_again(self) -> None:
        changed: set[int] = set()
        for family in self.graph.families:
            if family.updates:
                changed.update(family.writes[0].tolist())
        for family in self.graph.families:
            if family.updates or len(family.writes) != 1:
                continue
            if any((self.uses.devices[tiles] >= 0).any() for _, tiles in family.read()):
                continue
            for tile in family.writes[0].tolist():
                if tile not in changed and not self.uses.in_piece[tile]:
                    self.again[tile] = self._seconds(family, tile)
                    if family.lane == LOAD:
                        self.from_lower_tier.add(tile)

    def _seconds(self, family: Family, tile: int) -> float:
        if family.lane != LOAD:
            return family.seconds
        assert family.many is not None
        is_disk = bool((self.uses.devices[family.many[1]] == DISK).any())
        return tier_seconds(self.tile_bytes[tile], is_disk, self.mesh)

    def _find_ring(self, ahead: int | None) -> None:
        """Slots of the largest tile that may stay; on a GPU of the size most bytes are read in."""
        n_slots = 2 * self.mesh.n_concurrent + 1
        if self.is_streamed and ahead is not None:
            n_slots = ahead
        by_size: dict[tuple[int, int], int] = {}
        for tile in self.stays:
            key = (int(self.uses.devices[tile]), self.tile_bytes[tile])
            by_size[key] = by_size.get(key, 0) + key[1]
        # the end of the array is what is left
        for device, n_bytes in sorted(
            by_size, key=lambda key: by_size[key] if self.is_streamed else key[1]
        ):
            self.ring[device] = n_slots * n_bytes

    def room_ahead(
        self, limits: Sequence[int], is_external: bytearray, slots: Sequence[int]
    ) -> dict[int, int]:
        """Bytes of each device that tiles not read from a lower tier leave where they take most.

        `slots` are those that tiles have before the first task: the tiles of leaves.
        """
        uses, n = self.uses, len(self.order)
        is_held = np.frombuffer(is_external, np.bool_)
        is_other = (np.diff(uses.user_borders) > 0) & (uses.devices >= 0)
        is_other[list(self.from_lower_tier)] = False
        tiles = np.flatnonzero(is_other & ~is_held)
        at = np.asarray(self.at, np.int64)
        begins = at[uses.user_borders[tiles]]
        begins[np.asarray(slots)[tiles] >= 0] = 0
        ends = np.where(uses.last_use[tiles] == FOREVER, n, at[uses.user_borders[tiles + 1] - 1])
        begins += np.isin(tiles, self._taking_over())
        room = {}
        for device, limit in enumerate(limits):
            here = uses.devices[tiles] == device
            sizes = uses.tile_bytes[tiles[here]]
            change = np.bincount(begins[here], sizes, minlength=n + 2)
            change -= np.bincount(ends[here] + 1, sizes, minlength=n + 2)
            held = int(uses.tile_bytes[is_held & (uses.devices == device)].sum())
            room[device] = limit - held - int(change.cumsum().max())
        return room

    def _taking_over(self) -> list[int]:
        """Tiles that take the memory of one that is used last where they are made."""
        return [
            int(tile)
            for family in self.graph.families
            if family.in_place and family.reads and not family.reads[0].scalar
            for before, tile in zip(family.reads[0].tiles, family.writes[0], strict=True)
            if before >= 0 and self.end[before] - self.first[before] == 2
        ]

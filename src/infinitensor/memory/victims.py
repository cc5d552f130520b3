"""Which tiles are evicted first: those that cost least for the room that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infinitensor.price import tier_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.ir.mesh import Mesh
    from infinitensor.memory.foresight import Foresight

RECENT = 4
"""Tasks for each worker within which a tile was used just now: a load that takes its place would
wait for them."""
WAIT = 3
"""The cost of such a wait, as a factor of the cost of the eviction."""


class Victims:
    """The cost of evicting each tile at one point of a walk over tasks in a serial order.

    That is the seconds to write it, if no lower tier has it, and to bring it back or make it again,
    over the number of tasks until it is used next. Tiles that are pinned are not evicted.
    """

    def __init__(self, known: Foresight, n_devices: int, mesh: Mesh) -> None:
        n = known.graph.n_tiles
        self.recent = RECENT * mesh.n_concurrent
        self.pinned: set[int] = set()
        self.used_at = np.full(n, -1, np.int64)
        """Tile -> when it was used last."""
        self.is_here = [np.zeros(n, np.bool_) for _ in range(n_devices)]
        """By device: the tiles there that could be evicted."""
        self._known = known
        self._mesh = mesh
        self._next = known.first.copy()
        """Tile -> which of its uses comes next."""
        self._next_at = np.zeros(n, np.int64)
        self._seconds = np.zeros(n)
        self._is_pinned = np.zeros(n, np.bool_)

    def pin(self, tiles: set[int]) -> None:
        """These tiles stay until others are pinned."""
        self._is_pinned[list(self.pinned)] = False
        self._is_pinned[list(tiles)] = True
        self.pinned = tiles

    def pass_uses(self, tile: int, at: int) -> None:
        """The uses of a tile up to a place in the order are over."""
        n, end = self._next[tile], self._known.end[tile]
        while n < end and self._known.at[n] <= at:
            n += 1
        self._next[tile] = n

    def is_used_up(self, tile: int) -> bool:
        """Whether no task of this run uses a tile any more."""
        return self._next[tile] == self._known.end[tile]

    def is_last_use(self, tile: int) -> bool:
        """Whether the next task that uses a tile is the last one."""
        return self._known.at[self._known.end[tile] - 1] == self._known.at[self._next[tile]]

    def is_made_again(self, tile: int) -> bool:
        """Whether a tile is not written when it is evicted: a task can make it again."""
        known = self._known
        return tile in known.again and not (known.is_held[tile] and self.is_used_up(tile))

    def weigh(self, tile: int, has_copy: bool) -> None:
        """Note when a tile is used next, and the seconds that its eviction costs."""
        known = self._known
        is_over = self.is_used_up(tile)
        if not is_over:
            self._next_at[tile] = known.at[self._next[tile]]
        elif known.is_held[tile]:
            self._next_at[tile] = 2 * len(known.order)
        else:  # the next run begins with the first use of this one
            self._next_at[tile] = len(known.order) + known.at[known.first[tile]]
        if self.is_made_again(tile):
            self._seconds[tile] = known.again[tile]
            return
        copying = tier_seconds(known.tile_bytes[tile], self._mesh.host_bytes <= 0, self._mesh)
        self._seconds[tile] = copying * ((not is_over) + (not has_copy))

    def rest(self, tile: int) -> None:
        """Nothing reads a tile any more, but it may stay; of those the last ones go first."""
        known = self._known
        rank = known.stays[tile] // known.tile_bytes[tile]
        self._next_at[tile] = 2 * len(known.order) + rank

    def cheapest(self, device: int, n_bytes: int, at: int) -> Iterator[int]:
        """The tiles of a device that could be evicted for so many bytes, the cheapest first."""
        if device < 0:
            return
        tiles = np.flatnonzero(self.is_here[device])
        sizes = self._known.uses.tile_bytes[tiles]
        wait = np.maximum(self._next_at[tiles] - at, 1)
        cost = self._seconds[tiles] * np.maximum(n_bytes / sizes, 1.0) / wait
        cost[at - self.used_at[tiles] < self.recent] *= WAIT
        cost[self._is_pinned[tiles]] = np.inf
        for k in np.argsort(cost, kind="stable").tolist():
            if not np.isfinite(cost[k]):
                break
            yield int(tiles[k])

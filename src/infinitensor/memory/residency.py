"""Which tiles of a lower tier stay in device memory when a program is over: the same for all.

What stays belongs to the tensor, not to the program that read it: its tiles stand in one order, and
every program keeps as many of the first as it has room for. So two programs in turns over the same
tensor agree, and one that needs more room gives back the last of them only. Neighbours in the order
are far apart in the tensor: what has to be read is spread over the pass, and read all the time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from infinitensor.memory.uses import Uses

GOLDEN = 0.6180339887498949
"""Steps of this part of a circle leave gaps that differ least, however many there are."""


@lru_cache(maxsize=256)
def places(n: int) -> np.ndarray:
    """The place of each of n tiles in the order in which they stay; the first few are spread evenly
    over all of them.

    >>> places(8).tolist()
    [0, 2, 6, 4, 1, 5, 3, 7]
    """
    # of a circle in n arcs: when steps round it first come to each
    arcs = (np.arange(4 * n) * GOLDEN % 1.0 * n).astype(np.int64)
    found = np.full(n, 4 * n)
    np.minimum.at(found, arcs, np.arange(4 * n))
    found = np.argsort(np.argsort(found, kind="stable"), kind="stable")
    found.flags.writeable = False
    return found


def staying(uses: Uses, tiles: Iterable[int]) -> dict[int, int]:
    """Of tiles that are read from a lower tier: the bytes, on its device, of those that stay before
    each of them, with its own. Left out is what is no whole tile of its tensor: that cannot
    stay."""
    by_leaf: dict[int, list[tuple[int, int]]] = {}
    n_of: dict[int, int] = {}
    for tile in tiles:
        family, i = uses.graph.family_of(int(uses.producers[tile]))
        sources = family.many_of(i)
        if len(sources) != 1:
            continue
        (source,) = sources
        held = uses.graph.set_with(source)
        if held.leaf < 0:
            continue
        k = source - held.first
        if held.n > 1 and held.box(source) != uses.graph.box_of(tile):
            continue
        by_leaf.setdefault(held.leaf, []).append((k, tile))
        n_of[held.leaf] = held.n
    ranked: list[tuple[float, int, int]] = []
    among = places(max(len(by_leaf), 1)).tolist()
    for n_before, leaf in enumerate(sorted(by_leaf)):
        found = by_leaf[leaf]
        n = n_of[leaf]
        if n == 1:  # a file that is in no tiles yet: these are what it will be cut into
            n = len(found)
            found = [(k, tile) for k, (_, tile) in enumerate(found)]
        order = places(n).tolist()
        # the first of every tensor before the second of any; a small one so stays whole
        ranked += [(order[k] / n, among[n_before], tile) for k, tile in found]
    total: dict[int, int] = {}
    stays = {}
    for _, _, tile in sorted(ranked):
        device = int(uses.devices[tile])
        total[device] = total.get(device, 0) + int(uses.tile_bytes[tile])
        stays[tile] = total[device]
    return stays


class Stayers:
    """The tiles of one device that would stay, while a program is walked: as many of the first of
    their order as leave room for everything else, whenever that takes most.

    What is read of them counts once, whether a task works on it or nobody does: in the next run
    they are all there all the time.
    """

    def __init__(
        self,
        stays: dict[int, int],
        tile_bytes: Sequence[int],
        left_bytes: Callable[[], int],
        ring_bytes: Callable[[int], int],
    ) -> None:
        self._stays = dict(sorted(stays.items(), key=lambda one: one[1]))
        self._all_bytes = max(stays.values(), default=0)
        self._tile_bytes = tile_bytes
        self._left_bytes = left_bytes
        self._ring_bytes = ring_bytes
        self._here: set[int] = set()
        self._here_bytes = 0

    def __contains__(self, tile: int) -> bool:
        return tile in self._stays

    def enter(self, tile: int) -> None:
        """A tile is in memory."""
        if tile in self._stays and tile not in self._here:
            self._here.add(tile)
            self._here_bytes += self._tile_bytes[tile]

    def leave(self, tile: int) -> None:
        """A tile is in memory no more; it may be read again."""
        if tile in self._here:
            self._here.discard(tile)
            self._here_bytes -= self._tile_bytes[tile]

    def leaving(self) -> Iterator[int]:
        """The tiles here that there is no room for by now, the last of the order first.

        Where not all stay, slots are left to read the rest into.
        """
        while self._stays:
            tile, n_bytes = next(reversed(self._stays.items()))
            room = self._left_bytes() + self._here_bytes
            if n_bytes < self._all_bytes:
                room -= self._ring_bytes(room)
            if n_bytes <= room:
                return
            del self._stays[tile]
            is_here = tile in self._here
            self.leave(tile)
            if is_here:
                yield tile

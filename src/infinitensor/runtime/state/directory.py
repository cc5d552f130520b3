"""The directory of a run: where every tile is, in which version.

A tile has a home: the slot of its device's memory that the Program gave it.
"""

from __future__ import annotations

from array import array as int_array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infinitensor.devices import Buffer


class Directory:
    """tile -> its values at home, and who holds each slot.

    `version` counts the writes into a tile since it was made (or came with a leaf).
    """

    def __init__(self, n_tiles: int, n_slots: int) -> None:
        self.buffers: list[Buffer | None] = [None] * n_slots
        self.holder: list[int] = [-1] * n_slots
        """The tile whose values each slot holds."""
        self._at_home: dict[int, Any] = {}
        self._versions = int_array("i", bytes(4 * n_tiles))
        self._lost: set[int] = set()

    def enter(self, tile: int, slot: int, values: Any) -> None:
        """A tile has its home in a slot (-1: in memory of its own) from now on."""
        if slot >= 0:
            before = self.holder[slot]
            if before >= 0 and before != tile:
                self._at_home.pop(before, None)
            self.holder[slot] = tile
        self._at_home[tile] = values

    def leave(self, tile: int) -> None:
        """The values of a tile are not needed any more."""
        self._at_home.pop(tile, None)

    def leave_slot(self, slot: int) -> int:
        """A slot gives its memory back; the tile it held, or -1."""
        tile = self.holder[slot]
        self.buffers[slot] = None
        self.holder[slot] = -1
        self._at_home.pop(tile, None)
        return tile

    def values(self, tile: int) -> Any:
        """The values at home; KeyError if the slot holds another tile by now."""
        return self._at_home[tile]

    def is_at_home(self, tile: int) -> bool:
        """Whether it is known where the values of a tile are."""
        return tile in self._at_home

    def is_home(self, tile: int, slot: int) -> bool:
        """Whether the values of a tile are in device memory, and not lost."""
        held = slot < 0 or self.holder[slot] == tile
        return held and tile in self._at_home and tile not in self._lost

    def note_write(self, tile: int) -> None:
        """A write into a tile is done: copies of what was there are worth nothing now."""
        self._versions[tile] += 1

    def version(self, tile: int) -> int:
        """How often a tile was written to."""
        return self._versions[tile]

    def lose(self, tile: int) -> None:
        """The values at home are gone, as after a fault."""
        self._lost.add(tile)

    def is_lost(self, tile: int) -> bool:
        """Whether the values at home are gone."""
        return tile in self._lost

    @property
    def has_lost(self) -> bool:
        """Whether any values are gone."""
        return bool(self._lost)

    def note_found(self, tile: int) -> None:
        """A lost tile is being made again."""
        self._lost.discard(tile)

    def state(self) -> tuple[list[int], dict[int, Any], int_array[int]]:
        """The places of tiles now, to come back to."""
        return self.holder.copy(), self._at_home.copy(), self._versions[:]

    def restore(self, state: tuple[list[int], dict[int, Any], int_array[int]]) -> None:
        """As it was."""
        self.holder, self._at_home, self._versions = state

    def clear(self) -> None:
        """Let go of everything."""
        self.buffers = []
        self._at_home = {}

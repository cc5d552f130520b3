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

    Versions count the writes into a tile since it was made (or came with a leaf).
    """

    def __init__(self, n_tiles: int, n_slots: int) -> None:
        self.buffers: list[Buffer | None] = [None] * n_slots
        self.holder: list[int] = [-1] * n_slots
        """The tile whose values each slot holds."""
        self._at_home: dict[int, Any] = {}
        self.versions = int_array("i", bytes(4 * n_tiles))
        """How often each tile was written to: copies of what was there are worth nothing then."""
        self.lost: set[int] = set()
        """Tiles whose values at home are gone, as after a fault."""

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
        return held and tile in self._at_home and tile not in self.lost

    def state(self) -> tuple[list[int], dict[int, Any], int_array[int]]:
        """The places of tiles now, to come back to."""
        return self.holder.copy(), self._at_home.copy(), self.versions[:]

    def restore(self, state: tuple[list[int], dict[int, Any], int_array[int]]) -> None:
        """As it was."""
        self.holder, self._at_home, self.versions = state

    def clear(self) -> None:
        """Let go of everything."""
        self.buffers = []
        self._at_home = {}

"""Where the values of every tile are at one point of a walk over tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinitensor.memory.added_tasks import Additions


class Places:
    """Tiles in device memory, their copies in lower tiers, and the tasks that touch them.

    A tile that is evicted or loaded has its values in a new tile, its place: what a task wrote
    there before, and what still reads it, is found by the place.
    """

    def __init__(self, n_tiles: int, additions: Additions) -> None:
        self.slots = [-1] * n_tiles
        """Tile -> its slot, or -1."""
        self.now = [-1] * n_tiles
        """Tile -> the tile that has its values in device memory, or -1."""
        self.lower = [-1] * n_tiles
        """Tile -> the tile in a lower tier that has the same values, or -1."""
        self.evicted_by: dict[int, int] = {}
        """Copy -> the task that wrote it."""
        self.loaded_by: dict[int, int] = {}
        """Place, or copy -> the last task that loaded it."""
        self.users: dict[int, list[int]] = {}
        self.writers: dict[int, list[int]] = {}
        self._additions = additions

    def enter(self, place: int, *writers: int) -> None:
        """A place has values from now on, written by these tasks."""
        self.users[place] = []
        self.writers[place] = [*writers]

    def new_tile(self, tile: int, device: int) -> int:
        """The number of a tile with the values of another one, elsewhere."""
        self.slots.append(-1)
        return self._additions.new_tile(tile, device)

    def read(self, task: int, tile: int) -> None:
        """A task reads a tile where its values are now."""
        place = self.now[tile]
        if place != tile:
            self._additions.read_instead(task, tile, place)
            self._additions.edge(self.loaded_by[place], task)

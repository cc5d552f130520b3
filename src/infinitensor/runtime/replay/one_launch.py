"""A task that is one launch, started again as it was before.

The way from a task to its launch (which arrays, what kernel for tiles like these, what numbers)
takes the host longer than the launch. Where tiles are like those of before, and scalars the very
objects, it leads to the same launch.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from infinitensor.jit import kinds_of, picker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.jit import OneLaunch


class Again:
    """The launch of a task, and what it was found by the last time.

    `tiles` and `numbers` are where its arrays and numbers are among all values of a program.
    """

    __slots__ = ("_bound", "_given", "_kinds", "_numbers", "_one", "_shape", "_tiles")

    def __init__(
        self,
        one: OneLaunch,
        tiles: Sequence[int],
        numbers: Sequence[int],
        shape: tuple[int, ...],
    ) -> None:
        self._one = one
        self._tiles, self._numbers = picker(tiles), picker(numbers)
        self._shape = shape
        self._kinds: tuple[int, ...] | None = None
        self._given: Sequence[Any] = ()
        self._bound: Any = None

    def start(self, values: list[Any], stream: int) -> bool:
        """Start it on a stream; False: such tiles have not been launched before."""
        tiles, given = self._tiles(values), self._numbers(values)
        kinds = kinds_of(tiles)
        if kinds != self._kinds or not all(map(is_, given, self._given)):
            launch, numbers = self._one.launch_of(tiles, given, self._shape)
            if not launch.is_ready:
                return False
            self._kinds, self._given, self._bound = kinds, given, launch.bound(numbers)
        start, n_programs, handles, rest = self._bound
        pointers = [tile.data_ptr() for tile in tiles]
        start(n_programs, 1, 1, stream, *handles, *pointers, *rest)
        return True

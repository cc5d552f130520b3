"""The results of a run: the values that it keeps, and the tasks that these need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.layout import DISK, Layout
from infinitensor.runtime.state.tile_table import TileTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from infinitensor.devices import Buffer
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.state.run_tiles import Tiles


def is_value_made(program: Program, done: bytearray, value: int) -> bool:
    """Whether every task that writes tiles of a kept value or its earlier versions is done."""
    tiles = _tiles_of(program, [value])
    for family in program.graph.families:
        for writes in family.writes:
            for i in np.flatnonzero(tiles[writes]):
                task = family.first + int(i)
                if not done[task] and program.needed[task]:
                    return False
    return True


def tasks_without(tiles: Tiles, order: Iterable[int], wanted: Iterable[int]) -> list[int]:
    """Tasks that only other values need than those wanted; the last of the order first."""
    needed = _tiles_of(tiles.program, wanted)
    found = []
    for task in order:
        step = tiles.steps[task]
        if not step.outs:
            continue
        if any(needed[out.tile] for out in step.outs):
            for source in step.sources():
                needed[source] = True
        else:
            found.append(task)
    return found


def _tiles_of(program: Program, values: Iterable[int]) -> np.ndarray:
    """Which tiles are of some kept values: as they were made first, and in the end."""
    tiles = np.zeros(program.graph.n_tiles, np.bool_)
    for value in values:
        first, layout = program.graph.held[value]
        tiles[first : first + layout.n_tiles] = True
        tiles[_final_tiles(program, value)] = True
    return tiles


def _final_tiles(program: Program, value: int) -> list[int]:
    """The tiles that have the values of a kept value in the end."""
    first, layout = program.graph.held[value]
    return [program.final.get(tile, tile) for tile in range(first, first + layout.n_tiles)]


def table_of(tiles: Tiles, value: int, array: Callable[[int], Any]) -> TileTable:
    """The stored tiles of a kept value; `array` finds the values of a tile."""
    program = tiles.program
    first, layout = program.graph.held[value]
    made = tiles.program.graph.set_with(first)
    arrays = []
    buffers: list[Buffer | None] = []
    owners = layout.owner_array.tolist()
    final = _final_tiles(program, value)
    for k, tile in enumerate(final):
        arrays.append(array(tile))
        slot = int(program.slots[tile])
        if tile != first + k:
            owners[k] = int(tiles.program.graph.set_with(tile).devices[0])
        if slot >= 0:
            buffers.append(tiles.directory.buffers[slot])
        elif owners[k] == DISK:
            buffers.append(None)
        else:
            buffers.append(tiles.leaves[made.leaf].buffers[k])
    if program.final:
        alike = owners[:1] if len(set(owners)) == 1 else owners
        layout = Layout(layout.cuts, tuple(alike))
    # what was evicted and brought back is elsewhere than the piece it was a part of
    is_moved = any(tile != first + k for k, tile in enumerate(final))
    whole = None if is_moved else tiles.wholes.get(first)
    if whole is None and len(tiles.devices) == 1 and isinstance(arrays[0], np.ndarray):
        whole = arrays[0] if len(arrays) == 1 else None
    return TileTable(layout, made.dtype, buffers, arrays, whole=whole)

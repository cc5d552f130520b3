"""Tiles that a run has read from files and still holds: kept for the next run while there is room.

When the same program runs again over data larger than memory, a fixed part of it stays and the rest
streams by: tiles spread over the pass, so that the rest is read all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.region import boxes_of
from infinitensor.ir.tasks import LOAD

if TYPE_CHECKING:
    from infinitensor.ir.region import Cuts
    from infinitensor.runtime.state.run_tiles import Tiles
    from infinitensor.runtime.state.tile_table import TileTable

WORTH = 1.25
"""How much more must be kept than before: tiles that are elsewhere are another plan."""


def tables_with_reads(tiles: Tiles) -> dict[int, TileTable]:
    """Leaf -> its table with the tiles that this run has read and would keep."""
    program = tiles.program
    by_leaf: dict[int, list[int]] = {}
    for tile in program.cached:
        step = tiles.steps[int(program.producers[tile])]
        by_leaf.setdefault(tiles.program.graph.set_with(step.many[0]).leaf, []).append(tile)
    found = {}
    for leaf, cached in by_leaf.items():
        table = tiles.leaves[leaf] if leaf >= 0 else None
        if table is None or table.partly:
            continue
        cuts = _grid(tiles, leaf)
        if cuts is None:
            continue
        kept = _at_home(table, cuts)
        n_before = len(kept)
        number = {box: k for k, box in enumerate(boxes_of(cuts))}
        for tile in cached:
            out = tiles.steps.out(tile)
            buffer = tiles.directory.buffers[out.slot]
            k = number.get(tiles.program.graph.box_of(tile))
            if k is not None and buffer is not None and tiles.directory.is_home(tile, out.slot):
                kept[k] = (out.device, tiles.directory.values(tile), buffer)
        if table.most_kept is not None:
            kept = _as_many(kept, table.most_kept)
        if len(kept) > WORTH * n_before or (table.most_kept is None and kept):
            made = found[leaf] = table.with_read(cuts, kept)
            made.most_kept = table.most_kept
            if made.most_kept is None:
                made.most_kept = sum(buffer.n_bytes for _, _, buffer in kept.values())
    return found


def _as_many(kept: dict[int, Any], most_bytes: float) -> dict[int, Any]:
    """As many of some tiles as a number of bytes allows."""
    found = {}
    for k, tile in kept.items():
        most_bytes -= tile[2].n_bytes
        if most_bytes < 0:
            break
        found[k] = tile
    return found


def _grid(tiles: Tiles, leaf: int) -> Cuts | None:
    """The cuts that everything read of a leaf is a cell of; None if there are none."""
    graph = tiles.program.graph
    boxes = [
        graph.box_of(tile)
        for family in graph.families
        if family.lane == LOAD and family.many is not None
        for i, tile in enumerate(family.writes[0].tolist())
        if graph.set_with(family.many_of(i)[0]).leaf == leaf
    ]
    table = tiles.leaves[leaf]
    layout = table.layout
    if layout.n_tiles > 1:
        cuts = layout.cuts
    else:
        ends = np.asarray(boxes)
        if ends.ndim < 3:
            return None
        cuts = tuple(tuple(np.unique(ends[:, axis]).tolist()) for axis in range(ends.shape[1]))
        shape = tuple(borders[-1] for borders in layout.cuts)
        if any(c[0] != 0 or c[-1] != n for c, n in zip(cuts, shape, strict=True)):
            return None
    cells = set(boxes_of(cuts))
    return cuts if all(box in cells for box in boxes) else None


def _at_home(table: TileTable, cuts: Cuts) -> dict[int, Any]:
    """The tiles of a table that were read into device memory before."""
    if table.layout.cuts != cuts:
        return {}
    return {
        k: (owner, table.arrays[k], table.buffers[k])
        for k, owner in enumerate(table.layout.owner_array.tolist())
        if table.is_spare(k)
    }

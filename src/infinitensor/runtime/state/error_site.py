"""Errors of tasks say where they happened: the op, the region, the user's line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from infinitensor.errors import CorruptTileError, DeviceOutOfMemoryError
from infinitensor.ir.tasks import EVICT, LOAD

if TYPE_CHECKING:
    from infinitensor.ir.tasks import Family, Program
    from infinitensor.runtime.state.step import Step, Steps
    from infinitensor.runtime.state.tile_table import TileTable


class RunState(Protocol):
    """The context of an error: the program, its steps, the tables of its leaves."""

    program: Program
    steps: Steps
    leaves: list[TileTable]


def explain_failure(tiles: RunState, error: BaseException, family: Family, i: int) -> None:
    """Add where it happened to an error, once."""
    if family.lane in (LOAD, EVICT):
        if isinstance(error, CorruptTileError):
            _name_leaf(tiles, error, tiles.steps[family.first + i])
        family, i = _maker(tiles, family, i)
    if isinstance(error, DeviceOutOfMemoryError):
        error.op, error.tile = family.op, i
    notes = getattr(error, "__notes__", ())
    if not any("infinitensor: in" in note for note in notes):
        where = "" if family.site is None else f", recorded at {family.site}"
        boxes = [tiles.program.graph.box_of(int(writes[i])) for writes in family.writes[:1]]
        region = f" for region {boxes[0]}" if boxes else ""
        error.add_note(f"infinitensor: in {family.op!r}, tile {i}{region}{where}")


def _maker(tiles: RunState, family: Family, i: int) -> tuple[Family, int]:
    """The task that made what an eviction or a load copies, if one did."""
    tile = int((family.writes[0] if family.lane == LOAD else family.reads[0].tiles)[i])
    producer = int(tiles.program.producers[tiles.program.origins.get(tile, tile)])
    return tiles.program.graph.family_of(producer) if producer >= 0 else (family, i)


def _name_leaf(tiles: RunState, error: CorruptTileError, step: Step) -> None:
    """Say whose values are lost, where it is a tensor that was stored before."""
    made = step.outs[0].tile
    tile = step.many[0] if step.many else tiles.program.origins.get(made, made)
    leaf = tiles.program.graph.set_with(tile).leaf
    if leaf >= 0:
        tiles.leaves[leaf].name_in(error)

"""Lost tiles are made again, from the nearest tiles that are still there."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.devices import copy_into
from infinitensor.errors import CorruptTileError, LostTileError
from infinitensor.ir.slab import slab_bytes
from infinitensor.ir.tasks import EVICT

if TYPE_CHECKING:
    from infinitensor.devices import Buffer
    from infinitensor.runtime.run.run import Run
    from infinitensor.runtime.state.step import Out, Step


def rebuild(run: Run, tile: int) -> None:
    """Make a lost tile again, from the nearest tiles that are still there."""
    with run.lock:
        run.tiles.directory.found(tile)
        run.rebuilt += 1
    values = _made_again(run, tile, {}, run.spare)
    out = run.steps.out(tile)
    if out.tiles.whole:  # others read it as a part of its piece
        part = run.tiles.part(out)
        part[...] = values
        values = part
    run.tiles.directory.enter(tile, -1, values)


def _made_again(run: Run, tile: int, made: dict[int, Any], spare: list[Buffer]) -> Any:
    """The values of a tile, in memory of their own if its slot holds something else by now."""
    if tile in made:
        return made[tile]
    slot = int(run.program.slots[tile])
    producer = int(run.program.producers[tile])
    if run.tiles.directory.is_home(tile, slot):
        if made:
            return run.tiles.directory.values(tile)
    elif producer < 0:
        raise LostTileError(f"tile {tile} is lost: it was stored, and nothing here makes it")
    if producer < 0:
        return run.tiles.directory.values(tile)
    step = run.steps[producer]
    family = step.family
    if run.tiles.directory.version(tile):
        raise LostTileError(
            f"a tile of {family.op!r} (recorded at {family.site}) is lost and cannot be made "
            "again: it was written to in place, and what was written over is gone"
        )
    made[tile] = None
    if family.lane == EVICT:  # a copy below that is gone, of a tile
        made[tile] = _made_again(run, step.sources()[0], made, spare)
        return made[tile]
    ins = run.inputs(step, lambda source: _as_read(run, source, step, made, spare))
    outs = [_private(run, out, spare) for out in step.outs]
    try:
        with run.devices[step.device].running():
            family.run(ins, outs, step.i)
    except CorruptTileError:
        if tile not in run.program.origins:
            raise
        outs[0] = _made_again(run, run.program.origins[tile], made, spare)
    for source in step.sources():
        if source not in made:  # it was read where it lies, beside tasks that run
            _check_unwritten(run, source, step)
    for out, values in zip(step.outs, outs, strict=True):
        made[out.tile] = values
    return made[tile]


def _as_read(run: Run, source: int, step: Step, made: dict[int, Any], spare: list[Buffer]) -> Any:
    """A source of a task as the task saw it; what was written into it since is not that."""
    if source not in made:
        _check_unwritten(run, source, step, is_read=False)
    return _made_again(run, source, made, spare)


def _check_unwritten(run: Run, source: int, step: Step, is_read: bool = True) -> None:
    """Refuse a source that was written into since its task, or has left its slot since then."""
    written = max(run.written_by.get(source, -1), run.writing.get(source, -1))
    is_here = run.tiles.directory.is_home(source, int(run.program.slots[source]))
    if written > step.task or (is_read and not is_here):
        raise LostTileError(
            f"a tile of {step.family.op!r} (recorded at {step.family.site}) cannot be made "
            "again: what it was made from was written to in place since"
        )


def _private(run: Run, out: Out, spare: list[Buffer]) -> Any:
    """Memory for a tile beside the slots; it counts in the ledger while it is held."""
    n_bytes = int(slab_bytes(prod(out.shape) * out.dtype.itemsize))
    buffer = run.ledgers[out.device].take(n_bytes)
    with run.lock:
        run.beside_bytes[out.device] += n_bytes
    spare.append(buffer)
    return run.devices[out.device].array(buffer.block, out.shape, out.dtype)


def load_remade(run: Run, step: Step, out: Any) -> bool:
    """A tile that is damaged below is made again, if what it was made from is still there."""
    tile = int(run.program.origins.get(step.outs[0].tile, -1))
    if tile < 0:
        return False
    spare: list[Buffer] = []
    try:
        values = _made_again(run, tile, {}, spare)
    except LostTileError:
        return False
    copy_into(out, values)
    with run.lock:
        run.rebuilt += 1
    return True

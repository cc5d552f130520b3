"""Lost tiles are made again, from the nearest tiles that are still there."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.errors import CorruptTileError, LostTileError
from infinitensor.ir.region import relative
from infinitensor.ir.slab import slab_bytes
from infinitensor.ir.tasks import EVICT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.devices import Buffer
    from infinitensor.runtime.state.run_status import Status
    from infinitensor.runtime.state.run_tiles import Tiles
    from infinitensor.runtime.state.step import Out, Span, Step


class Rebuilder:
    """Makes lost tiles of a run again, or says why that cannot be.

    It calls the kernels that made them, into memory of its own, which it takes of the ledgers
    beside the plan. Tasks that write in place say so here: what was made from their tiles before
    cannot be made again after.
    """

    def __init__(self, tiles: Tiles, scalars: Sequence[Any], status: Status) -> None:
        self.tiles = tiles
        self.scalars = scalars
        self.status = status
        self.spare: list[Buffer] = []
        """Memory of tiles that were lost and made again."""
        self.beside_bytes = [0] * len(tiles.devices)
        """Taken of each device, in all: no part of the plan."""
        self.written_by: dict[int, int] = {}
        """The last task that wrote into a tile in place."""
        self.writing: dict[int, int] = {}
        """Tiles that tasks write into now: nothing else may be made from them meanwhile."""

    def write(self, tile: int, task: int) -> None:
        """A task has written into a tile in place."""
        self.tiles.directory.versions[tile] += 1
        self.written_by[tile] = task
        self.writing.pop(tile, None)

    def rebuild(self, tile: int) -> None:
        """Make a lost tile again, where its readers look for it."""
        tiles = self.tiles
        with self.status.lock:
            tiles.directory.lost.discard(tile)
            self.status.counts["tiles_rebuilt"] += 1
        values = self._made_again(tile, {}, self.spare)
        out = tiles.steps.out(tile)
        if out.tiles.whole:  # others read it as a part of its piece
            part = tiles.part(out)
            part[...] = values
            values = part
        tiles.directory.enter(tile, -1, values)

    def load(self, step: Step, out: Any) -> bool:
        """Make a tile again that is damaged below, if what it was made from is still there."""
        tile = int(self.tiles.program.origins.get(step.outs[0].tile, -1))
        if tile < 0:
            return False
        spare: list[Buffer] = []
        try:
            values = self._made_again(tile, {}, spare)
        except LostTileError:
            return False
        copy_into(out, values)
        with self.status.lock:
            self.status.counts["tiles_rebuilt"] += 1
        return True

    def _made_again(self, tile: int, made: dict[int, Any], spare: list[Buffer]) -> Any:
        """The values of a tile, in memory of their own if its slot holds something else by now."""
        if tile in made:
            return made[tile]
        program, directory = self.tiles.program, self.tiles.directory
        producer = int(program.producers[tile])
        if directory.is_home(tile, int(program.slots[tile])):
            if made:
                return directory.values(tile)
        elif producer < 0:
            raise LostTileError(f"tile {tile} is lost: it was stored, and nothing here makes it")
        if producer < 0:
            return directory.values(tile)
        step = self.tiles.steps[producer]
        family = step.family
        if directory.versions[tile]:
            raise LostTileError(
                f"a tile of {family.op!r} (recorded at {family.site}) is lost and cannot be made "
                "again: it was written to in place, and what was written over is gone"
            )
        made[tile] = None
        if family.lane == EVICT:  # a copy in a lower tier that is gone, of a tile
            made[tile] = self._made_again(step.sources()[0], made, spare)
            return made[tile]
        outs = self._called_again(step, made, spare)
        for source in step.sources():
            if source not in made:  # it was read in place, beside tasks that run
                self._check_unwritten(source, step)
        for out, values in zip(step.outs, outs, strict=True):
            made[out.tile] = values
        return made[tile]

    def _called_again(self, step: Step, made: dict[int, Any], spare: list[Buffer]) -> list[Any]:
        """The results of a task, from its sources as it saw them."""

        def array(source: int) -> Any:
            if source not in made:
                self._check_unwritten(source, step, is_read=False)
            return self._made_again(source, made, spare)

        ins = step.operands(self.scalars, array, partial(self._put_together, array))
        outs = [self._private(out, spare) for out in step.outs]
        try:
            with self.tiles.devices[step.device].running():
                step.family.run(ins, outs, step.i)
        except CorruptTileError:
            origins, tile = self.tiles.program.origins, step.outs[0].tile
            if tile not in origins:
                raise
            outs[0] = self._made_again(origins[tile], made, spare)
        return outs

    def _put_together(
        self, array: Callable[[int], Any], span: Span, look: Callable[[Any], Any]
    ) -> Any:
        """The view of a piece, some tiles of which are made one by one."""
        values = [array(tile) for tile in span.tiles]
        boxes = [self.tiles.program.graph.box_of(tile) for tile in span.tiles]
        hull = tuple(
            (min(b[a][0] for b in boxes), max(b[a][1] for b in boxes)) for a in range(len(boxes[0]))
        )
        out = np.empty(tuple(hi - lo for lo, hi in hull), span.held.dtype)
        for box, part in zip(boxes, values, strict=True):
            out[relative(box, hull)] = part
        return span.look(hull)(out)

    def _check_unwritten(self, source: int, step: Step, is_read: bool = True) -> None:
        """Refuse a source that was written into since its task, or has left its slot since then."""
        written = max(self.written_by.get(source, -1), self.writing.get(source, -1))
        slot = int(self.tiles.program.slots[source])
        is_here = self.tiles.directory.is_home(source, slot)
        if written > step.task or (is_read and not is_here):
            raise LostTileError(
                f"a tile of {step.family.op!r} (recorded at {step.family.site}) cannot be made "
                "again: what it was made from was written to in place since"
            )

    def _private(self, out: Out, spare: list[Buffer]) -> Any:
        """Memory for a tile beside the slots; it counts in the ledger while it is held."""
        n_bytes = int(slab_bytes(prod(out.shape) * out.dtype.itemsize))
        buffer = self.tiles.ledgers[out.device].take(n_bytes)
        with self.status.lock:
            self.beside_bytes[out.device] += n_bytes
        spare.append(buffer)
        return self.tiles.devices[out.device].array(buffer.block, out.shape, out.dtype)

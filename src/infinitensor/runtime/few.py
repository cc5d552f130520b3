"""Programs of a few kernels on a GPU, started without a `Run` when they come again.

While the host gets ready to start the first kernel the GPU has nothing to do. A program of so few
tasks, all of which read leaves or each other and write memory of their own, needs no directory, no
waits and no way to go on after it was stopped: its kernels are started one after the other. Where
one cannot be, nobody has seen anything of it; a `Run` then makes it all again, and says what is
wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor import events
from infinitensor.events import lane
from infinitensor.ir.tasks import COMPUTE
from infinitensor.runtime.replay import LEAST_TASKS
from infinitensor.runtime.step import SCALAR, SPAN, TILE, Steps
from infinitensor.runtime.table import TileTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.step import Step

HOOKS = ("run_start", "run_end", "task_start", "tile_commit")
"""Events that only a `Run` tells of."""


class Held(NamedTuple):
    """A value that outlives the program."""

    layout: Layout
    dtype: np.dtype[Any]
    tiles: tuple[int, ...]


class Few(NamedTuple):
    """The tasks of a program in their order, where the tiles of its leaves are, and what is held
    of it."""

    steps: tuple[Step, ...]
    leaves: tuple[tuple[int, int, int], ...]
    """Tile, leaf, and which of its tiles that is."""
    held: dict[int, Held]
    slot_bytes: tuple[int, ...]

    def start(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any], device: Device, ledger: Ledger
    ) -> dict[int, TileTable] | None:
        """Start all kernels; the tables of what is held. None: a `Run` has to."""
        if not events.hooks.keys().isdisjoint(HOOKS):
            return None
        lane.in_task = True
        try:
            with np.errstate(all="ignore"), device.running():
                return self._start(leaves, scalars, device, ledger)
        except Exception:  # it comes again where it is explained
            return None
        finally:
            lane.in_task = False

    def _start(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any], device: Device, ledger: Ledger
    ) -> dict[int, TileTable]:
        values = {tile: leaves[leaf].arrays[k] for tile, leaf, k in self.leaves}
        buffers: list[Buffer | None] = [None] * len(self.slot_bytes)
        homes: dict[int, Buffer | None] = {}
        for step in self.steps:
            ins: list[Any] = []
            for how, tile, look, _ in step.reads:
                if how == TILE:
                    ins.append(values[tile] if look is None else look(values[tile]))
                else:
                    ins.append(scalars[tile] if how == SCALAR else None)
            outs = []
            for out in step.outs:
                buffer = buffers[out.slot]
                if buffer is None:
                    buffer = buffers[out.slot] = ledger.take(self.slot_bytes[out.slot])
                homes[out.tile] = buffer
                array = values[out.tile] = device.array(buffer.block, out.shape, out.dtype)
                outs.append(array)
            step.family.run(ins, outs, step.i)
        return {
            number: TileTable(
                layout, dtype, [homes[tile] for tile in tiles], [values[tile] for tile in tiles]
            )
            for number, (layout, dtype, tiles) in self.held.items()
        }


def few_of(program: Program, devices: Sequence[Device]) -> Few | None:
    """A program as a few kernels; None where it is more than that."""
    order = np.flatnonzero(program.needed).tolist()
    if len(devices) > 1 or devices[0].kind != "cuda" or not 0 < len(order) < LEAST_TASKS:
        return None
    if program.order is not None or program.slot_pieces:
        return None
    if program.slot_leaves:  # what is used up could not be read again
        return None
    steps = Steps(program, is_null=False)
    few = tuple(steps[task] for task in order)
    made = {out.tile: out for step in few for out in step.outs}
    if any(not _is_simple(step) for step in few) or any(out.slot < 0 for out in made.values()):
        return None
    held: dict[int, Held] = {}
    for number, (first, layout) in program.graph.held.items():
        tiles = tuple(range(first, first + layout.n_tiles))
        if not made.keys() >= set(tiles):
            return None
        held[number] = Held(layout, made[first].dtype, tiles)
    leaves = tuple(
        (tiles.first + k, tiles.leaf, k)
        for tiles in program.graph.tiles
        if tiles.leaf >= 0
        for k in range(tiles.n)
    )
    return Few(few, leaves, held, tuple(program.slot_bytes.tolist()))


def _is_simple(step: Step) -> bool:
    """Whether a task computes new tiles from tiles and scalars."""
    family = step.family
    is_kernel = family.lane == COMPUTE and not family.updates and not step.many
    return is_kernel and not any(read.how == SPAN for read in step.reads)

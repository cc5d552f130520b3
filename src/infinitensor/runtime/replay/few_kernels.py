"""Programs of a few kernels on a GPU, started without a `Run` when they are repeated.

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
from infinitensor.jit import picker
from infinitensor.runtime.replay.cuda_graphs import LEAST_TASKS
from infinitensor.runtime.replay.one_launch import Again
from infinitensor.runtime.state.step import SCALAR, SPAN, TILE, Steps
from infinitensor.runtime.state.tile_table import TileTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.tasks import Program
    from infinitensor.jit import OneLaunch
    from infinitensor.runtime.state.step import Out, Step

HOOKS = ("run_start", "run_end", "task_start", "tile_commit")
"""Events that only a `Run` reports."""


class KeptTiles(NamedTuple):
    """A value that outlives the program."""

    layout: Layout
    dtype: np.dtype[Any]
    tiles: tuple[int, ...]


class Start(NamedTuple):
    """One task: where its operands and results are among all values of the program."""

    run: Callable[[list[Any], list[Any], int], None]
    i: int
    take: Callable[[list[Any]], Sequence[Any]]
    looks: tuple[tuple[int, Callable[[Any], Any]], ...]
    """Operands of which it sees a part."""
    outs: tuple[tuple[int, Out], ...]
    again: Again | None
    """Where it is one launch."""


class Few(NamedTuple):
    """The tasks of a program in their order, where the tiles of its leaves are, and what is held
    of it. All values have a place: scalars, nothing, then tiles of leaves, then what is made."""

    steps: tuple[Start, ...]
    n_scalars: int
    leaves: tuple[tuple[int, int], ...]
    """Leaf, and which of its tiles."""
    n_made: int
    held: dict[int, KeptTiles]
    """By places, not tiles."""
    slot_bytes: tuple[int, ...]
    is_launched: bool
    """Whether every task is one launch."""

    @property
    def n_tasks(self) -> int:
        """How many tasks they are."""
        return len(self.steps)

    def start(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any], device: Device, ledger: Ledger
    ) -> dict[int, TileTable] | None:
        """Start all kernels; the tables of what is held. None: a `Run` has to."""
        if events.hooks and not events.hooks.keys().isdisjoint(HOOKS):
            return None
        try:
            stream = device.stream() if self.is_launched else None
            if stream is not None:
                made = self._start(leaves, scalars, device, ledger, stream)
                if made is not None:
                    return made
            lane.in_task = True
            with np.errstate(all="ignore"), device.running():
                return self._start(leaves, scalars, device, ledger)
        except Exception:  # it is raised again where it is explained
            return None
        finally:
            lane.in_task = False

    def _start(
        self,
        leaves: Sequence[TileTable],
        scalars: Sequence[Any],
        device: Device,
        ledger: Ledger,
        stream: int | None = None,
    ) -> dict[int, TileTable] | None:
        """Start all kernels, on a stream as the launches of before; None: some are not known."""
        values: list[Any] = [*scalars[: self.n_scalars], None]
        values += [leaves[leaf].arrays[k] for leaf, k in self.leaves]
        values += [None] * self.n_made
        buffers: list[Buffer | None] = [None] * len(self.slot_bytes)
        homes: dict[int, Buffer | None] = {}
        for run, i, take, looks, made, again in self.steps:
            outs = []
            for place, out in made:
                buffer = buffers[out.slot]
                if buffer is None:
                    buffer = buffers[out.slot] = ledger.take(self.slot_bytes[out.slot])
                homes[place] = buffer
                array = values[place] = device.array(buffer.block, out.shape, out.dtype)
                outs.append(array)
            if stream is not None:
                assert again is not None
                if not again.start(values, stream):
                    return None
                continue
            ins = list(take(values))
            for k, look in looks:
                ins[k] = look(ins[k])
            run(ins, outs, i)
        return {
            number: TileTable(
                layout, dtype, [homes[place] for place in tiles], [values[place] for place in tiles]
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
    leaves = {
        tiles.first + k: (tiles.leaf, k)
        for tiles in program.graph.tiles
        if tiles.leaf >= 0
        for k in range(tiles.n)
    }
    n_scalars = 1 + max(
        (read.tile for step in few for read in step.reads if read.how == SCALAR), default=-1
    )
    places = {tile: n_scalars + 1 + n for n, tile in enumerate([*leaves, *made])}
    held: dict[int, KeptTiles] = {}
    for number, (first, layout) in program.graph.held.items():
        tiles = range(first, first + layout.n_tiles)
        if not made.keys() >= set(tiles):
            return None
        held[number] = KeptTiles(layout, made[first].dtype, tuple(places[tile] for tile in tiles))
    starts = tuple(_start_of(step, places, n_scalars) for step in few)
    slot_bytes = tuple(program.slot_bytes.tolist())
    is_launched = all(start.again is not None for start in starts)
    return Few(starts, n_scalars, tuple(leaves.values()), len(made), held, slot_bytes, is_launched)


def _start_of(step: Step, places: dict[int, int], n_scalars: int) -> Start:
    """A task with its operands found."""
    nothing = n_scalars
    where = [
        read.tile if read.how == SCALAR else places[read.tile] if read.how == TILE else nothing
        for read in step.reads
    ]
    looks = [(k, read.look) for k, read in enumerate(step.reads) if read.how == TILE]
    outs = tuple((places[out.tile], out) for out in step.outs)
    seen = tuple((k, look) for k, look in looks if look is not None)
    one: OneLaunch | None = getattr(step.family.run, "one_launch", None)
    again = None
    if one is not None and not seen and 0 not in step.outs[-1].shape:
        tiles = [where[k] for k in one.arrays] + [outs[k][0] for k in one.outs]
        again = Again(one, tiles, [where[k] for k in one.numbers], step.outs[-1].shape)
    return Start(step.family.run, step.i, picker(where), seen, outs, again)


def _is_simple(step: Step) -> bool:
    """Whether a task computes new tiles from tiles and scalars."""
    family = step.family
    is_kernel = family.lane == COMPUTE and not family.updates and not step.many
    return is_kernel and not any(read.how == SPAN for read in step.reads)

"""One task as a call of its kernel: what it reads, where it writes, what it moves."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.errors import CorruptTileError, DeviceOutOfMemoryError, gib
from infinitensor.ir.layout import DISK
from infinitensor.ir.region import box_size, overlap
from infinitensor.ir.tasks import EVICT, LOAD, PEER
from infinitensor.storage import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.runtime.run.rebuild import Rebuilder
    from infinitensor.runtime.state.run_status import Status
    from infinitensor.runtime.state.run_tiles import Tiles
    from infinitensor.runtime.state.step import Span, Step


class KernelCalls:
    """Calls the kernels of a run's tasks, one at a time in each thread.

    It finds the operands of a task in the tiles of the run, has lost ones made again, takes memory
    for what the task makes and enters that. Of the status it changes the counts of bytes alone;
    who waits for the task is not its concern.
    """

    def __init__(
        self, tiles: Tiles, scalars: Sequence[Any], status: Status, rebuilder: Rebuilder
    ) -> None:
        self.tiles = tiles
        self.directory = tiles.directory
        self.scalars = scalars
        self.status = status
        self.rebuilder = rebuilder
        self._is_null = tiles.devices[0].kind == "null"

    def call(self, step: Step) -> None:
        """Run a task now, in this thread."""
        array = self.array
        ins = step.operands(self.scalars, array, self._across)
        family = step.family
        if family.lane == EVICT and step.outs[0].device == DISK:
            self._spill(step, ins[0])
            return
        if family.updates:
            outs = [array(out.tile) for out in step.outs]
        else:
            # a file is read past all caches into memory that begins within a page as its bytes do
            shift = ins[0].shift if len(step.many) == 1 and isinstance(ins[0], Part) else 0
            output = self.tiles.output
            outs = [output(out, shift) for out in step.outs]
        if self._is_null:
            return
        try:
            family.run(ins, outs, step.i)
        except CorruptTileError:
            if family.lane != LOAD or not self.rebuilder.load(step, outs[0]):
                raise
        except (MemoryError, RuntimeError) as error:
            if not self.tiles.devices[step.device].is_refusal(error):
                raise
            self._call_trimmed(step, ins, outs)

    def _call_trimmed(self, step: Step, ins: list[Any], outs: list[Any]) -> None:
        """Run a kernel again whose scratch was refused, after all memory at rest was given back."""
        device, ledger = self.tiles.devices[step.device], self.tiles.ledgers[step.device]
        ledger.trim()
        try:
            step.family.run(ins, outs, step.i)
        except (MemoryError, RuntimeError) as error:
            if not device.is_refusal(error):
                raise
            n_bytes = step.family.scratch_bytes
            raise DeviceOutOfMemoryError(
                f"{device.name} has no {gib(n_bytes)} left for a kernel to work in although the "
                f"budget of {gib(ledger.budget_bytes)} allows it ({gib(ledger.used_bytes)} in use);"
                " something else uses this memory: give a smaller memory= to it.init",
                n_bytes,
            ) from None

    def _spill(self, step: Step, values: Any) -> None:
        """Write a tile to a file."""
        tiers = self.tiles.tiers
        assert tiers is not None
        if not self._is_null:
            values = tiers.spill(self.tiles.devices[step.device].to_host(values))
        self.directory.enter(step.outs[0].tile, -1, values)

    def array(self, tile: int) -> Any:
        """The values of a tile; a lost one is made again."""
        directory = self.directory
        if tile in directory.lost:
            self.rebuilder.rebuild(tile)
        if self.status.job is not None and not directory.is_at_home(tile):
            return self.tiles.output(self.tiles.steps.out(tile))  # C has made it
        return directory.values(tile)

    def _across(self, span: Span, look: Callable[[Any], Any]) -> Any:
        """The view of the piece that holds some tiles of a value."""
        if self.directory.lost:
            for tile in span.tiles:
                self.array(tile)
        return look(self.tiles.whole_of(span.held))

    def count_move(self, step: Step) -> None:
        """Add what a task moved between devices, or between a device and a lower tier."""
        lane, out, counts = step.family.lane, step.outs[0], self.status.counts
        n_bytes = prod(out.shape) * out.dtype.itemsize
        n_peer = n_read = 0
        if lane == PEER:
            n_peer = self._source_bytes(step, lambda owner: owner != step.device)
        elif lane == LOAD and step.many:
            n_read = self._source_bytes(step, lambda owner: owner == DISK)
        with self.status.lock:
            if lane == PEER:
                counts["bytes_moved"] += n_peer
            elif lane == LOAD:
                counts["bytes_loaded"] += n_bytes
                counts["bytes_read"] += n_read
            else:
                counts["bytes_evicted"] += n_bytes

    def _source_bytes(self, step: Step, is_counted: Callable[[int], bool]) -> int:
        """The parts of sources on some devices that a move takes."""
        graph = self.tiles.program.graph
        target = graph.box_of(step.outs[0].tile)
        total = 0
        for tile in step.many:
            tiles = graph.set_with(tile)
            common = overlap(tiles.box(tile), target)
            if common is not None and is_counted(int(tiles.devices[tile - tiles.first])):
                total += box_size(common) * tiles.dtype.itemsize
        return total

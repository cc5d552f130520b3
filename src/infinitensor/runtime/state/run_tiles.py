"""The memory of a run's tiles: the slots of its Program, filled with memory as tasks need it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from infinitensor.errors import DeviceOutOfMemoryError
from infinitensor.ir.layout import HOST
from infinitensor.runtime.state.directory import Directory
from infinitensor.runtime.state.error_site import explain_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.tasks import Program, TileSet
    from infinitensor.runtime.state.step import Out, Steps
    from infinitensor.runtime.state.tile_table import TileTable


class Tiers(Protocol):
    """Where tiles go that are evicted."""

    host: Ledger
    """Host memory that copies to and from GPUs are fast with."""

    def spill(self, values: np.ndarray) -> Any:
        """Write values to a file; they can be read until nobody holds the answer."""


class RunMemory(NamedTuple):
    """The memory of a run: that of its leaves, and what it has taken."""

    leaves: Sequence[TileTable]
    buffers: list[Buffer | None]
    """By slot."""
    pieces: dict[int, tuple[Buffer, Any]]
    """By number: the memory of all tiles of a value, and the first array in it."""
    shared: dict[int, Buffer]
    """By device: the slab of its small slots, where C runs the tasks."""
    devices: Sequence[Device]
    ledgers: Sequence[Ledger]


class Tiles:
    """The tiles of a run: those of its leaves, and memory for those that its tasks make."""

    def __init__(
        self,
        program: Program,
        steps: Steps,
        leaves: Sequence[TileTable],
        devices: Sequence[Device],
        ledgers: Sequence[Ledger],
        tiers: Tiers | None,
    ) -> None:
        self.program = program
        self.steps = steps
        self.leaves = list(leaves)
        self.devices = devices
        self.ledgers = ledgers
        self.tiers = tiers
        self.directory = Directory(program.graph.n_tiles, len(program.slot_bytes))
        self.pieces: dict[int, tuple[Buffer, Any]] = {}
        """By number: the memory of all tiles of a value, and the first array in it."""
        self.wholes: dict[int, Any] = {}
        """By its first tile: the array that the tiles of a value are parts of."""
        self.shared: dict[int, Buffer] = {}
        """By device: the slab of its small slots, where C runs the tasks."""
        self.within: np.ndarray | None = None
        """Of each slot where it begins in that slab; -1: it is alone."""
        self._lock = threading.Lock()
        self._are_leaves_in = False
        self._bind_leaves()

    @property
    def memory(self) -> RunMemory:
        """What it reads and has taken."""
        return RunMemory(
            self.leaves,
            self.directory.buffers,
            self.pieces,
            self.shared,
            self.devices,
            self.ledgers,
        )

    def _bind_leaves(self) -> None:
        graph = self.program.graph
        for slot, (leaf, k) in self.program.slot_leaves.items():
            self.directory.buffers[slot] = self.leaves[leaf].buffers[k]
        for tiles in graph.tiles:
            if tiles.leaf >= 0:
                table = self.leaves[tiles.leaf]
                self.wholes[tiles.first] = table.whole
                piece = self.program.slot_pieces.get(int(self.program.slots[tiles.first]), -1)
                if piece >= 0:
                    assert table.buffers[0] is not None
                    self.pieces[piece] = (table.buffers[0], table.whole)

    def enter_leaves(self) -> None:
        """Say where the tiles of leaves are; where C runs all tasks nobody asks."""
        if self._are_leaves_in:
            return
        self._are_leaves_in = True
        for tiles in self.program.graph.tiles:
            if tiles.leaf >= 0:
                table = self.leaves[tiles.leaf]
                for k, slot in enumerate(
                    self.program.slots[tiles.first : tiles.first + tiles.n].tolist()
                ):
                    self.directory.enter(tiles.first + k, slot, table.arrays[k])

    def output(self, out: Out, shift: int = 0) -> Any:
        """Memory for a tile that is to be made; it begins `shift` bytes into its slot."""
        values = self.part(out) if out.tiles.whole else self._in_slot(out, shift)
        self.directory.enter(out.tile, out.slot, values)
        return values

    def _in_slot(self, out: Out, shift: int) -> Any:
        """A tile that has a slot of its own, or a part of the slab of small slots."""
        slot = out.slot
        device, ledger = self._place(out.device)
        if self.within is not None and self.within[slot] >= 0:
            block = self.shared[out.device].block[self.within[slot] :]
            return device.array(block, out.shape, out.dtype)
        buffer = self.directory.buffers[slot]
        if buffer is None:
            self._retire(slot)
            buffer = ledger.take(int(self.program.slot_bytes[slot]))
            self.directory.buffers[slot] = buffer
        return device.array(buffer.block, out.shape, out.dtype, shift)

    def take_all(self) -> None:
        """Take what the plan has for tiles of devices, but for what others have to give back first.

        A task that takes memory of its own waits for all kernels that were started before it.
        """
        program = self.program
        for slot in range(min(program.retires, default=len(program.slot_bytes))):
            device = int(program.slot_devices[slot])
            if device < 0 or slot in program.slot_pieces or slot in program.slot_leaves:
                continue
            if self.directory.buffers[slot] is None:
                try:
                    taken = self.ledgers[device].take(int(program.slot_bytes[slot]))
                except DeviceOutOfMemoryError as error:
                    tile = int(np.flatnonzero(program.slots == slot)[0])
                    explain_failure(
                        self, error, *self.program.graph.family_of(program.producers[tile])
                    )
                    raise
                self.directory.buffers[slot] = taken

    def takes_memory(self, task: int) -> bool:
        """Whether a task begins with memory that no task of this run has used."""
        return any(
            out.slot >= 0 and self.directory.buffers[out.slot] is None
            for out in self.steps[task].outs
        )

    def _place(self, owner: int) -> tuple[Device, Ledger]:
        if owner == HOST:
            assert self.tiers is not None
            return self.tiers.host.device, self.tiers.host
        return self.devices[owner], self.ledgers[owner]

    def _retire(self, slot: int) -> None:
        """Give memory back that a new slot of another size stands for: all who used it are done."""
        for old in self.program.retires.get(slot, ()):
            leaf = self.program.slot_leaves.get(old)
            if leaf is not None:
                table, k = self.leaves[leaf[0]], leaf[1]
                table.buffers[k] = table.whole = table.in_reach = None
                table.arrays = list(table.arrays)
                table.arrays[k] = None
                table.without_windows()
            self.pieces.pop(self.program.slot_pieces.get(old, -1), None)
            tile = self.directory.leave_slot(old)
            if tile >= 0:
                self.wholes.pop(self.program.graph.set_with(tile).first, None)

    def part(self, out: Out) -> Any:
        """A tile that is a part of one piece of memory, which the first of them takes."""
        whole = self.whole_of(out.tiles)
        return whole if out.part is None else whole[out.part]

    def whole_of(self, tiles: TileSet) -> Any:
        """The piece of memory that tiles are parts of, taken if it is not there."""
        whole = self.wholes.get(tiles.first)
        if whole is None:
            with self._lock:
                whole = self.wholes.get(tiles.first)
                if whole is None:
                    whole = self._take_piece(tiles, int(self.program.slots[tiles.first]))
        return whole

    def _take_piece(self, tiles: TileSet, slot: int) -> Any:
        number = self.program.slot_pieces[slot]
        piece = self.pieces.get(number)
        if piece is None:
            self._retire(int(self.program.slots[tiles.first]))
            buffer = self.ledgers[0].take(self.program.piece_bytes[number])
            shape = tuple(tiles.boxes[:, :, 1].max(axis=0).tolist())
            whole = self.devices[0].array(buffer.block, shape, tiles.dtype)
            piece = self.pieces[number] = (buffer, whole)
        for each in self.program.slots[tiles.first : tiles.first + tiles.n].tolist():
            self.directory.buffers[each] = piece[0]
        self.wholes[tiles.first] = piece[1].view(tiles.dtype)
        return self.wholes[tiles.first]

    def enter_made(self, first: int, n: int) -> None:
        """Say where tiles are that C has made."""
        self.enter_leaves()
        for tile in range(first, first + n):
            out = self.steps.out(tile)
            if out.slot >= 0 and self.directory.holder[out.slot] != tile:
                self.output(out)

    def release(self) -> None:
        """Let go of all memory."""
        self.directory.clear()
        self.pieces = {}
        self.wholes = {}
        self.shared = {}
        self.leaves = []

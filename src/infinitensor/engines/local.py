"""The local engine: the devices of this process, their ledgers and its worker threads."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor import events
from infinitensor.config import parse_bytes
from infinitensor.devices import Ledger, copy_into, find_tools, open_devices, to_host
from infinitensor.engines.engine import ENGINES, MemoryUse
from infinitensor.engines.progress import Progress
from infinitensor.engines.tiers import LocalTiers
from infinitensor.errors import DeviceOutOfMemoryError
from infinitensor.interrupts import Uninterrupted
from infinitensor.ir.layout import DISK, HOST, Layout
from infinitensor.ir.mesh import Mesh, preset
from infinitensor.ir.slab import slab_bytes
from infinitensor.runtime import CalledAgain, Few, TileTable, Workers, few_of
from infinitensor.runtime import Run as LocalRun
from infinitensor.storage import Part
from infinitensor.threads import choose_n_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from infinitensor.devices import Buffer
    from infinitensor.engines.engine import Run
    from infinitensor.engines.tiers import Room
    from infinitensor.ir.region import Box
    from infinitensor.ir.tasks import Program


class LocalEngine:
    """All devices in this process; no ports, no child processes."""

    def __init__(self, devices: str | Iterable[str] | None, room: Room, workers: int) -> None:
        memory = room.memory
        self.devices = open_devices(devices)
        kind = self.devices[0].kind
        n_workers = choose_n_workers(workers)
        if memory is None or memory == "":
            shared = len(self.devices) if kind != "cuda" else self._sharing()
            budget = int(0.8 * self.devices[0].free_bytes()) // max(shared, 1)
        else:
            budget = parse_bytes(memory, "memory")
        if budget <= 0:
            raise ValueError(
                f"memory={memory!r}: a device needs some memory; write for example memory='2GiB', "
                "or leave it out for 80 % of what is free"
            )
        self.ledgers = [Ledger(device, budget) for device in self.devices]
        self.n_workers = n_workers if kind == "cpu" else 1
        self.tiers = LocalTiers(kind, room)
        self.mesh = replace(
            preset(kind, len(self.devices), budget, self.n_workers),
            host_bytes=self.tiers.host.budget_bytes,
            disk_bytes=self.tiers.disk_bytes,
            no_disk=self.tiers.no_disk,
            tools=find_tools(),
        )
        self._workers = Workers(self.n_workers)
        self._fewer: dict[int, Workers] = {}
        """Workers for programs that may not run as many tasks at a time: memory is short."""

    def _sharing(self) -> int:
        """Virtual devices on the GPU that most of them share."""
        gpus = [device.name.split("#")[0] for device in self.devices]
        return max(gpus.count(gpu) for gpu in gpus)

    def start(
        self, program: Program, leaves: Sequence[TileTable], scalars: Sequence[Any]
    ) -> LocalRun:
        """A run, not yet begun."""
        return LocalRun(program, leaves, scalars, self.devices, self.ledgers, self.tiers)

    def finish(self, run: Run, inline: bool, progress: bool, resumed: bool = False) -> None:
        """Begin or resume a run; Ctrl-C stops it between tasks and leaves it resumable.

        Kernels of a GPU may still be running: what they read and write is theirs by the order of
        their stream, so the rest of an evaluation goes on beside them.
        """
        assert isinstance(run, LocalRun)
        if "run_start" in events.hooks:
            events.emit("run_start", run=run)
        with Uninterrupted(run):
            try:
                self._go(run, inline, progress, resumed)
            finally:
                if "run_end" in events.hooks:
                    events.emit("run_end", run=run)
                # a Ctrl-C after the last task, or beside an error, stopped nothing: whoever asked
                # must still hear of it
                if run.status.clear_stop():
                    raise KeyboardInterrupt

    def _go(self, run: LocalRun, inline: bool, progress: bool, resumed: bool) -> None:
        has_lanes = run.program.order is not None and self.devices[0].kind != "cuda"
        n = min(run.program.at_once or self.n_workers, self.n_workers)
        workers = None if inline or (n == 1 and not has_lanes) else self._workers_for(n)
        shown = Progress(run, self.ledgers, self.tiers) if progress else None
        try:
            with self.devices[0].running():  # once, not for every task
                run.go(workers, _nothing if shown is None else shown, resumed)
        finally:
            if shown is not None:
                shown.close()

    def _workers_for(self, n: int) -> Workers:
        """So many of the workers, or of threads beside them."""
        if n == self.n_workers:
            return self._workers
        if n not in self._fewer:
            self._fewer[n] = Workers(n)
        return self._fewer[n]

    def few_kernels(self, program: Program) -> Few | CalledAgain | None:
        """The program as kernels that start without a run, or None."""
        if self.mesh.kind == "cpu":
            if program.order is not None:
                return None
            n = min(program.at_once or self.n_workers, self.n_workers)
            return CalledAgain(program, self.devices, self.ledgers, self._workers_for(n).team)
        return few_of(program, self.devices, self.ledgers)

    def running(self) -> AbstractContextManager[None]:
        """Kernels that are called in this thread start where those of programs do."""
        found: AbstractContextManager[None] = self.devices[0].running()
        return found

    def share(self, job: Callable[[], None], n: int) -> None:
        """Call a function in every worker, or in n, and wait until all are back."""
        self._workers.run(job, _nothing, n_first=n)

    def store(self, values: Any, layout: Layout) -> TileTable:
        """Put values from outside, NumPy's or torch's, into tiles."""
        return TileTable.scatter(
            values, layout, self.devices, self.ledgers, self.mesh.is_one_memory
        )

    def bytes_for(self, layout: Layout, itemsize: int) -> list[int]:
        """Bytes that a tensor takes of each device's budget."""
        if layout.n_tiles == 1:
            n_bytes = prod(borders[-1] for borders in layout.cuts) * itemsize
            needs = [0] * (1 if self.mesh.is_one_memory else self.mesh.n_devices)
            needs[layout.owner(0)] = int(slab_bytes(n_bytes))
            return needs
        lengths = [np.diff(borders) for borders in layout.cuts]
        sizes: Any = np.ones((), np.int64)
        for length in lengths:
            sizes = np.multiply.outer(sizes, length)
        sizes = sizes.reshape(-1) * itemsize
        if self.mesh.is_one_memory:
            return [int(slab_bytes(int(sizes.sum())))]
        slabs, owners = slab_bytes(sizes), layout.owner_array
        return [int(slabs[owners == d].sum()) for d in range(self.mesh.n_devices)]

    def store_in_lower_tier(self, values: Any, layout: Layout) -> TileTable:
        """Put values from outside into a lower tier, tile by tile."""
        values = np.asarray(values)
        parts = [
            values[tuple(slice(lo, hi) for lo, hi in layout.tile(k))] for k in range(layout.n_tiles)
        ]
        tiles = [self._lower_tile(part, values.dtype) for part in parts]
        self.synchronize()
        return self._table(layout, values.dtype, tiles)

    def _lower_tile(self, part: Any, dtype: Any) -> tuple[int, Any, Buffer | None]:
        """(owner, values, slab) of a tile in a lower tier: in the host's memory beside GPUs while
        there is room, else in a file."""
        if part is None or self.mesh.kind == "null" or isinstance(part, Part):
            return DISK, part, None  # the null device keeps none
        host = self.tiers.host
        n_bytes = int(slab_bytes(part.nbytes))
        buffer = None
        if host.used_bytes + n_bytes <= host.budget_bytes:
            try:
                buffer = host.take(n_bytes)
            except DeviceOutOfMemoryError:
                self.tiers.not_pinned_bytes += n_bytes
        if buffer is None:
            return DISK, self.tiers.spill(to_host(part)), None
        array = host.device.array(buffer.block, tuple(part.shape), dtype)
        copy_into(array, part)
        return HOST, array, buffer

    def _table(
        self, layout: Layout, dtype: Any, tiles: list[tuple[int, Any, Buffer | None]]
    ) -> TileTable:
        owners = [owner for owner, _, _ in tiles]
        alike = owners[:1] if len(set(owners)) == 1 else owners
        arrays, buffers = [tile[1] for tile in tiles], [tile[2] for tile in tiles]
        return TileTable(Layout(layout.cuts, tuple(alike)), dtype, buffers, arrays)

    def mesh_now(self) -> Mesh:
        """The mesh, with what the lower tiers have left."""
        host = self.tiers.host
        return replace(
            self.mesh,
            host_bytes=max(host.budget_bytes - host.used_bytes, 0),
            disk_bytes=max(self.tiers.left_bytes, 0),
        )

    def free_lower_bytes(self) -> int:
        """Bytes that the lower tiers have left."""
        mesh = self.mesh_now()
        return mesh.host_bytes + mesh.disk_bytes

    def blank(self, layout: Layout, shape: tuple[int, ...], dtype: Any) -> TileTable:
        """Memory for a value in one piece: where there is one memory, or in one tile."""
        if not self.mesh.is_one_memory:
            return TileTable.in_one_tile(layout, shape, dtype, self.devices[0], self.ledgers[0])
        return TileTable.in_one_piece(layout, shape, dtype, self.devices[0], self.ledgers[0])

    def evict(self, table: TileTable) -> TileTable:
        """The same values in lower tiers; the memory is free when the table before goes."""
        tiles: list[tuple[int, Any, Buffer | None]] = []
        for k, array in enumerate(table.arrays):
            owner = table.layout.owner(k)
            if table.lower_tiles and table.lower_tiles[k] is not None:
                part, slab = table.lower_tiles[k], table.lower_buffers[k]
                tiles.append((HOST if slab is not None else DISK, part, slab))
            elif owner < 0:
                tiles.append((owner, array, table.buffers[k]))
            else:
                tiles.append(self._lower_tile(array, table.dtype))
        self.synchronize()
        evicted = self._table(table.layout, table.dtype, tiles)
        evicted.most_kept = None if table.lower_tiles else table.most_kept
        evicted.made, evicted.is_file = table.made, table.is_file
        return evicted

    def read(self, table: TileTable, box: Box, steps: tuple[int, ...] | None = None) -> np.ndarray:
        """The values of a box, or of each axis of it every so many, as a new NumPy array."""
        return table.read(box, self.devices, steps)

    def gpu_index(self, device: int) -> int:
        """The number by which other libraries know a GPU."""
        gpu: Any = self.devices[device]
        return int(gpu.gpu.index)

    def budgets(self) -> list[int]:
        """Bytes that may be used of each device."""
        return [ledger.budget_bytes for ledger in self.ledgers]

    def available_bytes(self, device: int) -> int:
        """Budget of a device that nothing holds."""
        ledger = self.ledgers[device]
        return ledger.budget_bytes - ledger.used_bytes

    def has_room(self, needs: dict[int, int]) -> bool:
        """Whether so many bytes of each device are held by nothing."""
        if len(needs) == 1:  # every evaluation asks
            ((device, n_bytes),) = needs.items()
            return self.ledgers[device].has(n_bytes)
        return all(self.ledgers[device].has(n_bytes) for device, n_bytes in needs.items())

    def memory_use(self) -> list[MemoryUse]:
        """Every memory: the devices in their order, then the lower tiers that there are."""
        ledgers = [(ledger, ledger.device.name, "device") for ledger in self.ledgers]
        name = self.devices[0].name
        if self.tiers.host.budget_bytes:
            ledgers.append((self.tiers.host, name, "host"))
        found = [
            MemoryUse(
                place, tier, one.used_bytes, one.resting_bytes, one.budget_bytes, one.peak_bytes
            )
            for one, place, tier in ledgers
        ]
        if self.tiers.disk_bytes:
            spilled = self.tiers.spilled_bytes
            found.append(MemoryUse(name, "disk", spilled, 0, self.tiers.disk_bytes, spilled))
        return found

    def not_pinned_bytes(self) -> int:
        """Bytes that went to files because host memory could not be pinned for them."""
        return self.tiers.not_pinned_bytes

    def reset_peaks(self) -> None:
        """Count peaks, and what was not pinned, from now on."""
        self.tiers.not_pinned_bytes = 0
        for ledger in self.ledgers:
            ledger.peak_bytes = ledger.used_bytes

    def when_idle(self, let_go: Callable[[], None]) -> None:
        """Have a function called before unused memory is given back: it lets go of dead tensors."""
        for ledger in self.ledgers:
            ledger.let_go = let_go

    def synchronize(self, device: int | None = None) -> None:
        """Wait for what finished runs have started, on one device or on all."""
        for one in self.devices if device is None else (self.devices[device],):
            one.synchronize()

    def close(self) -> None:
        """End the threads, return the memory."""
        for workers in (self._workers, *self._fewer.values()):
            workers.close()
        self.tiers.close()
        for ledger in self.ledgers:
            ledger.trim()


def _nothing() -> None:
    """No progress to show."""


ENGINES["local"] = LocalEngine

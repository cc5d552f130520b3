"""Programs of a few kernels on a GPU, started without a `Run` when they are repeated.

While the host gets ready to start the first kernel the GPU has nothing to do. A program of few
tasks, all of which read leaves or each other and write memory of their own, needs no directory, no
waits and no way to go on after it was stopped: its kernels are started one after the other, or,
where tasks are more than one launch each and the memory is that of before, by one call that was
recorded. Where one cannot be, nobody has seen anything of it; a `Run` then makes it all again, and
says what is wrong.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor import events
from infinitensor.config import config
from infinitensor.devices.gpu_driver import Recorded
from infinitensor.devices.ledger import Buffer, ledgers_in_c
from infinitensor.events import lane
from infinitensor.ir.layout import HOST
from infinitensor.ir.tasks import COMPUTE, LOAD
from infinitensor.jit import picker
from infinitensor.native import extension
from infinitensor.runtime.replay.cuda_graphs import (
    Recording,
    Replays,
    as_bytes,
    place_of,
    recorded,
    replays_of,
)
from infinitensor.runtime.replay.one_launch import Again
from infinitensor.runtime.state.step import SCALAR, SPAN, TILE, Steps
from infinitensor.runtime.state.tile_table import BlankTable, TileTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from infinitensor.devices import Device, Ledger
    from infinitensor.ir.tasks import Program
    from infinitensor.jit import OneLaunch
    from infinitensor.runtime.state.step import Out, Step

MOST_TASKS = 1024
"""Tasks of which a program may have: a run of more can be stopped."""


class KeptTiles(NamedTuple):
    """A value that outlives the program."""

    blank: BlankTable
    outs: tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]
    """Of each of its tiles: slot, shape and dtype."""


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


class Load(NamedTuple):
    """A task that brings values of the host, which are others each time: no part of recordings."""

    run: Callable[[list[Any], list[Any], int], None]
    i: int
    sources: tuple[int, ...]
    """Which of the tiles of leaves."""
    place: int
    out: Out


class Few(NamedTuple):
    """The tasks of a program in their order, where the tiles of its leaves are, and what is held
    of it. All values have a place: scalars, nothing, then tiles of leaves, then what is made."""

    loads: tuple[Load, ...]
    """Come before the steps."""
    steps: tuple[Start, ...]
    n_scalars: int
    leaves: tuple[tuple[int, int], ...]
    """Leaf, and which of its tiles."""
    in_place: tuple[int, ...]
    """Tiles of leaves that steps read where they are."""
    n_made: int
    held: tuple[tuple[int, KeptTiles], ...]
    """By number."""
    slot_bytes: tuple[int, ...]
    peak_bytes: int
    """What it needs of the device, with the slots that it has beside those of the plan."""
    alike: tuple[tuple[int, ...], ...]
    """Slots that have as many bytes as others: the same slabs mean the same memory, in whatever
    order they rest."""
    is_launched: bool
    """Whether every task is one launch."""
    replays: Replays | None
    """Recordings of it, where it is more than that."""
    device: Device
    ledger: Ledger

    @property
    def way(self) -> str:
        """How its starts are counted."""
        return "few_kernels"

    @property
    def alone(self) -> Any:
        """A pointer for C to what starts what was recorded without a line of Python."""
        return _alone

    @property
    def peaks(self) -> dict[int, int]:
        """Bytes that it needs of each device."""
        return {0: self.peak_bytes}

    @property
    def counts(self) -> dict[str, int]:
        """What a start of it adds to `stats()`."""
        loaded = sum(prod(load.out.shape) * load.out.dtype.itemsize for load in self.loads)
        return {"tasks": len(self.loads) + len(self.steps), "bytes_loaded": loaded}

    def start(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any]
    ) -> dict[int, TileTable] | None:
        """Start all kernels; the tables of what is held. None: a `Run` has to."""
        if events.watches_runs():
            return None
        if self.loads and not self.ledger.has(self.peak_bytes):
            return None
        try:
            found = self._take() if self.loads or events.hooks else _started(self, leaves, scalars)
            if not isinstance(found, list):
                return found
            buffers: list[Buffer] = found
            given = [leaves[leaf].arrays[k] for leaf, k in self.leaves]
            if self.loads:
                self._load(given, buffers)
            checks = self._replay(given, buffers, scalars)
            if checks is None:
                checks = self._call(given, buffers, scalars)
            if checks and not self.hold(checks):
                return None
        except Exception:  # it is raised again where it is explained
            return None
        return self._tables(buffers)

    def _take(self) -> list[Any]:
        """Memory for what is made, by slots; of slots that are alike by places."""
        take = self.ledger.take
        buffers: list[Any] = [take(n_bytes) for n_bytes in self.slot_bytes]
        for slots in self.alike:
            taken = sorted([buffers[slot] for slot in slots], key=place_of)
            for slot, buffer in zip(slots, taken, strict=True):
                buffers[slot] = buffer
        return buffers

    def _load(self, given: Sequence[Any], buffers: Sequence[Buffer]) -> None:
        """Bring values of the host, in order with kernels."""
        array = self.device.array
        with self.device.running():
            for run, i, sources, _, out in self.loads:
                made = array(buffers[out.slot].block, out.shape, out.dtype)
                run([given[k] for k in sources], [made], i)

    def _call(
        self, given: Sequence[Any], buffers: Sequence[Buffer], scalars: Sequence[Any]
    ) -> Sequence[Callable[[], bool]]:
        """Start the kernels one after the other; how to see that all was right."""
        device = self.device
        checks: list[Callable[[], bool]] = []
        lane.in_task = True
        try:
            with device.running():
                values, outs = self._arrays(given, buffers, scalars)
                stream = device.stream() if self.is_launched else None
                if stream is None or not self._launch(values, stream):
                    lane.checks = checks
                    self._run(values, outs)
        finally:
            lane.in_task = False
            lane.checks = None
        return checks

    def _arrays(
        self, given: Sequence[Any], buffers: Sequence[Buffer], scalars: Sequence[Any]
    ) -> tuple[list[Any], list[list[Any]]]:
        """All values of the program, and the results of each task."""
        array = self.device.array
        values: list[Any] = [*scalars[: self.n_scalars], None, *given, *[None] * self.n_made]
        outs = []
        for _, _, _, place, out in self.loads:
            values[place] = array(buffers[out.slot].block, out.shape, out.dtype)
        for step in self.steps:
            made = [array(buffers[out.slot].block, out.shape, out.dtype) for _, out in step.outs]
            for (place, _), one in zip(step.outs, made, strict=True):
                values[place] = one
            outs.append(made)
        return values, outs

    def _tables(self, buffers: Sequence[Buffer]) -> dict[int, TileTable]:
        """The tables of what is held."""
        tables = {}
        array = self.device.array
        for number, (blank, outs) in self.held:
            homes, arrays = [], []
            for slot, shape, dtype in outs:
                home = buffers[slot]
                homes.append(home)
                arrays.append(array(home.block, shape, dtype))
            tables[number] = blank.fill(homes, arrays)
        return tables

    def _launch(self, values: list[Any], stream: int) -> bool:
        """Start all launches of before on a stream; False: some are not known."""
        return all(
            step.again is not None and step.again.start(values, stream) for step in self.steps
        )

    def _replay(
        self, given: Sequence[Any], buffers: Sequence[Buffer], scalars: Sequence[Any]
    ) -> Sequence[Callable[[], bool]] | None:
        """Start what was recorded on this memory, or record it when it comes a second time; how to
        see that all was right. None: there is nothing recorded."""
        replays = self.replays
        if replays is None or replays.is_over:
            return None
        try:
            places = [given[k].data_ptr() for k in self.in_place]
        except AttributeError:  # some of it is on the host
            return None
        for buffer in buffers:
            places.append(buffer.block.data_ptr())
        key = (as_bytes(places), replays.texts(scalars))
        recording = replays.find(key) or self._record(key, given, buffers, scalars)
        if recording is None:
            return None
        self.device.play(recording.start)
        if recording.noted and recording.is_outdone():
            replays.forget(key)
        return recording.checks

    def _record(
        self, key: Any, given: Sequence[Any], buffers: Sequence[Buffer], scalars: Sequence[Any]
    ) -> Recording | None:
        """Record what comes a second time; None: it is the first, or that cannot be."""
        replays = self.replays
        assert replays is not None
        if not replays.is_seen(key) or not replays.has_room or replays.is_early:
            return None
        lane.in_task = True
        lane.checks = []
        try:
            with self.device.running():
                values, outs = self._arrays(given, buffers, scalars)
                recording = recorded(
                    self.device, lambda: self._run(values, outs), replays.most_own_bytes
                )
        finally:
            lane.in_task = False
            lane.checks = None
        replays.keep(key, recording)
        return recording

    def hold(self, checks: Sequence[Callable[[], bool]]) -> bool:
        """Whether all operands were right, once the device is done."""
        self.device.synchronize()
        return all(check() for check in checks)

    def _run(self, values: list[Any], outs: list[list[Any]]) -> None:
        """Start the kernels of all tasks."""
        with np.errstate(all="ignore"):
            for step, made in zip(self.steps, outs, strict=True):
                ins = list(step.take(values))
                for k, look in step.looks:
                    ins[k] = look(ins[k])
                step.run(ins, made, step.i)


def few_of(program: Program, devices: Sequence[Device], ledgers: Sequence[Ledger]) -> Few | None:
    """A program as a few kernels; None where it is more than that."""
    order = np.flatnonzero(program.needed).tolist()
    if len(devices) > 1 or devices[0].kind != "cuda" or not 0 < len(order) <= MOST_TASKS:
        return None
    if program.order is not None or program.slot_pieces or program.cached:
        return None
    steps = Steps(program, is_null=False)
    found = _apart(program, [steps[task] for task in order])
    if found is None:
        return None
    loads, few, slot_bytes, more_bytes = _with_own_memory(program, *found)
    made = {out.tile: out for step in (*loads, *few) for out in step.outs}
    held: dict[int, KeptTiles] = {}
    for number, (first, layout) in program.graph.held.items():
        tiles = range(first, first + layout.n_tiles)
        if not made.keys() >= set(tiles):
            return None
        outs = tuple((made[t].slot, made[t].shape, made[t].dtype) for t in tiles)
        held[number] = KeptTiles(BlankTable(layout, made[first].dtype), outs)
    leaves = _leaf_tiles(program)
    reads = [read for step in few for read in step.reads]
    n_scalars = 1 + max((read.tile for read in reads if read.how == SCALAR), default=-1)
    places = {tile: n_scalars + 1 + n for n, tile in enumerate([*leaves, *made])}
    starts = tuple(_start_of(step, places, n_scalars) for step in few)
    in_place = {read.tile for read in reads if read.how == TILE}
    slots: dict[int, list[int]] = {}
    for slot, n_bytes in enumerate(slot_bytes):
        slots.setdefault(n_bytes, []).append(slot)
    return Few(
        tuple(_load_of(step, places, n_scalars) for step in loads),
        starts,
        n_scalars,
        tuple(leaves.values()),
        tuple(k for k, tile in enumerate(leaves) if tile in in_place),
        len(made),
        tuple(held.items()),
        tuple(slot_bytes),
        program.peak_bytes.get(0, 0) + more_bytes,
        tuple(tuple(alike) for alike in slots.values() if len(alike) > 1),
        all(start.again is not None for start in starts),
        replays_of(program, devices),
        devices[0],
        ledgers[0],
    )


def _leaf_tiles(program: Program) -> dict[int, tuple[int, int]]:
    """By the number of a tile: the leaf, and which of its tiles."""
    return {
        tiles.first + k: (tiles.leaf, k)
        for tiles in program.graph.tiles
        if tiles.leaf >= 0
        for k in range(tiles.n)
    }


def _apart(program: Program, steps: Sequence[Step]) -> tuple[list[Step], list[Step]] | None:
    """Tasks that bring values of the host, and the others.

    Those are brought first: where their memory has other uses before, to a slot of their own,
    behind all others. None where some tasks are neither.
    """
    loads: list[Step] = []
    others: list[Step] = []
    made: dict[int, Out] = {}
    used: set[int] = set()
    n_slots = len(program.slot_bytes)
    for step in steps:
        if _is_load(program, step):
            (out,) = step.outs
            if out.slot in used:
                out, n_slots = out._replace(slot=n_slots), n_slots + 1
            step = step._replace(outs=(out,))
            loads.append(step)
        elif _is_simple(step, made) and all(made.get(out.tile, out) == out for out in step.outs):
            others.append(step)
        else:
            return None
        used.update(out.slot for out in step.outs)
        made |= {out.tile: out for out in step.outs}
    return (loads, others) if others and min(used) >= 0 else None


def _with_own_memory(
    program: Program, loads: Sequence[Step], steps: Sequence[Step]
) -> tuple[list[Step], list[Step], list[int], int]:
    """The same tasks with slots numbered anew, the bytes of these, and how many are not planned.

    Leaves that nobody else will read are used up by a plan. Here they are left as they are, so that
    a `Run` can read them again: what would take their memory has slots of its own, as loads have.
    """
    planned = program.slot_bytes.tolist()
    slot_bytes = dict(enumerate(planned))
    for step in loads:
        (out,) = step.outs
        slot_bytes.setdefault(out.slot, planned[int(program.slots[out.tile])])
    used = sorted({out.slot for step in (*loads, *steps) for out in step.outs})
    numbers = {slot: number for number, slot in enumerate(used)}

    def numbered(step: Step) -> Step:
        return step._replace(outs=tuple(o._replace(slot=numbers[o.slot]) for o in step.outs))

    more = sum(slot_bytes[s] for s in used if s >= len(planned) or s in program.slot_leaves)
    found = [slot_bytes[slot] for slot in used]
    return [*map(numbered, loads)], [*map(numbered, steps)], found, more


def _is_load(program: Program, step: Step) -> bool:
    """Whether a task only brings values of the host to the device."""
    if step.family.lane != LOAD or not step.many or step.reads or len(step.outs) != 1:
        return False
    found = ((program.graph.set_with(tile), tile) for tile in step.many)
    return all(t.leaf >= 0 and t.devices[tile - t.first] == HOST for t, tile in found)


def _load_of(step: Step, places: dict[int, int], n_scalars: int) -> Load:
    """A task that brings values, with its sources found."""
    (out,) = step.outs
    sources = tuple(places[tile] - n_scalars - 1 for tile in step.many)
    return Load(step.family.run, step.i, sources, places[out.tile], out)


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


def _is_simple(step: Step, made: Mapping[int, Out]) -> bool:
    """Whether a task computes tiles from tiles and scalars: new ones, or changes of what the
    program itself has made, so that it can be made again."""
    family = step.family
    if family.updates and not all(out.tile in made for out in step.outs):
        return False
    is_kernel = family.lane == COMPUTE and not step.many
    return is_kernel and not any(read.how == SPAN for read in step.reads)


Started = dict[int, TileTable] | list[Buffer] | None
"""The tables of a program; or memory for it, where nothing was recorded on that; None: a `Run`
has to."""


def _in_c() -> tuple[Callable[[Few, Sequence[TileTable], Sequence[Any]], Started], Any]:
    """How what was recorded is started: by one call of C (`few_kernels.c`), where there is one; and
    a pointer for other C files to what does so without a line of Python; None without C."""
    module = None
    if ledgers_in_c is not None and config.compile != "never":
        module = extension("runtime/replay/few_kernels")
    if module is None:
        return lambda few, leaves, scalars: few._take(), None
    types = Few, Buffer, TileTable, BlankTable, Replays, Recording, Recorded
    module.install(*types, ledgers_in_c, events.hooks)
    return module.start_recorded, module.started_alone


_started, _alone = _in_c()

"""Programs of several small kernels on a GPU, started at once when they are repeated.

To start a kernel takes the host longer than a small kernel runs. A program that runs on the same
memory with the same scalars as before starts the same kernels; the device can record them once and
start all of them by one call. Which memory that is shows when a run has taken all its buffers.
"""

from __future__ import annotations

from array import array as int_array
from collections import Counter, OrderedDict
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor import events
from infinitensor.events import lane
from infinitensor.jit import n_compiling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.events import Left
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime.state.run_status import Status
    from infinitensor.runtime.state.run_tiles import Tiles

LEAST_TASKS = 4
"""Tasks from which recording them is worth it."""
MOST_SCRATCH = 1 << 28
"""Bytes of scratch up to which recordings share the same memory, which is held while one lives.
What may take more has memory of its own, as much as it takes when it is recorded (often nothing: an
op says what it takes at most, whatever runs); together no more than this."""
MOST_RECORDINGS = 1024
"""Recordings of a process: a driver keeps some kilobytes for each kernel of one."""
RECORDINGS = 4
"""Recordings kept of a program: a loop goes round between a few sets of buffers."""
REMEMBERED_BUFFER_SETS = 64
"""Sets of buffers that are remembered, and after which a program is no longer looked at."""
REPLAYED = 2
"""Kernels of a recording that are started in the time of one that is not."""
FAILURES = 256
"""Recordings that fail in a process before none is tried any more: each has taken about a ms.
(Kernels that wait for the GPU cannot be recorded.)"""

_failures = [0]
_n_held = [0]
_own_bytes = [0]


class Recording:
    """Kernels that start again, and the bytes that they move.

    `noted`: the steps among them that generated code may replace; `read`: what they read besides
    tiles; `checks`: how to see that their operands were right (`events.Lane`).
    """

    __slots__ = ("_read", "checks", "moved_bytes", "noted", "start")

    def __init__(
        self,
        start: Callable[[], None],
        noted: Sequence[tuple[Left, int]] = (),
        read: Sequence[Any] = (),
        checks: Sequence[Callable[[], bool]] = (),
    ) -> None:
        self.start = start
        self._read = read
        self.checks = checks
        self.moved_bytes = 0
        _n_held[0] += 1
        _own_bytes[0] += _own_bytes_of(start)
        totals: Counter[Left] = Counter()
        for left, work in noted:
            totals[left] += work
        self.noted = [(left, work // REPLAYED) for left, work in totals.items()]

    def is_outdone(self) -> bool:
        """Count one more start; whether steps have run so often that generated code is due."""
        due = False
        for left, work in self.noted:
            left.spend(work)
            due = due or left.is_done()
        return due

    def __del__(self) -> None:
        _n_held[0] -= 1
        _own_bytes[0] -= _own_bytes_of(self.start)


def _own_bytes_of(start: Callable[[], None]) -> int:
    return getattr(start, "own_bytes", 0)


class Replays:
    """The recordings of a program, by memory and scalars; each with memory of its own, or all with
    that of others."""

    __slots__ = ("_is_apart", "_n_missed", "_scalars", "_seen", "_texts", "alike")

    def __init__(self, is_apart: bool = False) -> None:
        self._is_apart = is_apart
        self.alike: dict[tuple[int, int], list[int]] | None = None
        """Slots that a run has to fill, by device and size; None until one has looked."""
        self._seen: OrderedDict[Any, Recording | None] = OrderedDict()
        self._n_missed = 0
        self._scalars: tuple[Any, ...] = ()
        self._texts: tuple[Any, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether looking is in vain."""
        return self._n_missed > REMEMBERED_BUFFER_SETS or _failures[0] >= FAILURES

    @property
    def has_room(self) -> bool:
        """Whether there may be one more recording."""
        return _n_held[0] < MOST_RECORDINGS

    @property
    def is_early(self) -> bool:
        """Whether what is recorded now would be steps that take much more memory than the kernels
        which are compiled beside them."""
        return self._is_apart and n_compiling() > 0

    @property
    def most_own_bytes(self) -> int | None:
        """Memory of its own that one more may have; None: it shares that of others."""
        return max(MOST_SCRATCH - _own_bytes[0], 0) if self._is_apart else None

    def texts(self, scalars: Sequence[Any]) -> tuple[Any, ...]:
        """Scalars as they are compared: 0.0 and -0.0 are equal, but not the same.

        Mostly they are the very objects of the last time.
        """
        if len(scalars) != len(self._scalars) or not all(map(is_, scalars, self._scalars)):
            self._scalars = tuple(scalars)
            self._texts = tuple(
                [s.tobytes() if isinstance(s, np.generic) else repr(s) for s in scalars]
            )
        return self._texts

    def find(self, key: Any) -> Recording | None:
        """The recording of a run like this, if there is one."""
        found = self._seen.get(key)
        if found is not None:
            self._seen.move_to_end(key)
            self._n_missed = 0
        else:
            self._n_missed += 1
        return found

    def is_seen(self, key: Any) -> bool:
        """Whether a run like this has come before; from now on it has."""
        if key in self._seen:
            return True
        self._seen[key] = None
        while len(self._seen) > REMEMBERED_BUFFER_SETS:
            self._seen.popitem(last=False)
        return False

    def forget(self, key: Any) -> None:
        """As if no such run had come before."""
        self._seen.pop(key, None)

    def keep(self, key: Any, recording: Recording | None) -> None:
        """Keep a recording; None: it failed."""
        if recording is None:
            _failures[0] += not self._is_apart  # which mostly fail for what they hold
            self._n_missed = REMEMBERED_BUFFER_SETS + 1
            return
        self._seen[key] = recording
        held = [k for k, one in self._seen.items() if one is not None]
        for k in held[:-RECORDINGS]:
            self._seen[k] = None


def replays_of(program: Program, devices: Sequence[Device]) -> Replays | None:
    """Where recordings of a program are kept; None if it is not on one GPU."""
    gpus = {device.name.split("#")[0] for device in devices}
    if devices[0].kind != "cuda" or len(gpus) > 1:
        return None
    scratch = max(family.scratch_bytes for family in program.graph.families)
    return Replays(is_apart=scratch > MOST_SCRATCH)


def work_again(
    replays: Replays,
    tiles: Tiles,
    scalars: Sequence[Any],
    status: Status,
    work_through: Callable[[], None],
) -> bool:
    """Start all kernels by one call, if they were recorded on the same memory; else False.

    What has come a second time is recorded while `work_through` runs all tasks.
    """
    if replays.is_over or not events.hooks.keys().isdisjoint(("task_start", "tile_commit")):
        return False
    key = _memory(replays, tiles, scalars)
    if key is None:
        return False
    recording = replays.find(key)
    if recording is None:
        if not replays.is_seen(key) or not replays.has_room or replays.is_early:
            return False
        recording = _recorded(tiles, status, work_through, replays.most_own_bytes)
        replays.keep(key, recording)
        if recording is None:
            return False
    recording.start()
    if recording.noted and recording.is_outdone():
        replays.forget(key)  # the next run compiles, that after it is recorded
    status.counts["bytes_moved"] += recording.moved_bytes
    status.done = bytearray(tiles.program.needed.tobytes())
    status.n_done = status.n_tasks
    for first, layout in tiles.program.graph.held.values():
        tiles.enter_made(first, layout.n_tiles)
    return True


def take_by_place(ledger: Ledger, n_bytes: int, n: int) -> list[Buffer]:
    """So many buffers, by their places: then the same slabs mean the same memory, in whatever order
    they rest."""
    taken = [ledger.take(n_bytes) for _ in range(n)]
    if n > 1:
        taken.sort(key=place_of)
    return taken


def place_of(buffer: Buffer) -> int:
    """Where its memory begins."""
    place: int = buffer.block.data_ptr()
    return place


def _memory(replays: Replays, tiles: Tiles, scalars: Sequence[Any]) -> Any:
    """The memory that this run reads and writes, and its scalars; None where that is the host's."""
    buffers = tiles.directory.buffers
    if replays.alike is None:
        replays.alike = {}
        for slot in (slot for slot, buffer in enumerate(buffers) if buffer is None):
            kind = (int(tiles.program.slot_devices[slot]), int(tiles.program.slot_bytes[slot]))
            replays.alike.setdefault(kind, []).append(slot)
    for (device, n_bytes), slots in replays.alike.items():
        taken = take_by_place(tiles.ledgers[device], n_bytes, len(slots))
        for slot, buffer in zip(slots, taken, strict=True):
            buffers[slot] = buffer
    places = [place_of(buffer) for buffer in buffers if buffer is not None]
    for table in tiles.leaves:
        if table.layout.is_in_lower_tier:
            return None
        places += [values.data_ptr() for values in table.arrays]
    return as_bytes(places), replays.texts(scalars)


def as_bytes(places: Sequence[int]) -> bytes:
    """Addresses as they are compared."""
    return int_array("q", places).tobytes()


def _recorded(
    tiles: Tiles, status: Status, work_through: Callable[[], None], most_own_bytes: int | None
) -> Recording | None:
    """Record all tasks; nothing runs meanwhile. None, and as before, where that fails."""
    at_home = tiles.directory.state()
    recording = recorded(tiles.devices[0], work_through, most_own_bytes)
    moved = status.counts.pop("bytes_moved", 0)
    failed = status.failure is not None or status.n_done < status.n_tasks
    tiles.directory.restore(at_home)
    status.done = bytearray(len(status.done))
    status.n_done = 0
    if isinstance(status.failure, Exception):
        status.failure, status.stopping = None, status.is_interrupted
    status.failed.clear()
    if failed or recording is None:
        return None
    recording.moved_bytes = moved
    return recording


def recorded(
    device: Device, work: Callable[[], None], most_own_bytes: int | None = None
) -> Recording | None:
    """The kernels that `work` starts, none of which runs meanwhile; None where that fails, or they
    take more memory of their own than that."""
    noted: list[tuple[Left, int]] = []
    read: list[Any] = []
    lane.noted, lane.read = noted, read
    try:
        apart = () if most_own_bytes is None else (most_own_bytes,)
        again = device.record(work, *apart)
    finally:
        lane.noted = lane.read = None
    if again is None:
        return None
    return Recording(again, noted, read, lane.checks or ())

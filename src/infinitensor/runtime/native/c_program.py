"""Programs whose tasks are calls of compiled functions: bound once, run in C.

To start a task from Python takes 10 to 25 us: what it reads and writes is looked up, arrays are
made, the queue is locked. A program of generated code needs none of that while it runs. Its tasks
are bound to flat columns when it runs for the first time: functions, how they walk arrays, in which
memory each array is and at which offset. A run gives the addresses of the memories and the
values of the scalars; then C runs all tasks (`c_program.c`), on all workers, without Python's lock.
Tasks between them that are no calls are handed to Python when they are ready.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.errors import DeviceOutOfMemoryError
from infinitensor.ir.call_tables import N_FORM, Operands, StridedArrays
from infinitensor.ir.tasks import COMPUTE, EVICT, LOAD
from infinitensor.native import IS_CHECKED, CompilerError, address
from infinitensor.runtime.native.c_job import fill
from infinitensor.runtime.native.c_team import c_functions
from infinitensor.runtime.native.waves import find_waves
from infinitensor.runtime.state.run_status import IS_STOPPED
from infinitensor.runtime.state.tile_table import Parts, TileTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from infinitensor.devices import Buffer
    from infinitensor.ir.call_tables import Calls, Form, InC
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.tasks import Column, Family, Program, TileSet
    from infinitensor.runtime.native.workers import Workers
    from infinitensor.runtime.state.run_status import Status
    from infinitensor.runtime.state.run_tiles import RunMemory, Tiles

SLICE_NS = 50_000_000
"""How long C runs before Python looks whether somebody has pressed Ctrl-C."""
SHARED_BYTES = 0 if IS_CHECKED else 1 << 16
"""Slots up to this size are in one slab: to take one by one costs more than to fill it."""
BIND = 10
"""Tasks from Python that take three quarters as long as binding a family: a program of many
families of few tasks is bound when it has run often enough. What ran twice will run again."""
BIND_MORE = 2
"""Half as long as binding one more of its kind."""
REPEATED = 3
"""Runs from which a program is taken for one that is repeated: what it lacks is compiled beside."""
KEPT_BINDINGS = 4
"""Bindings kept of a program: leaves may have other strides when it is repeated."""
MIXED = 2
"""One in so many tasks, at least, is a call where a program runs in C."""


class Memory(NamedTuple):
    """A piece of memory with tiles: all of a leaf, a tile of it, a slot, a piece, or the slab that
    small slots of a device share."""

    kind: str
    number: int
    part: int = -1
    device: int = 0
    n_bytes: int = 0
    """What is taken of that device where it is not there."""


class Bindings:
    """The bindings of a program, by the strides of its leaves."""

    def __init__(self, program: Program, kind: str) -> None:
        self._found: dict[Hashable, Called] = {}
        self._before: dict[Hashable, Called] = {}
        """Bindings with fewer of the families, whose calls are those of the next."""
        needed = program.needed
        self._families = [
            family
            for family in program.graph.families
            if family.in_c is not None and family.lane == COMPUTE and needed[family.span].any()
        ]
        self._n_tasks = int(np.count_nonzero(needed))
        self._n_calls = sum(family.n for family in self._families)
        each = [family.in_c for family in self._families if family.in_c is not None]
        kinds = {id(in_c.together or in_c) for in_c in each}
        more = len(set(map(id, each))) - len(kinds)
        self._n_least = BIND * len(kinds) + BIND_MORE * more
        """Families of one kind are worked out together, steps of a stencil once."""
        self._n_due = -1
        self._n_before = 0
        """Calls that a binding would have run so far."""
        self._n_runs = 0
        self.is_over = (
            kind != "cpu"
            or program.order is not None
            or bool(program.retires)
            or any(family.lane in (LOAD, EVICT) for family in program.graph.families)
            or self._n_calls * MIXED < self._n_tasks
        )

    def find(self, tiles: Tiles, n_workers: int) -> Called | None:
        """The binding for a run on such tiles by so many workers, made if it is time to."""
        self._n_runs += 1
        if self._n_runs == REPEATED:
            for family in self._families:
                assert family.in_c is not None
                family.in_c.begin()
        key = leaf_key(tiles.leaves)
        if key is None:
            return None
        self._n_before += self._n_calls
        if self._n_before < self._n_least:
            return None
        if self._n_due < len(self._families):
            due = [f for f in self._families if f.in_c and f.in_c.is_due(self._n_calls)]
            if sum(family.n for family in due) * MIXED < self._n_tasks:
                return None
            if len(due) != self._n_due:
                self._before, self._found = self._found, {}
                self._n_due, self._due = len(due), due
        if key not in self._found:
            if len(self._found) >= KEPT_BINDINGS:
                self._found.clear()
            before = self._before.pop(key, None)
            try:
                known = before.calls if before else {}
                self._found[key] = Called(tiles, self._due, known, n_workers)
            except CompilerError:  # the other way says so
                self.is_over = True
                return None
            if self._n_due == len(self._families):
                self._found[key].calls.clear()  # no other binding will ask for them
        return self._found[key]

    def find_called(self, key: Hashable) -> Called | None:
        """The binding of all families for a run on leaves of such strides, if it is made."""
        return self._found.get(key) if self._n_due == len(self._families) else None


def leaf_key(leaves: Sequence[TileTable]) -> Hashable:
    """The strides of leaves; None if some are in files, or not as C reads them."""
    found = tuple([table.strides for table in leaves])
    return None if () in found else found


class Places:
    """The memory of every tile of a program."""

    def __init__(self, tiles: Tiles) -> None:
        self.program = program = tiles.program
        self.leaves = tiles.leaves
        self.given = tiles.pieces
        """Pieces that are memory of leaves, in their own strides."""
        graph = program.graph
        self.memories: dict[Memory, int] = {}
        self.n_shared: dict[int, int] = {}
        """By device: bytes of the slab that small slots share."""
        self.within = np.full(len(program.slot_bytes), -1, np.int64)
        """Of each slot where it begins in that slab; -1: it is alone."""
        self.pieces: dict[int, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        """By the number of a piece, the shape and dtype of its first array."""
        self._share_slots(program)
        n, ndim = graph.n_tiles, max((t.boxes.shape[1] for t in graph.tiles), default=0)
        self.bases = np.full(n, -1, np.int32)
        self.offsets = np.zeros(n, np.int64)
        self.strides = np.zeros((n, ndim), np.int64)
        self.starts = np.zeros((n, ndim), np.int64)
        self.lengths = np.full((n, ndim), -1, np.int64)
        self.ndims = np.zeros(n, np.int8)
        for one in graph.tiles:
            self._place(one)

    def _share_slots(self, program: Program) -> None:
        alone = np.zeros(len(self.within), np.bool_)
        alone[list(program.slot_leaves)] = True
        alone[list(program.slot_pieces)] = True
        for first, layout in program.graph.held.values():
            held = program.slots[first : first + layout.n_tiles]
            alone[held[held >= 0]] = True
        alone |= program.slot_bytes > SHARED_BYTES
        for device in np.unique(program.slot_devices[~alone]).tolist():
            mine = np.flatnonzero(~alone & (program.slot_devices == device))
            ends = np.cumsum(program.slot_bytes[mine])
            self.within[mine] = ends - program.slot_bytes[mine]
            self.n_shared[device] = int(ends[-1])

    def memory(self, kind: str, number: int, part: int = -1) -> int:
        program, device, n_bytes = self.program, 0, 0
        if kind == "piece":
            n_bytes = program.piece_bytes[number]
        elif kind == "shared":
            device, n_bytes = number, self.n_shared[number]
        elif kind == "slot":
            device, n_bytes = int(program.slot_devices[number]), int(program.slot_bytes[number])
        return self.memories.setdefault(
            Memory(kind, number, part, device, n_bytes), len(self.memories)
        )

    def _place(self, tiles: TileSet) -> None:
        span = slice(tiles.first, tiles.first + tiles.n)
        ndim = tiles.boxes.shape[1]
        starts, lengths = tiles.boxes[:, :, 0], tiles.boxes[:, :, 1] - tiles.boxes[:, :, 0]
        self.starts[span, :ndim], self.lengths[span, :ndim] = starts, lengths
        self.ndims[span] = ndim
        strides: Any
        if tiles.leaf >= 0:
            table = self.leaves[tiles.leaf]
            if table.whole is not None:
                self.bases[span] = self.memory("leaf", tiles.leaf)
                strides = table.whole.strides
                self.offsets[span] = starts @ np.asarray(strides, np.int64)
            else:
                self.bases[span] = [self.memory("tile", tiles.leaf, k) for k in range(tiles.n)]
                strides = [array.strides for array in table.arrays]
        elif tiles.whole:
            slot = int(self.program.slots[tiles.first])
            if slot < 0:
                return  # nobody makes it
            piece = self.program.slot_pieces[slot]
            self.bases[span] = self.memory("piece", piece)
            shape = tiles.boxes[:, :, 1].max(axis=0)
            self.pieces.setdefault(piece, (tuple(shape.tolist()), tiles.dtype))
            strides = c_strides(shape, tiles.dtype.itemsize)
            given = self.given.get(piece)
            if given is not None:
                strides = np.asarray(given[1].strides, np.int64)
            self.offsets[span] = starts @ strides
        else:
            slots = self.program.slots[span]
            bases = np.full(tiles.n, -1, np.int32)
            shared = (slots >= 0) & (self.within[slots] >= 0)
            for device in np.unique(tiles.devices[shared]).tolist():
                bases[shared & (tiles.devices == device)] = self.memory("shared", device)
            for k in np.flatnonzero((slots >= 0) & ~shared).tolist():
                bases[k] = self.memory("slot", int(slots[k]))
            self.bases[span] = bases
            self.offsets[span] = np.where(shared, self.within[slots], 0)
            strides = c_strides(lengths, tiles.dtype.itemsize)
        if ndim:
            self.strides[span, :ndim] = strides

    def whole(self, tiles: np.ndarray) -> StridedArrays:
        """Tiles; axes that some of them do not have are -1 long."""
        ndim = int(self.ndims[tiles].max(initial=0))
        return StridedArrays(
            self.bases[tiles],
            self.offsets[tiles],
            self.lengths[tiles, :ndim],
            self.strides[tiles, :ndim],
        )

    def view(self, column: Column, tasks: np.ndarray, n_bytes: int) -> StridedArrays:
        """The arrays that some tasks read of the tiles in a column, of elements of so many
        bytes."""
        tiles = column.tiles[tasks]
        if tiles.min() < 0:  # tasks that read nothing of it are left out by their boxes
            if tiles.max() < 0:
                assert column.boxes is not None
                none = np.zeros((len(tiles), column.boxes.shape[1]), np.int64)
                return StridedArrays(tiles, np.zeros(len(tiles), np.int64), none, none)
            tiles = np.where(tiles < 0, tiles.max(), tiles)
        found = self.whole(tiles)
        if column.boxes is None:
            return found
        starts = self.starts[tiles, : found.strides.shape[1]]
        seen = found.view(starts, column.boxes[tasks], column.access)
        if column.access is not None and column.access.part == "imag":
            seen = seen._replace(offsets=seen.offsets + n_bytes // 2)
        return seen


class Called:
    """A program bound to C."""

    def __init__(
        self, tiles: Tiles, families: Sequence[Family], known: dict[int, Calls], n_workers: int
    ) -> None:
        program = tiles.program
        places = Places(tiles)
        self.held = {
            value: _kept_place(program, *held) for value, held in program.graph.held.items()
        }
        self.in_python = program.needed.astype(np.uint8)
        for family in families:
            self.in_python[family.span] = 0
        owns = {f.first: np.flatnonzero(program.needed[f.span]) for f in families}
        fresh = [family for family in families if family.first not in known]
        made = _calls_of([_asked_of(tiles, places, f, owns[f.first]) for f in fresh])
        self.calls = {first: known.get(first) or made[first] for first in owns}
        """By the first task of a family; some are `known`."""
        tasks = [first + owns[first][calls.tasks] for first, calls in self.calls.items()]
        found = list(self.calls.values())
        self.is_mixed = bool(self.in_python.any())
        self.within = places.within
        self.memories = tuple(places.memories)
        self.pieces = places.pieces
        self._set_forms(found)
        counts = np.bincount(np.concatenate(tasks), minlength=program.graph.n_tasks)
        self.calls_of = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.bases = np.concatenate([calls.bases for calls in found]).astype(np.int32)
        self.offsets = np.concatenate([calls.offsets for calls in found]).astype(np.int64)
        codes = np.concatenate([calls.words for calls in found]).astype(np.int64)
        each, words = np.unique(codes, return_inverse=True)
        self.codes: list[int] = each.tolist()
        n_words = len(self.memories) + len(self.codes)
        self.words = words.astype(np.int32)
        self.order = program.needed.nonzero()[0].astype(np.int64)
        self.places: np.ndarray | None = None
        self.work_ns = -1
        """How long all tasks took together, the last time; -1: they did not run yet."""
        self.waves = find_waves(program, n_workers)
        if self.waves is not None:
            self.order = self.waves.order
            self.places = np.full(program.graph.n_tasks, -1, np.int32)
            self.places[self.order] = np.arange(len(self.order))
        self.n_waits = len(program.waits)
        self.borders = np.ascontiguousarray(program.borders, np.int64)
        self.after = np.ascontiguousarray(program.after, np.int32)
        ready = np.flatnonzero((program.waits == 0) & program.needed)  # ascending: a heap
        if self.places is not None:
            ready = np.sort(self.places[ready])
        rest = len(self.order) - len(ready)
        state = np.concatenate(
            [program.waits, ready, np.zeros(rest + (self.n_waits + len(self.order)) % 2)]
        )
        columns = [
            self.calls_of, self.form_of, self.array_of, self.word_of, self.table, self.bases,
            self.offsets, self.words, 0, 0, self.order, len(self.order),
            0 if self.places is None else self.places, self.borders, self.after,
            self.in_python if self.is_mixed else 0, 0, 0, 0, len(ready), 0, 0, 0, 0, 0, 1, 0, 0,
            0, 0, 0,
        ]  # fmt: skip
        numbers = [c if isinstance(c, int) else address(c) for c in columns]
        self.state_at = 8 * (N_JOB + n_words)
        blank = np.zeros(n_words, np.int64)
        parts = (np.asarray(numbers, np.int64), blank, state.astype(np.int32).view(np.int64))
        self.template = np.concatenate(parts)

    def _set_forms(self, found: Sequence[Calls]) -> None:
        """The forms of all families as one table, each once."""
        numbered: dict[tuple[int, ...], int] = {}
        self._held: list[Form] = []
        forms = []
        known: dict[int, np.ndarray] = {}
        for calls in found:
            own = known.get(id(calls.of))
            if own is None:  # families that were asked together have one list
                own = known[id(calls.of)] = np.zeros(len(calls.of), np.int32)
                for k, form in enumerate(calls.of):
                    row = (*form.numbers, form.n_arrays, form.n_scalars)
                    row += (form.shared_by, form.n_read)
                    own[k] = numbered.setdefault(row, len(numbered))
                    self._held.append(form)
            forms.append(own[calls.forms])
        self.table = np.asarray(list(numbered), np.int64).reshape(-1, N_FORM)
        self.form_of = np.concatenate(forms).astype(np.int32)
        n_arrays, n_words = self.table[self.form_of, 8], self.table[self.form_of, 9]
        self.array_of = np.cumsum(n_arrays) - n_arrays
        self.word_of = np.cumsum(n_words) - n_words

    def blank_job(self, done: bytearray) -> Job:
        """The arguments of C for a run, but for scalars and memory; where it says what is done."""
        job, held = self.template.copy(), np.frombuffer(done, np.uint8)
        at = address(job)
        state = at + self.state_at
        job[MEMORIES : MEMORIES + 2] = at + 8 * N_JOB, at + 8 * (N_JOB + len(self.memories))
        job[WAITS : WAITS + 3] = state, state + 4 * self.n_waits, address(held)
        return Job(job, job.data, at, held)

    def fill(self, job: Job, scalars: Sequence[Any], memories: list[Any]) -> None:
        """Give a job the scalars of a run and the memories, arrays that begin where they do."""
        fill(job.view, 8 * N_JOB, memories, scalars, self.codes)


class Job(NamedTuple):
    """The argument of C (`Job` in `c_program.c`), its address, and the arrays it points to."""

    words: np.ndarray
    view: memoryview
    at: int
    done: np.ndarray


class KeptPlace(NamedTuple):
    """A kept value: its piece, or its tiles by slot, device and shape."""

    layout: Layout
    dtype: np.dtype[Any]
    piece: int
    tiles: list[tuple[int, int, tuple[int, ...]]]

    def table(self, memory: RunMemory) -> TileTable:
        """Its tiles, when all tasks are done."""
        if self.piece >= 0:
            return self.in_piece(*memory.pieces[self.piece])
        arrays = []
        buffers: list[Buffer | None] = []
        for slot, device, shape in self.tiles:
            slab = memory.buffers[slot]
            assert slab is not None
            buffers.append(slab)
            arrays.append(memory.devices[device].array(slab.block, shape, self.dtype))
        return self.in_slots(buffers, arrays, len(memory.devices))

    def in_piece(self, buffer: Buffer, whole: Any) -> TileTable:
        """Its tiles as parts of one array."""
        layout, dtype = self.layout, self.dtype
        if whole.dtype is not dtype:
            whole = whole.view(dtype)
        n = layout.n_tiles
        arrays: Any = [whole] if n == 1 else Parts(whole, layout)
        return TileTable(layout, dtype, [buffer] * n, arrays, whole=whole)

    def in_slots(
        self, buffers: list[Buffer | None], arrays: list[Any], n_devices: int
    ) -> TileTable:
        """Its tiles, each in memory of its own."""
        whole = arrays[0] if len(arrays) == n_devices == 1 else None
        return TileTable(self.layout, self.dtype, buffers, arrays, whole=whole)


def _kept_place(program: Program, first: int, layout: Layout) -> KeptPlace | None:
    """How a kept value is found; None: some of it is a leaf's."""
    slots = program.slots[first : first + layout.n_tiles].tolist()
    tiles = next(t for t in program.graph.tiles if t.first <= first < t.first + t.n)
    if tiles.leaf >= 0 or min(slots) < 0:
        return None
    if tiles.whole:
        return KeptPlace(layout, tiles.dtype, program.slot_pieces[slots[0]], [])
    at = slice(first - tiles.first, first - tiles.first + layout.n_tiles)
    shapes = (tiles.boxes[at, :, 1] - tiles.boxes[at, :, 0]).tolist()
    devices = tiles.devices[at].tolist()
    return KeptPlace(
        layout, tiles.dtype, -1, [*zip(slots, devices, map(tuple, shapes), strict=True)]
    )


MEMORIES, WAITS, N_DONE, WORK_NS, N_THREADS, LEVELS, N_JOB = 8, 16, 21, 24, 25, 28, 31
"""Where a job has these; behind it come the memories, the scalars, the waits and the heap."""
OVER, LATER = -1, -2


class Asked(NamedTuple):
    """A request to a family: the calls of some tasks, on their operands."""

    first: int
    """The first task of the family."""
    in_c: InC
    operands: Operands

    def kind(self) -> Hashable:
        """A key of requests that can be made together; of one that is made alone its own."""
        _, many, ins, outs = self.operands
        if self.in_c.together is None or many is not None:
            return self.first
        axes = [x.strides.shape[1] if type(x) is StridedArrays else -1 for x in (*ins, *outs)]
        return (self.in_c.together, tuple(axes))


def _asked_of(tiles: Tiles, places: Places, family: Family, own: np.ndarray) -> Asked:
    many = None
    if family.many is not None:
        borders, sources = family.many
        counts = np.diff(borders)[own]
        ends = np.cumsum(counts)
        which = np.repeat(borders[own] - (ends - counts), counts) + np.arange(ends[-1])
        many = (np.concatenate([[0], ends]), places.whole(sources[which]))
    ins: list[Any] = []
    for column in family.reads:
        if column.scalar:
            ins.append(column.tiles[own])
        else:
            n_bytes = 0
            if column.access is not None and column.access.part:
                n_bytes = tiles.program.graph.set_with(int(column.tiles[own[0]])).dtype.itemsize
            ins.append(places.view(column, own, n_bytes))
    outs = [places.whole(writes[own]) for writes in family.writes]
    assert family.in_c is not None
    return Asked(family.first, *family.in_c.plain(Operands(own, many, ins, outs)))


def _calls_of(asked: Sequence[Asked]) -> dict[int, Calls]:
    """The calls of families by their first tasks: those of one kind are worked out together."""
    found: dict[int, Calls] = {}
    kinds: dict[Hashable, list[Asked]] = {}
    for one in asked:
        kinds.setdefault(one.kind(), []).append(one)
    for alike in kinds.values():
        first = alike[0]
        if len(alike) == 1:
            found[first.first] = first.in_c.calls(first.operands)
            continue
        tasks, _, every_in, every_out = zip(*(one.operands for one in alike), strict=True)
        ins = [_join_columns(parts) for parts in zip(*every_in, strict=True)]
        outs = [_join_columns(parts) for parts in zip(*every_out, strict=True)]
        borders = [0, *np.cumsum([len(own) for own in tasks]).tolist()]
        made = first.in_c.calls(Operands(np.arange(borders[-1]), None, ins, outs))
        for one, calls in zip(alike, made.split(borders), strict=True):
            found[one.first] = calls
    return found


def _join_columns(parts: Sequence[Any]) -> Any:
    """A column of several families: of tiles, or of the numbers of scalars."""
    return StridedArrays.join(parts) if type(parts[0]) is StridedArrays else np.concatenate(parts)


def c_strides(shapes: np.ndarray, itemsize: int) -> np.ndarray:
    """Strides, in bytes, of arrays in C order; shapes along the last axis."""
    above = np.maximum(shapes[..., :0:-1], 1)
    steps = np.ones_like(shapes)
    steps[..., :-1] = np.cumprod(above, axis=-1)[..., ::-1]
    strides: np.ndarray = steps * itemsize
    return strides


def run_called(
    called: Called,
    job: Job,
    status: Status,
    attempt: Callable[[int], bool],
    workers: Workers | None,
    tick: Callable[[], None],
) -> None:
    """Run all tasks, or until the run is to stop; `attempt` runs one that is Python's, and says
    whether it could."""
    words, at = job.words, job.at
    functions = c_functions()
    status.job = words
    words[IS_STOPPED] = status.stopping  # before it had a job to say so
    if workers is not None:
        words[N_THREADS : N_THREADS + 3] = status.n_workers or workers.n, *workers.team.calls

    def report_progress() -> None:
        if status.stopping:
            words[IS_STOPPED] = 1
        status.n_done = int(words[N_DONE])
        tick()

    def run_alone() -> None:
        with np.errstate(all="ignore") if called.is_mixed else nullcontext():
            given = OVER
            while (given := functions.alone(at, given, SLICE_NS)) != OVER:
                if given >= 0 and not attempt(given):
                    break
                report_progress()

    try:
        if workers is None or status.n_tasks < 2 or workers.n < 2:
            run_alone()
        elif called.is_mixed and status.n_workers == 1:
            workers.run_here(run_alone)
        elif called.is_mixed:
            handle = workers.team.handle
            following = partial(functions.next_of_python, handle, at)
            leave = partial(functions.leave, handle, at)
            try:
                both = partial(_run_both, attempt, following, leave)
                n_most = status.n_workers
                workers.run(both, report_progress, n_first=status.n_tasks, n_most=n_most)
            finally:
                words[IS_STOPPED] = 1
                workers.join()  # what raised here must not take memory from those who still write
        else:
            n_others = (status.n_workers or workers.n) - 1
            together = partial(functions.together, workers.team.handle, at, n_others)
            _run_together(together, words, report_progress)
    finally:
        status.job = None
        status.n_done = int(words[N_DONE])
    if status.is_finished():
        called.work_ns = int(words[WORK_NS])
    _count(called, status)


def _count(called: Called, status: Status) -> None:
    """Say which tasks were C's, and which of them went in waves."""
    done = np.frombuffer(status.done, np.bool_)
    status.counts["tasks_in_c"] = status.n_done
    if called.is_mixed:
        status.counts["tasks_in_c"] = int(np.count_nonzero(done & (called.in_python == 0)))
    if called.waves is not None:
        status.counts["tasks_in_waves"] = int(np.count_nonzero(done[called.waves.members]))


def _run_together(
    go_on: Callable[[int], int], words: np.ndarray, report_progress: Callable[[], None]
) -> None:
    """In this thread and in those of C."""
    found = LATER
    try:
        while (found := go_on(SLICE_NS)) != OVER:
            report_progress()
    finally:
        words[IS_STOPPED] = 1
        while found != OVER:  # what raised here must not take memory from those who still write
            found = go_on(SLICE_NS)


def _run_both(
    attempt: Callable[[int], bool], following: Callable[[int], int], leave: Callable[[], None]
) -> None:
    """In a worker: calls, and the tasks between them that are Python's."""
    given = OVER
    while (given := following(given)) != OVER:
        if not attempt(given):
            leave()
            return


def take_memories(memory: RunMemory, called: Called) -> list[Any] | None:
    """Arrays in the memories of a run, which takes what it does not have; None: too little is
    left."""
    leaves, buffers, pieces, shared, devices, ledgers = memory
    found: list[Any] = []
    try:
        for kind, number, part, device, n_bytes in called.memories:
            if kind == "leaf":
                block = leaves[number].whole
            elif kind == "tile":
                block = leaves[number].arrays[part]
            elif kind == "piece":
                piece = pieces.get(number)
                if piece is None:
                    slab = ledgers[0].take(n_bytes)
                    whole = devices[0].array(slab.block, *called.pieces[number])
                    piece = pieces[number] = (slab, whole)
                block = piece[1]
            elif kind == "shared":
                shared[number] = ledgers[device].take(n_bytes)
                block = shared[number].block
            else:
                buffer = buffers[number]
                if buffer is None:
                    buffer = buffers[number] = ledgers[device].take(n_bytes)
                block = buffer.block
            found.append(block)
    except BaseException as error:
        shared.clear()
        if isinstance(error, DeviceOutOfMemoryError):
            return None  # the other way takes it piece by piece, and says whose it is
        raise
    return found

"""Sessions: the devices a program runs on, the plans it has made, what it has counted."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from infinitensor.api.session import ways
from infinitensor.api.session.einops_backend import greet
from infinitensor.api.session.lock import Lock
from infinitensor.api.session.version import Recording, Version, generation, user_site
from infinitensor.config import config
from infinitensor.dtypes import dtype_of
from infinitensor.engines import Room, open_engine
from infinitensor.errors import (
    DeviceOutOfMemoryError,
    InfiniTensorError,
    MemoryBudgetError,
    SpillSpaceError,
)
from infinitensor.events import lane
from infinitensor.ir import mesh
from infinitensor.jit import n_compiled_here, n_compiling
from infinitensor.native import missed, n_begun, not_compiled, not_prebuilt, warn_once
from infinitensor.ops.backend.blas import n_borrowed, n_by_mkl
from infinitensor.ops.signal.fft_mkl import first
from infinitensor.pipeline import has_tiers
from infinitensor.threads import use_threads

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from infinitensor.api.session.version import Node
    from infinitensor.engines import Engine
    from infinitensor.ir.layout import Layout
    from infinitensor.runtime import TileTable

Made = TypeVar("Made")
COUNTS = (
    "bytes_loaded",
    "bytes_evicted",
    "bytes_moved",
    "bytes_read",
    "bytes_written",
    "tasks",
    "tasks_in_c",
    "tasks_in_waves",
    "plan_hits",
    "plan_misses",
    "whole_ops",
    "eager_fallbacks",
    "host_fallbacks",
    "host_arrays",
    "sklearn_fallbacks",
    "forced_evaluations",
    "evaluations",
    "tiles_rebuilt",
    "smaller_blocks",
    "unplanned_failures",
)


class Session(Recording):
    """Where tensors live. Opened by `init`, or by the first evaluation; a context manager."""

    def __init__(
        self,
        devices: str | Iterable[str] | None = None,
        room: Room | None = None,
        engine: str = "local",
        progress: bool | None = None,
    ) -> None:
        room = room or Room()
        if room.memory is None or room.memory == "":
            room = replace(room, memory=config.memory)
        self._wanted = (engine, devices or config.devices, room)
        self.progress = progress
        self.lock = Lock()
        self.graveyard = []
        self.dropped = []
        self.tape = []
        self.stored: set[weakref.ref[Version]] = set()
        self.waiting_bytes = 0
        self.cut_site: Any = None
        self.was_stopped = self.has_files = False
        """Whether a run was ever stopped: only then can there be one to resume."""
        self.writes = self.cut_next = False
        self.plans: OrderedDict[Any, Any] = OrderedDict()
        self.traces: OrderedDict[Any, Any] = OrderedDict()
        """Plans by the very objects a program is recorded with: how a loop finds its plan."""
        self.leans: OrderedDict[Any, None] = OrderedDict()
        """Programs that fit only if nothing but what was asked for is kept."""
        self.moved_again: OrderedDict[Any, int] = OrderedDict()
        """By program: the bytes it moved between tiers in all its runs, where its own leaves might
        rather be in a lower one."""
        self.constants: OrderedDict[Any, Any] = OrderedDict()
        """Few values of the host that calls have needed as tensors, by what they are."""
        self.programs: OrderedDict[Any, Any] = OrderedDict()
        """Calls of functions that record several calls, by what they are known by."""
        self.made_before: weakref.WeakSet[Version] = weakref.WeakSet()
        """Versions that were held and computed, but not kept, since there was little room."""
        self._seen: OrderedDict[Any, int] = OrderedDict()
        self.seq = 0
        ways.put_all()
        self._start_counts()
        self.seed = 0
        self.stream = 0
        self.generation = generation[0]
        self.closed = False
        self._engine: Engine | None = None
        greet()
        use_threads()
        if config.compile != "never":
            warn_once()
        self._before: Any = None

    @property
    def engine(self) -> Engine:
        """The engine; opened at the first need."""
        if self._engine is None:
            self.check_open()
            with self.lock:
                if self._engine is None:
                    self._engine = open_engine(*self._wanted, config.workers)
                    session = weakref.ref(self)
                    self._engine.when_idle(lambda: drain(session()))
        return self._engine

    def guard(self) -> threading.RLock:
        """The lock, unless it belongs to another process: there nobody would ever release it."""
        if self.generation != generation[0]:
            self.check_open()
        if lane.in_task:
            raise InfiniTensorError(
                "a function given to map_tiles uses a tensor it has captured: while a task runs no "
                "tensor can be computed. Pass the tensor as an operand, or its .numpy() values"
            )
        return self.lock

    def drain(self) -> None:
        """Do what finalisers handed over: count down cells and readers. Holds the lock."""
        dropped, graveyard = self.dropped, self.graveyard
        while dropped or graveyard:
            while dropped:
                dropped.pop().live -= 1
            while graveyard:
                node: Node | None = graveyard.pop()
                assert node is not None
                node.alive -= 1
                if node.alive <= 0:
                    for version in node.inputs:
                        if type(version) is Version:
                            if node.op is None:  # another value over its memory is gone
                                version.exported -= 1
                            else:
                                version.readers -= 1
                    version = None
                    node.inputs = ()
                node = None  # else the last of each round would live on until the next

    def keep(self, version: Version, table: TileTable, op: str = "", site: Any = None) -> None:
        """Store a version in tiles; they go when it dies or the session ends.

        The op and the line are those of its node, if it has one.
        """
        node = version.node
        table.made = (op, site or user_site()) if node is None else (node.op.name, node.site)
        table.used_at = self.seq
        version.table = table
        version.host = table.whole
        self.stored.add(weakref.ref(version, self.stored.discard))

    def kept_versions(self) -> list[Version]:
        """The versions that are stored in tiles."""
        found = [ref() for ref in self.stored]
        return [version for version in found if version is not None]

    def store(self, values: Any, layout: Layout) -> TileTable:
        """Values from outside in tiles; in a lower tier where there is no room on the devices."""
        engine, dtype = self.engine, dtype_of(values)
        needs = engine.bytes_for(layout, dtype.itemsize)
        for device, need in enumerate(needs):
            lacking = need - engine.available_bytes(device)
            if lacking > 0:
                self.make_room(lacking, ())
            if need <= engine.available_bytes(device):
                continue
            if sum(needs) <= engine.free_lower_bytes():
                self.counts["bytes_evicted"] += sum(needs)
                return engine.store_in_lower_tier(values, layout)
            raise MemoryBudgetError(
                "asarray",
                need,
                max(engine.available_bytes(device), 0),
                engine.mesh.devices[device].name,
                str(user_site()),
                "let go of tensors that are no longer needed, use more devices, or give "
                "it.init(memory=...) more",
            )
        return self.with_room(lambda: engine.store(values, layout))

    def make_room(self, n_bytes: int, spared: Sequence[Version]) -> bool:
        """Evict stored tensors, those read longest ago first; whether there were any.

        Goes on until that many bytes more are free on some device.
        """
        if not has_tiers(self.engine.mesh):
            return False
        spare = {id(version) for version in spared}
        cold = [
            version
            for version in self.kept_versions()
            if version.table is not None
            and not version.exported
            and id(version) not in spare
            and version.table.n_bytes
        ]
        cold.sort(key=lambda version: version.table.used_at)  # type: ignore[union-attr]
        freed = 0
        for version in cold:
            if freed >= n_bytes:
                break
            assert version.table is not None
            found = max(version.table.device_bytes().values(), default=0)
            is_clean = version.table.was_read
            if not found or (
                not is_clean and version.table.n_bytes > self.engine.free_lower_bytes()
            ):
                continue
            freed += found
            self.evict(version)
        return freed > 0

    def evict(self, version: Version) -> None:
        """Move a stored tensor to a lower tier."""
        assert version.table is not None
        self.counts["bytes_evicted"] += version.table.bytes_to_evict
        try:
            version.table = self.engine.evict(version.table)
        except SpillSpaceError as error:
            raise error.with_traceback(None) from None  # its frames would hold the tiles
        version.host = None

    def with_room(self, make: Callable[[], Made]) -> Made:
        """The result of `make`; where a device has no memory for it, tensors are evicted first."""
        try:
            return make()
        except DeviceOutOfMemoryError as refused:
            self.make_room(refused.n_bytes, ())
        return make()

    def is_new(self, key: Any, times: int = 1) -> bool:
        """Whether a program has not come so often before, as far as is remembered, and count it."""
        seen = self._seen.get(key, 0)
        if seen >= times or key in self.plans:
            return False
        self.add(self._seen, key, seen + 1)
        return True

    def add(self, cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
        """Keep something, and no more than the plan cache may hold: what came first goes first."""
        cache[key] = value
        while len(cache) > config.plan_cache:
            cache.popitem(last=False)

    def stats(self, reset: bool) -> dict[str, Any]:
        """Counts so far, with the peak of each memory."""
        with self.lock:
            self.drain()
            ways.put_all()
            found: dict[str, Any] = dict(self.counts)
            found["ways"] = self._ways_so_far()
            found["small_calls"] = sum(found["ways"][name] for name in ways.AT_ONCE)
            found["eager_fallbacks"] += missed[0] - self.missed_before
            found["borrowed_products"] = n_borrowed() - self.borrowed_before
            found["products_by_mkl"] = n_by_mkl() - self.by_mkl_before
            found["transforms_before_mkl"] = first.n_made - self.before_mkl_before
            found["not_compiled"] = dict(not_compiled)
            found["not_prebuilt"] = dict(not_prebuilt)
            found["kernels_compiling"] = n_compiling() + n_begun()
            found["kernels_compiled_by_threads"] = n_compiled_here() - self.compiled_here_before
            found["peak_bytes"] = {}
            found["bytes_not_pinned"] = 0
            if self._engine is not None:
                found["bytes_not_pinned"] = self._engine.not_pinned_bytes()
                for memory in self._engine.memory_use():
                    if memory.tier == "device":
                        found["peak_bytes"][memory.device, "device"] = memory.peak
                if reset:
                    self._engine.reset_peaks()
            if reset:
                self._start_counts()
            return found

    def _start_counts(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.ways = dict.fromkeys(ways.NAMES, 0)
        self._recorded_before = self.seq
        self.missed_before = missed[0]
        self.borrowed_before = n_borrowed()
        self.by_mkl_before = n_by_mkl()
        self.before_mkl_before = first.n_made
        self.compiled_here_before = n_compiled_here()

    def _ways_so_far(self) -> dict[str, int]:
        """Calls by way. `seq` counts all that were recorded, so the rest were recorded again."""
        n_recorded = self.seq - self._recorded_before
        return {**self.ways, "recorded_again": n_recorded - self.ways["recorded"]}

    def next_seed(self) -> int:
        """The key of the next random op: every call has its own stream."""
        with self.lock:
            self.stream += 1
            mixed = (self.seed * 0x9E3779B97F4A7C15 + self.stream * 0xD1B54A32D192ED03) & (
                2**64 - 1
            )
            mixed ^= mixed >> 31
            return (mixed * 0xBF58476D1CE4E5B9 & (2**64 - 1)) >> 1

    def close(self) -> None:
        """Free everything. Tensors of this session cannot be evaluated any more."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            self.plans.clear()
            self.traces.clear()
            self.leans.clear()
            self.moved_again.clear()
            self.constants.clear()
            self.programs.clear()
            for ref in self.stored:
                version = ref()
                if version is not None:
                    version.table = version.host = None
            self.stored.clear()
            self.drain()  # from now on nothing is handed over: it would hold the session
            if self._engine is not None and self.generation == generation[0]:
                self._engine.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        _leave(self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<infinitensor session, {state}, devices {self._wanted[1] or 'auto'}>"


_current: ContextVar[Session | None] = ContextVar("infinitensor_session", default=None)
_default: list[Session] = []


def drain(session: Session | None) -> None:
    """Let go of what tensors that are gone still hold, if there is a session."""
    if session is not None:
        with session.lock:
            session.drain()


def current_session() -> Session:
    """The session of this context; made if there is none."""
    session = _current.get()
    if session is None or session.closed:
        while _default and _default[-1].closed:
            _default.pop()
        if not _default:
            _default.append(Session())
        session = _default[-1]
    return session


def init(
    devices: str | Iterable[str] | None = None,
    *,
    memory: str | float | None = None,
    host_memory: str | float | None = None,
    disk: str | float | None = None,
    spill_dir: str | list[str] | None = None,
    engine: str = "local",
    progress: bool | None = None,
    **engine_options: Any,
) -> Session:
    """Open a session and make it the current one.

    `devices`: None (all GPUs, else the CPU), "cpu", "cuda", "cuda:1", "cpu*4" or "cuda:0*4"
    (virtual devices with a budget each), or a list. `memory`: bytes, or a text such as "2GiB", for
    each device; 80 % of what is free unless given. What does not fit goes to files in `spill_dir`
    (a folder, or several that are tried in order; the system's temporary folder unless given), up
    to `disk` bytes (half of what is free; 0: never). Without `init` the first evaluation opens a
    session.

    >>> import infinitensor as it
    >>> with it.init("cpu*2", memory="256MiB"):
    ...     float(it.arange(10).sum())
    45.0
    """
    if engine_options:
        raise TypeError(f"engine {engine!r} takes no option {', '.join(sorted(engine_options))}")
    session = Session(devices, Room(memory, host_memory, disk, spill_dir), engine, progress)
    session.engine  # noqa: B018 - opens now, so that a wrong device name is an error here
    session._before = _current.get()
    _current.set(session)
    _default.append(session)
    return session


mesh._current[0] = lambda: current_session().engine.mesh


def _leave(session: Session) -> None:
    if _current.get() is session:
        _current.set(session._before)
    if session in _default:
        _default.remove(session)


def shutdown() -> None:
    """Close the current session and free everything it holds."""
    session = _current.get() or (_default[-1] if _default else None)
    if session is not None:
        session.close()
        _leave(session)


def _forget_after_fork() -> None:
    """A child starts with no session: the parent's threads and locks are not its own."""
    generation[0] += 1
    _current.set(None)
    _default.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)

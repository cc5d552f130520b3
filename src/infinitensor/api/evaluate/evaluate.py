"""From waiting tensors to stored ones: plan (or the cached one), run, commit; stop and resume."""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from infinitensor import events
from infinitensor.api.eager.changing_places import all_shapes_change
from infinitensor.api.evaluate.bound_program import Bound, FirstSight, look_through, stored_table
from infinitensor.api.evaluate.demand import fit_bound
from infinitensor.api.evaluate.few_of_file import pick
from infinitensor.api.evaluate.unplanned import AtOnce, is_little, runs_to_plan, to_make_first
from infinitensor.api.evaluate.waiting import repeat_by, repeat_in_c, waiting_nodes
from infinitensor.api.evaluate.whole_ops import runs_in_caller
from infinitensor.api.session.version import Recording
from infinitensor.config import config
from infinitensor.errors import DeviceOutOfMemoryError, MemoryBudgetError
from infinitensor.interrupts import hold_back, without_interrupts
from infinitensor.ir.op import n_points
from infinitensor.ir.region import whole_box

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Node, Version
    from infinitensor.engines import Kernels, Run
    from infinitensor.ir.region import Box
    from infinitensor.pipeline import Prepared
    from infinitensor.runtime import TileTable


SMALL_TILE = 1 << 13
"""Elements of a task, on average, below which workers do not help."""
READ_OFTEN = 8
"""Calls that wait to read parts of a tensor, from which it is computed for the next."""
PART = 1 << 18
"""Elements that are computed in the time in which a part of a waiting tensor is planned."""
ONE_TASK_TIMES = 16
"""How much more than what runs in the caller's thread a program may be that is one task."""


@dataclass(slots=True)
class Stopped:
    """A run that was stopped: what it was making, and how to go on.

    Its nodes hold it and it holds none of them, so it goes with the last tensor that needs it.
    """

    run: Run | None
    """None once it is finished."""
    kept: dict[int, weakref.ref[Version]]
    inline: bool
    whole: dict[int, TileTable]
    """Versions of which only a window was written: all of their tiles."""
    leaves: list[weakref.ref[Version]]
    """Whose tiles are read from files, and may be kept."""

    def table(self, number: int) -> TileTable:
        """The tiles of a kept value."""
        whole = self.whole.get(number)
        assert self.run is not None
        return self.run.table(number) if whole is None else whole

    def wanted(self) -> list[tuple[int, Version]]:
        """Versions that it was making and that somebody still waits for."""
        found = [(number, ref()) for number, ref in self.kept.items()]
        return [(number, v) for number, v in found if v is not None and v.node is not None]


class Trace(NamedTuple):
    """A program that has run: its plan, and what is the same each time it runs."""

    prepared: Prepared
    inline: bool
    n_whole: int
    n_eager: int
    held: tuple[Any, ...]
    """Objects whose identity it is known by: kept, so that nothing else gets that identity."""
    windows: dict[int, Box]
    """Parts of leaves that stand for them."""
    few: Kernels | None
    """The program as kernels that start without a run, where it can be."""
    alone: Any
    """What starts those by C alone, for `waiting.c`."""
    way: str
    """How starts of those are counted."""
    counts: dict[str, int]
    """What a start of those adds to `stats()`."""
    peaks: dict[int, int]
    """Bytes that it needs of each device."""
    small: tuple[int, ...]
    """Values that are kept on the host as plain arrays."""


def evaluate(session: Session, roots: Sequence[Version], peek: bool = False) -> None:
    """Compute the given versions, and commit every live version met on the way.

    `peek` computes and commits nothing but the roots, and only the tiles these need.
    """
    for version in roots:
        if version.node is not None:
            break
    else:
        return
    with session.guard():
        tried = None if peek else repeat(session, [*roots], config, stored_table)
        if tried is True and not events.hooks:
            session.engine.synchronize()
            return
        with without_interrupts():
            if tried is not True:
                _evaluate(session, roots, peek, tried)
            session.engine.synchronize()
            if "evaluated" in events.hooks:
                events.emit("evaluated", session=session)


def _evaluate(session: Session, roots: Sequence[Version], peek: bool, tried: Trace | None) -> None:
    """Compute what `repeat` has not; `tried` is what that has found."""
    session.check_open()
    session.drain()
    if session.was_stopped:
        _resume(session, roots)
    waiting = _waiting(roots)
    if waiting:
        try:
            _run(session, waiting, peek, tried=tried)
        finally:
            session.drain()  # what was only part of it is gone by now
            forget_done(session)


def compute_if_read_often(session: Session, reads: Sequence[tuple[Version, int]]) -> bool:
    """Compute tensors that wait and whose small parts are read in a loop; whether that was so.

    `reads` says how many elements of each version a call reads. Each part that is read is planned;
    once that has cost what the whole costs, further reads cost what NumPy's do, and no plan. What
    is large may never be needed whole.
    """
    waiting = [(version, n_read) for version, n_read in reads if version.node is not None]
    if not waiting or session.closed or not session.engine.mesh.is_one_memory:
        return False
    for version, n_read in waiting:
        n = prod(version.shape)
        if version.readers < max(READ_OFTEN, n // PART) or version.session is not session:
            return False
        if not n_read <= config.small_elements < n:
            return False
        if n * version.dtype.itemsize > config.max_recorded_bytes // 4:
            return False
    evaluate(session, [version for version, _ in waiting])
    return True


def _waiting(roots: Sequence[Version]) -> list[Version]:
    return [version for version in roots if version.node is not None]


def _run(
    session: Session,
    waiting: list[Version],
    peek: bool,
    limits: tuple[int, ...] | None = None,
    tried: Trace | None = None,
) -> None:
    """Compute what waits; within limits, where a device has refused memory that budgets allow."""
    if session.has_files:
        pick(session, waiting, lambda versions: evaluate(session, versions))
    bound = Bound(session, waiting, peek, limits=limits)
    if bound.is_read_by() or (session.leans and bound.lean_key() in session.leans):
        bound = Bound(session, waiting, peek, True, limits)
    trace: Trace | None = session.traces.get(bound.trace_key)
    if trace is not None and not _fits_again(bound, trace):
        bound, trace = Bound(session, waiting, peek, bound.lean, limits), None
    if trace is None:
        bound.detail()
        is_new = session.is_new(bound.key, runs_to_plan(bound))
        if is_new and (first := to_make_first(bound)):
            evaluate(session, first)
            if left := _waiting(waiting):
                _run(session, left, peek, limits)
            return
        if (is_new or _changes(bound)) and _has_run_at_once(session, bound):
            return
        bound, trace = trace_of(bound)
        session.ways["planned"] += 1
        _keep(session, bound, trace)
    else:
        session.traces.move_to_end(bound.trace_key)
        if trace is not tried and _has_started(session, bound, trace):
            return
        session.counts["plan_hits"] += 1
        session.ways["repeated"] += 1
    if trace.prepared.in_the_way:
        _count_moved(session, bound, trace.prepared)
    session.counts["evaluations"] += 1
    run = session.engine.start(trace.prepared.program, bound.tables, bound.scalars)
    _use_up(bound)
    kept = {number: weakref.ref(version) for number, version in bound.kept.items()}
    leaves = [weakref.ref(v) for v in bound.leaves] if trace.prepared.program.cached else []
    stopped = Stopped(run, kept, trace.inline, bound.whole, leaves)
    try:
        _finish(session, stopped, bound.nodes)
    except DeviceOutOfMemoryError as refused:
        # what is used up cannot be read again: then the run goes on when it is asked for again
        lacking = refused.n_bytes
        if any(bound.donated) or not _run_in_less(session, stopped, waiting, bound, lacking):
            raise
    _count(session, bound, trace)


def repeat_in_python(
    session: Session, roots: list[Version], config: Any, store: Any
) -> Trace | Literal[True] | None:
    """Compute what is recognised at first sight, as it has run before: True; else its trace.

    What is recognised and does not start is bound, and what is in the way found out. One call of C
    (`waiting.c`) where that can be compiled: that holds back what handlers of signals raise, as is
    done here, from the first line of Python on that may change something.
    """
    with without_interrupts():
        return _repeat(session, roots, config, store)


def _repeat(
    session: Session, roots: list[Version], config: Any, store: Any
) -> Trace | Literal[True] | None:
    shows = config.progress if session.progress is None else session.progress
    if session.closed or session.was_stopped or session.has_files or session.leans or shows:
        return None
    session.drain()
    found = FirstSight(session, _waiting(roots))
    trace: Trace | None = session.traces.get(found.trace_key)
    if trace is None or trace.few is None:
        return None
    if not session.engine.has_room(trace.peaks):
        return trace
    seq = session.seq
    for table in found.tables:
        table.used_at = seq
    look_through(found, trace.windows)
    if not _has_started(session, found, trace):
        return trace
    session.traces.move_to_end(found.trace_key)
    session.drain()
    forget_done(session)
    return True


def _fits_again(bound: Bound, trace: Trace) -> bool:
    """Whether there is room for what has run before; it sees what it saw of its leaves then."""
    look_through(bound, trace.windows)
    return bound.fits(trace.prepared.program)


def _keep(session: Session, bound: Bound, trace: Trace) -> None:
    """Remember what was planned, for the next time it runs.

    Where only a part of a leaf is seen the next program may see another, with the same plan: that
    is remembered when it is repeated. One that writes there is not.
    """
    if bound.whole or (bound.is_windowed and session.is_new(bound.trace_key)):
        return
    few = session.engine.few_kernels(trace.prepared.program)
    if few is not None:
        found = {"plan_hits": 1, "evaluations": 1, **few.counts}
        found |= {"whole_ops": trace.n_whole, "eager_fallbacks": trace.n_eager}
        counts = {name: n for name, n in found.items() if n}
        is_small = session.engine.mesh.kind == "cpu"
        kept = bound.kept.items()
        small = [n for n, v in kept if is_small and prod(v.shape) <= config.small_elements]
        trace = trace._replace(
            few=few,
            alone=few.alone,
            way=few.way,
            counts=counts,
            peaks=few.peaks,
            small=tuple(small),
        )
    session.add(session.traces, bound.trace_key, trace)


def way_of(bound: Bound) -> str:
    """The way that `_run` will take for a program whose plan is made."""
    trace: Trace | None = bound.session.traces.get(bound.trace_key)
    if trace is not None and bound.fits(trace.prepared.program):
        return trace.way
    return "unplanned" if _changes(bound) and is_little(bound) else "planned"


def _changes(bound: Bound) -> bool:
    """Whether no plan of a program is worth its making: its shapes change.

    On a GPU what is repeated is recorded, and takes a third of the time.
    """
    return bound.session.engine.mesh.kind == "cpu" and all_shapes_change(bound.nodes)


def _count(session: Session, bound: Bound, trace: Trace) -> None:
    """A program has run."""
    if bound.recipes:
        session.made_before.update(bound.recipes)
    counts = session.counts
    counts["eager_fallbacks"] += trace.n_eager
    counts["whole_ops"] += trace.n_whole


def _count_moved(session: Session, bound: Bound, prepared: Prepared) -> None:
    """Note what a program moves whenever it runs.

    Once that is as much as to evict the leaves that are in its way, it is planned anew: they go.
    """
    key, traffic = bound.lean_key(), prepared.program.traffic
    moved = session.moved_again.get(key, 0) + traffic.evicted + traffic.loaded
    session.add(session.moved_again, key, moved)
    if moved + traffic.evicted + traffic.loaded > prepared.in_the_way:
        session.traces.pop(bound.trace_key, None)
        for known in [k for k, found in session.plans.items() if found is prepared]:
            del session.plans[known]


def _has_started(session: Session, bound: Bound | FirstSight, trace: Trace) -> bool:
    """Start the kernels of a program that has run before, and commit what they make; False: not."""
    few = trace.few
    if few is None or (config.progress if session.progress is None else session.progress):
        return False
    tables = few.start(bound.tables, bound.scalars)
    if tables is None:
        return False
    _use_up(bound)
    for number, version in bound.kept.items():
        commit(session, version, tables[number])
    if bound.recipes:
        session.made_before.update(bound.recipes)
    counts = session.counts
    for name, n in trace.counts.items():
        counts[name] += n
    session.ways[trace.way] += 1
    return True


def _use_up(bound: Bound | FirstSight) -> None:
    """Leaves that nobody else will read are their program's."""
    if True not in bound.donated:
        return
    for version, donated in zip(bound.leaves, bound.donated, strict=True):
        if donated:
            version.table = version.host = None


def _run_in_less(
    session: Session, stopped: Stopped, waiting: Sequence[Version], bound: Bound, lacking: int
) -> bool:
    """Plan again for what devices gave and half of what was refused; False if it is too little."""
    engine = session.engine
    budgets = engine.budgets()
    limits = bound.limits or tuple(budgets)
    used = [budget - engine.available_bytes(d) for d, budget in enumerate(budgets)]
    given = tuple(map(min, (n_bytes + lacking // 2 for n_bytes in used), limits))
    if stopped.run is None or given == limits:
        return False
    stopped.run.release()
    stopped.run = None
    try:
        _run(session, _waiting(waiting), bound.peek, given)
    except MemoryBudgetError:
        return False
    session.ways["planned_in_less"] += 1
    return True


def trace_of(bound: Bound) -> tuple[Bound, Trace]:
    """The program as it was planned, and its plan with what is the same each time it runs."""
    bound, prepared = fit_bound(bound)
    graph = prepared.program.graph
    n_elements = sum(spec.n_elements for spec in bound.numbered.specs)
    is_whole = prepared.program.order is None and runs_in_caller(bound.nodes, n_elements)
    dense = [node for node in bound.nodes if node.op.pairs or node.op.whole]
    n_elements += sum(n_points(node.op, node.call) for node in dense)
    # small tiles are bound by Python's lock: there a second thread only gets in the way
    limit = config.inline_elements
    n_tasks = int(np.count_nonzero(prepared.program.needed))
    # and one task, of little work, is done before a thread is woken for it
    small = max(SMALL_TILE * n_tasks, ONE_TASK_TIMES * limit if n_tasks == 1 else 0)
    return bound, Trace(
        prepared,
        limit > 0 and (n_elements <= limit or n_elements < small or is_whole),
        sum(node.op.whole for node in bound.nodes),
        sum(family.eager for family in graph.families),
        tuple((node.op, node.call, node.region, node.accesses) for node in bound.nodes),
        bound.windows,
        None,
        None,
        "repeated",
        {},
        {},
        (),
    )


def _has_run_at_once(session: Session, bound: Bound) -> bool:
    """Run little work without a plan. If a call raises, what was made stays made.

    On a GPU nothing has happened then, and the answer is False: a plan's run says what is wrong.
    """
    if not is_little(bound):
        return False
    work: AtOnce | None = None
    try:
        work = AtOnce(bound)
        work.run()
    except Exception:
        if session.engine.mesh.kind == "cuda":
            session.counts["unplanned_failures"] += 1
            return False
        if work is not None:
            _count_at_once(session, bound, work)
        raise
    _count_at_once(session, bound, work)
    return True


def _count_at_once(session: Session, bound: Bound, work: AtOnce) -> None:
    """Calls have run without a plan; what is made is kept."""
    session.counts["evaluations"] += 1
    session.ways["unplanned"] += len(bound.nodes)
    session.counts["whole_ops"] += sum(node.op.whole for node in bound.nodes)
    for version, table in work.results():
        commit(session, version, table)


def _finish(session: Session, stopped: Stopped, nodes: Sequence[Node] = ()) -> None:
    """Run to the end and commit; what stops it is remembered by its nodes, given the first time."""
    run = stopped.run
    assert run is not None
    try:
        _go(session, stopped, run, nodes)
        _put_away(session, stopped, run)
    finally:
        for name, n in run.take_counts().items():
            session.counts[name] += n


def _go(session: Session, stopped: Stopped, run: Run, nodes: Sequence[Node]) -> None:
    """Run to the end; where it stops, commit what is made already."""
    progress = config.progress if session.progress is None else session.progress
    try:
        try:
            session.engine.finish(run, stopped.inline, progress, resumed=not nodes)
        except DeviceOutOfMemoryError as refused:
            session.make_room(
                refused.n_bytes, [v for v in session.kept_versions() if v.table in run.leaves]
            )
            session.engine.finish(run, stopped.inline, progress, resumed=True)
    except BaseException:
        session.was_stopped = True
        for node in nodes:
            node.stopped = stopped
        for number, version in stopped.wanted():
            if run.is_made(number):
                commit(session, version, stopped.table(number))
        raise


def _put_away(session: Session, stopped: Stopped, run: Run) -> None:
    """Commit what a run has made, and let go of the rest."""
    for number, version in stopped.wanted():
        if run.is_made(number):
            commit(session, version, stopped.table(number))
    for leaf, table in run.tables_with_reads().items() if stopped.leaves else ():
        read = stopped.leaves[leaf]()
        if read is not None and read.table is run.leaves[leaf]:
            read.table = table
    stopped.run = None
    run.release()


def commit(session: Session, version: Version, table: TileTable) -> None:
    """A version is computed: it lets go of its graph."""
    engine, few = session.engine, config.small_elements
    if few and engine.mesh.kind == "cpu" and prod(version.shape) <= few:
        whole = table.whole
        is_all = whole is not None and whole.shape == version.shape
        version.host = whole.copy() if is_all else engine.read(table, whole_box(version.shape))
    else:
        session.keep(version, table)
    node = version.node
    version.node = None
    assert node is not None
    session.graveyard.append(node)


def _resume(session: Session, roots: Sequence[Version]) -> None:
    """Finish stopped runs that the roots need."""
    asked = {id(version) for version in roots}
    for node in waiting_nodes(roots):
        stopped = node.stopped
        if not node.is_stopped or all(version.node is None for version in roots):
            continue
        stopped.run.abandon(
            [n for n, v in stopped.wanted() if v.live > 0 or v.readers > 0 or id(v) in asked]
        )
        session.ways["resumed"] += 1
        try:
            _finish(session, stopped)
        except Exception:
            if any(version.node is not None for version in roots):
                raise


def forget_done(session: Session) -> None:
    """Drop tape entries that are done or dead."""
    tape = []
    waiting_bytes = 0
    for ref in session.tape:
        version = ref()
        if version is not None and version.node is not None:
            tape.append(ref)
            if version.node.op.kind != "update":
                waiting_bytes += prod(version.shape) * version.dtype.itemsize
    session.tape = tape
    session.waiting_bytes = waiting_bytes


def evaluate_all(session: Session) -> None:
    """Evaluate every live waiting tensor: too much is waiting."""
    with session.guard():
        session.drain()
        live = [
            v
            for ref in session.tape
            if (v := ref()) is not None and v.node is not None and v.live > 0
        ]
        session.counts["forced_evaluations"] += 1
        # what fails raises where it is asked for, not in the middle of something else
        live = [v for v in live if v.node is not None and not v.node.is_stopped]
        try:
            evaluate(session, live)
        except Exception:
            for version in live:
                with contextlib.suppress(Exception):
                    evaluate(session, [version])
        forget_done(session)


repeat: Callable[..., Trace | Literal[True] | None] = repeat_in_c or repeat_in_python
repeat_by(Recording, Trace, commit, forget_done, hold_back)

"""From waiting tensors to stored ones: graph, plan (or the cached one), run, commit."""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor import events
from infinitensor.api.lean import bytes_of, comes_from_below, give_back, gives_back, worth_keeping
from infinitensor.api.rule import cached_rule
from infinitensor.api.unplanned import AtOnce, is_little, is_restless
from infinitensor.api.version import Node, Version
from infinitensor.api.walk import waiting_nodes, walk
from infinitensor.api.whole import runs_in_caller
from infinitensor.api.window import Hulls, part_of, shifted
from infinitensor.config import config
from infinitensor.errors import DeviceOutOfMemoryError, MemoryBudgetError
from infinitensor.interrupts import without_interrupts
from infinitensor.ir.graph import Graph, Leaf, Operand
from infinitensor.ir.graph import Node as GraphNode
from infinitensor.ir.layout import DISK, Layout
from infinitensor.ir.op import Spec, n_points
from infinitensor.ir.region import box_shape
from infinitensor.ops.loading import begin_loading
from infinitensor.partition import LEAF_ELEMENTS, MANY_USES, canonical_layout, streamed_cuts
from infinitensor.pipeline import Known, Prepared, has_tiers, prepare
from infinitensor.runtime import Few, Run, TileTable, few_of, tables_with_reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infinitensor.api.session import Session
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.region import Box
    from infinitensor.ir.tasks import Program


MUCH = 32
"""A leaf that takes more than this part of a device's budget is much."""
FEW_ON_HOST = 1024
"""Elements of a host value that a GPU gets anew at each use; larger ones move there and stay."""
SMALL_TILE = 1 << 13
"""Elements of a task, on average, below which workers do not help."""
TO_COMPUTE_IN = 4
"""The part of a budget that is left for tiles on the way, when it is asked what can stay."""
ALONE = 16
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
        """What it was making and somebody still waits for."""
        found = [(number, ref()) for number, ref in self.kept.items()]
        return [(number, v) for number, v in found if v is not None and v.node is not None]


class InTheWay(Exception):
    """A program may fit if less is kept of it, and if these leaves of its own are evicted."""

    def __init__(self, versions: list[Version]) -> None:
        super().__init__()
        self.versions = versions


class StaysTooMuch(Exception):
    """A program may fit if so many bytes fewer stay of its leaves in lower tiers."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__()
        self.n_bytes = n_bytes


class Trace(NamedTuple):
    """A program that has run: its plan, and what is the same each time it runs."""

    prepared: Prepared
    inline: bool
    n_whole: int
    n_eager: int
    held: tuple[Any, ...]
    """What it is known by the identity of: kept, so that nothing else gets that identity."""
    few: Few | None
    """The program, where it is a few kernels."""


class Bound:
    """The waiting part of a program, numbered: everything a plan is keyed by and bound to.

    To recognise a program that has run before takes the numbers alone; `detail` adds the rest.
    """

    def __init__(
        self, session: Session, roots: Iterable[Version], peek: bool = False, lean: bool = False
    ) -> None:
        self.session = session
        self.peek = peek
        self.lean = lean
        """Whether of what was not asked for only little things are kept: there is no more room."""
        self.gives_way = False
        """Whether it may be planned anew with less of it kept or resident (`traced_in_room`)."""
        self.spares_leaves = peek
        self.roots = list(roots)
        walked = walk(self.roots)
        self.nodes, self.leaves, self.scalars, self.values, self.inside_reads = walked[:5]
        self.known_by = walked.known_by
        self.whole: dict[int, TileTable] = {}
        """Versions of which only a window is written: all of their tiles."""
        self.recipes: list[Version] = []
        """What is held, but made again when it is asked for."""
        self.kept = self._kept(walked.needed)
        self.donated = [False] * len(self.leaves)
        self.used_up: set[int] = set()
        """Leaves that nobody else will read: their tiles may be used up."""
        if True in walked.is_free and not self.spares_leaves:
            for k, leaf in enumerate(self.leaves):
                if walked.is_free[k] and not _lies_below(leaf):
                    self.donated[k] = True
                    self.used_up.add(id(leaf))
        self._cut_files()
        self.tables = [stored_table(session, version) for version in self.leaves]
        for table in self.tables:
            table.used_at = session.seq

    def _cut_files(self) -> None:
        """Give files that are in no tiles yet those in which they are read, and may stay.

        But not what a product reads over and over: that has the tiles of the product, and so what
        stays of it are those. What was evicted in other tiles is in none then.
        """
        mesh = self.session.engine.mesh
        if mesh.kind != "cpu":
            return
        below = {id(v): v for v in self.leaves if v.table is not None and v.table.is_in_files}
        for node in self.nodes if below else ():
            form = node.call.form
            for given, labels in zip(node.inputs, form.inputs, strict=False):
                uses = prod(n for label, n in enumerate(form.sizes) if label not in labels)
                if node.op.kind == "contraction" and uses >= MANY_USES:
                    version = below.pop(id(given), None)
                    if version is not None and version.table is not None:
                        version.table = version.table.joined() or version.table
        for version in below.values():
            assert version.table is not None
            if not version.table.is_one_file:
                continue
            itemsize = version.dtype.itemsize
            cuts = streamed_cuts(version.shape, itemsize, mesh, config.tile_elements)
            if any(len(borders) > 2 for borders in cuts):
                version.table = version.table.with_read(cuts, {})

    @cached_property
    def versions(self) -> dict[int, Version]:
        """What has a number and is held."""
        return {n: version for n, version in enumerate(self.values) if version is not None}

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The numbers of versions, by identity."""
        return {id(version): n for n, version in self.versions.items()}

    def _kept(self, needed: Iterable[int]) -> dict[int, Version]:
        """What must outlive the evaluation.

        That is what was asked for, what a tensor shows, and what waiting nodes outside of it read.
        """
        asked = {id(version) for version in self.roots}
        kept = {}
        worth: set[int] | None = None
        for number in needed:
            version = self.values[number]
            assert version is not None
            if id(version) in asked:
                kept[number] = version
            elif not self.peek:
                if self.lean and worth is None:
                    worth = self._worth_keeping(needed)
                room = sum(ledger.budget_bytes for ledger in self.session.engine.ledgers)
                if bytes_of(version) <= room and (worth is None or id(version) in worth):
                    kept[number] = version
                else:  # it stays a recipe, and what it is made from stays too
                    self.spares_leaves = True
                    self.recipes.append(version)
        return kept

    def _worth_keeping(self, numbers: Iterable[int]) -> set[int]:
        """What of the values that were not asked for is kept though there is little room."""
        asked = {id(version) for version in self.roots}
        held = [v for n in numbers if (v := self.values[n]) is not None and id(v) not in asked]
        budget = min(ledger.budget_bytes for ledger in self.session.engine.ledgers)
        again = self.session.made_before
        return worth_keeping(self.nodes, self.leaves, held, budget, again)

    def is_read_by(self) -> bool:
        """Whether more is read from lower tiers than can stay beside all that would be kept.

        Then what is held but was not asked for would take the room of what is read again.
        """
        if self.peek or True not in map(comes_from_below, self.leaves):
            return False
        below = sum(bytes_of(leaf) for leaf in self.leaves if comes_from_below(leaf))
        budget = min(ledger.budget_bytes for ledger in self.session.engine.ledgers)
        kept = sum(bytes_of(version) for version in self.kept.values())
        return below + kept > budget - budget // TO_COMPUTE_IN

    def _has_recipes(self) -> bool:
        """Whether less would be kept if there were little room."""
        if self.peek or self.lean or len(self.kept) == len(self.roots):
            return False
        return len(self._worth_keeping(self.kept)) < len(self.kept) - len(self.roots)

    def trace_key(self) -> Any:
        """What a program is recognised by when it comes again."""
        tables = [(t.layout, t.dtype, t.partly, t.whole is None, t.is_file) for t in self.tables]
        return (
            self.known_by,
            tuple(self.kept),
            tuple(self.donated),
            tuple(tables),
            config.key(),
        )

    def lean_key(self) -> Any:
        """What a program that has little room is recognised by, whatever stays of its leaves."""
        shapes = [(leaf.shape, leaf.dtype) for leaf in self.leaves]
        return (self.known_by, tuple(self.kept), tuple(shapes), config.key())

    def budgets(self) -> list[int]:
        """What this evaluation may use: the budget less what others hold."""
        engine = self.session.engine
        budgets = [engine.available_bytes(d) for d in range(engine.mesh.n_devices)]
        for table in self.tables:
            for device, n_bytes in table.device_bytes().items():
                budgets[device] += n_bytes
        return budgets

    def fits(self, program: Program) -> bool:
        """Whether what a plan needs is free."""
        engine, peaks = self.session.engine, program.peak_bytes
        if program.order is not None:
            mesh, traffic = engine.mesh_now(), program.traffic
            if traffic.host_peak > mesh.host_bytes or traffic.disk_peak > mesh.disk_bytes:
                return False
        ledgers = engine.ledgers
        for device, need in peaks.items():
            if need > ledgers[device].budget_bytes - ledgers[device].used_bytes:
                break
        else:
            return True
        budgets = self.budgets()
        return all(need <= budgets[device] for device, need in program.peak_bytes.items())

    def detail(self) -> Bound:
        """Add what a plan is made of: specs, operands, windows, and the key it is found by."""
        self.specs: list[Spec] = []
        self.out_numbers: list[tuple[int, ...]] = []
        self._hulls = Hulls()
        self.calls = [node.call for node in self.nodes]
        self.parts = [self._number(node) for node in self.nodes]
        self.is_windowed = False
        self.outside_bytes: dict[int, int] = {}
        """Per device, what leaves hold around their windows: no part of the plan, but there."""
        self._look_through_windows()
        leaf_key = tuple(
            (
                self.specs[self.numbers[id(v)]],
                table.layout,
                donated,
                table.partly,
                table.is_whole,
                table.is_file,
            )
            for v, table, donated in zip(self.leaves, self.tables, self.donated, strict=True)
        )
        calls = tuple(map(id, self.calls))
        self.key = (calls, tuple(self.parts), leaf_key, tuple(sorted(self.kept)), config.key())
        return self

    def _number(self, node: Node) -> tuple[Any, ...]:
        operands: list[Any] = []
        for given, access in zip(node.inputs, node.accesses, strict=True):
            if isinstance(given, Version):
                number = self.numbers[id(given)]
                if number == len(self.specs):
                    self.specs.append(Spec(given.shape, given.dtype))
                    self._hulls.leaf(number)
                operands.append((number, access))
            else:
                operands.append(-1)
        first = len(self.specs)
        self.specs += node.call.outs
        outs = tuple(range(first, len(self.specs)))
        self.out_numbers.append(outs)
        self._hulls.node(node, tuple(operands), outs)
        return (id(node.op), tuple(operands), node.region)

    def _look_through_windows(self) -> None:
        """Let the part of a leaf that is touched stand for it, and for its next versions."""
        numbers = [self.numbers[id(v)] for v in self.leaves]
        used_up = {n for n, donated in zip(numbers, self.donated, strict=True) if donated}
        shapes = {n: v.shape for n, v in zip(numbers, self.leaves, strict=True)}
        windows = self._hulls.windows(shapes, used_up, set(self.kept))
        if not windows:
            return
        self.is_windowed = True
        roots = self._hulls.roots
        for k, number in enumerate(numbers):
            if number in windows:
                table = self.tables[k]
                chain = self._hulls.chains.get(number)
                if chain:
                    self.whole[chain[-1]] = table
                self.donated[k] = bool(chain)
                self.tables[k] = part_of(table, windows[number])
                seen = self.tables[k].device_bytes()
                for device, n_bytes in table.device_bytes().items():
                    outside = self.outside_bytes.get(device, 0) + n_bytes - seen.get(device, 0)
                    self.outside_bytes[device] = outside
        for number, spec in enumerate(self.specs):
            box = windows.get(roots.get(number, number))
            if box is not None:
                self.specs[number] = Spec(box_shape(box), spec.dtype)
        for k, part in enumerate(self.parts):
            self.parts[k] = self._seen_through(k, part, windows)

    def _seen_through(self, k: int, part: tuple[Any, ...], windows: dict[int, Box]) -> Any:
        op, operands, region = part
        roots = self._hulls.roots
        boxes = [None if o == -1 else windows.get(roots.get(o[0], o[0])) for o in operands]
        if not any(boxes):
            return part
        operands = tuple(
            operand if box is None or operand[1] is None else (operand[0], shifted(operand[1], box))
            for operand, box in zip(operands, boxes, strict=True)
        )
        if region is not None and boxes[0] is not None:
            base, value = self.specs[operands[0][0]], self.nodes[k].shapes[1]
            self.calls[k] = cached_rule(self.nodes[k].op, (base, Spec(value, base.dtype)))
            region = shifted(region, boxes[0])
        return (op, operands, region)

    def graph(self) -> Graph:
        """The frozen graph."""
        nodes = []
        scalar = 0
        for node, call, part, outs in zip(
            self.nodes, self.calls, self.parts, self.out_numbers, strict=True
        ):
            _, given, region = part
            operands = []
            for operand in given:
                if operand == -1:
                    operands.append(Operand(scalar=scalar))
                    scalar += 1
                else:
                    operands.append(Operand(*operand))
            shapes = node.shapes
            if region is not None:
                shapes = (call.outs[0].shape, *shapes[1:])
            nodes.append(GraphNode(node.op, call, tuple(operands), outs, node.site, shapes, region))
        leaves = tuple(
            Leaf(
                self.numbers[id(v)],
                table.layout,
                donated,
                table.partly,
                table.is_whole,
                table.is_file,
            )
            for v, table, donated in zip(self.leaves, self.tables, self.donated, strict=True)
        )
        return Graph(tuple(self.specs), tuple(nodes), leaves, frozenset(self.kept))

    def prepared(self) -> Prepared:
        """The plan: from the cache if an equal program was planned and still fits."""
        session = self.session
        found: Prepared | None = session.plans.get(self.key)
        if found is not None and self.fits(found.program):
            session.plans.move_to_end(self.key)
            session.counts["plan_hits"] += 1
            return found
        session.counts["plan_misses"] += 1
        made = self._planned()
        session.add(session.plans, self.key, made)
        return made

    def _planned(self) -> Prepared:
        """A new plan: all of it in memory, if need be in place of other tensors; or in parts."""
        graph, mesh, known = self.graph(), self.session.engine.mesh_now(), Known()
        multiplies = any(node.op.kind == "contraction" for node in self.nodes)
        if mesh.kind == "cpu" and multiplies and any(map(_lies_below, self.leaves)):
            begin_loading()
        try:
            return self._prepared(graph, mesh, known, evicts=False)
        except MemoryBudgetError as misfit:
            if not has_tiers(mesh):
                raise
            lacking = misfit.need_bytes - misfit.limit_bytes
        if gives_back(self.leaves):
            return self._planned_beside(graph, mesh, lacking)
        if self.session.make_room(lacking, self.leaves):
            with contextlib.suppress(MemoryBudgetError):
                return self._prepared(graph, mesh, known, evicts=False)
        if self.gives_way:
            if self._has_recipes():
                with contextlib.suppress(MemoryBudgetError):  # tile by tile all of it may fit
                    found = self._prepared(graph, mesh, known)
                    if not found.program.traffic.evicted:
                        return found
                raise InTheWay([])
            leaves = self._in_the_way()
            if leaves:
                # a GPU's tiles are large: before they are made small, leaves go
                shrinks = mesh.kind != "cuda"
                with contextlib.suppress(MemoryBudgetError):
                    found = self._prepared(graph, mesh, known, shrinks=shrinks)
                    heavy = sum(leaf.table.n_bytes for leaf in leaves if leaf.table is not None)
                    # every run moves this; leaves go once, and what can stay of them then stays
                    traffic = found.program.traffic
                    left = heavy - self.session.moved_again.get(self.lean_key(), 0)
                    # leaves go before tiles are so small that sums have other bits
                    is_small = 0 < found.tile_elements < LEAF_ELEMENTS[mesh.kind]
                    is_forced = is_small and not config.tile_elements
                    if traffic.evicted + traffic.loaded <= left and not is_forced:
                        return replace(found, in_the_way=heavy)
                raise InTheWay(leaves)
        return self._prepared(graph, mesh, known)

    def _prepared(
        self, graph: Graph, mesh: Mesh, known: Known, evicts: bool = True, shrinks: bool = True
    ) -> Prepared:
        """A plan within what this evaluation may use now."""
        elements = config.tile_elements
        return prepare(graph, mesh, elements, self.budgets(), evicts, shrinks, known)

    def _planned_beside(self, graph: Graph, mesh: Mesh, lacking: int) -> Prepared:
        """A new plan where tiles that were read before take the room: with those that can stay."""
        if self.gives_way and self._has_recipes():
            raise InTheWay([])
        here = sum(v.table.spare_bytes for v in gives_back(self.leaves) if v.table)
        least = here // 4 + 1  # few plans are made until it fits
        if self.is_windowed:
            raise StaysTooMuch(max(lacking, least))
        below = [
            replace(leaf, layout=_without_spares(table)) if table.below else leaf
            for leaf, table in zip(graph.leaves, self.tables, strict=True)
        ]
        budgets = self.budgets()
        try:
            alone = prepare(
                replace(graph, leaves=tuple(below)), mesh, config.tile_elements, budgets, False
            )
        except MemoryBudgetError:  # its tiles are made smaller in any case: what is here may stay
            with contextlib.suppress(MemoryBudgetError):
                found = prepare(graph, mesh, config.tile_elements, budgets)
                traffic = found.program.traffic
                if not traffic.evicted:
                    return found
                # to evict a little in every run may be less than to read all of it in every run
                rest = replace(graph, leaves=tuple(below))
                without = prepare(rest, mesh, config.tile_elements, budgets).program.traffic
                if traffic.evicted + traffic.loaded < without.evicted + without.loaded:
                    return found
            n_back = here
        else:
            program = alone.program
            stays = sum(int(program.slot_bytes[program.slots[tile]]) for tile in program.cached)
            n_back = here - stays if stays < here else least
        raise StaysTooMuch(n_back)

    def _in_the_way(self) -> list[Version]:
        """Leaves that take much of the devices and outlive this evaluation.

        Once they lie in a lower tier they are brought tile by tile, and what can stay will.
        """
        engine = self.session.engine
        much = min(ledger.budget_bytes for ledger in engine.ledgers) // MUCH
        left = engine.free_below()
        found = []
        for version, donated in zip(self.leaves, self.donated, strict=True):
            table = version.table
            if donated or version.exported or table is None:
                continue
            if max(table.device_bytes().values(), default=0) > much and table.n_bytes <= left:
                found.append(version)
                left -= table.n_bytes
        return found


def _without_spares(table: TileTable) -> Layout:
    """Where tiles would lie if nothing stayed that can be read again."""
    owners = table.layout.owner_array.tolist()
    rest = tuple(DISK if table.is_spare(k) else owner for k, owner in enumerate(owners))
    return Layout(table.layout.cuts, rest[:1] if len(set(rest)) == 1 else rest)


def _lies_below(version: Version) -> bool:
    """Whether some of it is on the host or in a file, where no task writes."""
    return version.table is not None and version.table.layout.is_below


def stored_table(session: Session, version: Version) -> TileTable:
    """The tiles of a stored version; a small host value is used where it is."""
    if version.table is not None:
        return version.table
    kind = session.engine.mesh.kind
    assert version.host is not None
    at_home = version.host.size <= FEW_ON_HOST  # or it would be copied at every use
    if (kind == "cuda" and not at_home) or (config.small_elements == 0 and kind != "null"):
        layout = canonical_layout(version.shape, session.engine.mesh, config.tile_elements)
        table = session.store(version.host, layout)
        session.keep(version, table, "asarray")
        return table
    return TileTable.of_host(version.host)


def evaluate(session: Session, roots: Sequence[Version], peek: bool = False) -> None:
    """Compute the given versions, and commit every live version met on the way.

    `peek` computes and commits nothing but the roots, and only the tiles these need.
    """
    if not any(version.node is not None for version in roots):
        return
    with session.guard():
        session.check_open()
        session.drain()
        _resume(session, roots)
        waiting = [version for version in roots if version.node is not None]
        if waiting:
            try:
                _run(session, waiting, peek)
            finally:
                with without_interrupts():
                    session.drain()  # what was only part of it is gone by now
                    forget_done(session)
        session.engine.synchronize()
        if "evaluated" in events.hooks:
            events.emit("evaluated", session=session)


def _run(session: Session, waiting: Sequence[Version], peek: bool) -> None:
    bound = Bound(session, waiting, peek)
    if bound.is_read_by() or (session.leans and bound.lean_key() in session.leans):
        bound = Bound(session, waiting, peek, lean=True)
    key = bound.trace_key()
    trace: Trace | None = session.traces.get(key)
    if trace is None or not bound.fits(trace.prepared.program):
        bound.detail()
        if (session.is_new(bound.key) or is_restless(bound.nodes)) and is_little(bound):
            _run_at_once(session, bound)
            return
        bound, trace = traced_in_room(session, bound)
        if not bound.is_windowed:
            session.add(session.traces, bound.trace_key(), trace)
    else:
        session.traces.move_to_end(key)
        session.counts["plan_hits"] += 1
        if trace.few is not None and _has_started(session, bound, trace.few):
            _count(session, bound, trace)
            return
    if trace.prepared.in_the_way:
        _count_moved(session, bound, trace.prepared)
    session.counts["evaluations"] += 1
    run = session.engine.start(trace.prepared.program, bound.tables, bound.scalars)
    for version, donated in zip(bound.leaves, bound.donated, strict=True):
        if donated:
            version.table = version.host = None
    kept = {number: weakref.ref(version) for number, version in bound.kept.items()}
    leaves = [weakref.ref(v) for v in bound.leaves] if trace.prepared.program.cached else []
    stopped = Stopped(run, kept, trace.inline, bound.whole, leaves)
    try:
        _finish(session, stopped, bound.nodes)
    except DeviceOutOfMemoryError as refused:
        # what is used up cannot be read again: then the run goes on when it is asked for again
        lacking = refused.n_bytes
        if any(bound.donated) or not _run_in_less(session, stopped, waiting, peek, lacking):
            raise
    _count(session, bound, trace)


def _count(session: Session, bound: Bound, trace: Trace) -> None:
    """A program has run."""
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
        session.traces.pop(bound.trace_key(), None)
        for known in [k for k, found in session.plans.items() if found is prepared]:
            del session.plans[known]


def _has_started(session: Session, bound: Bound, few: Few) -> bool:
    """Start the kernels of a program that has run before, and commit what they make; False: not."""
    if config.progress if session.progress is None else session.progress:
        return False
    engine = session.engine
    tables = few.start(bound.tables, bound.scalars, engine.devices[0], engine.ledgers[0])
    if tables is None:
        return False
    with without_interrupts():
        for number, version in bound.kept.items():
            commit(session, version, tables[number])
    session.counts["evaluations"] += 1
    session.counts["tasks"] += len(few.steps)
    return True


def _run_in_less(
    session: Session, stopped: Stopped, waiting: Sequence[Version], peek: bool, lacking: int
) -> bool:
    """Plan again for what devices gave and half of what was refused; False if it is too little."""
    ledgers = session.engine.ledgers
    budgets = [ledger.budget_bytes for ledger in ledgers]
    given = [min(each.used_bytes + lacking // 2, each.budget_bytes) for each in ledgers]
    if stopped.run is None or not any(map(int.__lt__, given, budgets)):
        return False
    stopped.run.release()
    stopped.run = None
    try:
        for ledger, n_bytes in zip(ledgers, given, strict=True):
            ledger.budget_bytes = n_bytes
        _run(session, [version for version in waiting if version.node is not None], peek)
    except MemoryBudgetError:
        return False
    finally:
        for ledger, n_bytes in zip(ledgers, budgets, strict=True):
            ledger.budget_bytes = n_bytes
        session.plans.clear()  # those made here are for less memory than there is
        session.traces.clear()
    return True


def traced_in_room(session: Session, bound: Bound) -> tuple[Bound, Trace]:
    """The plan of a program, and the program that is planned.

    Where it does not fit, what is shown but was not asked for stays a recipe; where it still does
    not, its own large leaves go to a lower tier, from which they are brought tile by tile.
    """
    is_last = False
    while True:
        bound.gives_way = not is_last
        try:
            return bound, traced(bound)
        except StaysTooMuch as what:
            roots, leaves, bound.tables = bound.roots, bound.leaves, []
            give_back(leaves, what.n_bytes)
            bound = Bound(session, roots, bound.peek, bound.lean).detail()
            continue
        except InTheWay as what:
            found = what.versions
            is_last = bool(found)
        except MemoryBudgetError as misfit:
            lacking = misfit.need_bytes - misfit.limit_bytes
            if is_last or not session.make_room(lacking, ()):
                raise
            found, is_last = [], True
        if not (bound.peek or bound.lean):
            session.add(session.leans, bound.lean_key(), None)
        roots, bound.tables = bound.roots, []
        for version in found:
            session.evict(version)
        bound = Bound(session, roots, bound.peek, lean=True).detail()


def traced(bound: Bound) -> Trace:
    """The plan of a program, and what is the same each time it runs."""
    prepared = bound.prepared()
    graph = prepared.program.graph
    n_elements = sum(spec.n_elements for spec in bound.specs)
    is_whole = prepared.program.order is None and runs_in_caller(bound.nodes, n_elements)
    dense = [node for node in bound.nodes if node.op.pairs or node.op.whole]
    n_elements += sum(n_points(node.op, node.call) for node in dense)
    # small tiles are bound by Python's lock: there a second thread only gets in the way
    limit = config.inline_elements
    n_tasks = int(np.count_nonzero(prepared.program.needed))
    # and one task, of little work, is done before a thread is woken for it
    small = max(SMALL_TILE * n_tasks, ALONE * limit if n_tasks == 1 else 0)
    return Trace(
        prepared,
        limit > 0 and (n_elements <= limit or n_elements < small or is_whole),
        sum(node.op.whole for node in bound.nodes),
        sum(family.eager for family in graph.families),
        tuple((node.op, node.call, node.region, node.accesses) for node in bound.nodes),
        few_of(prepared.program, bound.session.engine.devices),
    )


def _run_at_once(session: Session, bound: Bound) -> None:
    """Without a plan; what was made stays made if a call raises."""
    session.counts["evaluations"] += 1
    session.counts["small_calls"] += len(bound.nodes)
    session.counts["whole_ops"] += sum(node.op.whole for node in bound.nodes)
    work = AtOnce(bound)
    try:
        work.run()
    finally:
        for version, table in work.made():
            commit(session, version, table)


def _finish(session: Session, stopped: Stopped, nodes: Sequence[Node] = ()) -> None:
    """Run to the end and commit; what stops it is remembered by its nodes, given the first time."""
    run = stopped.run
    assert run is not None
    before, moved = run.n_done, run.moved_bytes
    progress = config.progress if session.progress is None else session.progress
    try:
        try:
            session.engine.finish(run, stopped.inline, progress, resumed=not nodes)
        except DeviceOutOfMemoryError as refused:
            session.make_room(refused.n_bytes, [v for v in session.kept() if v.table in run.leaves])
            session.engine.finish(run, stopped.inline, progress, resumed=True)
    except BaseException:
        session.was_stopped = True
        for node in nodes:
            node.stopped = stopped
        for number, version in stopped.wanted():
            if run.is_made(number):
                commit(session, version, stopped.table(number))
        raise
    finally:
        session.counts["tasks"] += run.n_done - before
        session.counts["tasks_in_c"] += run.n_called
        session.counts["bytes_moved"] += run.moved_bytes - moved
        session.counts["bytes_loaded"] += run.loaded_bytes
        session.counts["bytes_evicted"] += run.evicted_bytes
        session.counts["bytes_read"] += run.read_bytes
        run.loaded_bytes = run.evicted_bytes = run.read_bytes = run.n_called = 0
    with without_interrupts():  # memory goes back in finalizers, and what is raised in one is lost
        _put_away(session, stopped, run)


def _put_away(session: Session, stopped: Stopped, run: Run) -> None:
    """Commit what a run has made, and let go of the rest."""
    for number, version in stopped.wanted():
        if number not in run.abandoned:
            commit(session, version, stopped.table(number))
    session.counts["tiles_rebuilt"] += run.rebuilt
    for leaf, table in tables_with_reads(run).items() if stopped.leaves else ():
        read = stopped.leaves[leaf]()
        if read is not None and read.table is run.leaves[leaf]:
            read.table = table
    stopped.run = None
    run.release()


def commit(session: Session, version: Version, table: TileTable) -> None:
    """A version is computed: it lets go of its graph."""
    small = version.shape == () or prod(version.shape) <= config.small_elements
    if small and config.small_elements and session.engine.mesh.kind == "cpu":
        version.host = table.read(tuple((0, n) for n in version.shape), session.engine.devices)
    else:
        session.keep(version, table)
    node = version.node
    version.node = None
    assert node is not None
    session.graveyard.append(node)


def _resume(session: Session, roots: Sequence[Version]) -> None:
    """Finish stopped runs that the roots need."""
    if not session.was_stopped:
        return
    asked = {id(version) for version in roots}
    for node in waiting_nodes(roots):
        stopped = node.stopped
        if not node.is_stopped or all(version.node is None for version in roots):
            continue
        stopped.run.abandon(
            [n for n, v in stopped.wanted() if v.live > 0 or v.readers > 0 or id(v) in asked]
        )
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

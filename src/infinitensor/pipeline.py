"""The order of the stages, and the feedback between them. Only this file knows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from math import prod
from operator import sub
from typing import TYPE_CHECKING, NamedTuple, Protocol

from infinitensor.analysis import analyse
from infinitensor.errors import MemoryBudgetError
from infinitensor.interrupts import interruptible
from infinitensor.ir.layout import DISK, HOST
from infinitensor.ir.mesh import FEWEST, Mesh
from infinitensor.ir.region import box_size
from infinitensor.ir.tasks import Misfit, Program
from infinitensor.memory.allocate import allocate
from infinitensor.memory.best_order import stream
from infinitensor.partition import LEAF_ELEMENTS, choose
from infinitensor.redistribute import route
from infinitensor.runtime.simulate import estimated
from infinitensor.tasking import lower_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.graph import Analysed, Graph, Leaf
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.plan import Moves, Plan
    from infinitensor.ir.tasks import TaskGraph

SMALLEST_TILE = 4096
"""Tiles are not made smaller than this to fit a budget."""
FINER = 3
"""How often smaller tiles are tried where they may let copies and kernels overlap."""
MANY_TASKS = 250
"""Tasks from which no smaller tiles are tried: there would be ten times as many, and planning them
would take longer than they may gain."""
STREAMED_PARTS = (2, 4, 8, 16)
"""In how many parts the largest matrix is read that products bring from a lower tier. Products of
larger parts take less time in all; of smaller ones the first begins sooner, and more may stay."""
SMALLEST_PART = 1 << 22
"""Elements of such a part at least: to start a copy and a kernel takes the host a tenth of a
millisecond."""
WHOLE = 1 << 62
"""The size of a part that is all of it."""
ROUNDS = 8
"""How often smaller tiles are tried before a graph is said not to fit."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The results of each stage for one graph."""

    analysed: Analysed
    plan: Plan
    moves: Moves
    program: Program
    tile_elements: int
    """The tile bound that fitted; 0: the devices' own."""
    part_elements: int = 0
    """The size of parts in which products read from lower tiers; 0: they do not."""
    in_the_way: int = 0
    """Bytes of its leaves that would go to a lower tier, if what it moves at every run were more
    than that."""


class Lowered(NamedTuple):
    """The results of the stages before memory is given out: the same whatever the budgets."""

    analysed: Analysed
    plan: Plan
    moves: Moves
    tasks: TaskGraph


class Cutting(NamedTuple):
    """How a graph is cut."""

    tile_elements: int
    """The most of a tile; 0: the devices' own bound."""
    part_elements: int = 0
    """The size of parts in which products read from lower tiers; 0: they do not."""
    sweeps: bool = True
    """Whether several groups may go over the same rows in one pass."""


Known = dict[tuple[Mesh, Cutting, int], Lowered]
"""Of one graph, by mesh, cutting and room for pairs: what it was made into when it was tried."""


def too_large(analysed: Analysed, mesh: Mesh, budgets: Sequence[int]) -> Misfit | None:
    """A value that, as far as it is needed, is larger than all memories together.

    (A plan of its tiles could be larger than memory itself.)
    """
    graph = analysed.graph
    total = sum(budgets) + mesh.host_bytes + mesh.disk_bytes
    for group in analysed.groups:
        node = graph.nodes[group.nodes[-1]]
        for value in node.outs:
            need = graph.specs[value].n_bytes
            if need > total and value in analysed.needed:
                need = box_size(analysed.needed[value]) * graph.specs[value].dtype.itemsize
            if need > total:
                share = -(-need // len(budgets))
                return Misfit(node.op.name, share, max(budgets), 0, node.site)
    return None


def misfit_error(misfit: Misfit, mesh: Mesh) -> MemoryBudgetError:
    """The error of a graph that does not fit."""
    to_disk = ""
    if not mesh.disk_bytes:
        why = f" (off now: {mesh.no_disk})" if mesh.no_disk else " (now 0)"
        to_disk = f", let tiles go to files with it.init(disk='20GiB', spill_dir=...){why}"
    return MemoryBudgetError(
        misfit.op,
        misfit.need_bytes,
        misfit.limit_bytes,
        mesh.devices[misfit.device].name,
        str(misfit.site),
        f"give it.init(memory=...) at least {misfit.need_bytes} bytes a device, use more devices "
        f"(now {mesh.n_devices}), a smaller dtype{to_disk}, or let go of tensors that are no "
        "longer needed",
    )


# --- what gives way so that a program fits ------------------------------------------------------


class Demand(Protocol):
    """A program that is to be planned, and what of the session can give way to it.

    The questions change nothing. The requests at the end change what tensors the session holds and
    where, so after them every question may have another answer.
    """

    def mesh(self) -> Mesh:
        """The devices, with what the lower tiers have left."""

    def graph(self) -> Graph:
        """The graph to compute."""

    def budgets(self) -> list[int]:
        """Bytes that it may use on each device."""

    def planned_before(self) -> Prepared | None:
        """The plan of an equal program, if that fits now."""

    def spare_bytes(self) -> int:
        """Bytes of its leaves that are also in a lower tier and stay only to be read less."""

    def graph_without_spares(self) -> Graph | None:
        """The graph as if nothing stayed of those leaves; None if only parts of leaves are seen."""

    def keeps_too_much(self) -> bool:
        """Whether it would keep less if it knew that there is little room."""

    def heavy_bytes(self) -> int:
        """Bytes of its leaves that take much of a device and could go to a lower tier."""

    def moved_before(self) -> int:
        """Bytes that its runs have moved between tiers while its heavy leaves stayed."""

    def evict_others(self, n_bytes: int, leaves_too: bool = False) -> bool:
        """Let other tensors go to a lower tier, or also its own leaves; whether any went."""

    def give_back(self, n_bytes: int) -> None:
        """Let go of so many of the spare bytes."""

    def keep_less(self) -> None:
        """Keep little beside what was asked for."""

    def evict_leaves(self) -> None:
        """Let its heavy leaves go to a lower tier, and keep less."""


class Change(Enum):
    """A change of a demand before it is planned again."""

    GIVE_BACK = auto()
    KEEP_LESS = auto()
    EVICT_LEAVES = auto()


class Request(NamedTuple):
    """A change, and by how many bytes."""

    change: Change
    n_bytes: int = 0


def fit(demand: Demand, tile_elements: int) -> Prepared:
    """Plan a program so that it fits; `MemoryBudgetError` if nothing makes it fit.

    What gives way, in this order: other tensors, which go to a lower tier; tiles of its leaves that
    stay only to be read less; results that were not asked for, which are computed again when they
    are; its own large leaves, which then come tile by tile; its own tiles, evicted and loaded
    again, and made smaller. Each is done at most a few times, so this ends.
    """
    yields = True
    while True:
        found = demand.planned_before() or _fit_once(demand, tile_elements, yields)
        if isinstance(found, Prepared):
            return found
        if isinstance(found, Misfit):
            lacking = found.need_bytes - found.limit_bytes
            if not yields or not demand.evict_others(lacking, leaves_too=True):
                raise misfit_error(found, demand.mesh()) from None
            yields = False
            demand.keep_less()
        elif found.change is Change.GIVE_BACK:
            demand.give_back(found.n_bytes)
        elif found.change is Change.KEEP_LESS:
            demand.keep_less()
        else:
            yields = False
            demand.evict_leaves()


def _fit_once(demand: Demand, tile_elements: int, yields: bool) -> Prepared | Misfit | Request:
    """Plan all of it in memory, if need be in place of other tensors; or in parts.

    `yields`: it may be answered that less of it has to be kept or to stay.
    """
    graph, mesh, known = demand.graph(), demand.mesh(), Known()

    def plan(evicts: bool = True, shrinks: bool = True) -> Prepared | Misfit:
        limits = Limits(demand.budgets(), evicts, shrinks)
        return interruptible(prepare, graph, mesh, tile_elements, limits, known)

    found = plan(evicts=False)
    if isinstance(found, Prepared) or not has_tiers(mesh):
        return found
    lacking = found.need_bytes - found.limit_bytes
    if demand.spare_bytes():
        if yields and demand.keeps_too_much():
            return Request(Change.KEEP_LESS)
        return _fit_beside_spares(demand, graph, mesh, tile_elements, lacking)
    if demand.evict_others(lacking):
        found = plan(evicts=False)
        if isinstance(found, Prepared):
            return found
    if yields and demand.keeps_too_much():
        found = plan()  # tile by tile all of it may fit
        is_enough = isinstance(found, Prepared) and not found.program.traffic.evicted
        return found if is_enough else Request(Change.KEEP_LESS)
    heavy = demand.heavy_bytes() if yields else 0
    if heavy:
        # a GPU's tiles are large: before they are made small, leaves go
        found = plan(shrinks=mesh.kind != "cuda")
        if isinstance(found, Prepared) and _is_cheaper(found, heavy, demand, tile_elements):
            return replace(found, in_the_way=heavy)
        return Request(Change.EVICT_LEAVES)
    return plan()


def _is_cheaper(found: Prepared, heavy: int, demand: Demand, tile_elements: int) -> bool:
    """Whether a plan moves less than its heavy leaves are: every run moves that, they go once, and
    what can stay of them then stays."""
    left = heavy - demand.moved_before()
    # leaves go before tiles are so small that sums have other bits, and before cores are idle
    is_small = 0 < found.tile_elements < LEAF_ELEMENTS[found.plan.mesh.kind]
    is_forced = (is_small and not tile_elements) or found.program.at_once == 1
    return _moved_bytes(found) <= left and not is_forced


def _fit_beside_spares(
    demand: Demand, graph: Graph, mesh: Mesh, tile_elements: int, lacking: int
) -> Prepared | Misfit | Request:
    """Plan where tiles that were read before take the room: with those that can stay."""
    here = demand.spare_bytes()
    least = here // 4 + 1  # few plans are made until it fits
    rest = demand.graph_without_spares()
    if rest is None:
        return Request(Change.GIVE_BACK, max(lacking, least))
    budgets = demand.budgets()
    alone = interruptible(prepare, rest, mesh, tile_elements, Limits(budgets, evicts=False))
    if isinstance(alone, Prepared):
        program = alone.program
        stays = sum(int(program.slot_bytes[program.slots[tile]]) for tile in program.cached)
        return Request(Change.GIVE_BACK, here - stays if stays < here else least)
    # its tiles are made smaller in any case: what is here may stay
    found = interruptible(prepare, graph, mesh, tile_elements, Limits(budgets))
    if isinstance(found, Prepared):
        if not found.program.traffic.evicted:
            return found
        # to evict a little in every run may be less than to read all of it in every run
        without = interruptible(prepare, rest, mesh, tile_elements, Limits(budgets))
        if isinstance(without, Prepared) and _moved_bytes(found) < _moved_bytes(without):
            return found
    return Request(Change.GIVE_BACK, here)


# --- one program within given budgets -----------------------------------------------------------


class Limits(NamedTuple):
    """The memory that a plan may use, and the means it may take to fit."""

    budgets: Sequence[int]
    """Bytes on each device."""
    evicts: bool = True
    """Whether tiles may go to lower tiers and come back."""
    shrinks: bool = True
    """Whether tiles may be made smaller."""
    one_by_one: bool = False
    """Whether one task runs at a time, in the scratch of one."""


def prepare(
    graph: Graph, mesh: Mesh, tile_elements: int, limits: Limits, known: Known | None = None
) -> Prepared | Misfit:
    """Plan a graph into a Program that fits the limits. `known` is for those who ask again.

    Where it does not fit, tiles are evicted to lower tiers and loaded again, if that is allowed, in
    the way that moves fewer bytes; where a task alone is too large, smaller tiles are tried a
    bounded number of times; and if that is not enough, one task at a time. A `Misfit` names the op,
    the smallest need that was met, and the line.
    """
    bound = tile_elements
    known = {} if known is None else known
    smallest: Misfit | None = None
    for _ in range(ROUNDS):
        largest, found = 0, []
        for way in _ways(graph, mesh, limits):
            made = _fastest(graph, way, bound, limits, known)
            if isinstance(made, Misfit):
                if smallest is None or made.need_bytes < smallest.need_bytes:
                    smallest = made
                largest = made.largest_tile
                continue
            found.append(made)
            if not made.program.traffic.evicted:
                break
        if found:
            return min(found, key=_moved_bytes)
        bound = _smaller(min(bound or largest, largest), LEAF_ELEMENTS[mesh.kind])
        if bound < min(SMALLEST_TILE, tile_elements or SMALLEST_TILE):
            break  # more tasks than anyone would wait for
        if not limits.shrinks or (not limits.evicts and has_tiers(mesh)):
            break  # order and residency change before tiles do
    assert smallest is not None
    if limits.one_by_one or mesh.n_concurrent == 1 or (has_tiers(mesh) and not limits.evicts):
        return smallest
    alone = prepare(graph, mesh, tile_elements, limits._replace(one_by_one=True), known)
    if isinstance(alone, Prepared) or alone.need_bytes < smallest.need_bytes:
        return alone
    return smallest


def _moved_bytes(prepared: Prepared) -> int:
    traffic = prepared.program.traffic
    return traffic.evicted + traffic.loaded


def _smaller(bound: int, leaf: int) -> int:
    """A quarter of a tile bound, but first the size below which reductions have other bits.

    >>> _smaller(1 << 18, 1 << 17) == 1 << 17, _smaller(1 << 17, 1 << 17) == 1 << 15
    (True, True)
    """
    return leaf if bound // 4 < leaf < bound else bound // 4


def _fastest(
    graph: Graph, mesh: Mesh, bound: int, limits: Limits, known: Known
) -> Prepared | Misfit:
    """Of plans that read in parts of several sizes the one that is estimated to be fastest; with
    smaller tiles where even that is not near what its busiest lane takes."""
    best: Prepared | None = None
    least, is_near = float("inf"), False
    misfit: Misfit | None = None
    for part_elements in _part_sizes(graph, mesh):
        if part_elements == WHOLE and is_near:
            break
        found = _prepare(graph, mesh, Cutting(bound, part_elements), limits, known)
        if isinstance(found, Misfit):
            misfit = found
            if not (limits.evicts and limits.shrinks):
                break  # something else gives way first
            continue
        if mesh.kind != "cuda" or found.program.order is None:
            return found
        taken, found_near = estimated(found.program, mesh)
        if taken < least:
            best, least, is_near = found, taken, found_near
        if is_near and found.program.graph.n_tasks > MANY_TASKS:
            break  # smaller parts are more tasks
    if best is None:
        assert misfit is not None
        return misfit
    is_chained = any(group.chained >= 0 for group in best.plan.groups)
    if is_near or is_chained:
        return best
    return _finer(best, least, graph, mesh, Limits(limits.budgets), known)


def _part_sizes(graph: Graph, mesh: Mesh) -> list[int]:
    """Elements of the parts to try in which products read matrices from lower tiers."""
    if mesh.kind != "cuda" or mesh.n_devices > 1:
        return [0]
    products = [node for node in graph.nodes if node.op.kind == "contraction"]
    read = {operand.value for node in products for operand in node.operands}
    streamed = [
        (prod(_longest(leaf.layout)), graph.specs[leaf.value].n_elements)
        for leaf in graph.leaves
        if leaf.value in read and _is_in_lower_tier(leaf, mesh)
    ]
    largest = max((n for _, n in streamed), default=0)
    parts = [part for part, n in streamed if n == largest and part < n]
    if parts:  # some of it has stayed: the rest has parts like those
        return [max(parts), WHOLE]
    sizes = {max(-(-largest // n), SMALLEST_PART): None for n in STREAMED_PARTS}
    return [*(n for n in sizes if n < largest), WHOLE]


def _finer(
    found: Prepared, least: float, graph: Graph, mesh: Mesh, limits: Limits, known: Known
) -> Prepared:
    """The plan, or one with smaller tiles that is estimated to be faster.

    A GPU's tiles are as large as they come: where they stream through a small memory, few of them
    fit at a time, and copies would wait for kernels.
    """
    bound, n_tasks = _largest_tile(found.plan), found.program.graph.n_tasks
    for _ in range(FINER):
        bound //= 4
        if bound < SMALLEST_TILE or n_tasks > MANY_TASKS:
            break
        finer = _prepare(graph, mesh, Cutting(bound, found.part_elements), limits, known)
        if isinstance(finer, Misfit):
            continue
        taken, is_near = estimated(finer.program, mesh)
        if taken < 0.95 * least:
            found, least = finer, taken
        if is_near:
            break
        n_tasks = finer.program.graph.n_tasks
    return found


def _longest(layout: Layout) -> list[int]:
    """The longest side of a tile along each axis."""
    return [max(map(sub, borders[1:], borders), default=0) for borders in layout.cuts]


def _is_in_lower_tier(leaf: Leaf, mesh: Mesh) -> bool:
    """Whether a leaf is in a lower tier, from where it is brought while others are computed."""
    lowest = min(leaf.layout.owners)
    is_large = prod(borders[-1] for borders in leaf.layout.cuts) > SMALLEST_TILE
    return lowest == DISK or (lowest == HOST and mesh.kind == "cuda" and is_large)


def has_tiers(mesh: Mesh) -> bool:
    """Whether there is somewhere to evict to."""
    return mesh.disk_bytes > 0 or mesh.host_bytes > 0


def _ways(graph: Graph, mesh: Mesh, limits: Limits) -> list[Mesh]:
    """The mesh; and where tensors are contiguous on it, the same with tiles apart, which can be
    evicted one by one. Only that where much is read from a lower tier: then what is made of it
    comes and goes tile by tile too, and leaves room for what may stay."""
    if not mesh.is_one_memory or not has_tiers(mesh):
        return [mesh]
    apart = replace(mesh, apart=True)
    # a file whose tiles are all here by now too: what stays should not have to go again
    read = [leaf for leaf in graph.leaves if leaf.file or _is_in_lower_tier(leaf, mesh)]
    streamed_bytes = sum(graph.specs[leaf.value].n_bytes for leaf in read)
    if 2 * streamed_bytes > min(limits.budgets):
        return [apart]
    return [mesh, apart] if limits.evicts else [mesh]


def _prepare(
    graph: Graph, mesh: Mesh, cutting: Cutting, limits: Limits, known: Known
) -> Prepared | Misfit:
    """One plan. A task of a sweep has tiles of all that its groups read and make at once: where
    that is too much, the same without."""
    lowered = _lower(graph, mesh, cutting, limits.budgets, known)
    if isinstance(lowered, Misfit):
        return lowered
    analysed, plan, moves, _ = lowered
    program = _in_memory(graph, lowered, limits)
    if isinstance(program, Program):
        return Prepared(analysed, plan, moves, program, *cutting[:2])
    if any(group.sweep >= 0 for group in plan.groups):
        return _prepare(graph, mesh, cutting._replace(sweeps=False), limits, known)
    return replace(program, largest_tile=_largest_tile(plan))


def _streams(graph: Graph, mesh: Mesh) -> bool:
    """Whether some of what it reads is in a lower tier."""
    return any(_is_in_lower_tier(leaf, mesh) for leaf in graph.leaves)


def _lower(
    graph: Graph, mesh: Mesh, cutting: Cutting, budgets: Sequence[int], known: Known
) -> Lowered | Misfit:
    """The stages before memory is given out."""
    if _streams(graph, mesh):
        mesh = mesh.frugal(min(budgets))
    # pairs read less the more of them has room; everything else is cut alike in every budget
    room = min(budgets) if any(node.op.pairs for node in graph.nodes) else 0
    key = (mesh, cutting, room)
    if key not in known:
        # one memory: tasks may look into any tile
        analysed = analyse(graph, mesh.is_one_memory, mesh.target.compiles)
        misfit = too_large(analysed, mesh, budgets)
        if misfit is not None:
            return misfit
        elements, part_elements, sweeps = cutting
        plan = choose(analysed, mesh, elements, part_elements, room, sweeps)
        moves = route(plan)
        known[key] = Lowered(analysed, plan, moves, lower_plan(plan, moves))
    return known[key]


def _in_memory(graph: Graph, lowered: Lowered, limits: Limits) -> Program | Misfit:
    """Give out memory: all of it at once, or tile by tile in a serial order."""
    _, plan, moves, tasks = lowered
    mesh, budgets = plan.mesh, limits.budgets
    # tiles of a piece cannot be used up one by one
    donated = [leaf.donated and (mesh.is_one_memory or not leaf.in_piece) for leaf in graph.leaves]
    has_files = any(leaf.file for leaf in graph.leaves)
    if not _streams(graph, mesh):
        program = _allocated(tasks, limits, donated, mesh, moves)
        can_stream = (limits.evicts or has_files) and has_tiers(mesh) and not mesh.is_one_memory
        if isinstance(program, Program) or not can_stream:
            return program
    # of a window the memory around it stays
    donated = [d and not leaf.partly for d, leaf in zip(donated, graph.leaves, strict=True)]
    mesh = replace(mesh, at_once=1) if limits.one_by_one else mesh.frugal(min(budgets))
    gives_back = not limits.evicts and has_files
    program = stream(tasks, budgets, donated, mesh, moves.moved, gives_back)
    if isinstance(program, Misfit):
        return program
    if program.traffic.evicted and not limits.evicts:
        last = plan.groups[-1].space.last
        need = max(budgets) + program.traffic.evicted
        return Misfit(last.op.name, need, max(budgets), 0, last.site)
    return _at_most(program, mesh, mesh.n_concurrent)


def _allocated(
    tasks: TaskGraph, limits: Limits, donated: Sequence[bool], mesh: Mesh, moves: Moves
) -> Program | Misfit:
    """All in memory: with fewer tasks at a time, two at least, where scratch is too much."""
    n = 1 if limits.one_by_one else mesh.n_concurrent
    while True:
        program = allocate(tasks, limits.budgets, donated, n, moves.moved)
        if isinstance(program, Program):
            return _at_most(program, mesh, n)
        n //= 2
        if n < FEWEST or not any(family.scratch_bytes for family in tasks.families):
            return program


def _at_most(program: Program, mesh: Mesh, n: int) -> Program:
    """A program whose memory is for n tasks at a time."""
    return replace(program, at_once=n) if n < mesh.workers and mesh.kind == "cpu" else program


def _largest_tile(plan: Plan) -> int:
    """Elements of the largest tile that a task works on (of products and pairs: reads or makes;
    where axes are never cut: reads, or goes through along the others)."""
    largest = 1
    for group in plan.groups:
        lengths = group.longest()
        space = group.space
        read = [tuple(k for k in read.labels if k is not None) for read in space.reads]
        tiles = [tuple(range(len(lengths)))]
        if space.last.op.kind == "contraction" or space.last.op.pairs:
            tiles = read + [tuple(k for k in out if k is not None) for _, out in space.outs]
        elif space.last.op.kind in ("mapped", "reduction") and space.uncut:
            tiles = [*read, tuple(k for k in range(len(lengths)) if k not in space.uncut)]
        largest = max(largest, *(prod(lengths[k] for k in tile) for tile in tiles))
    return largest

"""The order of the stages, and the feedback between them. Only this file knows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from infinitensor.analysis import analyse
from infinitensor.errors import DoesNotFit, MemoryBudgetError
from infinitensor.ir.layout import DISK, HOST
from infinitensor.ir.mesh import FEWEST, Mesh
from infinitensor.ir.region import box_size
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
    from infinitensor.ir.tasks import Program, TaskGraph

SMALLEST_TILE = 4096
"""Tiles are not made smaller than this to fit a budget."""
FINER = 3
"""How often smaller tiles are tried where they may let copies and kernels overlap."""
MANY_TASKS = 250
"""Tasks from which no smaller tiles are tried: there would be ten times as many, and planning them
would take longer than they may gain."""
PARTS = (2, 4, 8, 16)
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
    """What each stage said of one graph."""

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
    """What a graph was made into before memory is given out: the same whatever the budgets."""

    analysed: Analysed
    plan: Plan
    moves: Moves
    tasks: TaskGraph


Known = dict[tuple[Mesh, int, int, int, bool], Lowered]
"""Of one graph, by mesh, tile bound, size of parts, room for pairs and whether it may sweep: what
it was made into when it was tried."""


def refuse_impossible(analysed: Analysed, mesh: Mesh, budgets: Sequence[int]) -> None:
    """Refuse at once a value that, as far as it is needed, is larger than all memories together.

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
                misfit = DoesNotFit(node.op.name, share, max(budgets), 0, node.site)
                raise misfit_error(misfit, mesh)


def misfit_error(misfit: DoesNotFit, mesh: Mesh) -> MemoryBudgetError:
    """What the user sees of a graph that does not fit."""
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


def prepare(
    graph: Graph,
    mesh: Mesh,
    tile_elements: int,
    budgets: Sequence[int],
    evicts: bool = True,
    shrinks: bool = True,
    known: Known | None = None,
) -> Prepared:
    """Plan a graph into a Program that fits the budgets. `known` is for those who ask again.

    Where it does not fit, tiles are evicted to lower tiers and loaded again, if `evicts`, in the
    way that moves fewer bytes; where a task alone is too large, smaller tiles are tried a bounded
    number of times, if `shrinks`; then `MemoryBudgetError` names the op, the need and the line.
    Nothing has run by then.
    """
    bound = tile_elements
    known = {} if known is None else known
    smallest: DoesNotFit | None = None
    for _ in range(ROUNDS):
        largest, found = 0, []
        for way in _ways(graph, mesh, budgets, evicts):
            try:
                found.append(_fastest(graph, way, bound, budgets, evicts, shrinks, known))
            except DoesNotFit as misfit:
                if smallest is None or misfit.need_bytes < smallest.need_bytes:
                    smallest = misfit.with_traceback(None)  # it would hold the graph's tensors
                largest = misfit.largest_tile
            else:
                if not found[-1].program.traffic.evicted:
                    break
        if found:
            return min(found, key=_moved_bytes)
        bound = _smaller(min(bound or largest, largest), LEAF_ELEMENTS[mesh.kind])
        if bound < min(SMALLEST_TILE, tile_elements or SMALLEST_TILE):
            break  # more tasks than anyone would wait for
        if not shrinks or (not evicts and has_tiers(mesh)):
            break  # order and residency change before tiles do
    assert smallest is not None
    raise misfit_error(smallest, mesh) from None


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
    graph: Graph,
    mesh: Mesh,
    bound: int,
    budgets: Sequence[int],
    evicts: bool,
    shrinks: bool,
    known: Known,
) -> Prepared:
    """Of plans that read in parts of several sizes the one that is estimated to be fastest; with
    smaller tiles where even that is not near what its busiest lane takes."""
    best: Prepared | None = None
    least, is_near = float("inf"), False
    misfit: DoesNotFit | None = None
    for part_elements in _part_sizes(graph, mesh):
        if part_elements == WHOLE and is_near:
            break
        try:
            found = _prepare(graph, mesh, bound, budgets, evicts, part_elements, known)
        except DoesNotFit as error:
            misfit = error.with_traceback(None)
            if not (evicts and shrinks):
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
        try:
            raise misfit
        finally:
            del misfit  # it would hold this frame
    is_chained = any(group.chained >= 0 for group in best.plan.groups)
    return best if is_near or is_chained else _finer(best, least, graph, mesh, budgets, known)


def _part_sizes(graph: Graph, mesh: Mesh) -> list[int]:
    """Elements of the parts to try in which products read matrices from lower tiers."""
    if mesh.kind != "cuda" or mesh.n_devices > 1:
        return [0]
    products = [node for node in graph.nodes if node.op.kind == "contraction"]
    read = {operand.value for node in products for operand in node.operands}
    below = [
        (prod(_longest(leaf.layout)), graph.specs[leaf.value].n_elements)
        for leaf in graph.leaves
        if leaf.value in read and _is_below(leaf, mesh)
    ]
    largest = max((n for _, n in below), default=0)
    parts = [part for part, n in below if n == largest and part < n]
    if parts:  # some of it has stayed: the rest has parts like those
        return [max(parts), WHOLE]
    sizes = {max(-(-largest // n), SMALLEST_PART): None for n in PARTS}
    return [*(n for n in sizes if n < largest), WHOLE]


def _finer(
    found: Prepared, least: float, graph: Graph, mesh: Mesh, budgets: Sequence[int], known: Known
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
        try:
            finer = _prepare(graph, mesh, bound, budgets, True, found.part_elements, known)
        except DoesNotFit:
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


def _is_below(leaf: Leaf, mesh: Mesh) -> bool:
    """Whether a leaf lies in a lower tier, from where it is brought while others are computed."""
    lowest = min(leaf.layout.owners)
    is_large = prod(borders[-1] for borders in leaf.layout.cuts) > SMALLEST_TILE
    return lowest == DISK or (lowest == HOST and mesh.kind == "cuda" and is_large)


def has_tiers(mesh: Mesh) -> bool:
    """Whether there is somewhere to evict to."""
    return mesh.disk_bytes > 0 or mesh.host_bytes > 0


def _ways(graph: Graph, mesh: Mesh, budgets: Sequence[int], evicts: bool) -> list[Mesh]:
    """The mesh; and where tensors lie in one piece on it, the same with tiles apart, which can be
    evicted one by one. Only that where much is read from below: then what is made of it comes and
    goes tile by tile too, and leaves room for what may stay."""
    if not mesh.is_one_memory or not has_tiers(mesh):
        return [mesh]
    apart = replace(mesh, apart=True)
    # a file whose tiles are all here by now too: what stays should not have to go again
    read = [leaf for leaf in graph.leaves if leaf.file or _is_below(leaf, mesh)]
    below = sum(graph.specs[leaf.value].n_bytes for leaf in read)
    if 2 * below > min(budgets):
        return [apart]
    return [mesh, apart] if evicts else [mesh]


def _prepare(
    graph: Graph,
    mesh: Mesh,
    bound: int,
    budgets: Sequence[int],
    evicts: bool,
    part_elements: int,
    known: Known,
    sweeps: bool = True,
) -> Prepared:
    """One plan. A task of a sweep has tiles of all that its groups read and make at once: where
    that is too much, the same without."""
    streams = any(_is_below(leaf, mesh) for leaf in graph.leaves)
    if streams:
        mesh = mesh.frugal(min(budgets))
    # pairs read less the more of them has room; everything else is cut alike in every budget
    room = min(budgets) if any(node.op.pairs for node in graph.nodes) else 0
    key = (mesh, bound, part_elements, room, sweeps)
    if key not in known:
        # one memory: tasks may look into any tile
        analysed = analyse(graph, renews=mesh.is_one_memory)
        refuse_impossible(analysed, mesh, budgets)
        plan = choose(analysed, mesh, bound, part_elements, room, sweeps)
        moves = route(plan)
        known[key] = Lowered(analysed, plan, moves, lower_plan(plan, moves))
    analysed, plan, moves, tasks = known[key]
    # tiles of a piece cannot be used up one by one
    donated = [leaf.donated and (mesh.is_one_memory or not leaf.in_piece) for leaf in graph.leaves]
    try:
        if not streams:
            try:
                program = _allocated(tasks, budgets, donated, mesh, moves)
            except DoesNotFit:
                can_stream = evicts or any(leaf.file for leaf in graph.leaves)
                streams = can_stream and has_tiers(mesh) and not mesh.is_one_memory
                if not streams:
                    raise
        if streams:
            # of a window the memory around it stays
            donated = [d and not leaf.partly for d, leaf in zip(donated, graph.leaves, strict=True)]
            gives_back = not evicts and any(leaf.file for leaf in graph.leaves)
            mesh = mesh.frugal(min(budgets))
            program = stream(tasks, budgets, donated, mesh, moves.moved, gives_back)
            program = _at_most(program, mesh, mesh.n_concurrent)
            if not evicts:
                _refuse_eviction(program, plan, budgets)
    except DoesNotFit as misfit:
        if any(group.sweep >= 0 for group in plan.groups):
            return _prepare(graph, mesh, bound, budgets, evicts, part_elements, known, False)
        misfit.largest_tile = _largest_tile(plan)
        raise
    return Prepared(analysed, plan, moves, program, bound, part_elements)


def _allocated(
    tasks: TaskGraph, budgets: Sequence[int], donated: Sequence[bool], mesh: Mesh, moves: Moves
) -> Program:
    """All in memory: with fewer tasks at a time, two at least, where scratch is too much."""
    n = mesh.n_concurrent
    while True:
        try:
            return _at_most(allocate(tasks, budgets, donated, n, moves.moved), mesh, n)
        except DoesNotFit:
            n //= 2
            if n < FEWEST or not any(family.scratch_bytes for family in tasks.families):
                raise


def _at_most(program: Program, mesh: Mesh, n: int) -> Program:
    """A program whose memory is for n tasks at a time."""
    return replace(program, at_once=n) if n < mesh.workers and mesh.kind == "cpu" else program


def _refuse_eviction(program: Program, plan: Plan, budgets: Sequence[int]) -> None:
    """Where nothing is to be evicted, a program that would is one that does not fit."""
    if program.traffic.evicted:
        last = plan.groups[-1].space.last
        need = max(budgets) + program.traffic.evicted
        raise DoesNotFit(last.op.name, need, max(budgets), 0, last.site)


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

"""Cut every group and give every piece a device.

A group is cut as its largest operand is, so that data stays where it is; where nothing is in
pieces yet, by the canonical tile shape, in blocks over the devices. Reductions that round are cut
on their canonical grid only.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.layout import Layout, single
from infinitensor.ir.op import n_points
from infinitensor.ir.plan import GroupPlan, Plan
from infinitensor.ir.region import cut_evenly, grid_shape, tiles_over, whole_box
from infinitensor.ir.space import Space, points, space_like, space_of
from infinitensor.ops.table.work import work_of
from infinitensor.partition.contraction_cuts import cut_contraction, cut_product
from infinitensor.partition.operand_cuts import Bounds, Reads, base_axis, common_borders
from infinitensor.partition.pair_cuts import Y, cut_pairs, cut_streamed_pairs, in_lanes
from infinitensor.partition.streamed_parts import parts_of
from infinitensor.partition.sweeps import begin_sweep, find_sweeps, swept_cuts, swept_plan
from infinitensor.partition.tile_shape import (
    LEAF_ELEMENTS,
    bound_for,
    floor_power,
    tile_shape,
    wanted_pieces,
)

if TYPE_CHECKING:
    from infinitensor.ir.graph import Analysed, Graph, Node
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.op import Labels
    from infinitensor.ir.region import Box, Cuts
    from infinitensor.ir.space import Read
    from infinitensor.partition.sweeps import Sweep

TILES_REDUCED = 4
"""Tiles that a task of a large reduction reads at most where there is one memory."""
MOST_CROSSED = 8
"""How many times as many pieces as there have to be a group is cut into, that its operands are not
cut."""
FEW_REDUCED = 64
"""Elements that become one, up to which no tile has only some of them."""
LEAST_SHARED = 1 << 12
"""Elements of a tile at least that is one of several for the work that they are."""
LEAF_BY_LEAF = 1 << 23
"""Elements up to which a task sums one leaf, by one call in C, where leaves cut what is summed."""


def choose(
    analysed: Analysed,
    mesh: Mesh,
    tile_elements: int,
    part_elements: int = 0,
    room_bytes: int = 0,
    sweeps: bool = True,
) -> Plan:
    """Cuts and devices of every group, layouts of every value. Pure; linear in tasks.

    `part_elements`: what products read from lower tiers at a time, of one matrix; 0: all of it.
    `room_bytes`: what pairs may take of a device; 0: all of it.
    `sweeps`: whether groups over the same rows may be cut alike (`sweeps.py`).
    """
    room_bytes = room_bytes or mesh.devices[0].memory_bytes
    graph = analysed.graph
    work = _work_of_rows(graph, mesh)
    bounds = Bounds(mesh, tile_elements, part_elements, room_bytes, work)
    roots = analysed.roots
    layouts = {leaf.value: leaf.layout for leaf in graph.leaves}
    leaving = leaving_values(analysed)
    streamed = {leaf.value for leaf in graph.leaves if leaf.is_streamed}
    files = {leaf.value for leaf in graph.leaves if leaf.file}
    plans = []
    alike: dict[Any, tuple[GroupPlan, list[Layout]]] = {}
    swept = find_sweeps(analysed, mesh) if sweeps and not part_elements else {}
    for g, group in enumerate(analysed.groups):
        node = graph.nodes[group.nodes[-1]]
        kin = None
        if len(group.nodes) == 1 and node.op.kind != "update" and g not in swept:
            part = None if len(node.outs) != 1 else needed_part(node, analysed.needed)
            kin = kin_of(node, layouts, roots, streamed, part)
            known = alike.get(kin)
            if known is not None:
                plan = replace(known[0], space=space_like(known[0].space, node))
                for (value, _), layout in zip(plan.space.outs, known[1], strict=True):
                    layouts[value] = layout
                add_streamed(plan.space, layouts, roots, streamed, files)
                plans.append(plan)
                continue
        space = space_of(graph, group, leaving)
        if node.renews:
            layout = layouts[roots[node.operands[0].value]]
            plan = GroupPlan(space, layout.cuts, layout.owner_array)
            layouts[node.outs[0]] = layout
        elif node.op.kind == "update":
            layout = layouts[roots[space.last.outs[0]]]
            plan = plan_update(space, layout, graph.specs[roots[space.last.outs[0]]].shape)
            layouts[space.last.outs[0]] = layout
        else:
            part = needed_part(node, analysed.needed) if len(space.outs) == 1 else None
            reads = Reads(
                sorted(space.reads, key=lambda read: -prod(read.shape)),
                {read: layouts[roots[read.operand.value]] for read in space.reads},
                {read: graph.specs[read.operand.value].dtype for read in space.reads},
                frozenset(r for r in space.reads if roots[r.operand.value] in streamed),
            )
            in_sweep = plan_in_sweep(swept, g, space, reads, bounds)
            plan = in_sweep or plan_group(space, reads, bounds, part)
            made = [layout_of(plan, labels) for _, labels in space.outs]
            if kin is not None:
                plan = replace(plan, kin=kin)
                alike[kin] = (plan, made)
            for (value, _), layout in zip(space.outs, made, strict=True):
                layouts[value] = layout
            add_streamed(space, layouts, roots, streamed, files)
        plans.append(plan)
    return Plan(analysed, mesh, tuple(plans), layouts)


def plan_in_sweep(
    sweeps: dict[int, Sweep], g: int, space: Space, reads: Reads, bounds: Bounds
) -> GroupPlan | None:
    """The plan of a group in a sweep; the first of them says how all are cut, or that none is."""
    sweep = sweeps.get(g)
    if sweep is None:
        return None
    if not sweep.borders:
        mesh, rows = bounds.mesh, sweep.roles[g].rows
        bound = _bound(sweep.n * sweep.columns, mesh, bounds.tile_elements)
        most = 1 if bounds.tile_elements or reads.is_streamed else TILES_REDUCED
        if not begin_sweep(sweep, rows, reads, mesh, bound, most):
            for member in sweep.roles:
                del sweeps[member]
            return None
        sweep.devices = place(swept_cuts(sweep, g, space), reads, mesh)
    return swept_plan(sweep, g, space)


def add_streamed(
    space: Space,
    layouts: dict[int, Layout],
    roots: tuple[int, ...],
    streamed: set[int],
    files: set[int],
) -> None:
    """Note that what is made of a file comes in tiles too, if it is in several."""
    if not files or not space.reads:
        return
    lead = max(space.reads, key=lambda read: prod(read.shape))
    if roots[lead.operand.value] in files:
        made = {value for value, _ in space.outs if layouts[value].n_tiles > 1}
        files |= made
        streamed |= made


def needed_part(node: Node, needed: dict[int, Box]) -> Box | None:
    """The part of an elementwise or creating group's space that is needed; None: all of it."""
    return needed.get(node.outs[0]) if node.op.kind in ("elementwise", "creation") else None


def kin_of(
    node: Node,
    layouts: dict[int, Layout],
    roots: tuple[int, ...],
    streamed: set[int],
    part: Box | None,
) -> Any:
    """All that the plan of a group of one node depends on, but for which values it reads."""
    operands = tuple(
        None
        if o.value < 0
        else (layouts[roots[o.value]], o.access, bool(streamed) and roots[o.value] in streamed)
        for o in node.operands
    )
    same = tuple(node.operands.index(o) for o in node.operands)  # x * x reads once, x * y twice
    return (id(node.op), id(node.call), operands, same, node.shapes, part)


def leaving_values(analysed: Analysed) -> frozenset[int]:
    """Values that some other group reads, or that must be kept."""
    graph = analysed.graph
    leaving = set(graph.kept)
    group_of = {n: g for g, group in enumerate(analysed.groups) for n in group.nodes}
    made_in = {v: group_of[n] for n, node in enumerate(graph.nodes) for v in node.outs}
    for n, node in enumerate(graph.nodes):
        for operand in node.operands:
            if operand.value >= 0 and made_in.get(operand.value, -1) != group_of[n]:
                leaving.add(operand.value)
    return frozenset(leaving)


def canonical_layout(shape: tuple[int, ...], mesh: Mesh, tile_elements: int) -> Layout:
    """Where a tensor from outside is put: canonical tiles, in blocks over the devices."""
    n_elements = prod(shape)
    bound = _bound(n_elements, mesh, tile_elements)
    if 0 < n_elements <= bound:  # asked for whenever a host value goes to a GPU
        return single(shape, 0)
    tile = tile_shape(shape, bound)
    cuts = tuple(cut_evenly(n, step) for n, step in zip(shape, tile, strict=True))
    n_tiles = prod(grid_shape(cuts))
    return Layout(cuts, tuple(blocks(n_tiles, mesh.n_devices).tolist()))


STREAMED_TILES = 128
"""Tiles of a file from which they are made larger: to plan a load and a task, to start them and to
wake who waits takes as long for each, whatever its size."""
MOST_STREAMED = 8
"""How much larger they may be than others."""
SHARE_OF_MEMORY = 64
"""The part of a memory that one of them may take: several are there at a time, with what is made of
them."""


def streamed_cuts(shape: tuple[int, ...], itemsize: int, mesh: Mesh, tile_elements: int) -> Cuts:
    """The tiles of a file: canonical ones, larger where there would be very many."""
    usual = mesh.devices[0].tile_elements
    if not tile_elements:
        room = max(mesh.devices[0].memory_bytes // (SHARE_OF_MEMORY * itemsize), 1)
        wanted = min(prod(shape) // STREAMED_TILES, MOST_STREAMED * usual, room)
        tile_elements = floor_power(wanted) if wanted > usual else 0
    return canonical_layout(shape, mesh, tile_elements).cuts


def blocks(n: int, n_devices: int) -> np.ndarray:
    """Device of each of n pieces: contiguous blocks, as even as can be."""
    return (np.arange(n, dtype=np.int64) * n_devices // max(n, 1)).astype(np.int16)


def _bound(n_elements: int, mesh: Mesh, tile_elements: int) -> int:
    default = mesh.devices[0].tile_elements
    return bound_for(
        n_elements, default, tile_elements, wanted_pieces(mesh), LEAF_ELEMENTS[mesh.kind]
    )


def _reduced_bound(space: Space, bound: int, mesh: Mesh, n_read: int) -> int:
    """The bound of a group that reads tiles in place and stores nothing as large: several
    tiles a task, while there are enough tasks for every worker."""
    if not mesh.is_one_memory or len(space.outs) > len(space.last.outs):
        return bound
    share = max(n_read // (8 * mesh.workers), 1)
    return max(bound, min(TILES_REDUCED * bound, floor_power(share)))


def plan_update(space: Space, layout: Layout, shape: tuple[int, ...]) -> GroupPlan:
    """A task for each tile of the base that the write may touch, where that tile is."""
    node = space.last
    region = node.region
    if region is None:
        found = list(range(layout.n_tiles))
    elif 0 in node.shapes[1]:
        found = []
    else:
        over = tiles_over(layout.cuts, region.base_box(whole_box(node.shapes[1])))
        # a write with steps may pass over a tile
        found = [
            t
            for t in over
            if all(hi > lo for lo, hi in region.view_box(layout.tile(t), node.shapes[1]))
        ]
    tiles = np.asarray(found, np.int32)
    return GroupPlan(space, layout.cuts, layout.owner_array[tiles], tiles=tiles)


def plan_group(space: Space, reads: Reads, bounds: Bounds, part: Box | None) -> GroupPlan:
    """Cuts and devices of one group that is no update.

    Where only a part is needed, the rest is left in pieces as large as they come: they are never
    made.
    """
    mesh, tile_elements = bounds.mesh, bounds.tile_elements
    if part is not None:
        sizes = tuple(hi - lo for lo, hi in part)
        n_points = points(replace(space, sizes=sizes))
        steps = tile_shape(sizes, _bound(n_points, mesh, tile_elements))
        cuts = tuple(
            cut_around(lo, hi, size, step)
            for (lo, hi), size, step in zip(part, space.sizes, steps, strict=True)
        )
        return GroupPlan(space, cuts, place(cuts, reads, mesh), part=part)
    op = space.last.op
    if op.need is not None:
        reads = reads._replace(by_size=[])
    bound = _group_bound(space, reads, bounds)
    leaves: tuple[tuple[int, int], ...] = ()
    if op.kind == "contraction":
        is_free = not (tile_elements or reads.streamed or bounds.part_elements)
        product = cut_product(space, reads.dtypes, mesh) if is_free else None
        cuts = product or cut_contraction(space, reads, bounds, bound)
        found = parts_of(space, reads, bounds.part_elements) if bounds.part_elements else None
        if found is not None:
            label, borders = found
            if max(np.diff(borders)) <= max(np.diff(cuts[label])):
                cuts = (*cuts[:label], borders, *cuts[label + 1 :])
            chained = label if label in space.contracted else -1
            return GroupPlan(space, cuts, place(cuts, reads, mesh), chained=chained)
    elif op.pairs:
        streamed = cut_streamed_pairs(space, reads, bounds)
        if streamed is not None:
            return GroupPlan(space, streamed, in_lanes(streamed, mesh), chained=Y)
        cuts = cut_pairs(space, bound, mesh, tile_elements, wanted_pieces(mesh))
    else:
        bound = _shared_bound(space, reads, bounds, bound)
        cuts, leaves = cut_mapped(space, reads, bound, LEAF_ELEMENTS[mesh.kind])
        if mesh.is_one_memory and not (tile_elements or reads.is_streamed):
            cuts = uncrossed(space, cuts, bound)
    return GroupPlan(space, cuts, place(cuts, reads, mesh), leaves)


def _group_bound(space: Space, reads: Reads, bounds: Bounds) -> int:
    """Elements of a group's tiles: of what it reads, over the grain of its op."""
    op, n_points = space.last.op, points(space)
    bound = _bound(n_points, bounds.mesh, bounds.tile_elements)
    grain = 1 if op.grain is None else op.grain(**dict(space.last.call.params))
    if not bounds.tile_elements:
        if reads.is_streamed:
            cuts = reads.layouts[reads.by_size[0]].cuts
            bound = max(bound, prod(int(max(np.diff(cut))) for cut in cuts))
        elif op.kind == "reduction" or op.grain is not None:
            bound = _reduced_bound(space, bound, bounds.mesh, n_points * grain)
    return max(bound // grain, 1)


def _shared_bound(space: Space, reads: Reads, bounds: Bounds, bound: int) -> int:
    """The bound of a group, less where its program is so much work that more workers pay.

    Not where a reduction that rounds would be cut otherwise along what it adds up: that shows in
    its bits.
    """
    mesh, n = bounds.mesh, points(space)
    n_pieces = min(bounds.work // LEAF_ELEMENTS[mesh.kind], wanted_pieces(mesh))
    if bounds.tile_elements or reads.is_streamed or n_pieces < 2:
        return bound
    less = max(2 * floor_power(max(n // n_pieces - 1, 1)), LEAST_SHARED)
    if less >= bound:
        return bound
    combine = space.last.op.combine
    if combine is not None and not combine.exact:
        before, after = (canonical_steps(space, reads.by_size, b) for b in (bound, less))
        if any(before[label] != after[label] for label in space.contracted):
            return bound
    return less


def _work_of_rows(graph: Graph, mesh: Mesh) -> int:
    """The work of a program with reductions, of which each is a task's; 0 of others: a task of
    elementwise calls is shared by threads, and so is a product."""
    is_shared = mesh.kind != "cuda" and mesh.n_devices * mesh.workers > 1
    if not is_shared or not any(node.op.kind == "reduction" for node in graph.nodes):
        return 0
    mapped = (node for node in graph.nodes if node.op.kind in ("elementwise", "reduction"))
    return sum(n_points(node.op, node.call) * work_of(node) for node in mapped)


def cut_mapped(
    space: Space, reads: Reads, bound: int, leaf_elements: int
) -> tuple[Cuts, tuple[tuple[int, int], ...]]:
    """Cuts of a group whose work is one pass over its space, and its leaves if it rounds."""
    op = space.last.op
    rounds = op.combine is not None and not op.combine.exact
    steps = canonical_steps(space, reads.by_size, bound)
    leaves: tuple[tuple[int, int], ...] = ()
    labels = space.last.call.form.inputs
    if rounds and len(labels) == 1:
        leaf = canonical_steps(space, reads.by_size, min(bound, leaf_elements))
        axes = [a for a, label in enumerate(labels[0]) if label in space.contracted]
        if len(space.reads) == 1 and space.reads[0].labels == labels[0]:
            axes.sort(key=lambda a: base_axis(space.reads[0], a))
        leaves = tuple((a, leaf[label]) for a in axes if (label := labels[0][a]) is not None)
        is_cut = any(leaf[label] < space.sizes[label] for label in space.contracted)
        is_alone = len(space.outs) == len(space.last.outs)  # others are cut as what it stores is
        if is_cut and is_alone and prod(space.sizes) <= LEAF_BY_LEAF:
            steps = leaf
    cuts: list[tuple[int, ...]] = []
    for label, size in enumerate(space.sizes):
        if label in space.uncut:
            cuts.append((0, size))
            continue
        borders = None
        # what is brought together is not cut because its operand is
        if label not in space.contracted or not (rounds or steps[label] == size <= FEW_REDUCED):
            borders = common_borders(reads.by_size, label, reads.layouts)
        if borders is None:
            cuts.append(cut_evenly(size, steps[label]))
        elif max(np.diff(borders)) > 2 * steps[label]:
            cuts.append(tuple(sorted({*borders, *cut_evenly(size, steps[label])})))
        else:
            cuts.append(borders)
    return tuple(cuts), leaves


def uncrossed(space: Space, cuts: Cuts, bound: int) -> Cuts:
    """Cuts of an elementwise group; canonical ones where operands that are cut across each other
    cut it into very many small pieces: in one memory none is nearer to its operands."""
    n_pieces = prod(grid_shape(cuts))
    if space.contracted or space.uncut or n_pieces * bound <= MOST_CROSSED * points(space):
        return cuts
    tile = tile_shape(space.sizes, bound)
    return tuple(cut_evenly(n, step) for n, step in zip(space.sizes, tile, strict=True))


def canonical_steps(space: Space, by_size: list[Read], bound: int) -> list[int]:
    """Piece length of each label by the canonical tile of the largest operand.

    Axes come in the order of its base; where nothing is read, it is the output's tile.
    """
    steps = [max(n, 1) for n in space.sizes]
    if by_size and prod(by_size[0].shape) >= prod(space.sizes):
        lead = by_size[0]
        order = sorted(range(len(lead.shape)), key=lambda a: (base_axis(lead, a), a))
        labels = [lead.labels[a] for a in order]
    else:
        labels = list(space.outs[0][1]) if not space.contracted else list(range(len(space.sizes)))
    free = [label for label in labels if label is not None and label not in space.uncut]
    few = [label for label in free if label in space.contracted]
    if prod(steps[label] for label in few) <= FEW_REDUCED:  # whole, if that leaves enough to cut
        free.sort(key=lambda label: label in few)
    # an axis may have an uncut label on each side (a transform, a factor): no tile holds both; what
    # has uncut labels only (points to search in, counts) is the same whatever the cut
    operands = [{*read.labels} for read in space.reads] + [{*out} for _, out in space.outs]
    shared = [one & space.uncut for one in operands if one & {*free}]
    whole = max((prod(steps[label] for label in one) for one in shared), default=1)  # type: ignore[index, misc]
    beside = {label for one in operands if one & space.uncut for label in one}
    steps_of = dict(zip(free, tile_shape(tuple(steps[n] for n in free), bound), strict=True))
    left = max(bound // whole, 1)
    # what is folded into uncut labels (the best of a line) is cut as it is read, where results fit
    is_folded = any(label not in beside for label in space.contracted if label in steps_of)
    if not is_folded or prod(step for n, step in steps_of.items() if n in beside) > left:
        # a label that is in no operand beside an uncut one (an index that picks from lines) makes
        # their tiles no larger: it has what the others leave
        for some in ([n for n in free if n in beside], [n for n in free if n not in beside]):
            tile = tile_shape(tuple(steps[n] for n in some), left)
            steps_of.update(zip(some, tile, strict=True))
            left = max(bound // prod(tile), 1)
    return [steps_of.get(label, step) for label, step in enumerate(steps)]


def cut_around(lo: int, hi: int, size: int, step: int) -> tuple[int, ...]:
    """Borders of pieces of `step` from lo to hi, with one piece before and one behind.

    >>> cut_around(2, 5, 9, 2)
    (0, 2, 4, 5, 9)
    """
    return tuple(sorted({0, size, *range(lo, hi, step), hi})) if size else (0, 0)


def place(cuts: Cuts, reads: Reads, mesh: Mesh) -> np.ndarray:
    """A device for each piece: the one that owns it of the largest operand in pieces, else
    blocks."""
    grid = grid_shape(cuts)
    n = prod(grid)
    if mesh.n_devices == 1:
        return np.zeros(n, np.int16)
    for read in reads.by_size:
        layout = reads.layouts[read]
        if min(layout.owners) < 0 or (layout.n_tiles == 1 and n > 1) or not all(read.shape):
            continue
        flat = np.zeros((1,) * len(grid), np.int64)
        for base, borders in enumerate(layout.cuts):
            axis, start, step = _walk(read, base)
            if axis is None or read.labels[axis] is None:
                tile = np.searchsorted(borders, [start], side="right") - 1
                label = None
            else:
                label = read.labels[axis]
                lows = np.asarray(cuts[label][:-1], np.int64)  # type: ignore[index]
                tile = np.searchsorted(borders, start + step * lows, side="right") - 1
            tile = np.clip(tile, 0, len(borders) - 2)
            shape = [1] * len(grid)
            if label is not None:
                shape[label] = len(tile)
            flat = flat * (len(borders) - 1) + tile.reshape(shape)
        devices = layout.owner_array[np.broadcast_to(flat, grid).reshape(-1)]
        return devices.astype(np.int16)
    return blocks(n, mesh.n_devices)


def _walk(read: Read, base: int) -> tuple[int | None, int, int]:
    """Which axis of the operand walks along a base axis, from where, by what step."""
    access = read.operand.access
    if access is None:
        return base, 0, 1
    for axis, walked in enumerate(access.axes):
        if walked is not None and walked[0] == base:
            return axis, walked[1], walked[2]
    return None, access.fixed[base], 1


def layout_of(plan: GroupPlan, labels: Labels) -> Layout:
    """The layout of an output: its labels' cuts; a tile is where the first piece of it is made."""
    cuts = tuple((0, 1) if label is None else plan.cuts[label] for label in labels)
    grid = grid_shape(plan.cuts)
    devices = plan.devices.reshape(grid)
    kept = [label for label in labels if label is not None]
    first = devices[tuple(slice(None) if i in kept else 0 for i in range(len(grid)))]
    order = sorted(kept)
    owners = first.transpose([order.index(label) for label in kept]).reshape(-1)
    if len(owners) and (owners == owners[0]).all():
        return Layout(cuts, (int(owners[0]),))
    return Layout(cuts, tuple(owners.tolist()))

"""A group and the plain write that ends it as one task, where the base is one tile.

Where the group reads nothing of the base, or only the elements it replaces, it writes straight into
the base. Where it reads their neighbours (a stencil) it writes into a new tile, and what is
around the written region is copied, by the same kernel where it is a box.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.region import box_size, whole_box
from infinitensor.ir.tasks import Column
from infinitensor.ir.view import take
from infinitensor.tasking.graph.batching import end_batch
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.stencil import boxes_around
from infinitensor.tasking.kernels.choose_kernel import fused_kernel, group_inputs
from infinitensor.tasking.triton.triton_group import framed_run, generate_or_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.graph import Node
    from infinitensor.ir.region import Box
    from infinitensor.tasking.graph.lowering import Lowering


def lower_written(lowering: Lowering, g: int) -> bool:
    """Lower group g and the write after it as one family; False, and nothing done, if it cannot."""
    update = _write_of(lowering, g)
    if update is None:
        return False
    graph, roots = lowering.graph, lowering.roots
    group, plan = lowering.plan.analysed.groups[g], lowering.plan.groups[g]
    root = roots[update.outs[0]]
    region = update.region
    assert region is not None
    shape = update.shapes[1]
    base_box = whole_box(graph.specs[root].shape)
    mine = [read for read in plan.space.reads if roots[read.operand.value] == root]
    shifted = any(read.operand.access != region or read.shape != shape for read in mine)
    around = region.base_box(whole_box(shape))
    if shifted and (root in lowering.windows or 2 * box_size(around) < box_size(base_box)):
        return False  # a window of a tensor stays where it is; a small write is cheaper in two
    end_batch(lowering)
    bring_fetches(lowering, g, update)
    columns = lowering.columns(g)
    fused = fused_kernel(graph, group, plan, lowering.target, parts_out=False)
    old = lowering.first_of[root]
    box = whole_box(shape)

    def in_place(ins: list[Any], outs: list[Any], i: int) -> None:
        fused.run(ins, [take(outs[0], region, box, base_box)], i)

    def beside(ins: list[Any], outs: list[Any], i: int) -> None:
        in_place(ins[:-1], outs, i)
        copy_around(outs[0], ins[-1], around)

    run: Callable[[list[Any], list[Any], int], None] = in_place
    target = old
    if shifted:
        run = beside
        is_box = region.axes == tuple((a, lo, 1) for a, (lo, _) in enumerate(around))
        if fused.steps is not None and is_box:
            steps = fused.steps
            externals = group_inputs(graph, group)
            make = partial(framed_run, graph, externals, steps, graph.specs[root].shape, around)
            run, _ = generate_or_steps(make, beside, lowering.target)
            n_created = sum(step.located for step in steps)
            fused = fused._replace(one_pass=True, n_registers=n_created)
        columns.append(Column(np.full(1, old, np.int32)))
        target = lowering.new_tiles(root).first
    family = lowering.add_family(
        op=update.op.name,
        site=update.site,
        devices=plan.devices,
        run=run,
        reads=tuple(columns),
        writes=(np.full(1, target, np.int32),),
        scratch_bytes=group_scratch(lowering, g, columns, fused),
        updates=not shifted,
        eager=fused.eager,
        seconds=lowering.seconds(plan),
        values=update.outs,
    )
    if shifted:
        lowering.edges.of_columns(family)
    else:
        lowering.edges.of_update(family, update, np.asarray([box], np.int64).reshape(1, -1, 2))
    return True


def _write_of(lowering: Lowering, g: int) -> Node | None:
    """The write after group g, if it is all that reads what the group makes, in one tile each."""
    groups = lowering.plan.analysed.groups
    graph = lowering.graph
    plan = lowering.plan.groups[g]
    last = plan.space.last
    if g + 1 == len(groups) or last.op.kind != "elementwise" or len(plan.space.outs) != 1:
        return None
    update: Node = graph.nodes[groups[g + 1].nodes[-1]]
    region, value = update.region, last.outs[0]
    if update.op.kind != "update" or region is None or region.part or value in graph.kept:
        return None
    if any(walked is not None and walked[2] < 0 for walked in region.axes):
        return None  # torch knows no such strides
    operand = update.operands[1]
    whole = operand.value == value and operand.access is None
    if not whole or lowering.n_reads[value] != 1 or update.shapes[1] != graph.specs[value].shape:
        return None
    root = lowering.roots[update.outs[0]]
    tiles = lowering.set_with(lowering.first_of[root])
    one = tiles.n == 1 and len(plan.devices) == 1 and prod(update.shapes[1]) > 0
    if not one or tiles.devices[0] != plan.devices[0] or plan.part is not None:
        return None
    return update if graph.specs[value].dtype == tiles.dtype else None


def copy_around(new: Any, old: Any, box: Box) -> None:
    """Copy the elements outside a box, slab by slab."""
    for slab in boxes_around(whole_box(tuple(new.shape)), box):
        index = tuple(slice(lo, hi) for lo, hi in slab)
        new[index].copy_(old[index])

"""The tasking stage: every group becomes families of tasks over tiles.

Here a group whose pieces each make tiles of the result is lowered, and every other goes to the file
of its kind: several groups as one family (`rows` and `swept` by `blocked`; `passes`, `together`,
`written`, `batch`), cut contracted labels (`combine`, `chain`, `streamed`), writes in place
(`update`), windows that are renewed (`window`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.tasks import COMPUTE
from infinitensor.tasking.graph.batch import Pattern
from infinitensor.tasking.graph.batching import end_batch, repeat
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.lowering import Lowering
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.chain import lower_chain
from infinitensor.tasking.groups.combine import lower_contracted
from infinitensor.tasking.groups.copy_groups import copies_in_c
from infinitensor.tasking.groups.group_with_write import lower_written
from infinitensor.tasking.groups.reductions_cpu import find_passes, lower_pass
from infinitensor.tasking.groups.reductions_cuda import lower_together, reductions_together
from infinitensor.tasking.groups.row_blocks import lower_rows
from infinitensor.tasking.groups.row_reuse import find_rows
from infinitensor.tasking.groups.single_op import (
    product_in_c,
    reduction_kernel,
    scan_in_c,
    single_run,
)
from infinitensor.tasking.groups.stencil import lower_renewed
from infinitensor.tasking.groups.streamed_pairs import lower_streamed
from infinitensor.tasking.groups.sweep import find_swept
from infinitensor.tasking.groups.update import lower_update
from infinitensor.tasking.kernels.choose_kernel import (
    Fused,
    fused_kernel,
    is_slow_alone,
    may_reuse,
    single_called,
)
from infinitensor.tasking.triton.triton_group import may_generate

if TYPE_CHECKING:
    from infinitensor.ir.graph import Group
    from infinitensor.ir.plan import GroupPlan, Moves, Plan, Route
    from infinitensor.ir.tasks import TaskGraph


def lower_plan(plan: Plan, moves: Moves) -> TaskGraph:
    """Families in the order of groups; edges by tile, and by region on tiles written to."""
    lowering = Lowering(plan, moves)
    lower_groups(lowering)
    end_batch(lowering)
    return lowering.task_graph()


def lower_groups(lowering: Lowering) -> None:
    """Each group in order; several as one where they can be."""
    done: set[int] = set()
    together = reductions_together(lowering) if lowering.kind == "cuda" else {}
    rows = find_swept(lowering)
    rows |= find_rows(lowering, {member.g for found in rows.values() for member in found.members})
    in_rows = {member.g for found in rows.values() for member in found.members}
    passes = find_passes(lowering, in_rows) if lowering.kind == "cpu" else {}
    for g, (group, plan) in enumerate(
        zip(lowering.plan.analysed.groups, lowering.plan.groups, strict=True)
    ):
        if g in done:
            continue
        if g in in_rows:
            if g in rows:
                lower_rows(lowering, rows[g])
        elif g in passes:
            lower_pass(lowering, passes[g])
            done.update(passes[g])
        elif g in together and lower_together(lowering, together[g]):
            done.update(together[g])
        elif lowering.kind == "cuda" and lower_written(lowering, g):
            done.add(g + 1)
        else:
            lower_group(lowering, g, group, plan)


def lower_group(lowering: Lowering, g: int, group: Group, plan: GroupPlan) -> None:
    node = plan.space.last
    pattern = None if plan.kin is None else lowering.patterns.get(plan.kin)
    if pattern is not None:
        repeat(lowering, pattern, plan)
        return
    end_batch(lowering)
    if node.renews:
        lower_renewed(lowering, group, plan)
        return
    reads = plan.space.reads
    routes = dict(zip(reads, lowering.moves.routes[g], strict=True))
    bring_fetches(lowering, routes.values(), node)
    if plan.tiles is not None:
        lower_update(lowering, g, node, plan, routes)
    else:
        contracted = [label for label in plan.space.contracted if len(plan.cuts[label]) > 2]
        if plan.chained in contracted:
            chain = lower_streamed if node.op.pairs else lower_chain
            chain(lowering, group, plan, routes)
        elif contracted:
            lower_contracted(lowering, group, plan, routes)
        else:
            lower_mapped(lowering, group, plan, routes)


def lower_mapped(
    lowering: Lowering, group: Group, plan: GroupPlan, routes: dict[Any, Route]
) -> None:
    """One task a piece, straight into the output tiles."""
    node = plan.space.last
    columns = lowering.columns(group, plan, routes)
    sets = [
        lowering.new_tiles(value, lowering.plan.layouts[value], lowering.graph.specs[value].dtype)
        for value, _ in plan.space.outs
    ]
    order = [piece_to_tile(plan, labels) for _, labels in plan.space.outs]
    writes = tuple(
        (tiles.first + index).astype(np.int32) for tiles, index in zip(sets, order, strict=True)
    )
    if (
        len(group.nodes) > 1
        or may_generate(node, lowering.kind)
        or is_slow_alone(node, plan, lowering.target, lowering.n_alike(group))
    ):
        fused = fused_kernel(
            lowering.graph, group, plan, lowering.target, False, lowering.n_alike(group)
        )
    elif node.op.kind == "reduction":
        fused = reduction_kernel(lowering, node, plan, columns, sets, order, parts_out=False)
    else:
        fused = Fused(single_run(lowering, node, columns, sets, order))
        called = single_called(lowering.graph, group, plan, lowering.target)
        fused = fused._replace(called=called)
    family = lowering.add_family(
        op=node.op.name,
        site=node.site,
        lane=COMPUTE,
        devices=plan.devices,
        run=fused.run,
        in_c=fused.called
        or product_in_c(lowering, node)
        or scan_in_c(lowering, node)
        or copies_in_c(lowering, node, columns, sets[0], order[0]),
        reads=tuple(columns),
        writes=writes,
        scratch_bytes=group_scratch(lowering, group, plan, columns, fused),
        in_place=len(sets) == 1 and may_reuse(lowering.graph, group, lowering.kind),
        eager=fused.eager,
        sources=fused.sources,
        seconds=lowering.seconds(plan),
        values=tuple(value for value, _ in plan.space.outs),
    )
    lowering.edges.of_columns(family)
    simple = all(route.span is None and (route.fetches < 0).all() for route in routes.values())
    if plan.kin is not None and node.op.kind == "elementwise" and len(sets) == 1 and simple:
        tiles = sets[0]
        bases = tuple(0 if o.value < 0 else lowering.first_tile(o) for o in node.operands)
        lowering.patterns[plan.kin] = Pattern(
            family, tiles.boxes, tiles.devices, tiles.dtype, order[0], bases
        )

"""The tasking stage: every group becomes families of tasks over tiles.

Here a group whose pieces each make tiles of the result is lowered, and every other goes to the file
of its kind: several groups as one family (`row_reuse` and `sweep` by `row_blocks`, or by
`row_programs`; `joint_reductions`, `group_with_write`, `batching`), cut contracted labels
(`combine`, `chain`, `streamed_pairs`), writes in place (`update`), windows that are renewed
(`stencil`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.plan import piece_to_tile
from infinitensor.tasking.graph.batch import Pattern
from infinitensor.tasking.graph.batching import end_batch, repeat
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.lowering import Lowering
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.chain import lower_chain
from infinitensor.tasking.groups.combine import lower_contracted
from infinitensor.tasking.groups.copy_groups import copies_in_c
from infinitensor.tasking.groups.group_with_write import lower_written
from infinitensor.tasking.groups.joint_reductions import find_passes, lower_pass
from infinitensor.tasking.groups.row_blocks import lower_rows
from infinitensor.tasking.groups.row_programs import lower_row_program
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
from infinitensor.tasking.kernels.choose_kernel import Fused, fused_kernel, may_reuse, single_called
from infinitensor.tasking.kernels.worth_compiling import is_slow_alone
from infinitensor.tasking.triton.triton_group import may_generate

if TYPE_CHECKING:
    from infinitensor.ir.plan import Moves, Plan
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
    rows = find_swept(lowering)
    rows |= find_rows(lowering, {member.g for found in rows.values() for member in found.members})
    in_rows = {member.g for found in rows.values() for member in found.members}
    passes = find_passes(lowering, in_rows)
    for g in range(len(lowering.plan.groups)):
        if g in done:
            continue
        if g in in_rows:
            if g in rows:
                lower = lower_rows if lowering.kind == "cpu" else lower_row_program
                lower(lowering, rows[g])
        elif g in passes and lower_pass(lowering, passes[g]):
            done.update(passes[g])
        elif lowering.kind == "cuda" and lower_written(lowering, g):
            done.add(g + 1)
        else:
            lower_group(lowering, g)


def lower_group(lowering: Lowering, g: int) -> None:
    plan = lowering.plan.groups[g]
    node = plan.space.last
    pattern = None if plan.kin is None else lowering.patterns.get(plan.kin)
    if pattern is not None:
        repeat(lowering, pattern, plan)
        return
    end_batch(lowering)
    if node.renews:
        lower_renewed(lowering, g)
        return
    bring_fetches(lowering, g, node)
    if plan.tiles is not None:
        lower_update(lowering, g)
        return
    contracted = [label for label in plan.space.contracted if len(plan.cuts[label]) > 2]
    if plan.chained in contracted:
        (lower_streamed if node.op.pairs else lower_chain)(lowering, g)
    elif contracted:
        lower_contracted(lowering, g)
    else:
        lower_mapped(lowering, g)


def lower_mapped(lowering: Lowering, g: int) -> None:
    """One task a piece, straight into the output tiles."""
    group, plan = lowering.plan.analysed.groups[g], lowering.plan.groups[g]
    node = plan.space.last
    columns = lowering.columns(g)
    sets = [lowering.new_tiles(value) for value, _ in plan.space.outs]
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
        called = single_called(lowering.graph, group, plan, lowering.target)
        fused = Fused(single_run(lowering, node, columns, sets, order), called=called)
    family = lowering.add_group(
        plan,
        run=fused.run,
        in_c=fused.called
        or product_in_c(lowering, node)
        or scan_in_c(lowering, node)
        or copies_in_c(lowering, node, columns, sets[0], order[0]),
        reads=tuple(columns),
        writes=writes,
        scratch_bytes=group_scratch(lowering, g, columns, fused),
        in_place=len(sets) == 1 and may_reuse(lowering.graph, group, lowering.kind),
        eager=fused.eager,
        sources=fused.sources,
        values=tuple(value for value, _ in plan.space.outs),
    )
    routes = lowering.moves.routes[g]
    simple = all(route.span is None and (route.fetches < 0).all() for route in routes)
    if plan.kin is not None and node.op.kind == "elementwise" and len(sets) == 1 and simple:
        tiles = sets[0]
        bases = tuple(0 if o.value < 0 else lowering.first_tile(o) for o in node.operands)
        lowering.patterns[plan.kin] = Pattern(
            family, tiles.boxes, tiles.devices, tiles.dtype, order[0], bases
        )

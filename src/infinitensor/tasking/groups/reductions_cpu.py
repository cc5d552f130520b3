"""Reductions of stored data on CPUs: those of the same data over the same axes in one pass.

(Mean and variance, sum and extremes.) A tile is read from memory once, by one generated loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import piece_boxes
from infinitensor.ir.tasks import COMPUTE
from infinitensor.tasking.c.expressions import Input
from infinitensor.tasking.c.short_rows import is_short
from infinitensor.tasking.graph.batching import end_batch
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.combine import combine, partial_tiles
from infinitensor.tasking.kernels.c_kernel import compiled_kernel, inner_axis
from infinitensor.tasking.kernels.choose_kernel import (
    Fused,
    first_choice,
    is_worth_compiling,
    reduce_kernel,
)
from infinitensor.tasking.kernels.fused_reduction import (
    folded_run,
    folds_alone,
    is_whole,
    reduced_axes,
    reduced_in_c,
)

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.graph.lowering import Lowering
    from infinitensor.tasking.kernels.c_calls import Reduced


def find_passes(lowering: Lowering, taken: set[int]) -> dict[int, list[int]]:
    """Groups that are one pass, by the first of them; but not those that are taken already."""
    found: dict[Any, list[int]] = {}
    if not lowering.target.compiles:
        return {}
    for g, (group, plan) in enumerate(
        zip(lowering.plan.analysed.groups, lowering.plan.groups, strict=True)
    ):
        node = plan.space.last
        if len(group.nodes) > 1 or node.op.kind != "reduction" or len(node.operands) > 1:
            continue
        if g in taken:
            continue
        if node.operands[0].value < 0 or not is_worth_compiling(plan, 1):
            continue
        if lowering.roots[node.operands[0].value] in lowering.edges.written or not folds_alone(
            [node]
        ):
            continue
        key = (node.operands, node.shapes, plan.cuts, plan.devices.tobytes())
        found.setdefault((*key, plan.space.contracted), []).append(g)
    return {
        several[0]: several
        for several in found.values()
        if len(several) > 1 or not _is_found_as_fast(lowering.plan.groups[several[0]].space.last)
    }


def _is_found_as_fast(node: Node) -> bool:
    """Whether NumPy finds a place as fast: in all but short rows."""
    return node.op.located and not is_short(node.shapes[0], reduced_axes(node))


def lower_pass(lowering: Lowering, several: list[int]) -> None:
    """One family for several groups."""
    end_batch(lowering)
    plans: list[GroupPlan] = [lowering.plan.groups[g] for g in several]
    nodes: list[Node] = [p.space.last for p in plans]
    plan = next((p for p in plans if p.leaves), plans[0])  # one that rounds says where
    group = lowering.plan.analysed.groups[several[0]]
    routes = dict(zip(plans[0].space.reads, lowering.moves.routes[several[0]], strict=True))
    bring_fetches(lowering, routes.values(), nodes[0])
    columns = lowering.columns(group, plans[0], routes)
    is_cut = any(len(plan.cuts[label]) > 2 for label in plan.space.contracted)
    sets, writes = [], []
    for node, own in zip(nodes, plans, strict=True):
        if is_cut:
            sets.append(partial_tiles(lowering, node, own))
            tasks = np.arange(len(own.devices), dtype=np.int32)
            writes += [(tasks + tiles.first).astype(np.int32) for tiles in sets[-1]]
            continue
        for value, labels in own.space.outs:
            tiles = lowering.new_tiles(
                value, lowering.plan.layouts[value], lowering.graph.specs[value].dtype
            )
            writes.append((tiles.first + piece_to_tile(own, labels)).astype(np.int32))
    run, called, source = pass_run(lowering, nodes, plan, is_cut)
    scratch = [group_scratch(lowering, group, p, columns, Fused(run)) for p in plans]
    family = lowering.add_family(
        op=" and ".join(node.op.name for node in nodes),
        site=nodes[0].site,
        lane=COMPUTE,
        devices=plan.devices,
        run=run,
        in_c=called,
        sources=(source,),
        reads=tuple(columns),
        writes=tuple(writes),
        scratch_bytes=max(scratch),
        seconds=lowering.seconds(plan),
        values=() if is_cut else tuple(value for node in nodes for value in node.outs),
    )
    lowering.edges.of_columns(family)
    if is_cut:
        for node, own, parts in zip(nodes, plans, sets, strict=True):
            outs = [
                lowering.new_tiles(v, lowering.plan.layouts[v], lowering.graph.specs[v].dtype)
                for v, _ in own.space.outs
            ]
            combine(lowering, node, own, parts, outs)


def pass_run(
    lowering: Lowering, nodes: list[Node], plan: GroupPlan, parts_out: bool
) -> tuple[Any, Reduced | None, str]:
    """The kernel: generated; one reduction after the other where the compiler fails. The same as a
    call that C makes, and the text of its C."""
    steps = [reduce_kernel(node, plan, "cpu", parts_out) for node in nodes]
    n_outs = [len(n.call.parts) if parts_out else len(n.outs) for n in nodes]

    def one_by_one(ins: list[Any], outs: list[Any], i: int) -> None:
        at = 0
        for step, n in zip(steps, n_outs, strict=True):
            step(ins[0], outs[at : at + n], i)
            at += n

    form = nodes[0].call.form
    operand = nodes[0].operands[0]
    dtype = lowering.graph.specs[operand.value].dtype
    if operand.access is not None and operand.access.part:
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    given = Input(dtype, False, False)
    found = tuple(folds_alone(nodes, is_whole(nodes[0], plan, parts_out)))
    shape, axes = nodes[0].shapes[0], reduced_axes(nodes[0])
    inner, short = inner_axis(shape, axes), is_short(shape, axes)
    in_c = compiled_kernel((), (given,), 0, found, axes, inner, short)
    boxes = piece_boxes(plan.cuts, form.inputs[0], ())
    fast = folded_run(in_c, found, nodes, plan, boxes, 0, parts_out)
    called = None if parts_out else reduced_in_c(in_c, found, nodes, plan)
    return first_choice(fast, one_by_one, boxes), called, in_c.source

"""Reductions of the same data over the same axes as one family: one pass over it.

(Mean and variance, minimum and maximum.) Where they are generated code; else each goes its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.tasks import COMPUTE
from infinitensor.tasking.graph.batching import end_batch
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.kernels.choose_kernel import Fused, is_worth_compiling, reduce_kernel
from infinitensor.tasking.triton.triton_group import generate_or_steps, may_generate, reduced_run

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.graph.lowering import Lowering


def reductions_together(lowering: Lowering) -> dict[int, list[int]]:
    """Groups that may be one, by the first of them."""
    found: dict[Any, list[int]] = {}
    written = lowering.edges.written
    for g, (group, plan) in enumerate(
        zip(lowering.plan.analysed.groups, lowering.plan.groups, strict=True)
    ):
        node = plan.space.last
        if len(group.nodes) > 1 or node.op.kind != "reduction":
            continue
        if not may_generate(node, lowering.kind):
            continue
        if lowering.roots[node.operands[0].value] in written or _is_cut(plan):
            continue
        key = (node.operands, node.shapes, plan.cuts, plan.devices.tobytes())
        found.setdefault((*key, plan.space.contracted), []).append(g)
    return {several[0]: several for several in found.values() if len(several) > 1}


def _is_cut(plan: GroupPlan) -> bool:
    return any(len(plan.cuts[label]) > 2 for label in plan.space.contracted)


def lower_together(lowering: Lowering, several: list[int]) -> bool:
    """Lower groups as one family; False, and nothing done, where they are not generated."""
    plans: list[GroupPlan] = [lowering.plan.groups[g] for g in several]
    plan = next((p for p in plans if p.leaves), plans[0])  # one that rounds says where
    nodes: list[Node] = [p.space.last for p in plans]
    if not is_worth_compiling(plan, 1):
        return False
    steps = [
        reduce_kernel(node, p, lowering.kind, False) for node, p in zip(nodes, plans, strict=True)
    ]

    def one_by_one(ins: list[Any], outs: list[Any], i: int) -> None:
        at = 0
        for node, step in zip(nodes, steps, strict=True):
            step(ins[0], outs[at : at + len(node.outs)], i)
            at += len(node.outs)

    external = (lowering.plan.analysed.groups[several[0]].nodes[0], 0)
    run, eager = generate_or_steps(
        lambda: reduced_run(
            lowering.graph,
            [external],
            [],
            [("in", 0)] * len(nodes),
            nodes,
            plan,
            False,
            one_by_one,
        ),
        one_by_one,
        lowering.target,
    )
    if eager:
        return False
    end_batch(lowering)
    routes = dict(zip(plans[0].space.reads, lowering.moves.routes[several[0]], strict=True))
    bring_fetches(lowering, routes.values(), nodes[0])
    group = lowering.plan.analysed.groups[several[0]]
    columns = lowering.columns(group, plans[0], routes)
    values = [(p, value, labels) for p in plans for value, labels in p.space.outs]
    writes = []
    for p, value, labels in values:
        tiles = lowering.new_tiles(
            value, lowering.plan.layouts[value], lowering.graph.specs[value].dtype
        )
        writes.append((tiles.first + piece_to_tile(p, labels)).astype(np.int32))
    family = lowering.add_family(
        op=" and ".join(node.op.name for node in nodes),
        site=nodes[0].site,
        lane=COMPUTE,
        devices=plans[0].devices,
        run=run,
        reads=tuple(columns),
        writes=tuple(writes),
        scratch_bytes=group_scratch(lowering, group, plan, columns, Fused(run, one_pass=True)),
        seconds=lowering.seconds(plan),
        values=tuple(value for _, value, _ in values),
    )
    lowering.edges.of_columns(family)
    return True

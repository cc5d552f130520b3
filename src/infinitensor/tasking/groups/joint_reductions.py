"""Reductions of the same data over the same axes as one family: one pass over it.

(Mean and variance, sum and extremes.) A tile is read from memory once, by one generated loop: of C
on CPUs, of Triton on GPUs. Where Triton has none, each goes its way.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.config import config
from infinitensor.ir.graph import Group
from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import piece_boxes
from infinitensor.ops.forms.fold_order import is_short, line_axes
from infinitensor.tasking.c.fold_loops import is_result
from infinitensor.tasking.c.group_step import input_of
from infinitensor.tasking.graph.batching import end_batch
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.combine import combine, partial_tiles
from infinitensor.tasking.kernels.by_steps import reduce_kernel
from infinitensor.tasking.kernels.c_kernel import compiled_kernel
from infinitensor.tasking.kernels.choose_kernel import (
    Fused,
    first_choice,
    fused_kernel,
    group_inputs,
    has_whole_lines,
    in_time,
)
from infinitensor.tasking.kernels.fused_reduction import (
    folded_run,
    folds_alone,
    is_called,
    is_whole,
    reduced_axes,
    reduced_in_c,
)
from infinitensor.tasking.kernels.merge_kernel import merge_in_c
from infinitensor.tasking.kernels.work_left import left_of
from infinitensor.tasking.kernels.worth_compiling import (
    CONSTANTS,
    is_worth_compiling,
    work_by_steps,
)
from infinitensor.tasking.triton.triton_group import generate_or_steps, may_generate, reduced_run

if TYPE_CHECKING:
    from collections.abc import Container

    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.graph.lowering import Lowering


MOST_JOINED_NODES = 24
"""Steps and reductions of one pass: what more of them read of is no longer in the caches."""


def find_passes(lowering: Lowering, taken: Container[int]) -> dict[int, list[int]]:
    """Groups that are one pass, by the first of them; but not those that are taken already."""
    found: dict[Any, list[int]] = {}
    for g, plan in enumerate(lowering.plan.groups):
        if g not in taken and _may_join(lowering, g):
            node = plan.space.last
            key = (node.operands, node.shapes, plan.cuts, plan.devices.tobytes())
            found.setdefault((*key, plan.space.contracted), []).append(g)
    if lowering.kind == "cpu":  # one alone is a call of C, which starts sooner than NumPy's
        return _join_chains(lowering, {several[0]: several for several in found.values()}, taken)
    return {several[0]: several for several in found.values() if len(several) > 1}


def _join_chains(
    lowering: Lowering, passes: dict[int, list[int]], taken: Container[int]
) -> dict[int, list[int]]:
    """Passes, and with them groups that end with a reduction of what their steps make, where one
    reads what another reads or makes on its way: that is read once, and not stored for them."""
    joined: dict[int, list[int]] = {}
    seen: dict[int, frozenset[int]] = {}
    for g in range(len(lowering.plan.groups)):
        several = passes.get(g) or ([g] if g not in taken and _is_chain(lowering, g) else [])
        if not several:
            continue
        first = next((f for f in joined if _may_follow(lowering, joined[f], seen[f], g)), g)
        joined.setdefault(first, []).extend(several)
        seen[first] = seen.get(first, frozenset()) | _read(lowering, g) | _values_of(lowering, g)

    def is_pass(first: int) -> bool:
        plan = lowering.plan.groups[first]
        return first in passes or _are_ended_in_c(lowering, [plan.space.last], plan)

    return {f: several for f, several in joined.items() if len(several) > 1 or is_pass(f)}


def _is_chain(lowering: Lowering, g: int) -> bool:
    """Whether a group is steps with a reduction of what they make, which C can do."""
    group, node = lowering.plan.analysed.groups[g], lowering.plan.groups[g].space.last
    steps = [lowering.graph.nodes[n].op for n in group.nodes[:-1]]
    if not steps or node.op.kind != "reduction" or not folds_alone([node]):
        return False
    if any(op.kind != "elementwise" and op.name not in CONSTANTS for op in steps):
        return False
    return lowering.target.compiles and has_whole_lines(lowering.graph, group, node)


def _may_follow(lowering: Lowering, several: list[int], seen: frozenset[int], g: int) -> bool:
    """Whether a group reads nothing but what those before it have read or made, walks it as they
    do, and some of them have steps."""
    groups, plans, graph = lowering.plan.analysed.groups, lowering.plan.groups, lowering.graph
    n_nodes = sum(len(groups[k].nodes) for k in (*several, g))
    if not len(several) + 1 < n_nodes <= MOST_JOINED_NODES:
        return False
    reads = _read(lowering, g) - _values_of(lowering, g)
    if (
        not reads
        or not reads <= seen
        or any(lowering.roots[v] in lowering.edges.written for v in reads)
    ):
        return False
    own, other = plans[several[0]], plans[g]
    if (own.cuts, own.part) != (other.cuts, other.part):
        return False
    leaves = {plans[k].leaves for k in (*several, g)} - {()}  # who has none does not round
    if len(leaves) > 1:
        return False
    if own.devices.tobytes() != other.devices.tobytes():
        return False
    first, last = own.space.last, other.space.last
    shape = first.shapes[0]
    if shape != last.shapes[0] or reduced_axes(first) != reduced_axes(last):
        return False
    made = _values_of(lowering, *several)
    operands = [
        (graph.nodes[n].operands[i], graph.nodes[n].shapes[i])
        for n, i in group_inputs(graph, groups[g])
    ]
    return all(
        operand.access is None and seen_as == shape
        for operand, seen_as in operands
        if operand.value in made
    )


def _read(lowering: Lowering, g: int) -> frozenset[int]:
    """The values that the nodes of a group read."""
    nodes = [lowering.graph.nodes[n] for n in lowering.plan.analysed.groups[g].nodes]
    return frozenset(o.value for node in nodes for o in node.operands if o.value >= 0)


def _values_of(lowering: Lowering, *several: int) -> frozenset[int]:
    """The values that the steps of groups make."""
    groups, nodes = lowering.plan.analysed.groups, lowering.graph.nodes
    return frozenset(nodes[n].outs[0] for g in several for n in groups[g].nodes[:-1])


def _may_join(lowering: Lowering, g: int) -> bool:
    """Whether a group is one reduction of what is stored, by code that is generated."""
    plan = lowering.plan.groups[g]
    node = plan.space.last
    if len(lowering.plan.analysed.groups[g].nodes) > 1 or node.op.kind != "reduction":
        return False
    if len(node.operands) > 1 or node.operands[0].value < 0:
        return False
    may_wait = lowering.kind == "cpu" and config.compile == "auto"
    if not may_wait and not is_worth_compiling(plan, 1):
        return False
    if lowering.roots[node.operands[0].value] in lowering.edges.written:
        return False
    if lowering.kind == "cpu":
        return lowering.target.compiles and bool(folds_alone([node]))
    return may_generate(node, lowering.kind) and not _is_cut(plan)


def _is_cut(plan: GroupPlan) -> bool:
    return any(len(plan.cuts[label]) > 2 for label in plan.space.contracted)


def _are_ended_in_c(lowering: Lowering, nodes: list[Node], plan: GroupPlan) -> bool:
    """Whether no label is cut, and yet what a loop of C writes are partial results (floats for
    halves, moments), which C makes results of: with Python between them both take longer."""
    if lowering.kind != "cpu" or config.compile == "never":
        return False
    folds = folds_alone(nodes, is_whole(nodes[0], plan, False))
    if all(map(is_result, folds, nodes)) or not is_called(folds, nodes[0], plan):
        return False
    return all(merge_in_c(node, [1], True, lowering.target) is not None for node in nodes)


def lower_pass(lowering: Lowering, several: list[int]) -> bool:
    """One family for several groups; False, and nothing done, where no code is generated."""
    plans = [lowering.plan.groups[g] for g in several]
    nodes = [plan.space.last for plan in plans]
    plan = next((p for p in plans if p.leaves), plans[0])  # one that rounds says where
    has_parts = _is_cut(plan) or _are_ended_in_c(lowering, nodes, plan)
    inside = _values_of(lowering, *several)
    group = Group(tuple(n for g in several for n in lowering.plan.analysed.groups[g].nodes))
    beside = [
        out for own in plans for out in own.space.outs if _is_seen(lowering, group, inside, out[0])
    ]
    outs = [out for own in plans for out in own.space.outs[-len(own.space.last.outs) :]]
    if inside:
        joint = replace(plan, space=replace(plan.space, outs=(*beside, *outs)))
        n_alike = lowering.n_alike(lowering.plan.analysed.groups[several[0]])
        fused = fused_kernel(lowering.graph, group, joint, lowering.target, has_parts, n_alike)
    else:
        make = _c_pass if lowering.kind == "cpu" else _triton_pass
        found = make(lowering, several, plan, has_parts)
        if found is None:
            return False
        fused = found
    end_batch(lowering)
    columns = []
    for g in several if inside else several[:1]:
        bring_fetches(lowering, g, lowering.plan.groups[g].space.last, inside)
        columns += lowering.columns(g, inside=inside)
    writes = [
        lowering.new_tiles(v).first + piece_to_tile(plan, labels)
        for v, labels in (beside if has_parts else (*beside, *outs))
    ]
    if has_parts:
        parts = [partial_tiles(lowering, own) for own in plans]
        pieces = np.arange(len(plan.devices))
        writes += [tiles.first + pieces for sets in parts for tiles in sets]
    lowering.add_group(
        plan,
        op=" and ".join(node.op.name for node in nodes),
        site=nodes[0].site,
        run=fused.run,
        in_c=fused.called,
        sources=fused.sources,
        reads=tuple(columns),
        writes=tuple(tiles.astype(np.int32) for tiles in writes),
        scratch_bytes=max(
            group_scratch(lowering, g, columns, fused, own)
            for g, own in zip(several, plans, strict=True)
        ),
        eager=fused.eager,
        values=() if has_parts else tuple(value for value, _ in (*beside, *outs)),
    )
    if has_parts:
        for own, sets in zip(plans, parts, strict=True):
            made = own.space.outs[-len(own.space.last.outs) :]
            combine(lowering, own, sets, [lowering.new_tiles(v) for v, _ in made])
    return True


def _is_seen(lowering: Lowering, group: Group, made: frozenset[int], value: int) -> bool:
    """Whether what the steps of a group have made is kept, or read by others."""
    others = (node for n, node in enumerate(lowering.graph.nodes) if n not in group.nodes)
    return value in made and (
        value in lowering.graph.kept
        or any(operand.value == value for node in others for operand in node.operands)
    )


def _one_by_one(lowering: Lowering, nodes: list[Node], plan: GroupPlan, parts_out: bool) -> Any:
    """One reduction after the other, where the compiler fails."""
    steps = [reduce_kernel(node, plan, lowering.kind, parts_out) for node in nodes]
    n_outs = [len(n.call.parts) if parts_out else len(n.outs) for n in nodes]

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        at = 0
        for step, n in zip(steps, n_outs, strict=True):
            step(ins[0], outs[at : at + n], i)
            at += n

    return run


def _c_pass(lowering: Lowering, several: list[int], plan: GroupPlan, parts_out: bool) -> Fused:
    """The kernel on CPUs, and the same as a call that C makes."""
    nodes = [lowering.plan.groups[g].space.last for g in several]
    folds = tuple(folds_alone(nodes, is_whole(nodes[0], plan, parts_out)))
    shape, axes = nodes[0].shapes[0], reduced_axes(nodes[0])
    line, short = line_axes(shape, axes), is_short(shape, axes)
    given = input_of(lowering.graph, nodes[0], 0)
    in_c = compiled_kernel((), (given,), 0, folds, axes, line, short)
    boxes = piece_boxes(plan.cuts, nodes[0].call.form.inputs[0], ())
    fast = folded_run(in_c, folds, nodes, plan, boxes, 0, parts_out)
    slow = _one_by_one(lowering, nodes, plan, parts_out)
    run = first_choice(fast, slow, boxes)
    in_group = in_c if is_worth_compiling(plan, len(nodes)) else None
    if config.compile == "always":
        return Fused(run, in_c=in_group, called=reduced_in_c(in_c, nodes, plan, parts_out))
    # the loops that steps have are C, too, so nobody waits for a compiler
    left = left_of(in_c)
    work = prod(plan.space.sizes) * work_by_steps(nodes) // max(len(boxes), 1)
    called = reduced_in_c(in_c, nodes, plan, parts_out, left)
    return Fused(in_time(run, slow, work, left), in_c=in_group, called=called)


def _triton_pass(
    lowering: Lowering, several: list[int], plan: GroupPlan, parts_out: bool
) -> Fused | None:
    """The kernel on GPUs; None where Triton has none."""
    graph, sources = lowering.graph, [("in", 0)] * len(several)
    nodes = [lowering.plan.groups[g].space.last for g in several]
    slow = _one_by_one(lowering, nodes, plan, parts_out)
    inputs = group_inputs(graph, lowering.plan.analysed.groups[several[0]])
    run, eager = generate_or_steps(
        lambda: reduced_run(graph, inputs, [], sources, nodes, plan, parts_out, slow),
        slow,
        lowering.target,
    )
    return None if eager else Fused(run, one_pass=True)

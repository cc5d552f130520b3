"""Reductions of the same data over the same axes as one family: one pass over it.

(Mean and variance, sum and extremes.) A tile is read from memory once, by one generated loop: of C
on CPUs, of Triton on GPUs. Where Triton has none, each goes its way.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.config import config
from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import piece_boxes
from infinitensor.ops.forms.fold_order import is_short, line_axes
from infinitensor.tasking.c.fold_loops import is_result
from infinitensor.tasking.c.group_step import input_of
from infinitensor.tasking.graph.batching import end_batch
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.combine import combine, partial_tiles
from infinitensor.tasking.kernels.c_kernel import compiled_kernel
from infinitensor.tasking.kernels.choose_kernel import (
    Fused,
    first_choice,
    group_inputs,
    in_time,
    is_worth_compiling,
    reduce_kernel,
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
from infinitensor.tasking.triton.triton_group import generate_or_steps, may_generate, reduced_run

if TYPE_CHECKING:
    from collections.abc import Container

    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.graph.lowering import Lowering


def find_passes(lowering: Lowering, taken: Container[int]) -> dict[int, list[int]]:
    """Groups that are one pass, by the first of them; but not those that are taken already."""
    found: dict[Any, list[int]] = {}
    for g, plan in enumerate(lowering.plan.groups):
        if g not in taken and _may_join(lowering, g):
            node = plan.space.last
            key = (node.operands, node.shapes, plan.cuts, plan.devices.tobytes())
            found.setdefault((*key, plan.space.contracted), []).append(g)
    gains_alone = lowering.kind == "cpu"  # as a call of C, which starts sooner than NumPy's
    return {several[0]: several for several in found.values() if len(several) > 1 or gains_alone}


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
    make = _c_pass if lowering.kind == "cpu" else _triton_pass
    fused = make(lowering, several, plan, has_parts)
    if fused is None:
        return False
    end_batch(lowering)
    bring_fetches(lowering, several[0], nodes[0])
    columns = lowering.columns(several[0])
    outs = [out for own in plans for out in own.space.outs]
    if has_parts:
        parts = [partial_tiles(lowering, own) for own in plans]
        pieces = np.arange(len(plan.devices))
        writes = [tiles.first + pieces for sets in parts for tiles in sets]
    else:
        writes = [lowering.new_tiles(v).first + piece_to_tile(plan, labels) for v, labels in outs]
    lowering.add_group(
        plan,
        op=" and ".join(node.op.name for node in nodes),
        site=nodes[0].site,
        run=fused.run,
        in_c=fused.called,
        sources=fused.sources,
        reads=tuple(columns),
        writes=tuple(tiles.astype(np.int32) for tiles in writes),
        scratch_bytes=max(group_scratch(lowering, several[0], columns, fused, p) for p in plans),
        values=() if has_parts else tuple(value for value, _ in outs),
    )
    if has_parts:
        for own, sets in zip(plans, parts, strict=True):
            combine(lowering, own, sets, [lowering.new_tiles(v) for v, _ in own.space.outs])
    return True


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
    if is_worth_compiling(plan, len(nodes)):
        return Fused(run, in_c=in_c, called=reduced_in_c(in_c, nodes, plan, parts_out))
    left = left_of(in_c)
    work = prod(plan.space.sizes) * len(nodes) // max(len(boxes), 1)
    called = reduced_in_c(in_c, nodes, plan, parts_out, left)
    return Fused(in_time(run, slow, work, left), called=called)


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

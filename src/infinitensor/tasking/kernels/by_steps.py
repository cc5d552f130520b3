"""Groups that run step by step: one node after another on one tile, what is between in scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from infinitensor.dtypes import to_torch
from infinitensor.ir.op import At
from infinitensor.ir.region import piece_boxes
from infinitensor.ops.table.numpy_kernels import lower, lower_finish, lower_partial, namespace
from infinitensor.tasking.c.group_step import Step
from infinitensor.tasking.kernels.fused_reduction import is_whole, reduced_axes
from infinitensor.tasking.kernels.thread_scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from infinitensor.ir.graph import Graph, Group, Node
    from infinitensor.ir.mesh import Target
    from infinitensor.ir.plan import GroupPlan


class Wanted(NamedTuple):
    """A group that a kernel is wanted for, and where it will run; `parts_out`: its reductions give
    partial results."""

    graph: Graph
    group: Group
    plan: GroupPlan
    target: Target
    parts_out: bool


class BySteps(NamedTuple):
    """The kernel of a group step by step, and what it is made of."""

    run: Callable[[list[Any], list[Any], int], None]
    steps: list[Step]
    ends: list[Node]
    """The reductions that it ends with."""
    sources: list[tuple[str, int]]
    """Of what each of these is."""
    finals: list[Any]
    """Their kernels (`reduce_kernel`)."""
    boxes: np.ndarray
    """What each task reduces, or computes where there is no reduction."""
    n_outs: int
    """Outputs of steps, which come before those of the reductions."""
    n_registers: int
    """Scratch arrays of a task."""


def lower_by_steps(wanted: Wanted) -> BySteps:
    """The kernel of a group from those of its nodes. Of several reductions the outputs come last,
    in their order."""
    graph, group, plan, target, parts_out = wanted
    steps, ends, sources = steps_of(graph, group, plan, target.kind)
    finals = [reduce_kernel(node, plan, target.kind, parts_out) for node in ends]
    n_made = [len(node.call.parts) if parts_out else len(node.outs) for node in ends]
    n_outs = len(plan.space.outs) - sum(len(node.outs) for node in ends)
    last = plan.space.last.call.form
    boxes = piece_boxes(plan.cuts, last.inputs[0] if ends else last.outputs[0], ())
    n_registers = _give_registers(steps, {k for where, k in sources if where == "step"})
    run = _run_of(steps, _ends_of(finals, sources, n_made, n_outs), boxes, target.kind)
    return BySteps(run, steps, ends, sources, finals, boxes, n_outs, n_registers)


def steps_of(
    graph: Graph, group: Group, plan: GroupPlan, device_kind: str
) -> tuple[list[Step], list[Node], list[tuple[str, int]]]:
    """The steps of a group, the reductions it ends with, and of what each of these is."""
    where: dict[int, tuple[str, int]] = {}
    steps: list[Step] = []
    out_of = {value: k for k, (value, _) in enumerate(plan.space.outs)}
    at = 0
    ends: list[Node] = []
    sources_of_ends: list[tuple[str, int]] = []
    for n in group.nodes:
        node = graph.nodes[n]
        sources = []
        for operand in node.operands:
            if operand.value in where:
                sources.append(where[operand.value])
            else:
                sources.append(("in", at))
                at += 1
        if node.op.kind == "reduction":
            ends.append(node)
            sources_of_ends.append(sources[0])
            continue
        step = Step(lower(node.op, node.call, device_kind), sources, node)
        step.located = node.op.kind == "creation"
        step.out = out_of.get(node.outs[0], -1)
        where[node.outs[0]] = ("step", len(steps))
        steps.append(step)
    return steps, ends, sources_of_ends


def _run_of(
    steps: Sequence[Step],
    ends_of: dict[int | None, list[tuple[Any, int, slice]]],
    boxes: np.ndarray,
    device_kind: str,
) -> Callable[[list[Any], list[Any], int], None]:
    """`run(ins, outs, i)`: each step of a task, and behind it the reductions of what it made."""
    torch = None if device_kind == "cpu" else __import__("torch")
    needs_box = bool(ends_of) or any(step.located for step in steps)
    over = _last_read(steps)

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        made: list[Any] = []
        if needs_box:
            box = tuple((lo, hi) for lo, hi in boxes[i].tolist())
            shape = tuple(hi - lo for lo, hi in box)
        else:
            box, shape = (), outs[-1].shape
        for final, of, results in ends_of.get(None, ()):
            final(ins[of], outs[results], i)
        for number, step in enumerate(steps):
            args = [ins[k] if where == "in" else made[k] for where, k in step.sources]
            if step.out >= 0:
                target = outs[step.out]
            elif torch is not None:
                target = torch.empty(shape, dtype=to_torch(step.dtype), device=outs[0].device)
            else:
                target = scratch(step.register, shape, step.dtype)
            step.run(args, [target], At((box,), ()) if step.located else None)
            made.append(target)
            for final, _, results in ends_of.get(number, ()):
                final(target, outs[results], i)
            for k in over[number]:  # a GPU's memory is free for the next steps
                made[k] = None

    return run


def reduce_kernel(node: Node, plan: GroupPlan, device_kind: str, parts_out: bool) -> Any:
    """`run(tile, outs, i)`: reduce a tile into partial results or, if it is all, the result."""
    partial = lower_partial(node.op, node.call, device_kind, plan.leaves)
    finish = lower_finish(node.op, node.call, device_kind)
    boxes = piece_boxes(plan.cuts, node.call.form.inputs[0], ()) if node.op.located else None
    at_once = node.op.at_once.get(device_kind) if is_whole(node, plan, parts_out) else None
    params, contracted = dict(node.call.params), reduced_axes(node)

    def run(tile: Any, outs: Sequence[Any], i: int) -> None:
        if at_once is not None and 0 not in tile.shape:
            axes = tuple([axis + tile.ndim for axis in contracted])
            kept = [n for axis, n in enumerate(tile.shape) if axis not in axes]
            if at_once(namespace(device_kind), tile, axes, outs[0].reshape(kept), **params):
                return
        at = None
        if boxes is not None:
            at = At((), (tuple((lo, hi) for lo, hi in boxes[i].tolist()),))
        parts = partial([tile], at)
        if parts_out:
            for part, out in zip(parts, outs, strict=True):
                out[...] = part
        else:
            finish(parts, outs)

    return run


def _ends_of(
    finals: Sequence[Any], sources: Sequence[tuple[str, int]], n_made: Sequence[int], first: int
) -> dict[int | None, list[tuple[Any, int, slice]]]:
    """Reductions by the step that they are of (None: of an operand), each with the number of that,
    and with the places of its outputs: from the first one on, in order."""
    found: dict[int | None, list[tuple[Any, int, slice]]] = {}
    for final, (where, k), n in zip(finals, sources, n_made, strict=True):
        end = (final, k, slice(first, first + n))
        found.setdefault(k if where == "step" else None, []).append(end)
        first += n
    return found


def _give_registers(steps: list[Step], reduced: set[int]) -> int:
    """Scratch registers by liveness; two steps share one when the first is dead by then. Those that
    are reduced are so at once."""
    last_use = {k: k for k in reduced}
    for i, step in enumerate(steps):
        for where, k in step.sources:
            if where == "step":
                last_use[k] = i
    free: list[int] = []
    n = 0
    for i, step in enumerate(steps):
        if step.out < 0:
            if free:
                step.register = free.pop()
            else:
                step.register = n
                n += 1
        for k in {i, *(k for where, k in step.sources if where == "step")}:
            if last_use.get(k) == i and steps[k].register >= 0:
                free.append(steps[k].register)
    return n


def _last_read(steps: Sequence[Step]) -> list[list[int]]:
    """For each step: those that nothing behind it reads, itself among them."""
    last = list(range(len(steps)))
    for number, step in enumerate(steps):
        for where, k in step.sources:
            if where == "step":
                last[k] = number
    over: list[list[int]] = [[] for _ in steps]
    for k, number in enumerate(last):
        over[number].append(k)
    return over

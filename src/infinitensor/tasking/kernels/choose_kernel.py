"""Which kernel a group gets: generated code, at once or in time, or step by step."""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.config import config
from infinitensor.events import lane
from infinitensor.native import CompilerError
from infinitensor.ops.backend import blas
from infinitensor.ops.forms.fold_order import (
    adds_short_rows,
    is_short,
    line_axes,
)
from infinitensor.ops.table.scalar import Term
from infinitensor.ops.table.words import WORDS
from infinitensor.ops.table.work import work_of
from infinitensor.tasking.c.expressions import CONSTANT, GroupStep, Input, Unsupported
from infinitensor.tasking.c.group_step import Step, input_of
from infinitensor.tasking.c.numba_kernels import jitted_kernel
from infinitensor.tasking.c.rolled_steps import MOST_WRITTEN
from infinitensor.tasking.kernels.by_steps import BySteps, Wanted, lower_by_steps, steps_of
from infinitensor.tasking.kernels.c_calls import TASK_WORK, Mapped
from infinitensor.tasking.kernels.c_kernel import Compiled, compiled_kernel
from infinitensor.tasking.kernels.fused_reduction import (
    folded_run,
    folds_of,
    is_whole,
    reduced_axes,
    reduced_in_c,
)
from infinitensor.tasking.kernels.thread_scratch import scratch
from infinitensor.tasking.kernels.work_left import PAID_OFF, WorkLeft, left_of, left_on_gpu
from infinitensor.tasking.kernels.worth_compiling import (
    CONSTANTS,
    is_exact,
    is_worth_compiling,
    may_become_worth,
    reads_across,
    work_by_steps,
)
from infinitensor.tasking.triton.triton_group import (
    RUNS_BEFORE,
    Awaited,
    AwaitedReduction,
    Generated,
    ReducedRun,
    generate_or_steps,
    mapped_run,
    reduced_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.graph import Graph, Group, Node, Operand
    from infinitensor.ir.mesh import Target, Tools
    from infinitensor.ir.op import Labels
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.c.fold_loops import Fold

GPU_STEPS_SHARE = 64
"""The part of a GPU's memory that may be between the steps of a task."""
LAUNCHES = 1 << 13
"""Kernels on a GPU whose start takes about as long as compiling one."""


def group_inputs(graph: Graph, group: Group) -> list[tuple[int, int]]:
    """(node, operand) of each external operand, in the order the group's kernel takes them."""
    inside = {value for n in group.nodes for value in graph.nodes[n].outs}
    return [
        (n, i)
        for n in group.nodes
        for i, operand in enumerate(graph.nodes[n].operands)
        if operand.value not in inside
    ]


class Fused(NamedTuple):
    """The kernel of a group: how many registers it uses, whether it runs step by step although
    generated code would be worth it, whether it is one pass that needs no scratch of steps, and
    the C of its steps and reductions, where they are all of it."""

    run: Callable[[list[Any], list[Any], int], None]
    n_registers: int = 0
    eager: bool = False
    one_pass: bool = False
    in_c: Any = None
    folds: tuple[Fold, ...] = ()
    steps: list[Step] | None = None
    """The way of generated code on a GPU, where there is no reduction."""
    called: Mapped | None = None
    """The same as a call that C makes, where one call is all of it."""
    by_steps: Any = None
    """The same step by step, where the C of `in_c` does it."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The C that is compiled as soon as it runs."""
        return () if self.in_c is None else (self.in_c.source,)


def fused_kernel(
    graph: Graph,
    group: Group,
    plan: GroupPlan,
    target: Target,
    parts_out: bool,
    n_alike: int = 0,
) -> Fused:
    """The kernel of a group of several nodes, or of a reduction that may be generated; groups of
    `n_alike` elements in all run it. It may end with several reductions over the same axes, whose
    outputs come last, in their order."""
    wanted = Wanted(graph, group, plan, target, parts_out)
    made = lower_by_steps(wanted)
    worth = is_worth_compiling(plan, sum(work_of(step.node) for step in made.steps), n_alike)
    beside = may_become_worth(made.steps, plan.space.last, target)
    if not worth and not beside:
        return Fused(made.run, made.n_registers)
    choose = _choose_on_cpu if target.kind == "cpu" else _choose_on_gpu
    return choose(wanted, made, worth, beside)


def _choose_on_gpu(wanted: Wanted, made: BySteps, worth: bool, beside: bool) -> Fused:
    """Triton's code, or steps where it has none.

    What is `worth` it is compiled in its first run, the rest once it has run often. Where steps
    have its bits, they go on `beside` the compiler, if there is room for what is between them.
    """
    steps, n_registers, target = made.steps, made.n_registers, wanted.target
    fast, eager = generate_or_steps(lambda: _run_of_triton(wanted, made), made.run, target)
    if eager:
        return Fused(made.run, n_registers, eager=worth)
    waits = beside and (not worth or has_room_for_steps(steps, n_registers, wanted.plan, target))
    if waits and isinstance(fast, Generated):  # what is worth it is asked for in its first run
        awaited = _await(fast, made.run, 0 if worth else RUNS_BEFORE)
        if awaited is not None:
            return Fused(awaited, n_registers, steps=steps if worth and not made.ends else None)
    if not worth:  # a kernel is started in about the time of PAID_OFF / LAUNCHES elements
        left = left_on_gpu(kind_of_group(wanted.graph, wanted.group))
        work = PAID_OFF // LAUNCHES * len(steps)
        return Fused(in_time(fast, made.run, work, left), n_registers)
    n_created = sum(step.located for step in steps)
    return Fused(fast, n_created, one_pass=True, steps=None if made.ends else steps)


def _run_of_triton(wanted: Wanted, made: BySteps) -> Any:
    """The kernel of steps, or of steps and reductions; None where Triton has none."""
    graph, group, plan, _, parts_out = wanted
    steps, ends, inputs = made.steps, made.ends, group_inputs(graph, group)
    if not ends:
        return mapped_run(graph, inputs, steps, plan)
    return reduced_run(graph, inputs, steps, made.sources, ends, plan, parts_out, made.run)


def _await(generated: Generated, run: Any, n_before: int) -> Awaited | AwaitedReduction | None:
    """Steps `n_before` times, and then until generated code is compiled; None where it cannot be
    asked whether it is."""
    if generated.one_launch is not None:
        return Awaited(generated, run, n_before)
    if isinstance(generated.fast, ReducedRun):
        return AwaitedReduction(generated, generated.fast, run, n_before)
    return None


def _choose_on_cpu(wanted: Wanted, made: BySteps, worth: bool, beside: bool) -> Fused:
    """Generated C, or steps where it has none.

    What is `worth` it is compiled in its first run, the rest once it has run often. Where steps
    have its bits, they go on `beside` the compiler.
    """
    graph, group, plan, target, parts_out = wanted
    ends, boxes = made.ends, made.boxes
    folds = _folds_of_ends(wanted, made)
    if not folds and (not made.steps or len(ends) > 1):  # reductions that C has no loops for
        return Fused(made.run, made.n_registers)
    end = End(ends, [] if folds else made.sources, folds)
    in_c = generate(graph, group, made.steps, made.n_outs, end, target.tools)
    if in_c is None:
        return Fused(made.run, made.n_registers, eager=worth)
    if folds:
        fast = folded_run(in_c, folds, ends, plan, boxes, made.n_outs, parts_out)
    else:
        fast = _compiled_run(in_c, made)
    run = first_choice(fast, made.run, boxes)
    is_c = isinstance(in_c, Compiled)
    left: WorkLeft | None = None
    if beside and (is_c or not worth):
        each = work_by_steps(step.node for step in made.steps)
        work = prod(plan.space.sizes) * each // max(len(boxes), 1)
        left = left_of(in_c) if is_c else WorkLeft()
        run = in_time(run, made.run, work, left)
    called = None
    if folds:
        called = reduced_in_c(in_c, ends, plan, parts_out, left)
    elif is_c and not ends:
        called = Mapped(in_c, left)
    if not worth:
        return Fused(run, made.n_registers, called=called)
    in_c = in_c if is_c and (folds or not ends) else None
    n_registers, by_steps = made.n_registers, made.run
    return Fused(run, n_registers, in_c=in_c, folds=tuple(folds), called=called, by_steps=by_steps)


def _folds_of_ends(wanted: Wanted, made: BySteps) -> list[Fold]:
    """The folds of the reductions that a group ends with; none where C cannot do them."""
    graph, group, plan, target, parts_out = wanted
    ends = made.ends
    if not ends or not target.compiles or not has_whole_lines(graph, group, ends[0]):
        return []
    try:
        return folds_of(ends, made.sources, is_whole(ends[0], plan, parts_out))
    except Unsupported:
        return []


def has_room_for_steps(steps: Sequence[Step], n_held: int, plan: GroupPlan, target: Target) -> bool:
    """Whether what is between the steps of a task takes little of a device: then they go on until
    their kernel is compiled, which has nothing between them."""
    wide = max((step.dtype.itemsize for step in steps), default=0)
    return n_held * wide * prod(plan.longest()) <= target.memory_bytes // GPU_STEPS_SHARE


def kind_of_group(graph: Graph, group: Group) -> tuple[Any, ...]:
    """A key that groups with the same kernel share, whatever their shapes."""
    nodes = [graph.nodes[n] for n in group.nodes]
    return tuple((node.op.name, node.call.loop, node.call.outs[0].dtype) for node in nodes)


def _tree(step: Step) -> Term | None:
    """The expression of a step, or None where it is no generated code."""
    op = step.node.op
    if op.kind == "elementwise":
        tree: Term = op.expression
        return tree
    if op.name in CONSTANTS:
        return Term(CONSTANT, (dict(step.node.call.params)["value"],))
    return None


def in_time(
    fast: Any, run: Any, work: int, left: WorkLeft
) -> Callable[[list[Any], list[Any], int], None]:
    """Step by step until as much work is done so as is left; then generated code.

    What is compiled already costs nothing. Nothing is compiled while kernels are recorded: steps
    are, and who starts them again counts.
    """
    has_run = False

    def either(ins: list[Any], outs: list[Any], i: int) -> None:
        nonlocal has_run
        noted = lane.noted
        if (has_run or noted is None) and left.is_done():
            fast(ins, outs, i)
            has_run = True
            return
        run(ins, outs, i)
        if noted is None:
            left.spend(work + TASK_WORK)
        else:
            noted.append((left, work + TASK_WORK))

    return either


def single_called(graph: Graph, group: Group, plan: GroupPlan, target: Target) -> Mapped | None:
    """The call that C makes instead of NumPy's function, for a group of one node of which it has
    the same bits: worth it where tasks are so many that starting them takes the time."""
    node = plan.space.last
    if node.op.kind != "elementwise" or config.compile == "never":
        return None
    if target.kind != "cpu" or not target.compiles:
        return None
    steps, _, _ = steps_of(graph, group, plan, "cpu")
    if not all(is_exact(step, target.tools) for step in steps):
        return None
    in_c = generate(graph, group, steps, len(plan.space.outs), End(), target.tools)
    if not isinstance(in_c, Compiled):
        return None
    return Mapped(in_c, None if config.compile == "always" else left_of(in_c), counts=TASK_WORK)


def product_called(graph: Graph, node: Node, *, is_part: bool) -> blas.Multiplied | None:
    """A product of matrices and vectors, or of stacks of them, as a call that C makes: whole, or a
    part of a sum."""
    if config.compile == "never" or 0 in node.call.form.sizes:
        return None
    axes = _axes_of_product(node)
    if axes is None or any(operand.value < 0 for operand in node.operands):
        return None
    out = node.call.parts[0] if is_part else node.call.outs[0].dtype
    x, y = (graph.specs[operand.value].dtype for operand in node.operands)
    if not blas.is_multiplied(x, y, out):
        return None
    for operand, shape, walked in zip(node.operands, node.shapes, axes, strict=False):
        if not _has_lines(operand, len(shape), walked[0]):
            return None
    return blas.multiplied((x, y, out), axes)


def _has_lines(operand: Operand, ndim: int, stack: int | None) -> bool:
    """Whether rows or columns of matrices are stored in one piece; a vector may have its elements
    apart. `stack` is the axis of a stack of them."""
    access = operand.access
    if access is None:
        return stack is None or stack < ndim - 1
    if access.keeps_lines:
        last = len(access.fixed) - 1
        return stack is None or (walked := access.axes[stack]) is None or walked[0] != last
    is_forward = all(walked is not None and walked[2] > 0 for walked in access.axes)
    return is_forward and not access.part and ndim == 1


def _axes_of_product(node: Node) -> blas.Axes | None:
    """Where a product of two operands has its matrices, if its result has them in that order."""
    if node.op.name not in ("matmul", "_einsum"):
        return None
    (left, right), (kept,) = node.call.form.inputs, node.call.form.outputs
    inner = [label for label in left if label in right and label not in kept and label is not None]
    shared = [label for label in kept if label in left and label in right]
    is_stack = len(kept) > 2 and node.op.name == "matmul"  # of one operand alone, or of both
    stack, rest = (kept[0], kept[1:]) if shared or is_stack else (None, kept)
    rows = [label for label in rest if label in left]
    columns = [label for label in rest if label in right]
    if len(inner) != 1 or max(len(rows), len(columns)) > 1 or [*rows, *columns] != [*rest]:
        return None
    row, column = next(iter(rows), None), next(iter(columns), None)
    return blas.Axes(
        _places(left, stack, row, *inner),
        _places(right, stack, *inner, column),
        _places(kept, stack, row, column),
    )


def _places(labels: Labels, *walked: int | None) -> tuple[int | None, ...]:
    """The axes with some labels; None for one that is not there."""
    return tuple(
        labels.index(label) if label is not None and label in labels else None for label in walked
    )


def has_whole_lines(graph: Graph, group: Group, last: Node) -> bool:
    """Whether each operand has all axes of the line that a reduction goes along, or none."""
    shape = last.shapes[0]
    line = {len(shape) + axis for axis in line_axes(shape, reduced_axes(last))}
    labels = [graph.nodes[n].call.form.inputs[i] for n, i in group_inputs(graph, group)]
    return all(len(line.intersection(own)) in (0, len(line)) for own in labels)


class End(NamedTuple):
    """The reductions that a group ends with: `of` what `source` says, if NumPy does them, or done
    by C as `folds`; or no reduction."""

    of: Sequence[Node] = ()
    source: Sequence[tuple[str, int]] = ()
    folds: Sequence[Fold] = ()


def generate(
    graph: Graph, group: Group, steps: list[Step], n_outs: int, end: End, tools: Tools
) -> Any:
    """The compiled form of a group's steps, by C or, without a compiler, by Numba; or None where C
    does not do what NumPy does."""
    trees = [_tree(step) for step in steps]
    if None in trees:
        return None
    inputs: list[Input] = []
    first: dict[Any, int] = {}
    same: list[int] = []
    shape = end.of[0].shapes[0] if end.of else steps[-1].node.call.outs[0].shape
    axes = reduced_axes(end.of[0]) if end.folds else ()
    line = line_axes(shape, axes)
    # parts of rows are blocks together there, as short rows are
    across = not end.of and any(reads_across(step.node) for step in steps)
    short = across or is_short(shape, axes) or _adds_short_rows(shape, axes, end.folds)
    short = short and tools.has_compiler and len(steps) <= MOST_WRITTEN
    for n, i in group_inputs(graph, group):
        node = graph.nodes[n]
        if node.op.kind not in ("elementwise", "reduction"):
            continue
        labels, operand = node.call.form.inputs[i], node.operands[i]
        is_one = not short and len(shape) + line[-1] not in labels
        key = len(same) if operand.value < 0 else (operand.value, operand.access, labels)
        same.append(first.setdefault(key, len(same)))
        inputs.append(input_of(graph, node, i, is_one))
    read = {same[k] for step in steps for where, k in step.sources if where == "in"}
    read |= {k for where, k in end.source if where == "in"}
    read |= {fold.source[1] for fold in end.folds if fold.source[0] == "in"}
    inputs = [x if k in read else replace(x, unread=True) for k, x in enumerate(inputs)]
    last = end.source[0][1] if end.source and end.source[0][0] == "step" else -1
    parts = []
    for k, (step, tree) in enumerate(zip(steps, trees, strict=True)):
        assert tree is not None
        stored = n_outs if k == last and step.out < 0 else step.out
        sources = tuple((where, same[k] if where == "in" else k) for where, k in step.sources)
        parts.append(GroupStep(tree, step.node.call.loop, sources, step.dtype, stored))
    try:
        n_stored = n_outs + (last >= 0 and steps[last].out < 0)
        if not tools.has_compiler:
            is_made = tools.has_numba and len(parts) <= MOST_WRITTEN
            return jitted_kernel(tuple(parts), tuple(inputs), n_stored) if is_made else None
        folds = tuple(end.folds)
        return compiled_kernel(tuple(parts), tuple(inputs), n_stored, folds, axes, line, short)
    except Unsupported:
        return None


def _adds_short_rows(shape: tuple[int, ...], axes: tuple[int, ...], folds: Sequence[Fold]) -> bool:
    """Whether short rows are computed several at once, and then added to what rows before gave."""
    plain = all(not (fold.finds or fold.half) for fold in folds)
    return bool(folds) and plain and adds_short_rows(shape, axes)


def first_choice(
    fast: Any, run: Any, boxes: np.ndarray
) -> Callable[[list[Any], list[Any], int], None]:
    """Generated code; step by step where nothing is to do, and, with a warning, if the compiler of
    this machine fails on it."""
    failed: list[bool] = []
    empty = (boxes[:, :, 0] == boxes[:, :, 1]).any(axis=1)

    def either(ins: list[Any], outs: list[Any], i: int) -> None:
        if not failed and not empty[i]:
            try:
                fast(ins, outs, i)
            except CompilerError as error:
                failed.append(True)
                warnings.warn(f"{error}; the group runs step by step", RuntimeWarning, stacklevel=2)
            else:
                return
        run(ins, outs, i)

    return either


def _compiled_run(generated: Any, made: BySteps) -> Callable[[list[Any], list[Any], int], None]:
    """One call of generated code a tile; then the reduction, if the group ends with one."""
    if not made.finals:
        return lambda ins, outs, i: generated(ins, outs, outs[-1].shape)
    (final,), ((_, of),) = made.finals, made.sources
    last, boxes, n_outs = made.steps[of], made.boxes, made.n_outs

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        shape = tuple([hi - lo for lo, hi in boxes[i].tolist()])
        kept = outs[:n_outs]
        if last.out >= 0:
            result = outs[last.out]
            generated(ins, kept, shape)
        else:
            result = scratch(last.register, shape, last.dtype)
            generated(ins, [*kept, result], shape)
        final(result, outs[n_outs:], i)

    return run


def may_reuse(graph: Graph, group: Group, device_kind: str) -> bool:
    """Whether the group's one output may take the buffer of an input: NumPy ufuncs allow exact
    aliasing, other kernels promise nothing."""
    if device_kind != "cpu":
        return False
    last = graph.nodes[group.nodes[-1]]
    if any(graph.nodes[n].op.kind != "elementwise" for n in group.nodes):
        return False
    # an integer power may raise, and a task that raised must find its operands again
    word = last.op.expression.word
    return not WORDS[word].may_raise and isinstance(WORDS[word].numpy, np.ufunc)

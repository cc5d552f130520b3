"""Groups on a GPU as generated Triton: which steps and reductions, and what runs where it cannot.

Creations at the start of a group run eagerly, and what they make is read like any operand.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, cast

from infinitensor.config import config
from infinitensor.dtypes import kind_of, to_torch
from infinitensor.ir.op import At
from infinitensor.ir.region import piece_boxes
from infinitensor.jit import picker
from infinitensor.ops.backend.compile_beside import can_start
from infinitensor.ops.forms.reduction import COUNTED
from infinitensor.ops.table.numpy_kernels import lower_finish
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported
from infinitensor.tasking.c.fold_loops import KINDS as KINDS_IN_C
from infinitensor.tasking.c.group_step import input_of
from infinitensor.tasking.triton.triton_launch import (
    SHORT_ROW,
    Cut,
    MapKernel,
    ReduceKernel,
    framed_kernel,
)
from infinitensor.tasking.triton.triton_reduce import Reduction
from infinitensor.tasking.triton.triton_rows import (
    ENDS,
    HELD_ROW,
    RowGroup,
    RowReduction,
    RowsKernel,
    RowsRun,
    row_kind,
)
from infinitensor.tasking.triton.triton_source import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from infinitensor.ir.graph import Graph, Node
    from infinitensor.ir.mesh import Target
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.ir.region import Box
    from infinitensor.jit import Launch, OneLaunch
    from infinitensor.tasking.c.group_step import Step

    Run = Callable[[list[Any], list[Any], int], None]

KINDS = KINDS_IN_C | {kind: kind for kind in ("prod", "any", "all")}
"""Reductions that are generated, and what they hold: those of C and some more."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """A group as its kernel sees it.

    `taken` picks the kernel's inputs from what a task is given and then from what `created` steps
    make; `stores` are the outputs that the kernel writes; `names` are what it calls `sources`.
    """

    group: Group
    taken: tuple[int, ...]
    created: tuple[Step, ...]
    stores: tuple[int, ...]
    names: tuple[tuple[str, int], ...]

    def inputs(
        self, ins: list[Any], outs: list[Any], shape: tuple[int, ...], box: np.ndarray | None
    ) -> list[Any]:
        """The kernel's inputs for one task."""
        if box is None:
            return [ins[k] for k in self.taken]
        import torch

        where = tuple((lo, hi) for lo, hi in box.tolist())
        made = list(ins)
        for step in self.created:
            target = outs[step.out] if step.out >= 0 else None
            if target is None:
                target = torch.empty(shape, dtype=to_torch(step.dtype), device=outs[-1].device)
            step.run([ins[k] for _, k in step.sources], [target], At((where,), ()))
            made.append(target)
        return [made[k] for k in self.taken]


def assembled(
    graph: Graph,
    externals: Sequence[tuple[int, int]],
    steps: Sequence[Step],
    sources: Sequence[tuple[str, int]] = (),
) -> Assembly:
    """The steps of a group for a kernel, and what it reduces.

    `externals` are (node, operand) of what tasks are given.
    """
    parts: list[GroupStep] = []
    inputs: list[Input] = []
    taken: list[int] = []
    created: list[Step] = []
    stores: list[int] = []
    names: dict[tuple[str, int], tuple[str, int]] = {}

    read_alike: dict[Any, tuple[str, int]] = {}

    def name_of(source: tuple[str, int]) -> tuple[str, int]:
        if source not in names:
            n, i = externals[source[1]]
            names[source] = ("in", len(inputs))
            node = graph.nodes[n]
            if node.op.kind == "elementwise" and node.operands[i].value >= 0:
                # several steps read the same part of the same tensor: it is loaded once
                alike = (node.operands[i], node.call.form.inputs[i], node.shapes[i])
                names[source] = read_alike.setdefault(alike, names[source])
            if names[source][1] == len(inputs):
                inputs.append(input_of(graph, node, i))
                taken.append(source[1])
        return names[source]

    for k, step in enumerate(steps):
        if step.node.op.kind == "creation":
            names["step", k] = ("in", len(inputs))
            inputs.append(Input(step.dtype, False, False))
            taken.append(len(externals) + len(created))
            created.append(step)
            continue
        if step.node.op.kind != "elementwise":
            raise Unsupported(step.node.op.name)
        read = tuple(name_of(source) for source in step.sources)
        stored = -1
        if step.out >= 0:
            stored = len(stores)
            stores.append(step.out)
        names["step", k] = ("step", len(parts))
        parts.append(
            GroupStep(step.node.op.expression, step.node.call.loop, read, step.dtype, stored)
        )
    reduced = tuple(name_of(source) for source in sources)
    fused = config.rounding == "fused"
    group = Group(tuple(parts), tuple(inputs), len(stores), fused=fused)
    return Assembly(group, tuple(taken), tuple(created), tuple(stores), reduced)


class MappedRun:
    """`run(ins, outs, i)`: a group of steps as one launch; `boxes` where it creates something."""

    def __init__(self, made: Assembly, boxes: np.ndarray | None) -> None:
        self._made = made
        self._kernel = MapKernel(made.group)
        self._boxes = boxes
        self._taken, self._stored = picker(made.taken), picker(made.stores)
        self.arrays: Sequence[int] = [made.taken[k] for k in made.group.arrays]
        self.numbers: Sequence[int] = [made.taken[k] for k in made.group.scalars]
        self.outs: Sequence[int] = made.stores

    def __call__(self, ins: list[Any], outs: list[Any], i: int) -> None:
        shape = tuple(outs[-1].shape)
        if self._boxes is None:
            given = self._taken(ins)
        else:
            given = self._made.inputs(ins, outs, shape, self._boxes[i])
        self._kernel(given, self._stored(outs), shape)

    def launch_of(
        self, tiles: Sequence[Any], given: Sequence[Any], shape: tuple[int, ...]
    ) -> tuple[Launch, Sequence[Any]]:
        """The launch of arrays and outputs, and the numbers as it takes them."""
        return self._kernel.launch_of(tiles, given, shape)

    @property
    def is_one_launch(self) -> bool:
        """Whether it starts nothing else."""
        return self._boxes is None


def mapped_run(
    graph: Graph, externals: Sequence[tuple[int, int]], steps: Sequence[Step], plan: GroupPlan
) -> MappedRun | None:
    """One kernel for the steps of a group; None where they cannot be generated."""
    try:
        made = assembled(graph, externals, steps)
        boxes = None
        if made.created:
            boxes = piece_boxes(plan.cuts, plan.space.last.call.form.outputs[0], ())
        return MappedRun(made, boxes)
    except Unsupported:
        return None


def framed_run(
    graph: Graph,
    externals: Sequence[tuple[int, int]],
    steps: Sequence[Step],
    shape: tuple[int, ...],
    box: Box,
) -> Run | None:
    """One kernel for the steps of a group that make a box of a tile, and for what stays around it.

    Its tasks are given the tile before behind their operands. None where it cannot be generated.
    """
    if not shape or shape[-1] < SHORT_ROW:
        return None
    try:
        made = assembled(graph, externals, steps)
        kernel = framed_kernel(made.group, box)
    except Unsupported:
        return None
    if made.created:
        return None

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        kernel([ins[k] for k in made.taken], outs[0], ins[-1])

    return run


def may_generate(node: Node, device_kind: str) -> bool:
    """Whether a node alone is worth generated code on a GPU.

    A reduction is, because it is one pass; so is an elementwise one with scalars or operands that
    are broadcast, for which torch's kernels take twice as long, or that are transposed, which they
    read with gaps.
    """
    if device_kind != "cuda":
        return False
    if node.op.kind == "reduction":
        return node.op.name in KINDS
    if node.op.kind != "elementwise":
        return False
    shape = node.call.outs[0].shape
    return any(
        operand.value < 0 or seen != shape or (operand.access and operand.access.is_across)
        for operand, seen in zip(node.operands, node.shapes, strict=True)
    )


def reduction_of(node: Node, source: tuple[str, int], ends: bool = False) -> Reduction:
    """The accumulators of a reduction while it runs; `ends`: and what the result is of them."""
    kind = KINDS.get(node.op.name)
    if kind is None:
        raise Unsupported(node.op.name)
    params, finds = dict(node.call.params), kind in ("argmin", "argmax")
    if finds and not ends:
        raise Unsupported("places in a part")
    dtype = node.call.parts[0] if finds or kind == "count" else params["dtype"]
    if dtype.kind == "c" or (dtype.kind == "b" and kind not in ("any", "all")):
        raise Unsupported(f"{kind} of {dtype}")
    if finds:
        return Reduction(kind, source, dtype, "where")
    made = node.call.outs[0].dtype
    ddof = float(params.get("ddof", 0.0))
    if not ends or node.op.name not in COUNTED or kind_of(made) != "f" or not isfinite(ddof):
        return Reduction(kind, source, dtype)
    return Reduction(kind, source, dtype, node.op.name, ddof)


class ReducedRun:
    """`run(ins, outs, i)`: the steps of a group and the reductions at its end in one pass.

    Outputs are those of steps that are kept, then those of each reduction. `eager` runs where tiles
    are not as kernels walk them.
    """

    def __init__(
        self,
        made: Assembly,
        kernel: ReduceKernel,
        reduced: Sequence[int],
        boxes: np.ndarray,
        ends: Sequence[tuple[int, Any, Any]],
        eager: Run,
    ) -> None:
        self._made, self._kernel, self._reduced = made, kernel, reduced
        self._boxes, self._ends, self._eager = boxes, ends, eager
        self._shape = cache(lambda i: tuple([hi - lo for lo, hi in boxes[i].tolist()]))

    def __call__(self, ins: list[Any], outs: list[Any], i: int) -> None:
        held: list[Sequence[Any]] = []
        if not self._kernel(*self._arguments(ins, outs, i, held)):
            self._eager(ins, outs, i)
            return
        for (_, _, finish), each, target in zip(self._ends, held, self._outs(outs), strict=True):
            finish(each, target)

    def can_start(self, ins: list[Any], outs: list[Any], i: int) -> bool:
        """Whether it waits for no compiler; once asked, its kernels are compiled beside."""
        return self._kernel.can_start(*self._arguments(ins, outs, i, []))

    def _arguments(
        self, ins: list[Any], outs: list[Any], i: int, held: list[Any]
    ) -> tuple[Any, ...]:
        """What the kernel is given; what its reductions hold is entered in `held`."""
        shape = self._shape(i)
        box = self._boxes[i] if self._made.created else None
        given = self._made.inputs(ins, outs, shape, box)

        def parts() -> list[Any]:
            left = tuple([n for axis, n in enumerate(shape) if axis not in self._reduced])
            for (_, make, _), target in zip(self._ends, self._outs(outs), strict=True):
                held.append(make(left, target, outs[-1].device))
            return [part for each in held for part in each]

        return given, [outs[j] for j in self._made.stores], parts, shape

    def _outs(self, outs: list[Any]) -> list[list[Any]]:
        """The outputs of each reduction: all come last."""
        at = len(outs) - sum(n_outs for n_outs, _, _ in self._ends)
        found = []
        for n_outs, _, _ in self._ends:
            found.append(outs[at : at + n_outs])
            at += n_outs
        return found


def reduced_run(
    graph: Graph,
    externals: Sequence[tuple[int, int]],
    steps: Sequence[Step],
    sources: Sequence[tuple[str, int]],
    nodes: Sequence[Node],
    plan: GroupPlan,
    parts_out: bool,
    eager: Run,
) -> ReducedRun | RowsRun | None:
    """One pass for the steps of a group and the reductions at its end; None: not generated.

    Each of `nodes` reduces one of `sources`.
    """
    node = nodes[0]
    labels = node.call.form.inputs[0]
    reduced = tuple(a for a, label in enumerate(labels) if label in node.call.form.contracted)
    try:
        made = assembled(graph, externals, steps, sources)
        reductions = [
            reduction_of(n, name, not parts_out) for n, name in zip(nodes, made.names, strict=True)
        ]
        if not parts_out and _is_of_rows(node, plan, reduced) and not made.created:
            with suppress(Unsupported):
                return _rows_run(graph, externals, steps, made, reductions, nodes, plan)
        if not steps and reduced[-1:] == (len(labels) - 1,) and any(r.finds for r in reductions):
            return None  # a library finds places in long rows as fast
        cut = _cut_of(node, plan, reduced, all(r.is_exact for r in reductions))
        kernel = ReduceKernel(made.group, reductions, reduced, cut)
    except Unsupported:
        return None
    boxes = piece_boxes(plan.cuts, labels, ())
    ends = [_end(n, r, parts_out) for n, r in zip(nodes, reductions, strict=True)]
    return ReducedRun(made, kernel, reduced, boxes, ends, eager)


def _is_of_rows(node: Node, plan: GroupPlan, reduced: Sequence[int]) -> bool:
    """Whether rows are reduced that a program of a kernel can hold, and that nothing cuts."""
    shape = node.shapes[0]
    n = shape[-1] if shape else 0
    is_cut = any(length < shape[axis] for axis, length in plan.leaves)
    return reduced == (len(shape) - 1,) and len(shape) > 1 and 1 < n <= HELD_ROW and not is_cut


def _rows_run(
    graph: Graph,
    externals: Sequence[tuple[int, int]],
    steps: Sequence[Step],
    made: Assembly,
    reductions: Sequence[Reduction],
    nodes: Sequence[Node],
    plan: GroupPlan,
) -> RowsRun:
    """The same where rows are short: each is in registers, and its lanes are merged by Triton."""
    shape, n_stored = nodes[0].shapes[0], len(made.stores)
    if any(step.out >= 0 and step.node.call.outs[0].shape != shape for step in steps):
        raise Unsupported("what is kept is not of rows")
    parts: list[GroupStep | RowReduction] = list(made.group.parts)
    kinds = [row_kind(_shape_of(graph, externals[made.taken[k]])) for k in made.group.arrays]
    kinds += ["full"] * n_stored
    for j, (node, of) in enumerate(zip(nodes, reductions, strict=True)):
        out = node.call.outs[0]
        end = of.end if of.end in ENDS else ""
        if end and kind_of(of.dtype) != "f":
            raise Unsupported(f"{end} of {of.dtype}")
        parts.append(RowReduction(of, out.dtype, n_stored + j, end, of.ddof))
        kinds.append("narrow" if len(out.shape) == len(shape) else "lead")
    group = replace(made.group, parts=(), n_outs=n_stored + len(nodes))
    kernel = RowsKernel(RowGroup(group, tuple(parts), tuple(kinds)))
    boxes = piece_boxes(plan.cuts, nodes[0].call.form.inputs[0], ())
    leads = [tuple(box[:-1]) for box in (boxes[:, :, 1] - boxes[:, :, 0]).tolist()]
    n_kept = len(plan.space.outs) - len(plan.space.last.outs)
    outs = [*made.stores, *range(n_kept, n_kept + len(nodes))]
    return RowsRun(kernel, made.taken, leads, shape[-1], outs)


def _shape_of(graph: Graph, external: tuple[int, int]) -> tuple[int, ...]:
    n, i = external
    return graph.nodes[n].shapes[i]


def _cut_of(
    node: Node, plan: GroupPlan, reduced: Sequence[int], exact: bool
) -> Callable[[tuple[int, ...]], Cut]:
    """How a tile is cut into leaves, as one run of rows each; `Unsupported` if they are not."""
    sizes = [plan.space.sizes[label] for label in node.call.form.inputs[0] if label is not None]
    n_rows = prod(sizes[axis] for axis in reduced)
    n_kept = prod(sizes) // max(n_rows, 1)
    long = [axis for axis, n in enumerate(sizes) if n > 1]
    places = [long.index(axis) for axis in reduced if axis in long]
    if places and places[-1] - places[0] >= len(places):
        raise Unsupported("axes that are not side by side")
    if exact or not plan.leaves:
        return lambda shape: Cut(max(prod(shape[axis] for axis in reduced), 1), n_rows, n_kept)
    if [axis for axis, _ in plan.leaves] != list(reduced):
        raise Unsupported("leaves in another order than the axes")
    leaves = [(axis, leaf) for axis, leaf in plan.leaves if axis in long]
    if any(leaf != sizes[axis] for axis, leaf in leaves[1:]):
        raise Unsupported("leaves that are not rows side by side")
    cut = Cut(max(prod(leaf for _, leaf in leaves), 1), n_rows, n_kept)
    return lambda shape: cut


def _end(node: Node, reduction: Reduction, parts_out: bool) -> tuple[int, Any, Any]:
    """(number of outputs, memory for what is held, how that becomes the outputs)."""
    dtypes = node.call.parts or tuple(spec.dtype for spec in node.call.outs)
    finish = None if parts_out else lower_finish(node.op, node.call, "cuda")
    # the kernel itself casts what it stores
    is_result = bool(reduction.end) or (reduction.kind != "moments" and node.op.finish is None)
    straight = is_result or (parts_out and reduction.kind != "moments")

    def make(left: tuple[int, ...], outs: Sequence[Any], device: Any) -> Sequence[Any]:
        import torch

        if straight:
            return outs
        return [torch.empty(left, dtype=to_torch(d), device=device) for d in reduction.held]

    def end(held: Sequence[Any], outs: Sequence[Any]) -> None:
        if straight:
            return
        made = [part.to(to_torch(d)) for part, d in zip(held, dtypes, strict=True)]
        if finish is not None:
            finish(made, outs)
            return
        for part, out in zip(made, outs, strict=True):
            out[...] = part

    return len(dtypes) if parts_out else len(node.outs), make, end


def generate_or_steps(
    make: Callable[[], Run | None], eager: Run, target: Target
) -> tuple[Run, bool]:
    """(generated code, False), or (the steps, True) where there is no Triton or it cannot be.

    If Triton fails on this machine, it is said once, and steps run from then on.
    """
    fast = make() if target.compiles else None
    return (eager, True) if fast is None else (Generated(fast, eager), False)


RUNS_BEFORE = 1
"""Runs of a group before its kernel is compiled: what runs once is over before that."""


class Awaited:
    """`run(ins, outs, i)`: steps, until generated code of the same bits is compiled beside them."""

    def __init__(self, generated: Generated, steps: Run, n_before: int = RUNS_BEFORE) -> None:
        assert generated.one_launch is not None
        self._n_before = n_before
        self._generated, self._steps = generated, steps
        self.one_launch: OneLaunch = generated.one_launch
        self._arrays, self._numbers = (
            picker(self.one_launch.arrays),
            picker(self.one_launch.numbers),
        )
        self._outs = picker(self.one_launch.outs)
        self._n_runs = 0

    def __call__(self, ins: list[Any], outs: list[Any], i: int) -> None:
        shape = tuple(outs[-1].shape)
        run = self._generated if self._is_ready(ins, outs, shape) else self._steps
        run(ins, outs, i)

    def _is_ready(self, ins: list[Any], outs: list[Any], shape: tuple[int, ...]) -> bool:
        """Whether the kernel can be started: it is asked for once the group runs again."""
        if 0 in shape:
            return False
        tiles = (*self._arrays(ins), *self._outs(outs))
        launch, numbers = self.one_launch.launch_of(tiles, self._numbers(ins), shape)
        if launch.is_ready:
            return True
        self._n_runs += 1
        if self._n_runs <= self._n_before:
            return False
        return can_start(launch, tiles, numbers)


class AwaitedReduction:
    """As `Awaited`, of steps that end with a reduction that is the same in any order."""

    def __init__(
        self, generated: Generated, fast: ReducedRun, steps: Run, n_before: int = RUNS_BEFORE
    ) -> None:
        self._generated, self._fast, self._steps = generated, fast, steps
        self._n_before = n_before
        self._n_runs = 0

    def __call__(self, ins: list[Any], outs: list[Any], i: int) -> None:
        self._n_runs += 1
        is_due = self._n_runs > self._n_before and self._fast.can_start(ins, outs, i)
        run = self._generated if is_due else self._steps
        run(ins, outs, i)


class Generated:
    """`run(ins, outs, i)`: generated code, or the steps once Triton has failed."""

    def __init__(self, fast: Run, eager: Run) -> None:
        self.fast, self._eager = fast, eager
        self._has_failed = False
        self.one_launch: OneLaunch | None = None
        """The launch that it starts, where that is one."""
        if getattr(fast, "is_one_launch", False):
            self.one_launch = cast("OneLaunch", fast)

    def __call__(self, ins: list[Any], outs: list[Any], i: int) -> None:
        if not self._has_failed:
            try:
                self.fast(ins, outs, i)
            except Exception as error:
                if not type(error).__module__.startswith("triton"):
                    raise
                self._has_failed = True
                text = f"Triton: {error}; the group runs step by step"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            else:
                return
        self._eager(ins, outs, i)

"""Rows that are reduced and used again: softmax, layer norm, x - x.mean(1, keepdims=True).

On CPUs, groups that reduce the last axis and groups that read the results along it become one
family: each task runs them on one block of rows after another (`blocks.py`), so that rows are read
from memory once and what lies between groups is never stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import piece_boxes
from infinitensor.ir.tasks import COMPUTE
from infinitensor.native import compiler
from infinitensor.tasking.batch import end_batch
from infinitensor.tasking.blocks import Blocks, Buffer, Stage, scratch_bytes
from infinitensor.tasking.compiled import compiled_kernel
from infinitensor.tasking.fetch import bring_fetches
from infinitensor.tasking.folded import reduced_axes
from infinitensor.tasking.folds import is_result
from infinitensor.tasking.kernels import (
    first_choice,
    fused_kernel,
    group_inputs,
    is_worth_compiling,
    work_of,
)
from infinitensor.tasking.registers import scratch

if TYPE_CHECKING:
    from infinitensor.ir.graph import Group, Node, Operand
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.kernels import Fused
    from infinitensor.tasking.lowering import Lowering

MOST_ROW = 1 << 15
"""Elements of a row at most: several arrays of such rows stay in cache."""


class Member(NamedTuple):
    """A group of a family: `full` if its space is the rows, else one value for each."""

    g: int
    group: Group
    plan: GroupPlan
    fused: Fused
    full: bool


class Rows(NamedTuple):
    """Groups that become one family; `leaving` are the values that others read or keep."""

    members: list[Member]
    inside: frozenset[int]
    leaving: list[int]


def find_rows(lowering: Lowering) -> dict[int, Rows]:
    """Groups that become one family, by the last of them."""
    if lowering.kind != "cpu" or compiler() is None:
        return {}
    return _Finder(lowering).found()


class _Finder:
    """A family begins with any group over rows, and whoever reads of it joins."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.graph = lowering.graph
        self.plans: tuple[GroupPlan, ...] = lowering.plan.groups
        self.groups = lowering.plan.analysed.groups
        self.nodes = [[self.graph.nodes[n] for n in group.nodes] for group in self.groups]
        self.families: dict[int, list[int]] = {}
        """By the last group."""
        self.spaces: dict[int, Any] = {}
        self.family_of: dict[int, int] = {}
        """By value."""

    def found(self) -> dict[int, Rows]:
        for g in range(len(self.groups)):
            self.join(g)
        found = {last: self.rows(several) for last, several in self.families.items()}
        return {last: rows for last, rows in found.items() if rows is not None}

    def join(self, g: int) -> None:
        """Give a group to the families of what it reads; they become one."""
        nodes = self.nodes[g]
        space = self.space_of(g)
        read = {self.family_of.get(o.value, -1) for node in nodes for o in node.operands} - {-1}
        narrow = {f for f in read if _is_one_a_row(nodes, self.spaces[f][0])}
        if narrow or space is None:
            if len({self.spaces[f] for f in narrow}) != 1:
                return
            read, space = narrow, self.spaces[next(iter(narrow))]
        read = {f for f in read if self.spaces[f] == space}
        if not all(self.reads_plainly(node, f, space[0]) for node in nodes for f in read):
            return
        several = sorted({g, *(member for f in read for member in self.families.pop(f))})
        self.families[g], self.spaces[g] = several, space
        for member in several:
            for node in self.nodes[member]:
                self.family_of.update(dict.fromkeys(node.outs, g))

    def space_of(self, g: int) -> Any:
        """The shape of a group's space and how it is cut; None where it is not rows."""
        last, plan = self.nodes[g][-1], self.plans[g]
        is_reduction = last.op.kind == "reduction"
        if any(n.op.kind != "elementwise" for n in self.nodes[g][: -1 if is_reduction else None]):
            return None
        shape = last.shapes[0] if is_reduction else last.call.outs[0].shape
        if len(shape) < 2 or shape[-1] > MOST_ROW or min(shape) < 2:
            return None
        if plan.part is not None or plan.tiles is not None or len(plan.cuts[-1]) > 2:
            return None
        if is_reduction:
            if last.call.form.inputs != (tuple(range(len(shape))),) or reduced_axes(last) != (-1,):
                return None
            if any(length < shape[axis] for axis, length in plan.leaves):
                return None
        return shape, plan.cuts, plan.devices.tobytes()

    def reads_plainly(self, node: Node, family: int, shape: tuple[int, ...]) -> bool:
        """Whether what a node reads of a family is the rows at hand, or a value of each."""
        lead = shape[:-1]
        for operand, seen in zip(node.operands, node.shapes, strict=False):
            if self.family_of.get(operand.value) != family:
                continue
            if not _is_plain(operand, self.graph.specs[operand.value].shape, seen):
                return False
            if seen not in (shape, lead, (*lead, 1)):
                return False
            if seen == lead and node.call.outs[0].shape not in (lead, (*lead, 1)):
                return False  # it lies along the last axis
        return True

    def rows(self, several: list[int]) -> Rows | None:
        """A family, where it is worth it and legal."""
        _, cuts, devices = self.spaces[several[-1]]
        full = {g for g in several if self.space_of(g) == self.spaces[several[-1]]}
        nodes = [node for g in several for node in self.nodes[g]]
        inside = frozenset(value for node in nodes for value in node.outs)
        made = {g: {value for node in self.nodes[g] for value in node.outs} for g in full}
        if not any(
            o.value in inside - made[g] for g in full for n in self.nodes[g] for o in n.operands
        ):
            return None
        if not any(node.op.kind == "reduction" for node in nodes):
            return None
        # every group is a kernel to compile: each must be worth it, one with the other
        work = sum(map(work_of, nodes))
        if not is_worth_compiling(self.plans[max(full)], -(-work // len(several))):
            return None
        touched = inside | {o.value for node in nodes for o in node.operands if o.value >= 0}
        if any(self.lowering.roots[value] in self.lowering.edges.written for value in touched):
            return None
        leaving = set(inside & frozenset(self.graph.kept))
        for g, others in enumerate(self.nodes):
            for value in {o.value for node in others for o in node.operands} & inside:
                if g not in several:
                    leaving.add(value)
                    if g < several[-1]:
                        return None  # it would come too early
        members = []
        for g in several:
            group, plan = self.groups[g], self.plans[g]
            alike = plan.cuts[: len(cuts) - 1] == cuts[:-1] and plan.devices.tobytes() == devices
            reads = {read.operand.value for read in plan.space.reads}
            if not alike and (not reads <= inside or any(v in leaving for v, _ in plan.space.outs)):
                return None
            fused = fused_kernel(self.graph, group, plan, "cpu", False, n_alike=1 << 62)
            if fused.in_c is None or not all(is_result(f, plan.space.last) for f in fused.folds):
                return None
            members.append(Member(g, group, plan, fused, g in full))
        return Rows(members, inside, sorted(leaving))


def _is_one_a_row(nodes: list[Node], shape: tuple[int, ...]) -> bool:
    """Whether a group makes one value for each row."""
    lead = shape[:-1]
    made = nodes[-1].call.outs[0].shape
    return made in (lead, (*lead, 1)) and all(node.op.kind == "elementwise" for node in nodes)


def _is_plain(operand: Operand, shape: tuple[int, ...], seen: tuple[int, ...]) -> bool:
    """Whether an operand is a value as it is, but for axes of size one."""
    access = operand.access
    if access is None:
        return True
    walked = [
        (axis, n) for axis, n in zip(access.axes, seen, strict=True) if axis is not None or n > 1
    ]
    wanted = [((axis, 0, 1), n) for axis, n in enumerate(shape) if n > 1]
    return walked == wanted and not access.part


class _Family:
    """The arrays and stages of a family: operands, then outputs, then buffers between stages."""

    def __init__(self, lowering: Lowering, rows: Rows) -> None:
        self.graph = lowering.graph
        self.rows = rows
        self.plan = next(member.plan for member in rows.members if member.full)
        self.columns: list[Any] = []
        reads = [self.add_columns(lowering, member) for member in rows.members]
        self.places = {v: len(self.columns) + k for k, v in enumerate(rows.leaving)}
        self.n_given = len(self.columns) + len(rows.leaving)
        self.narrow = {at for v, at in self.places.items() if self.is_narrow(v)}
        self.buffers: list[Buffer] = []
        self.stages: list[Stage] = []
        self.passes: dict[int, int] = {}
        """The stage that reduces an array, and nothing else, by its place."""
        for member, own in zip(rows.members, reads, strict=True):
            self.add_stages(member, tuple(self.places[k] if inside else k for inside, k in own))

    def is_narrow(self, value: int) -> bool:
        """Whether it is one value a row."""
        return bool(self.graph.specs[value].shape != self.plan.space.sizes)

    def add_columns(self, lowering: Lowering, member: Member) -> list[tuple[bool, int]]:
        """For each operand of a member: (True, value inside) or (False, its column)."""
        inside = self.rows.inside
        reads = zip(member.plan.space.reads, lowering.moves.routes[member.g], strict=True)
        routes = {read: route for read, route in reads if read.operand.value not in inside}
        bring_fetches(lowering, routes.values(), member.plan.space.last)
        plan = replace(member.plan, devices=self.plan.devices)
        columns = iter(lowering.columns(member.group, plan, routes, inside))
        found = []
        for n, i in group_inputs(self.graph, member.group):
            value = self.graph.nodes[n].operands[i].value
            if value in inside:
                found.append((True, value))
            else:
                found.append((False, len(self.columns)))
                self.columns.append(next(columns))
        return found

    def place(self, value: int) -> int:
        """Where a value lies: among the outputs, or in a buffer of its own."""
        if value not in self.places:
            narrow = self.is_narrow(value)
            self.places[value] = self.add_buffer(self.graph.specs[value].dtype, narrow)
        return self.places[value]

    def add_buffer(self, dtype: np.dtype[Any], narrow: bool) -> int:
        self.buffers.append(Buffer(dtype, not narrow))
        at = self.n_given + len(self.buffers) - 1
        if narrow:
            self.narrow.add(at)
        return at

    def add_stages(self, member: Member, ins: tuple[int, ...]) -> None:
        """The kernel of a member."""
        in_c, folds, last = member.fused.in_c, member.fused.folds, member.plan.space.last
        values = [value for value, _ in member.plan.space.outs]
        ndim = len(member.plan.space.sizes if folds else last.call.outs[0].shape)
        if not folds:
            outs = tuple(self.place(value) for value in values)
            self.stages.append(Stage(in_c, ins, outs, ndim, member.full))
            return
        (fold,) = folds
        outs = tuple(self.place(value) for value in values[:-1])
        parts = [self.add_buffer(dtype, True) for dtype in fold.parts[:-1]]
        parts.append(self.place(values[-1]))
        before = self.passes.get(ins[0], -1) if len(member.group.nodes) == 1 else -1
        if before >= 0:  # rows are looked at once for all
            stage = self.stages[before]
            all_folds, short = (*stage.in_c.folds, fold), stage.in_c.short
            in_c = compiled_kernel((), stage.in_c.inputs, 0, all_folds, (-1,), short=short)
            self.stages[before] = stage._replace(in_c=in_c, outs=(*stage.outs, *parts))
            return
        if len(member.group.nodes) == 1:
            self.passes[ins[0]] = len(self.stages)
        self.stages.append(Stage(in_c, ins, (*outs, *parts), ndim, True))

    def run(self) -> Any:
        """The kernel: all stages block by block; group by group where the compiler fails."""
        for stage in self.stages:
            stage.in_c.begin()
        blocks = Blocks(self.stages, self.buffers, frozenset(self.narrow), scratch)
        boxes = piece_boxes(self.plan.cuts, tuple(range(len(self.plan.cuts))), ())
        shapes = [tuple(box) for box in (boxes[:, :, 1] - boxes[:, :, 0]).tolist()]
        is_narrow = [k in self.narrow for k in range(len(self.columns), self.n_given)]

        def fast(ins: list[Any], outs: list[Any], i: int) -> None:
            flat = [
                x if not narrow or x.ndim < len(shapes[i]) else x[..., 0]
                for x, narrow in zip(outs, is_narrow, strict=True)
            ]
            blocks([*ins, *flat], shapes[i])

        def slow(ins: list[Any], outs: list[Any], i: int) -> None:
            made = dict(zip(self.rows.leaving, outs, strict=True))
            given = iter(ins)
            for member in self.rows.members:
                args = []
                for n, k in group_inputs(self.graph, member.group):
                    node = self.graph.nodes[n]
                    value = node.operands[k].value
                    if value in self.rows.inside:
                        tail = node.shapes[k][len(shapes[i]) - 1 :]
                        args.append(made[value].reshape(*shapes[i][:-1], *tail))
                    else:
                        args.append(next(given))
                targets = []
                for value, _ in member.plan.space.outs:
                    spec = self.graph.specs[value]
                    shape = (*shapes[i][:-1], *spec.shape[len(shapes[i]) - 1 :])
                    targets.append(made.setdefault(value, np.empty(shape, spec.dtype)))
                member.fused.run(args, targets, i if member.full else 0)

        return first_choice(fast, slow, boxes)


def lower_rows(lowering: Lowering, rows: Rows) -> None:
    """One family for several groups."""
    end_batch(lowering)
    made = _Family(lowering, rows)
    labels = {value: k for m in rows.members for value, k in m.plan.space.outs}
    writes = []
    for value in rows.leaving:
        tiles = lowering.new_tiles(
            value, lowering.plan.layouts[value], lowering.graph.specs[value].dtype
        )
        writes.append((tiles.first + piece_to_tile(made.plan, labels[value])).astype(np.int32))
    family = lowering.add_family(
        op=" and ".join(dict.fromkeys(m.plan.space.last.op.name for m in rows.members)),
        site=rows.members[-1].plan.space.last.site,
        lane=COMPUTE,
        devices=made.plan.devices,
        run=made.run(),
        reads=tuple(made.columns),
        writes=tuple(writes),
        scratch_bytes=scratch_bytes(made.plan.longest(), made.buffers),
        seconds=sum(lowering.seconds(member.plan) for member in rows.members),
        values=tuple(rows.leaving),
    )
    lowering.edges.of_columns(family)

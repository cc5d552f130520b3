"""Rows that are reduced and used again: softmax, layer norm, x - x.mean(1, keepdims=True).

Groups that reduce the last axis and groups that read the results along it become one family. On
CPUs each task runs them on one block of rows after another (`block_kernel.py`), on GPUs a program
has rows in registers (`row_programs.py`): rows are read from memory once and values between groups
are never stored.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.ops.table.work import work_of
from infinitensor.tasking.groups.row_blocks import (
    Due,
    Member,
    Rows,
    generated_member,
    leaving_values,
)
from infinitensor.tasking.groups.row_programs import row_kernel
from infinitensor.tasking.kernels.fused_reduction import reduced_axes
from infinitensor.tasking.kernels.worth_compiling import has_same_bits, is_worth_compiling

if TYPE_CHECKING:
    from collections.abc import Container

    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.ir.region import Cuts
    from infinitensor.tasking.graph.lowering import Lowering

MOST_ROW = {"cpu": 1 << 15, "cuda": 1 << 12}
"""Elements of a row at most: several arrays of such rows stay in cache, or in the registers of a
program."""
STEPS_SHARE = 16
"""The part of a device's memory that may be between the steps of tasks that run at a time."""


def find_rows(lowering: Lowering, taken: Container[int]) -> dict[int, Rows]:
    """Groups that become one family, by the last of them; but not those that are taken already."""
    if lowering.kind not in MOST_ROW or not lowering.target.compiles:
        return {}
    return _Finder(lowering, taken).find()


class _Finder:
    """A family begins with any group over rows, and whoever reads of it joins."""

    def __init__(self, lowering: Lowering, taken: Container[int]) -> None:
        self.lowering = lowering
        self.most_row = MOST_ROW[lowering.kind]
        self.taken = taken
        self.graph = lowering.graph
        self.plans: tuple[GroupPlan, ...] = lowering.plan.groups
        self.groups = lowering.plan.analysed.groups
        self.nodes = [[self.graph.nodes[n] for n in group.nodes] for group in self.groups]
        self.families: dict[int, list[int]] = {}
        """By the last group."""
        self.spaces: dict[int, Any] = {}
        self.family_of: dict[int, int] = {}
        """By value."""

    def find(self) -> dict[int, Rows]:
        for g in range(len(self.groups)):
            if g not in self.taken:
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
        if len(shape) < 2 or shape[-1] > self.most_row or min(shape) < 2:
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
        """Whether what a node reads of a family is the current rows, or a value of each."""
        lead = shape[:-1]
        for operand, seen in zip(node.operands, node.shapes, strict=False):
            if self.family_of.get(operand.value) != family:
                continue
            made, access = self.graph.specs[operand.value].shape, operand.access
            if access is not None and not access.is_all(made, seen):
                return False
            if seen not in (shape, lead, (*lead, 1)):
                return False
            if seen == lead and node.call.outs[0].shape not in (lead, (*lead, 1)):
                return False  # it is along the last axis
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
        on_cpu = self.lowering.kind == "cpu"
        work, n_kernels = sum(map(work_of, nodes)), len(several) if on_cpu else 1
        worth = is_worth_compiling(self.plans[max(full)], -(-work // n_kernels))
        waits = on_cpu and has_same_bits(nodes, self.lowering.target)
        if not worth and not waits:
            return None
        touched = inside | {o.value for node in nodes for o in node.operands if o.value >= 0}
        if any(self.lowering.roots[value] in self.lowering.edges.written for value in touched):
            return None
        leaving = leaving_values(self.lowering, several, inside)
        if leaving is None:
            return None
        waits = waits and self.has_room(inside.difference(leaving), cuts[:-1])
        if not worth and not waits:
            return None
        members: list[Member] = []
        for g in several:
            plan = self.plans[g]
            alike = plan.cuts[: len(cuts) - 1] == cuts[:-1] and plan.devices.tobytes() == devices
            reads = {read.operand.value for read in plan.space.reads}
            if not alike and (not reads <= inside or any(v in leaving for v, _ in plan.space.outs)):
                return None
            group = self.groups[g]
            member = generated_member(self.lowering, g) if on_cpu else Member(g, group, plan, None)
            if member is None:
                return None
            members.append(member)
        devices_of_all, due = self.plans[max(full)].devices, Due(worth, waits)
        rows = Rows(members, inside, leaving, cuts[:-1], devices_of_all, due)
        return rows if on_cpu or row_kernel(self.graph, rows) is not None else None

    def has_room(self, between: frozenset[int], cuts: Cuts) -> bool:
        """Whether what is between steps takes little of a device, in all workers together: blocks
        of compiled rows take less."""
        n_rows = prod(max(b - a for a, b in pairwise(borders)) for borders in cuts)
        specs = [self.graph.specs[value] for value in between]
        row_bytes = sum(prod(s.shape[len(cuts) :]) * s.dtype.itemsize for s in specs)
        mesh = self.lowering.plan.mesh
        return n_rows * row_bytes * mesh.n_concurrent <= mesh.devices[0].memory_bytes // STEPS_SHARE


def _is_one_a_row(nodes: list[Node], shape: tuple[int, ...]) -> bool:
    """Whether a group makes one value for each row."""
    lead = shape[:-1]
    made = nodes[-1].call.outs[0].shape
    return made in (lead, (*lead, 1)) and all(node.op.kind == "elementwise" for node in nodes)

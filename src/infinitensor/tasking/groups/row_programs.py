"""Rows that are reduced and used again, on a GPU: groups over rows as one generated kernel.

A program of the kernel has whole rows in registers (`triton_rows.py`): they are read once, and
what is between groups is never stored.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.config import config
from infinitensor.dtypes import kind_of, to_torch
from infinitensor.ir.mesh import Tools
from infinitensor.ir.region import piece_boxes
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported
from infinitensor.tasking.c.group_step import input_of
from infinitensor.tasking.graph.batching import end_batch
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.kernels.choose_kernel import fused_kernel, group_inputs
from infinitensor.tasking.triton.triton_group import generate_or_steps, reduction_of
from infinitensor.tasking.triton.triton_rows import (
    ENDS,
    RowGroup,
    RowReduction,
    RowsKernel,
    RowsRun,
    row_kind,
)
from infinitensor.tasking.triton.triton_source import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.graph import Graph, Node
    from infinitensor.ir.tasks import Column
    from infinitensor.tasking.graph.lowering import Lowering
    from infinitensor.tasking.groups.row_blocks import Rows


class _Assembly:
    """The groups of a family as their kernel sees them; `taken` says which inputs of a task its
    inputs are."""

    def __init__(self, graph: Graph, rows: Rows) -> None:
        self.graph, self.rows, self.n_lead = graph, rows, len(rows.cuts)
        self.inputs: list[Input] = []
        self.taken: list[int] = []
        self.kinds: list[str] = []
        self.parts: list[GroupStep | RowReduction] = []
        self._made: dict[int, int] = {}
        self._read_alike: dict[Any, int] = {}
        self._columns: dict[tuple[int, int], int] = {}
        for member in rows.members:
            for n, i in group_inputs(graph, member.group):
                if graph.nodes[n].operands[i].value not in rows.inside:
                    self._columns[n, i] = len(self._columns)
        for member in rows.members:
            for n in member.group.nodes:
                self._add(n, graph.nodes[n])

    def group(self) -> RowGroup:
        """All of them."""
        kinds = [self._stored_kind(value) for value in self.rows.leaving]
        fused = config.rounding == "fused"
        group = Group((), tuple(self.inputs), len(kinds), fused=fused)
        return RowGroup(group, tuple(self.parts), (*self.kinds, *kinds))

    def _add(self, n: int, node: Node) -> None:
        if node.op.kind not in ("elementwise", "reduction"):
            raise Unsupported(node.op.name)
        is_reduction = node.op.kind == "reduction"
        shape = node.shapes[0] if is_reduction else node.call.outs[0].shape
        is_lead = len(shape) == self.n_lead
        sources = tuple(self._source(n, i, is_lead) for i in range(len(node.operands)))
        (value,) = node.outs
        leaving = self.rows.leaving
        stored = leaving.index(value) if value in leaving else -1
        dtype = node.call.outs[0].dtype
        self._made[value] = len(self.parts)
        if not is_reduction:
            tree, loop = node.op.expression, node.call.loop
            self.parts.append(GroupStep(tree, loop, sources, dtype, stored))
            return
        of, end, ddof = reduction_of(node, sources[0]), "", 0.0
        if node.op.finish is not None:
            end, ddof = node.op.name, dict(node.call.params).get("ddof", 0.0)
            if end not in ENDS or kind_of(of.dtype) != "f" or not isfinite(ddof):
                raise Unsupported(f"{end} of {of.dtype}")
        self.parts.append(RowReduction(of, dtype, stored, end, ddof))

    def _source(self, n: int, i: int, is_lead: bool) -> tuple[str, int]:
        node = self.graph.nodes[n]
        operand, seen = node.operands[i], node.shapes[i]
        if operand.value in self._made:
            return "step", self._made[operand.value]
        alike = (operand, seen, is_lead) if operand.value >= 0 else (n, i)
        if alike in self._read_alike:
            return "in", self._read_alike[alike]
        self._read_alike[alike] = len(self.inputs)
        self.inputs.append(input_of(self.graph, node, i))
        self.taken.append(self._columns[n, i])
        if operand.value >= 0:
            self.kinds.append("lead" if is_lead else row_kind(seen))
        return "in", len(self.inputs) - 1

    def _stored_kind(self, value: int) -> str:
        tail = self.graph.specs[value].shape[self.n_lead :]
        return "lead" if not tail else "narrow" if tail == (1,) else "full"


def row_kernel(graph: Graph, rows: Rows) -> tuple[RowsKernel, list[int]] | None:
    """The kernel of a family, and which inputs of a task it takes; None: it is not generated."""
    try:
        assembly = _Assembly(graph, rows)
        return RowsKernel(assembly.group()), assembly.taken
    except Unsupported:
        return None


def lower_row_program(lowering: Lowering, rows: Rows) -> None:
    """One family for several groups on a GPU."""
    made = row_kernel(lowering.graph, rows)
    assert made is not None, "it was generated when the family was found"
    kernel, taken = made
    end_batch(lowering)
    columns: list[Column] = []
    for member in rows.members:
        bring_fetches(lowering, member.g, member.plan.space.last, rows.inside)
        columns += lowering.columns(member.g, len(rows.devices), rows.inside)
    n_columns = _row_length(lowering.graph, rows)
    boxes = piece_boxes(rows.cuts, tuple(range(len(rows.cuts))), ())
    leads = [tuple(box) for box in (boxes[:, :, 1] - boxes[:, :, 0]).tolist()]
    fast, slow = RowsRun(kernel, taken, leads, n_columns), _by_steps(lowering, rows, leads)
    run, eager = generate_or_steps(lambda: fast, slow, lowering.target)
    pieces = np.arange(len(rows.devices))
    sets = [lowering.new_tiles(value) for value in rows.leaving]
    family = lowering.add_family(
        op=" and ".join(dict.fromkeys(m.plan.space.last.op.name for m in rows.members)),
        site=rows.members[-1].plan.space.last.site,
        devices=rows.devices,
        run=run,
        reads=tuple(columns),
        writes=tuple((tiles.first + pieces).astype(np.int32) for tiles in sets),
        scratch_bytes=0,
        seconds=sum(lowering.seconds(member.plan) for member in rows.members),
        values=tuple(rows.leaving),
        n_groups=len(rows.members),
        eager=eager,
    )
    lowering.edges.of_columns(family)


def _row_length(graph: Graph, rows: Rows) -> int:
    """Elements of a row."""
    nodes = [graph.nodes[n] for member in rows.members for n in member.group.nodes]
    lengths = [node.shapes[0][-1] for node in nodes if node.op.kind == "reduction"]
    return int(lengths[0])


def _by_steps(lowering: Lowering, rows: Rows, leads: Sequence[tuple[int, ...]]) -> Any:
    """Group by group, where Triton fails."""
    graph, n_lead = lowering.graph, len(rows.cuts)
    target = lowering.target._replace(tools=Tools(has_triton=False))
    runs = [fused_kernel(graph, m.group, m.plan, target, False).run for m in rows.members]

    def slow(ins: list[Any], outs: list[Any], i: int) -> None:
        import torch

        made: dict[int, Any] = dict(zip(rows.leaving, outs, strict=True))
        given = iter(ins)
        for member, run in zip(rows.members, runs, strict=True):
            args = []
            for n, k in group_inputs(graph, member.group):
                value, seen = graph.nodes[n].operands[k].value, graph.nodes[n].shapes[k]
                is_inside = value in rows.inside
                args.append(
                    made[value].reshape(*leads[i], *seen[n_lead:]) if is_inside else next(given)
                )
            targets = []
            for value, _ in member.plan.space.outs:
                spec = graph.specs[value]
                shape = (*leads[i], *spec.shape[n_lead:])
                if value not in made:
                    device = outs[0].device
                    made[value] = torch.empty(shape, dtype=to_torch(spec.dtype), device=device)
                targets.append(made[value])
            is_cut_alike = len(member.plan.devices) == len(leads)
            run(args, targets, i if is_cut_alike else 0)

    return slow

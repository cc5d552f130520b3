"""Reductions of rows that a mask selects read them in place: they are not stored first.

In one memory where association changes no bits; and sums of what is in files, in which few rows of
each tile may be selected: to bring them together takes all tiles at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Node
from infinitensor.ir.layout import DISK
from infinitensor.ir.op import AxisForm, Spec
from infinitensor.ir.view import Access
from infinitensor.ops import TABLE
from infinitensor.ops.move.mask import may_fold

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph, Operand

SELECT = "_mask_select"
FOLD = "_mask_fold"
CHOSEN = "_chosen"
SUMS = ("sum", "mean")


def fold_selected(graph: Graph) -> Graph:
    """The graph with each selection of rows, and the one reduction that reads it, as one node.

    Only where association changes no bits, and nobody else wants the rows. Every task reads all of
    the rows, so it is for one memory.
    """
    by_value = {node.outs[0]: node for node in graph.nodes if node.op.name == SELECT}
    if not by_value:
        return graph
    n_reads = Counter(operand.value for node in graph.nodes for operand in node.operands)
    folded: dict[int, Node] = {}
    for node in graph.nodes:
        made = node.operands[0].value if node.operands else -1
        select = by_value.get(made)
        if select is None or n_reads[made] != 1 or made in graph.kept:
            continue
        rows = graph.specs[made].shape
        if len(select.shapes[1]) != 1 or node.operands[0].access is not None:
            continue
        if may_fold(node.op, node.call, rows):
            folded[id(node)] = _as_one(graph, select, node)
            folded[id(select)] = select
    nodes = []
    for node in graph.nodes:
        one = folded.get(id(node))
        if one is not node:
            nodes.append(node if one is None else one)
    return replace(graph, nodes=tuple(nodes))


def _as_one(graph: Graph, select: Node, reduction: Node) -> Node:
    op = TABLE[FOLD]
    specs = [graph.specs[operand.value] for operand in select.operands]
    x, mask = (replace(s, shape=n) for s, n in zip(specs, select.shapes, strict=True))
    out, count = reduction.call.outs[0], graph.specs[select.outs[0]].shape[0]
    call = op.rule(x, mask, reduction.op.name, reduction.call.params, out, count)
    return Node(op, call, select.operands, reduction.outs, reduction.site, select.shapes)


def sum_selected(graph: Graph) -> Graph:
    """The graph with sums and means of selected rows of files as sums of all rows, the others zero.

    Every task reads one tile, and several such sums read it together. A file is summed so in every
    budget: its bits are always the same.
    """
    selects = {node.outs[0]: node for node in graph.nodes if node.op.name == SELECT}
    from_files = _from_files(graph) if selects else set()
    n_reads = Counter(operand.value for node in graph.nodes for operand in node.operands)
    specs = list(graph.specs)
    instead: dict[int, Node] = {}
    for node in graph.nodes:
        made = node.operands[0].value if node.operands else -1
        select = selects.get(made)
        if select is None or n_reads[made] != 1 or made in graph.kept or node.op.name not in SUMS:
            continue
        is_rows = len(select.shapes[1]) == 1 and graph.specs[made].shape[0] > 0
        if not is_rows or node.operands[0].access is not None or 0 not in node.call.form.contracted:
            continue
        if select.operands[0].value in from_files:
            chosen = instead[id(select)] = _select_or_zero(graph, select)
            specs[made] = chosen.call.outs[0]
            form = node.call.form
            call = replace(node.call, form=AxisForm(specs[made].shape, form.inputs, form.outputs))
            instead[id(node)] = replace(node, call=call, shapes=(specs[made].shape,))
    if not instead:
        return graph
    nodes = tuple(instead.get(id(node), node) for node in graph.nodes)
    return replace(graph, nodes=nodes, specs=tuple(specs))


def _from_files(graph: Graph) -> set[int]:
    """Values in files, and values computed from them element by element."""
    found = {leaf.value for leaf in graph.leaves if leaf.file or DISK in leaf.layout.owners}
    for node in graph.nodes:
        if node.op.kind == "elementwise" and any(o.value in found for o in node.operands):
            found.update(node.outs)
    return found


def _select_or_zero(graph: Graph, select: Node) -> Node:
    """All rows of what a mask selects from, those it does not select as zeros."""
    op = TABLE[CHOSEN]
    shape, (n,) = select.shapes
    mask = upright(select.operands[1], len(shape) - 1)
    stands = (n, *(1,) * (len(shape) - 1))
    dtypes = [graph.specs[operand.value].dtype for operand in select.operands]
    call = op.rule(Spec(stands, dtypes[1]), Spec(shape, dtypes[0]))
    operands = (mask, select.operands[0])
    return Node(op, call, operands, select.outs, select.site, (stands, shape))


def upright(mask: Operand, n_more: int) -> Operand:
    """A line with axes of length one behind its own."""
    before = mask.access or Access(((0, 0, 1),), (-1,))
    return replace(mask, access=replace(before, axes=(*before.axes, *(None,) * n_more)))

"""Reductions of rows that a mask selects read them where they lie: they are not stored first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Node
from infinitensor.ops import TABLE
from infinitensor.ops.mask import may_fold

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph

SELECT = "_mask_select"
FOLD = "_mask_fold"


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

"""Common subexpressions: a node equal to an earlier one is dropped; its readers read that one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph, Node, Operand


def merge_equal(graph: Graph) -> tuple[Graph, dict[int, int]]:
    """The graph without repeated nodes, and which value stands for which.

    Random nodes are never merged. Values that are kept or written to stay apart: two tensors must
    not share tiles.
    """
    apart = set(graph.kept)
    apart.update(node.operands[0].value for node in graph.nodes if node.op.kind == "update")
    seen: dict[Any, Node] = {}
    merged: dict[int, int] = {}
    nodes = []
    for node in graph.nodes:
        if merged:
            node = replace(node, operands=tuple(_renamed(o, merged) for o in node.operands))
        if node.op.random or node.op.kind == "update" or not apart.isdisjoint(node.outs):
            nodes.append(node)
            continue
        key = (node.op.name, id(node.call), node.operands)
        first = seen.setdefault(key, node)
        if first is node:
            nodes.append(node)
        else:
            merged.update(zip(node.outs, first.outs, strict=True))
    return replace(graph, nodes=tuple(nodes)), merged


def _renamed(operand: Operand, merged: dict[int, int]) -> Operand:
    value = merged.get(operand.value)
    return operand if value is None else replace(operand, value=value)

"""Ops with several results of which only the last is wanted: those that make it alone.

The reflectors of a matrix are for its Q: `qr(x)[1]`, and singular values, have no use for them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Node
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph


def make_alone(graph: Graph) -> Graph:
    """The graph with such nodes as the ops that they name. One walk over the nodes."""
    if not any(node.op.alone for node in graph.nodes):
        return graph
    wanted = {operand.value for node in graph.nodes for operand in node.operands} | graph.kept
    nodes = (
        _alone(graph, node) if node.op.alone and wanted.isdisjoint(node.outs[:-1]) else node
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


def _alone(graph: Graph, node: Node) -> Node:
    assert node.op.alone is not None
    name, arguments = node.op.alone
    specs = (
        replace(graph.specs[operand.value], shape=shape)
        for operand, shape in zip(node.operands, node.shapes, strict=True)
    )
    op = TABLE[name]
    return Node(
        op, op.rule(*specs, *arguments), node.operands, node.outs[-1:], node.site, node.shapes
    )

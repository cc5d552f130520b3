"""Push transposes down: compute an elementwise result in the layout of its operands, and let the
products that read it transpose it.

`0.1 * a.T @ b` would make a matrix whose rows are columns of a, and read a column by column. A
product reads a transposed matrix as fast as any other: so 0.1 * a is made instead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Operand
from infinitensor.ir.op import AxisForm
from infinitensor.ir.view import Access

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph, Node
    from infinitensor.ir.op import Call

TRANSPOSED = Access(((1, 0, 1), (0, 0, 1)), (-1, -1))
"""The whole of a matrix, its rows as columns."""


def push_transposes_down(graph: Graph) -> Graph:
    """The graph with such results straight, and transposed where products read them.

    Elements are computed from the same ones. Two walks over the nodes, and two more for every time
    that what one leaves out the other depends on.
    """
    if not any(operand.access == TRANSPOSED for node in graph.nodes for operand in node.operands):
        return graph
    found = {node.outs[0] for node in graph.nodes if _may_be_straight(graph, node)}
    n_before = -1
    while found and len(found) != n_before:
        n_before = len(found)
        for node in graph.nodes:
            if node.outs[0] in found and not _is_fed(node, found):
                found.discard(node.outs[0])
        for node in reversed(graph.nodes):
            turns = node.outs[0] in found or node.op.name == "matmul"
            found.difference_update(
                operand.value
                for operand in node.operands
                if not turns or operand.access is not None
            )
    if not found:
        return graph
    specs = list(graph.specs)
    for value in found:
        specs[value] = replace(specs[value], shape=specs[value].shape[::-1])
    nodes = tuple(
        _straight(node) if node.outs[0] in found else _reading(node, found) for node in graph.nodes
    )
    return replace(graph, nodes=nodes, specs=tuple(specs))


def _may_be_straight(graph: Graph, node: Node) -> bool:
    """Whether all that a node reads is as large as what it makes, and transposed, or might be."""
    shape = node.call.outs[0].shape
    if node.op.kind != "elementwise" or len(shape) != 2 or node.outs[0] in graph.kept:
        return False
    for operand, seen in zip(node.operands, node.shapes, strict=False):
        if operand.value < 0:
            continue
        stored = shape if operand.access is None else shape[::-1]
        if seen != shape or graph.specs[operand.value].shape != stored:
            return False
        if operand.access not in (None, TRANSPOSED):
            return False
    return any(operand.value >= 0 for operand in node.operands)


def _is_fed(node: Node, found: set[int]) -> bool:
    """Whether what a node reads straight is transposed itself."""
    return all(
        (operand.access is None) == (operand.value in found)
        for operand in node.operands
        if operand.value >= 0
    )


def _straight(node: Node) -> Node:
    """A node over the matrices themselves."""
    operands = tuple(replace(operand, access=None) for operand in node.operands)
    shapes = tuple(shape[::-1] for shape in node.shapes)
    return replace(node, call=_call(node.call), operands=operands, shapes=shapes)


@lru_cache(1024)
def _call(call: Call) -> Call:
    """The same for calls alike: equal plans are found by their calls."""
    form = call.form
    (out,) = call.outs
    transposed = AxisForm(form.sizes[::-1], form.inputs, form.outputs, form.uncut, form.halo)
    return replace(call, form=transposed, outs=(replace(out, shape=out.shape[::-1]),))


def _reading(node: Node, found: set[int]) -> Node:
    """A product that turns what it reads."""
    if not any(operand.value in found for operand in node.operands):
        return node
    operands = tuple(
        Operand(operand.value, TRANSPOSED) if operand.value in found else operand
        for operand in node.operands
    )
    return replace(node, operands=operands)

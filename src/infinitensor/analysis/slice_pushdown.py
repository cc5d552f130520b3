"""Slice push-down: how much of each value anybody reads.

A value that is kept is needed whole. Any other is needed in the hull of what its readers read;
elementwise nodes and creations pass their own need on, other ops need their operands whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.ir.region import whole_box

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph, Node
    from infinitensor.ir.region import Box


def find_needed(graph: Graph, roots: tuple[int, ...]) -> dict[int, Box]:
    """Values that are needed only in part, with the box that is."""
    whole = set(graph.kept)
    for node in graph.nodes:
        if node.op.kind == "update":  # a version stands for its whole chain
            whole.add(node.outs[0])
            whole.add(roots[node.outs[0]])
    boxes: dict[int, Box] = {}
    for node in reversed(graph.nodes):
        out = boxes.get(node.outs[0]) if node.outs[0] not in whole else None
        for i, operand in enumerate(node.operands):
            if operand.value < 0 or operand.value in whole:
                continue
            box = _read_box(graph, node, i, out)
            if box is None:
                whole.add(operand.value)
                boxes.pop(operand.value, None)
            else:
                before = boxes.get(operand.value)
                boxes[operand.value] = box if before is None else _hull(before, box)
    return {
        value: box for value, box in boxes.items() if box != whole_box(graph.specs[value].shape)
    }


def _read_box(graph: Graph, node: Node, i: int, out: Box | None) -> Box | None:
    """The base box a node reads of an operand; None: all of it."""
    operand = node.operands[i]
    shape = node.shapes[i]
    seen = whole_box(shape)
    if out is not None and node.op.kind == "elementwise":
        labels = node.call.form.inputs[i]
        seen = tuple((0, n) if k is None else out[k] for k, n in zip(labels, shape, strict=True))
    elif operand.access is None:
        return None
    if operand.access is None:
        return seen
    if any(hi <= lo for lo, hi in seen):
        return tuple((0, 0) for _ in operand.access.fixed)
    return operand.access.base_box(seen)


def _hull(a: Box, b: Box) -> Box:
    return tuple((min(p, r), max(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))

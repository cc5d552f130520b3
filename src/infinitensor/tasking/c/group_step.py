"""The nodes of a group, as kernels of every kind run them one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.tasking.c.expressions import Input, real_of

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph, Node


def input_of(graph: Graph, node: Node, i: int, row: bool = False) -> Input:
    """An operand of a node, as generated code sees it; `row`: an inner loop has one value of it."""
    operand = node.operands[i]
    if operand.value < 0:
        return Input(node.call.loop[i] if node.call.loop else node.call.outs[0].dtype, True, False)
    dtype = graph.specs[operand.value].dtype
    is_part = operand.access is not None and operand.access.part
    return Input(real_of(dtype) if is_part else dtype, False, row)


class Step:
    """One node of a group: where its operands come from and where its result goes."""

    __slots__ = ("dtype", "located", "node", "out", "register", "run", "sources")

    def __init__(self, run: Any, sources: list[tuple[str, int]], node: Node) -> None:
        self.run = run
        self.sources = sources
        self.node = node
        self.dtype = node.call.outs[0].dtype
        self.out = -1
        self.register = -1
        self.located = False

"""The calls of a program by the numbers of their values: what its graph and its key are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.api.evaluate.windows import Hulls, shift_access
from infinitensor.api.session.call_cache import cached_rule
from infinitensor.api.session.version import Version
from infinitensor.ir.graph import Node as GraphNode
from infinitensor.ir.graph import Operand
from infinitensor.ir.op import Spec
from infinitensor.ir.region import box_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.api.session.version import Node
    from infinitensor.ir.region import Box


class NumberedCalls:
    """Waiting nodes in the order of their values' numbers, with a spec for each value.

    What is touched of each leaf is collected on the way. Where a part of a leaf then stands for it
    (`look_through`), specs, accesses and calls are those of the part.
    """

    def __init__(self, nodes: Sequence[Node], numbers: dict[int, int]) -> None:
        self.nodes = nodes
        self.specs: list[Spec] = []
        """By number."""
        self.outs: list[tuple[int, ...]] = []
        """Of each node: the numbers of its results."""
        self.hulls = Hulls()
        self.calls = [node.call for node in nodes]
        self.parts = [self._number(node, numbers) for node in nodes]
        """Of each node: its op, operands as (number, access) or -1, and the region it writes."""

    def _number(self, node: Node, numbers: dict[int, int]) -> tuple[Any, ...]:
        operands: list[Any] = []
        for given, access in zip(node.inputs, node.accesses, strict=True):
            if isinstance(given, Version):
                number = numbers[id(given)]
                if number == len(self.specs):
                    self.specs.append(Spec(given.shape, given.dtype))
                    self.hulls.leaf(number)
                operands.append((number, access))
            else:
                operands.append(-1)
        first = len(self.specs)
        self.specs += node.call.outs
        outs = tuple(range(first, len(self.specs)))
        self.outs.append(outs)
        self.hulls.node(node, tuple(operands), outs)
        return (id(node.op), tuple(operands), node.region)

    def key(self) -> tuple[Any, ...]:
        """A key that equal calls share."""
        return (tuple(map(id, self.calls)), tuple(self.parts))

    def look_through(self, windows: dict[int, Box]) -> None:
        """Let parts of leaves stand for them, and for their next versions."""
        roots = self.hulls.roots
        for number, spec in enumerate(self.specs):
            box = windows.get(roots.get(number, number))
            if box is not None:
                self.specs[number] = Spec(box_shape(box), spec.dtype)
        for k, part in enumerate(self.parts):
            self.parts[k] = self._seen_through(k, part, windows)

    def _seen_through(self, k: int, part: tuple[Any, ...], windows: dict[int, Box]) -> Any:
        op, operands, region = part
        roots = self.hulls.roots
        boxes = [None if o == -1 else windows.get(roots.get(o[0], o[0])) for o in operands]
        if not any(boxes):
            return part
        operands = tuple(
            operand
            if box is None or operand[1] is None
            else (operand[0], shift_access(operand[1], box))
            for operand, box in zip(operands, boxes, strict=True)
        )
        if region is not None and boxes[0] is not None:
            base, value = self.specs[operands[0][0]], self.nodes[k].shapes[1]
            self.calls[k] = cached_rule(self.nodes[k].op, (base, Spec(value, base.dtype)))
            region = shift_access(region, boxes[0])
        return (op, operands, region)

    def graph_nodes(self) -> tuple[GraphNode, ...]:
        """The nodes of the frozen graph."""
        found = []
        scalar = 0
        for node, call, part, outs in zip(
            self.nodes, self.calls, self.parts, self.outs, strict=True
        ):
            _, given, region = part
            operands = []
            for operand in given:
                if operand == -1:
                    operands.append(Operand(scalar=scalar))
                    scalar += 1
                else:
                    operands.append(Operand(*operand))
            shapes = node.shapes
            if region is not None:
                shapes = (call.outs[0].shape, *shapes[1:])
            found.append(GraphNode(node.op, call, tuple(operands), outs, node.site, shapes, region))
        return tuple(found)

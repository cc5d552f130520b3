"""What a call costs for each element: how finely it is cut, and whether it is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.ops.table.words import WORDS

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node
    from infinitensor.ir.op import Op

COMPLEX_WORK, FUNCTION_WORK = 4, 8
"""The cost of a step as sums of as many reals: one of complex numbers, or an exponential or the
like (twice that of complex numbers)."""


def work_of(node: Node) -> int:
    """The cost of a node for each element, as sums of two reals."""
    op, loop = node.op, node.call.loop
    if op.kind != "elementwise":
        return 1
    is_complex = any(dtype.kind == "c" for dtype in loop)
    if not (calls_blocks(op, "f") or (is_complex and calls_blocks(op, "c"))):
        return COMPLEX_WORK if is_complex else 1
    return FUNCTION_WORK * 2 if is_complex else FUNCTION_WORK


def calls_blocks(op: Op, kind: str) -> bool:
    """Whether generated C calls functions over blocks for this kind of dtype."""
    return any(WORDS[word].calls_block(kind) for word in op.expression.words())

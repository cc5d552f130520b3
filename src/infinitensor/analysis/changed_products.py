"""Programs whose products the passes of this folder may change, seen before any of them runs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.analysis.matvec_as_sum import COMPILED_MATRIX_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.graph import Node


def changes_products(nodes: Sequence[Node]) -> bool:
    """Whether a plan may make products of what is computed another way than they were recorded.

    It computes that in the layout of its operands (`transpose_pushdown.py`), and products of
    vectors with such matrices, if they are large, as sums (`matvec_as_sum.py`): a library, called
    otherwise or not at all, rounds otherwise. Both may turn out not to be done.
    """
    mapped = [node for node in nodes if node.op.kind == "elementwise"]
    made = {value for node in mapped for value in node.outs}
    goes_across = any(
        x.access is not None and x.access.is_across for n in mapped for x in n.operands
    )
    for node in nodes:
        if node.op.kind != "contraction":
            continue
        computed = [
            shape for x, shape in zip(node.operands, node.shapes, strict=True) if x.value in made
        ]
        of_vector = any(len(shape) == 1 for shape in node.shapes)
        is_large = max(map(prod, computed), default=0) >= COMPILED_MATRIX_ELEMENTS
        if (goes_across and computed) or (of_vector and is_large):
            return True
    return False

"""Products of a vector and a matrix that is only made for them: sums of what they multiply.

`(1.5 * a) @ x` stores 1.5 * a for the library to read. As a sum of its products with x it is one
generated loop, which reads a once and stores nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.analysis.masked_reductions import upright
from infinitensor.config import config
from infinitensor.ir.graph import Node, Operand
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    import numpy as np

    from infinitensor.ir.graph import Graph
    from infinitensor.ir.op import Call

COMPILED_MATRIX_ELEMENTS = 1 << 23
"""Elements of a matrix from which such a loop is always compiled; the library multiplies others."""


def sum_products(graph: Graph, compiles: bool) -> Graph:
    """The graph with each product of a large real matrix and a vector as a multiplication and a
    sum, where the matrix is made element by element and nobody else wants it.

    The graph as it is where nothing is compiled.
    """
    if config.compile == "never" or not compiles:
        return graph
    products = [node for node in graph.nodes if node.op.name == "matmul" and _is_large(node)]
    if not products:
        return graph
    n_reads = Counter(operand.value for node in graph.nodes for operand in node.operands)
    passing = {
        node.outs[0]
        for node in graph.nodes
        if node.op.kind == "elementwise"
        and n_reads[node.outs[0]] == 1
        and node.outs[0] not in graph.kept
    }
    specs = list(graph.specs)
    instead: dict[int, tuple[Node, Node]] = {}
    for node in products:
        at = 0 if len(node.shapes[0]) == 2 else 1
        matrix, vector = node.operands[at], node.operands[1 - at]
        dtype = node.call.outs[0].dtype
        is_alike = all(specs[operand.value].dtype == dtype for operand in node.operands)
        if matrix.value not in passing or matrix.access is not None or not is_alike:
            continue
        shape, along = node.shapes[at], node.shapes[1 - at]
        if at == 1:
            vector, along = upright(vector, 1), (*along, 1)
        multiplied, summed = _calls(shape, along, dtype, 1 - at)
        made = len(specs)
        specs.append(multiplied.outs[0])
        instead[id(node)] = (
            Node(
                TABLE["multiply"],
                multiplied,
                (matrix, vector),
                (made,),
                node.site,
                (shape, along),
            ),
            Node(TABLE["sum"], summed, (Operand(made),), node.outs, node.site, (shape,)),
        )
    nodes = tuple(new for node in graph.nodes for new in instead.get(id(node), (node,)))
    return replace(graph, nodes=nodes, specs=tuple(specs))


def _is_large(node: Node) -> bool:
    shapes = node.shapes
    return (
        sorted(map(len, shapes)) == [1, 2]
        and max(map(prod, shapes)) >= COMPILED_MATRIX_ELEMENTS
        and node.call.outs[0].dtype.kind == "f"
        and node.call.outs[0].dtype.itemsize > 2
    )


@lru_cache(256)
def _calls(
    shape: tuple[int, ...], along: tuple[int, ...], dtype: np.dtype[Any], axis: int
) -> tuple[Call, Call]:
    """The same for products alike: equal plans are found by their calls."""
    whole = Spec(shape, dtype)
    return TABLE["multiply"].rule(whole, Spec(along, dtype)), TABLE["sum"].rule(whole, axis=axis)

"""Copies of what nobody else has: `x[:] = f(x)` shows the result itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph


def drop_copies(graph: Graph) -> Graph:
    """The graph without whole copies of values that are made in it, and that only the copy reads.

    What makes such a value, or writes the last version of it, makes the copy instead.
    """
    n_readers = Counter(o.value for node in graph.nodes for o in node.operands)
    made = {value for node in graph.nodes for value in node.outs}
    named: dict[int, int] = {}
    dropped = set()
    for i, node in enumerate(graph.nodes):
        if node.op.name != "_copy":
            continue
        (source,), target = node.operands, node.outs[0]
        value = source.value
        is_only = source.access is None and value in made and n_readers[value] == 1
        if is_only and value not in graph.kept and graph.specs[value] == graph.specs[target]:
            named[value] = target
            dropped.add(i)
    if not dropped:
        return graph

    def last(value: int) -> int:
        while value in named:  # copies of copies
            value = named[value]
        return value

    nodes = tuple(
        replace(node, outs=tuple(map(last, node.outs)))
        for i, node in enumerate(graph.nodes)
        if i not in dropped
    )
    return replace(graph, nodes=nodes)

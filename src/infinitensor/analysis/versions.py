"""Versions: whose tiles hold each version of a written tensor, and which writes must copy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Graph, Node, Operand
from infinitensor.ops.registry import TABLE

if TYPE_CHECKING:
    from infinitensor.ir.op import Spec


def place_versions(graph: Graph) -> tuple[Graph, tuple[int, ...], int]:
    """Every update in place, after a copy where the version before must live on.

    Recorded order is a legal order in which each reader of a version comes before the write that
    replaces it, so in place is right unless the old version is kept, belongs to somebody else, or
    is read by the write itself: by index a tile may be written that another task has yet to read.
    Returns the graph, the root of each value, and how many writes shared their tiles.
    """
    lasting = set(graph.kept)
    lasting.update(leaf.value for leaf in graph.leaves if not leaf.donated)
    specs = list(graph.specs)
    roots = list(range(len(specs)))
    nodes: list[Node] = []
    shared = 0
    for node in graph.nodes:
        if node.op.kind != "update":
            nodes.append(node)
            continue
        base = node.operands[0].value
        reads_itself = node.region is None and any(o.value == base for o in node.operands[1:])
        if base in lasting or reads_itself:
            nodes.append(copy_node(base, len(specs), specs[base], node.site))
            base = len(specs)
            specs.append(specs[node.operands[0].value])
            roots.append(base)
            node = replace(node, operands=(Operand(base), *node.operands[1:]))
        else:
            shared += 1
        roots[node.outs[0]] = roots[base]
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), specs=tuple(specs)), tuple(roots), shared


def copy_node(source: int, target: int, spec: Spec, site: object) -> Node:
    """A node that makes `target` a copy of `source`."""
    op = TABLE["_copy"]
    return Node(op, op.rule(spec), (Operand(source),), (target,), site, (spec.shape,))

"""Versions: whose tiles hold each version of a written tensor, and which writes must copy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Graph, Node, Operand
from infinitensor.ir.layout import DISK
from infinitensor.ops.table.registry import TABLE

if TYPE_CHECKING:
    from infinitensor.ir.op import Spec


def place_versions(graph: Graph, renews: bool) -> tuple[Graph, tuple[int, ...], int]:
    """Every update in place, after a copy where the version before must live on.

    With `renews`, a write of computed values to most of a tensor makes new tiles instead: they are
    computed where they belong, from tiles that stay as they are (`x[1:-1] = x[:-2] + x[2:]`).

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
    computed = find_computed(graph) if renews else frozenset()
    # a write that renews reads tiles where they are: it finds no memory of those on a disk
    staying = {leaf.value for leaf in graph.leaves if leaf.partly or min(leaf.layout.owners) < 0}
    for node in graph.nodes:
        if node.op.kind != "update":
            nodes.append(node)
            continue
        base = node.operands[0].value
        if roots[base] not in staying and can_renew(node, graph, computed):
            nodes.append(replace(node, renews=True))
            continue
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


def find_computed(graph: Graph) -> frozenset[int]:
    """Values that elementwise nodes make from what is in memory, and one operand reads."""
    n_readers = Counter(o.value for node in graph.nodes for o in node.operands)
    streamed = {leaf.value for leaf in graph.leaves if DISK in leaf.layout.owners}
    found = set()
    for node in graph.nodes:
        if node.op.kind == "elementwise":
            made = node.outs[0]
            if any(operand.value in streamed for operand in node.operands):
                streamed.add(made)
            elif n_readers[made] == 1 and made not in graph.kept:
                found.add(made)
    return frozenset(found)


def can_renew(node: Node, graph: Graph, computed: frozenset[int]) -> bool:
    """Whether a write is of computed values of the same dtype to a box of half a tensor or more."""
    region = node.region
    if region is None or region.part or node.operands[1].value not in computed:
        return False
    base, value = (graph.specs[operand.value] for operand in node.operands[:2])
    return (
        node.operands[1].access is None
        and value.dtype == base.dtype
        and value.shape == node.shapes[1]
        and all(
            walked is not None and walked[0] == axis and walked[2] == 1
            for axis, walked in enumerate(region.axes)
        )
        and len(region.axes) == base.ndim
        and 2 * value.n_elements >= base.n_elements > 0
    )


def copy_node(source: int, target: int, spec: Spec, site: object) -> Node:
    """A node that makes `target` a copy of `source`."""
    op = TABLE["_copy"]
    return Node(op, op.rule(spec), (Operand(source),), (target,), site, (spec.shape,))

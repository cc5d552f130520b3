"""Groups: nodes that share one iteration space and can run tile by tile without storing between."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Graph, Group

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node

LONGEST = 32
"""Nodes in a group at most: bounds the scratch of a task."""


def find_groups(graph: Graph, roots: tuple[int, ...]) -> tuple[Group, ...]:
    """Groups in the order of their last nodes, which is a legal order to run them in.

    An elementwise node or a creation joins the group of the elementwise node or reduction that
    reads its result whole, if every other reader is in that group too or comes later, and if no
    write in between changes what it reads.
    """
    producer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    writes: dict[int, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outs:
            producer[value] = i
        for operand in node.operands:
            if operand.value >= 0:
                readers.setdefault(operand.value, []).append(i)
        if node.op.kind == "update":
            writes.setdefault(roots[node.outs[0]], []).append(i)
    group_of: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        group_of[i] = i
        members[i] = [i]
        if not _can_end(node):
            continue
        changed = True
        while changed:
            changed = False
            for m in list(members[i]):
                for operand in graph.nodes[m].operands:
                    p = producer.get(operand.value, -1)
                    if p < 0 or group_of[p] == i or operand.access is not None:
                        continue
                    if _joins(graph, i, p, members, group_of, readers, roots, writes):
                        old = group_of[p]
                        for q in members.pop(old):
                            group_of[q] = i
                            members[i].append(q)
                        changed = True
    return tuple(Group(tuple(sorted(members[i]))) for i in sorted(members))


def _can_end(node: Node) -> bool:
    if node.op.kind == "elementwise":
        return True
    labels = node.call.form.inputs
    return node.op.kind == "reduction" and len(labels) == 1 and None not in labels[0]


def _joins(
    graph: Graph,
    i: int,
    p: int,
    members: dict[int, list[int]],
    group_of: dict[int, int],
    readers: dict[int, list[int]],
    roots: tuple[int, ...],
    writes: dict[int, list[int]],
) -> bool:
    other = members[group_of[p]]
    last = graph.nodes[i]
    space = (
        graph.specs[last.operands[0].value].shape
        if last.op.kind == "reduction"
        else last.call.outs[0].shape
    )
    if len(other) + len(members[i]) > LONGEST or group_of[p] != max(other):
        return False
    for q in other:
        node = graph.nodes[q]
        if node.op.kind not in ("elementwise", "creation") or node.call.outs[0].shape != space:
            return False
        if roots[node.outs[0]] in writes:
            return False
        for reader in readers.get(node.outs[0], ()):
            inside = group_of.get(reader) in (i, group_of[p])
            if reader <= i and not inside:
                return False
            # inside a group a value is the tile at hand: a view of it needs the whole value
            if inside and any(
                o.value == node.outs[0] and o.access is not None
                for o in graph.nodes[reader].operands
            ):
                return False
        for operand in node.operands:
            if operand.value >= 0:
                between = writes.get(roots[operand.value])
                if between is not None:
                    k = bisect_right(between, q)
                    if k < len(between) and between[k] <= i:
                        return False
    return True

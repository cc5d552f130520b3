"""Dependence: which groups must wait for which, by region and version."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from infinitensor.ir.graph import Dependence, Graph, Group
from infinitensor.ir.region import whole_box
from infinitensor.ir.tracker import Tracker

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node, Operand
    from infinitensor.ir.tracker import Region
    from infinitensor.ir.view import Access


def find_dependence(
    graph: Graph, groups: tuple[Group, ...], roots: tuple[int, ...], shared: int
) -> Dependence:
    """Edges between groups: read-after-write per region, and what in-place writes must wait for."""
    written = {roots[node.outs[0]] for node in graph.nodes if node.in_place}
    levels: list[int] = []
    made_by: dict[int, int] = {}
    trackers: dict[int, Tracker] = {}
    n_edges = n_joins = 0

    def new_join(nodes: list[int]) -> int:
        nonlocal n_edges, n_joins
        n_edges += len(nodes)
        n_joins += 1
        levels.append(max(levels[n] for n in nodes))
        is_join.append(True)
        return len(levels) - 1

    is_join: list[bool] = []
    for group in groups:
        waits: set[int] = set()
        me = len(levels)
        levels.append(0)
        is_join.append(False)
        for n in group.nodes:
            node = graph.nodes[n]
            skip = 1 if node.in_place else 0
            for operand in node.operands[skip:]:
                if operand.value < 0:
                    continue
                root = roots[operand.value]
                if root in written:
                    region = region_of(operand, graph.specs[root].shape, node)
                    if region is not None:
                        tracker = _tracker(trackers, root, graph, new_join, made_by)
                        waits.update(tracker.read(me, region))
                elif root in made_by:
                    waits.add(made_by[root])
            for value in node.outs:
                if roots[value] in written and skip:
                    root = roots[value]
                    region = written_region(node, graph.specs[root].shape)
                    if region is not None:
                        tracker = _tracker(trackers, root, graph, new_join, made_by)
                        waits.update(tracker.write(me, region))
                else:
                    made_by[value] = me
        waits.discard(me)
        n_edges += len(waits)
        levels[me] = 1 + max((levels[w] for w in waits), default=0)
    real = [level for level, join in zip(levels, is_join, strict=True) if not join]
    widest = Counter(real)
    return Dependence(
        len(groups), n_edges, n_joins, max(real, default=0), max(widest.values(), default=0), shared
    )


def _tracker(
    trackers: dict[int, Tracker],
    root: int,
    graph: Graph,
    new_join: object,
    made_by: dict[int, int],
) -> Tracker:
    tracker = trackers.get(root)
    if tracker is None:
        shape = graph.specs[root].shape
        tracker = trackers[root] = Tracker(shape, new_join)
        if root in made_by:
            tracker.write(made_by[root], tuple((0, n, 1) for n in shape))
    return tracker


def region_of(operand: Operand, shape: tuple[int, ...], node: Node) -> Region | None:
    """The region of its root that an operand reads (the hull where values choose); None:
    nothing."""
    return _seen_region(operand.access, shape, node, node.operands.index(operand))


def written_region(node: Node, shape: tuple[int, ...]) -> Region | None:
    """The region of its root that an update writes; all of it where values decide."""
    return _seen_region(node.region, shape, node, 1)


def _seen_region(
    access: Access | None, shape: tuple[int, ...], node: Node, i: int
) -> Region | None:
    if 0 in shape:
        return None
    if access is None:
        return tuple((0, n, 1) for n in shape)
    return None if 0 in node.shapes[i] else access.base_region(whole_box(node.shapes[i]))

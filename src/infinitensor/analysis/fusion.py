"""Groups: nodes that share one iteration space and can run tile by tile without storing between."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infinitensor.ir.graph import Graph, Group
from infinitensor.ir.repeats import find_repeats

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node

MOST_GROUP_NODES = 128
"""Nodes in a group at most, of a loop those of one turn: bounds the text of its kernel."""
MOST_TURNS_NODES = 2048
"""The same with all turns: bounds its scalars, and its steps where it runs step by step."""
JOINING = ("elementwise", "creation")


def find_groups(graph: Graph, roots: tuple[int, ...]) -> tuple[Group, ...]:
    """Groups in the order of their last nodes, which is a legal order to run them in.

    An elementwise node or a creation joins the group of the elementwise node, reduction or renewing
    write that reads its result whole, if every other reader is in that group too or comes later,
    and if no write in between changes what it reads. Takes time linear in nodes and reads.
    """
    return _Fusion(graph, roots).groups()


@dataclass(slots=True)
class _Growing:
    """A group so far. Its members were checked as they joined; here is what may still change."""

    members: list[int]
    open: list[int]
    """Members with readers outside of the group."""
    makers: list[int]
    """Nodes outside that make what members read whole: they may join."""
    n_written: int = 1
    """Members that are no later turn of a loop."""
    looked_into: list[int] = field(default_factory=list)
    """Nodes outside of whose results members read a view: they may not."""
    exposed: list[tuple[int, int]] = field(default_factory=list)
    """(member, root) of what members read and somebody writes to."""


class _Fusion:
    def __init__(self, graph: Graph, roots: tuple[int, ...]) -> None:
        self.graph = graph
        self.roots = roots
        self.producer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.writes: dict[int, list[int]] = {}
        self.end = list(range(len(graph.nodes)))
        """A node of the same group, nearer to its last."""
        self.growing: dict[int, _Growing] = {}
        self.repeated = repeated_nodes(graph) if len(graph.nodes) > MOST_GROUP_NODES else set()
        for i, node in enumerate(graph.nodes):
            for value in node.outs:
                self.producer[value] = i
            for operand in node.operands:
                if operand.value >= 0:
                    self.readers.setdefault(operand.value, []).append(i)
            if node.in_place:
                self.writes.setdefault(roots[node.outs[0]], []).append(i)

    def groups(self) -> tuple[Group, ...]:
        for i, node in enumerate(self.graph.nodes):
            self.growing[i] = self.alone(i, node)
            if _can_end(node):
                self.grow(i)
        return tuple(Group(tuple(sorted(self.growing[i].members))) for i in sorted(self.growing))

    def alone(self, i: int, node: Node) -> _Growing:
        group = _Growing([i], [i], [], int(i not in self.repeated))
        for at, operand in enumerate(node.operands):
            if operand.value < 0:
                continue
            if self.roots[operand.value] in self.writes:
                group.exposed.append((i, self.roots[operand.value]))
            maker = self.producer.get(operand.value)
            if maker is not None:
                whole = operand.access is None and not (node.renews and at == 0)
                (group.makers if whole else group.looked_into).append(maker)
        return group

    def last_of(self, n: int) -> int:
        """The last node of the group a node is in."""
        end = self.end
        while end[n] != n:
            end[n] = end[end[n]]
            n = end[n]
        return n

    def grow(self, i: int) -> None:
        """Let join what can, until nothing more does."""
        group = self.growing[i]
        refused: list[int] = []
        while group.makers:
            maker = self.last_of(group.makers.pop())
            if maker == i:
                continue
            if not self.joins(i, maker):
                refused.append(maker)
                continue
            other = self.growing.pop(maker)
            self.end[maker] = i
            group.members += other.members
            group.n_written += other.n_written
            group.looked_into += other.looked_into
            group.exposed += other.exposed
            group.open = [q for q in group.open + other.open if not self.is_closed(q, i)]
            group.makers += other.makers + refused  # more is inside now: ask again
            refused = []
        group.makers = refused

    def is_closed(self, q: int, i: int) -> bool:
        """Whether all readers of a member are in the group of i."""
        readers = self.readers.get(self.graph.nodes[q].outs[0], ())
        return all(r <= i and self.last_of(r) == i for r in readers)

    def joins(self, i: int, maker: int) -> bool:
        """Whether the group that ends with `maker` may join the one of i."""
        group, other = self.growing[i], self.growing[maker]
        last, node = self.graph.nodes[i], self.graph.nodes[maker]
        if node.op.kind not in JOINING or not self.has_room(group, other, last):
            return False
        if last.renews and not self.is_hidden(maker, i):
            return False
        space = last.call.outs[0].shape
        if last.op.kind == "reduction":
            space = self.graph.specs[last.operands[0].value].shape
        elif last.renews:
            space = last.shapes[1]
        if node.call.outs[0].shape != space or self.roots[node.outs[0]] in self.writes:
            return False
        for q in other.open:
            for reader in self.readers.get(self.graph.nodes[q].outs[0], ()):
                if reader > i:
                    break
                if self.last_of(reader) not in (i, maker):
                    return False
        # inside a group a value is the current tile: a view of it needs the whole value
        if any(self.last_of(n) == maker for n in group.looked_into):
            return False
        if any(self.last_of(n) == i for n in other.looked_into):
            return False
        return not any(self.is_written_between(root, q, i) for q, root in other.exposed)

    def has_room(self, group: _Growing, other: _Growing, last: Node) -> bool:
        """Whether both are not too many nodes for one kernel."""
        n_nodes = len(group.members) + len(other.members)
        if n_nodes <= MOST_GROUP_NODES:
            return True
        if last.op.kind != "elementwise" or n_nodes > MOST_TURNS_NODES:
            return False
        return group.n_written + other.n_written <= MOST_GROUP_NODES

    def is_hidden(self, maker: int, i: int) -> bool:
        """Whether only the group of i would see what the group of `maker` makes."""
        other = self.growing[maker]
        return all(self.graph.nodes[q].op.kind == "elementwise" for q in other.members) and all(
            self.graph.nodes[q].outs[0] not in self.graph.kept
            and all(
                self.last_of(r) in (i, maker)
                for r in self.readers.get(self.graph.nodes[q].outs[0], ())
            )
            for q in other.members
        )

    def is_written_between(self, root: int, q: int, i: int) -> bool:
        """Whether something writes to a root after q and no later than i."""
        between = self.writes[root]
        k = bisect_right(between, q)
        return k < len(between) and between[k] <= i


def repeated_nodes(graph: Graph) -> set[int]:
    """Elementwise nodes that do what others did a turn before, in loops that generated code may
    have: all but those of one turn."""
    made = {value: i for i, node in enumerate(graph.nodes) for value in node.outs}
    kinds: list[Any] = []
    reads: list[list[int]] = []
    seen = {made[value] for value in graph.kept if value in made}
    for i, node in enumerate(graph.nodes):
        read = [(made.get(x.value, -1), x) for x in node.operands]
        within = [maker for maker, x in read if maker >= 0 and x.access is None]
        if node.op.kind != "elementwise":
            seen.update(within)
            kinds.append(i)
            reads.append([])
            continue
        others = tuple(
            (graph.specs[x.value] if maker >= 0 else x.value, x.access) for maker, x in read
        )
        kinds.append((node.op.name, node.call.loop, node.call.outs[0], node.shapes, others))
        reads.append(within)
    return {
        k
        for repeat in find_repeats(kinds, reads, seen)
        for k in range(repeat.first + repeat.length, repeat.end)
    }


def _can_end(node: Node) -> bool:
    if node.op.kind == "elementwise" or node.renews:
        return True
    labels = node.call.form.inputs
    return node.op.kind == "reduction" and len(labels) == 1 and None not in labels[0]

"""The iteration space of a group: its labels, what it reads and what it makes, in those labels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph, Group, Node, Operand
    from infinitensor.ir.op import Labels


@dataclass(frozen=True, slots=True)
class Read:
    """One external operand: its axes' labels, its shape as seen, its halo."""

    operand: Operand
    labels: Labels
    shape: tuple[int, ...]
    halo: tuple[tuple[int, int], ...] = ()
    place: int = -1
    """Which operand of its node it is; -1 in elementwise groups, where equal reads are one."""


@dataclass(frozen=True, slots=True)
class Space:
    """Labels of a group. `outs` are (value, labels) of what leaves it."""

    sizes: tuple[int, ...]
    uncut: frozenset[int]
    contracted: tuple[int, ...]
    reads: tuple[Read, ...]
    outs: tuple[tuple[int, Labels], ...]
    last: Node


def space_of(graph: Graph, group: Group, leaving: frozenset[int]) -> Space:
    """The space of a group; `leaving` holds the values that are kept or read outside of it."""
    last = graph.nodes[group.nodes[-1]]
    form = last.call.form
    inside = {value for n in group.nodes for value in graph.nodes[n].outs}
    reads: dict[Read, None] = {}
    outs = []
    for n in group.nodes:
        node = graph.nodes[n]
        own = node.call.form
        # an elementwise node's axis a is the axis a of what the last node reads or makes
        rename = None if node is last or last.op.kind == "elementwise" else form.inputs[0]
        for i, operand in enumerate(node.operands):
            if operand.value < 0 or operand.value in inside:
                continue
            labels = own.inputs[i]
            if rename is not None:
                labels = tuple(None if label is None else rename[label] for label in labels)
            halo = own.halo[i] if own.halo else ()
            place = -1 if node.op.kind in ("elementwise", "creation") else i
            reads[Read(operand, labels, node.shapes[i], halo, place)] = None
        for value, labels in zip(node.outs, own.outputs, strict=True):
            if value in leaving or node is last:
                if rename is not None:
                    labels = tuple(None if label is None else rename[label] for label in labels)
                outs.append((value, labels))
    return Space(form.sizes, _uncut(last), form.contracted, tuple(reads), tuple(outs), last)


def space_like(known: Space, node: Node) -> Space:
    """The space of a group of one node that differs from a known one only in its values."""
    before = known.last.operands
    reads = tuple(
        Read(node.operands[before.index(r.operand)], r.labels, r.shape, r.halo, r.place)
        for r in known.reads
    )
    labels = (labels for _, labels in known.outs)
    outs = tuple(zip(node.outs, labels, strict=True))
    return Space(known.sizes, known.uncut, known.contracted, reads, outs, node)


def _uncut(node: Node) -> frozenset[int]:
    """Labels that stay whole: declared, contracted without a combine, or not in every output."""
    form = node.call.form
    if node.op.whole:
        return frozenset(range(len(form.sizes)))
    uncut = set(form.uncut)
    contracted = set(form.contracted)
    if node.op.combine is None and node.op.kind != "contraction":
        uncut |= contracted
    for labels in form.outputs:
        uncut |= {label for label in range(len(form.sizes)) if label not in labels} - contracted
    return frozenset(uncut)


def points(space: Space) -> int:
    """Points of the space."""
    return prod(space.sizes)

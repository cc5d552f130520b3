"""Graph: what an evaluation has to compute, in the order it was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.op import Call, Op, Spec
    from infinitensor.ir.region import Box
    from infinitensor.ir.view import Access


@dataclass(frozen=True, slots=True)
class Operand:
    """An input of a node: a value (through an access), or the scalar bound to a slot."""

    value: int = -1
    access: Access | None = None
    scalar: int = -1


@dataclass(frozen=True, slots=True)
class Node:
    """One op applied. `outs` are value numbers.

    An update (`op.kind == "update"`) changes operand 0: its output is the next version of that
    value, on the same tiles unless it renews them. `region` is the part it writes, where the op is
    a plain write.
    """

    op: Op
    call: Call
    operands: tuple[Operand, ...]
    outs: tuple[int, ...]
    site: Any
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shape of each operand as this node sees it."""
    region: Access | None = None
    renews: bool = False
    """Of an update: its output has tiles of its own, and the version before stays as it is."""

    @property
    def in_place(self) -> bool:
        """Whether it changes the tiles of its first operand."""
        return self.op.kind == "update" and not self.renews


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that exists: its layout, and whether this evaluation may use up its tiles."""

    value: int
    layout: Layout
    donated: bool
    partly: bool = False
    """Whether it stands for the window of a larger tensor: then it stays where it is."""
    whole: bool = True
    """Whether its tiles are parts of one piece of memory."""
    file: bool = False
    """Whether it is a file, though some or all of it may be in memory."""

    @property
    def is_streamed(self) -> bool:
        """Whether it comes from a lower tier in tiles: these are read, and may stay. A file
        does wherever its tiles are by now, so that it is cut alike in every budget."""
        return self.layout.n_tiles > 1 and (self.file or min(self.layout.owners) < 0)

    @property
    def in_piece(self) -> bool:
        """Whether several tiles share one piece of memory."""
        return self.whole and self.layout.n_tiles > 1


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in recorded order (a topological one), with what exists and what must be kept."""

    specs: tuple[Spec, ...]
    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...]
    kept: frozenset[int]


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that share one iteration space and run as one task a tile, in order.

    Only the last may be other than elementwise (a reduction of what the others make, or a write of
    it that renews).
    """

    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dependence:
    """The result of the dependence analysis, over groups."""

    n_nodes: int
    n_edges: int
    n_joins: int
    critical_path: int
    widest_level: int
    versions_shared: int
    """Writes that go into the tiles of the version before, without copying it."""


@dataclass(frozen=True, slots=True)
class Analysed:
    """A graph after analysis."""

    graph: Graph
    groups: tuple[Group, ...]
    roots: tuple[int, ...]
    """For each value, the value whose tiles hold it: itself, or the first version of its chain."""
    dependence: Dependence
    merged: dict[int, int] = field(default_factory=dict)
    """Values that are equal to earlier ones."""
    needed: dict[int, Box] = field(default_factory=dict)
    """Values of which only a part is read, with the box that is."""

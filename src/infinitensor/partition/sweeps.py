"""Groups that one pass over the rows of a table can do: they are cut alike, along rows alone.

A step of k-means is products of rows with a few centers, a search in every row, and sums over all
rows. Each alone reads and writes tables as long as the first; together they read it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from infinitensor.config import config
from infinitensor.ir.plan import GroupPlan
from infinitensor.ir.region import cut_evenly
from infinitensor.partition.tile_shape import LEAF_ELEMENTS, tile_shape

if TYPE_CHECKING:
    from infinitensor.ir.graph import Analysed, Node, Operand
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.region import Cuts
    from infinitensor.ir.space import Space
    from infinitensor.partition.operand_cuts import Reads

FEW_COLUMNS = 64
"""Fewer columns than this are few: many rows of the table are in cache together."""
FEW_PRODUCTS, LONGEST_SIDE = 256, 32
"""Products that a row takes at most where it is multiplied, and elements of a side: for more the
library is faster."""
MANY_ROWS = 4 * FEW_COLUMNS
"""Rows are many from here on."""
COMPILED_SWEEP_POINTS = 1 << 23
"""Points of all groups from which a sweep is worth compiling."""
MOST_GROUPS = 32
"""Groups of a sweep at most: blocks of all values between them share a core's cache."""
SUMS = ("sum", "mean")
"""Reductions over all rows that are added up row by row."""


class Role(NamedTuple):
    """The role of a group over the rows of a table: how many there are, the label that walks over
    them, its columns, whether it ends them, and how much it computes in all."""

    n: int
    rows: int
    columns: int
    ends: bool
    points: int
    is_product: bool = False


@dataclass(slots=True)
class Sweep:
    """Groups over the same rows, in order, and how they are cut once that is known."""

    n: int
    roles: dict[int, Role] = field(default_factory=dict)
    values: list[int] = field(default_factory=list)
    borders: tuple[int, ...] = ()
    devices: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int16))
    leaf_elements: int = 0
    first: int = -1
    """The first of its groups, once they are cut."""

    @property
    def columns(self) -> int:
        """The columns of its widest table."""
        return max(role.columns for role in self.roles.values())

    @property
    def sums(self) -> list[int]:
        """Columns of tables that are added up over all rows."""
        return [r.columns for r in self.roles.values() if r.ends and not r.is_product]

    def leaf(self, columns: int) -> int:
        """Rows that are summed one after another where sums of all rows round."""
        return tile_shape((self.n, columns), self.leaf_elements)[0]

    @property
    def is_worth(self) -> bool:
        """Whether it takes several groups, a few of which nothing else would do together."""
        points = sum(role.points for role in self.roles.values())
        is_large = config.compile == "always" or points >= COMPILED_SWEEP_POINTS
        is_special = any(role.ends or role.is_product for role in self.roles.values())
        return is_large and len(self.roles) > 1 and is_special


def find_sweeps(analysed: Analysed, mesh: Mesh) -> dict[int, Sweep]:
    """The sweep of each group that is in one. Linear in nodes and reads; none where nothing is
    compiled, and on GPUs."""
    if mesh.kind != "cpu" or config.compile == "never" or not mesh.target.compiles:
        return {}
    return _Finder(analysed).find()


class _Finder:
    """A sweep begins with any group over rows; whoever reads of it row by row joins, until somebody
    reads of it otherwise."""

    def __init__(self, analysed: Analysed) -> None:
        self.graph = analysed.graph
        self.roots = analysed.roots
        self.needed = analysed.needed
        self.nodes = [[self.graph.nodes[n] for n in group.nodes] for group in analysed.groups]
        self.written = {self.roots[n.outs[0]] for n in self.graph.nodes if n.in_place}
        self.sweep_of: dict[int, Sweep] = {}
        """By value, also by what a sweep ends with."""
        self.ends: set[int] = set()
        self.closed: set[int] = set()
        """Sweeps, by id."""

    def find(self) -> dict[int, Sweep]:
        for g in range(len(self.nodes)):
            self.join(g)
        every = {id(sweep): sweep for sweep in self.sweep_of.values()}.values()
        return {g: sweep for sweep in every if sweep.is_worth for g in sweep.roles}

    def join(self, g: int) -> None:
        """Give a group to the sweeps of what it reads; they become one."""
        nodes = self.nodes[g]
        role = self.role(nodes)
        read = {
            id(s): s for node in nodes for o in node.operands if (s := self.sweep_of.get(o.value))
        }
        joined = [
            s
            for key, s in read.items()
            if role and key not in self.closed and self.may_join(nodes, role, s)
        ]
        if sum(len(s.roles) for s in joined) >= MOST_GROUPS:
            joined = []
        mine = {id(s) for s in joined}
        self.closed |= {key for key in read if key not in mine}
        if role is None or (role.ends and not joined):
            return
        joined.sort(key=lambda s: -len(s.values))
        sweep = joined[0] if joined else Sweep(role.n)
        for other in joined[1:]:
            sweep.roles |= other.roles
            self.add_values(sweep, other.values)
        sweep.roles[g] = role
        if role.ends:
            self.ends.update(nodes[-1].outs)
        self.add_values(sweep, [value for node in nodes for value in node.outs])

    def add_values(self, sweep: Sweep, values: list[int]) -> None:
        sweep.values += values
        self.sweep_of.update(dict.fromkeys(values, sweep))

    def may_join(self, nodes: list[Node], role: Role, sweep: Sweep) -> bool:
        """Whether all that a group reads of a sweep are the current rows."""
        if sweep.n != role.n:
            return False
        for node in nodes:
            for i, (operand, seen) in enumerate(zip(node.operands, node.shapes, strict=False)):
                if self.sweep_of.get(operand.value) is not sweep:
                    continue
                shape = self.graph.specs[operand.value].shape
                is_transposed = (
                    role.ends and node.op.kind == "contraction" and (i, len(seen)) == (0, 2)
                )
                if operand.value in self.ends or not is_by_row(operand, shape, seen, is_transposed):
                    return False
                if not is_transposed and seen[:1] != (role.n,):
                    return False
                if len(seen) == 1 and len(node.call.outs[0].shape) != 1:
                    return False  # it is along columns
        return True

    def role(self, nodes: list[Node]) -> Role | None:
        """The role of a group over rows; None if it does anything else."""
        last, form = nodes[-1], nodes[-1].call.form
        values = {o.value for node in nodes for o in node.operands} | {
            v for n in nodes for v in n.outs
        }
        if any(v >= 0 and (self.roots[v] in self.written or v in self.needed) for v in values):
            return None
        if last.renews or last.op.whole or len(last.outs) != 1:
            return None
        if last.op.name == "matmul":
            return self.role_of_product(last)
        if any(node.op.kind != "elementwise" for node in nodes[:-1]):
            return None
        if last.op.kind == "elementwise":
            shape = last.call.outs[0].shape
            if not 1 <= len(shape) <= 2 or not _is_table(shape) or form.outputs[0][0] is None:
                return None
            return Role(shape[0], form.outputs[0][0], prod(shape[1:]), False, prod(shape))
        if last.op.kind != "reduction" or form.inputs != ((0, 1),) or last.operands[0].value < 0:
            return None
        shape = last.shapes[0]
        if not _is_table(shape) or shape[1] < 2:
            return None
        if form.contracted == (1,):
            return Role(shape[0], 0, shape[1], False, prod(shape))
        if form.contracted != (0,) or last.op.name not in SUMS or len(nodes) > 1:
            return None
        is_added = len(last.call.parts) == 1 and last.call.parts[0].name in ("float32", "float64")
        return Role(shape[0], 0, shape[1], True, prod(shape)) if is_added else None

    def role_of_product(self, node: Node) -> Role | None:
        """Rows times a few columns, or few columns summed over all rows with few others."""
        first, second = node.shapes
        if any(o.value < 0 for o in node.operands) or {len(first), len(second)} not in (
            {2},
            {1, 2},
        ):
            return None
        kinds = [self.graph.specs[o.value].dtype.kind for o in node.operands]
        if any(kind not in "biuf" for kind in kinds):
            return None
        if node.call.outs[0].dtype.name not in ("float32", "float64"):
            return None
        depth, others, columns = first[-1], prod(first[:-1]), prod(second[1:])
        ends = not (len(first) == 2 and _is_table(first))
        n, width = (depth, others) if ends else (others, depth)
        rows = node.call.form.inputs[0][-1 if ends else 0]
        if rows is None or not _is_table((n, width)) or not _are_few(width, columns):
            return None
        return Role(n, rows, max(width, columns), ends, n * width * columns, is_product=True)


def _is_table(shape: tuple[int, ...]) -> bool:
    """Whether there are many rows of few columns."""
    return shape[0] >= MANY_ROWS and 0 < prod(shape[1:]) < FEW_COLUMNS


def _are_few(n: int, m: int) -> bool:
    """Whether a row takes few products."""
    return 1 < n * m <= FEW_PRODUCTS and max(n, m) <= LONGEST_SIDE


def is_by_row(
    operand: Operand, shape: tuple[int, ...], seen: tuple[int, ...], is_transposed: bool
) -> bool:
    """Whether an operand is a value as it is, but for axes of size one; or that transposed."""
    access = operand.access
    if access is None:
        return not is_transposed
    if is_transposed:
        return not access.part and len(shape) == 2 and access.axes == ((1, 0, 1), (0, 0, 1))
    return access.is_all(shape, seen)


def begin_sweep(sweep: Sweep, rows: int, reads: Reads, mesh: Mesh, bound: int, most: int) -> bool:
    """Cut the rows of a sweep by the layout of the first it reads, up to `most` of its pieces at a
    time where tasks read across them. False where a row would be cut, or a sum in other places than
    it rounds in."""
    columns = sweep.columns
    if bound < columns:
        return False
    borders = None
    two = (read for read in reads.by_size if len(read.shape) == 2)
    lead = next((read for read in two if rows in read.labels), None)
    if lead is not None:
        across = [label for label in lead.labels if label not in (rows, None)]
        if any(reads.borders(lead, label) is not None for label in across):
            return False
        borders = reads.borders(lead, rows)
    if borders is None:
        borders = cut_evenly(sweep.n, tile_shape((sweep.n, columns), bound)[0])
    times = 1
    while mesh.is_one_memory and times < most and len(borders) > 16 * mesh.workers * times:
        times *= 2
    borders = (*borders[:-1:times], borders[-1])
    sweep.leaf_elements = min(bound, LEAF_ELEMENTS["cpu"])
    leaves = [sweep.leaf(columns) for columns in sweep.sums]
    if any(leaf == 1 or border % leaf for leaf in leaves for border in borders[:-1]):
        return False
    sweep.borders, sweep.first = borders, min(sweep.roles)
    return True


def swept_cuts(sweep: Sweep, g: int, space: Space) -> Cuts:
    """A group is cut along rows alone."""
    rows = sweep.roles[g].rows
    return tuple(
        sweep.borders if label == rows else (0, size) for label, size in enumerate(space.sizes)
    )


def swept_plan(sweep: Sweep, g: int, space: Space) -> GroupPlan:
    """A group cut as its sweep is."""
    role = sweep.roles[g]
    leaves: tuple[tuple[int, int], ...] = ()
    op = space.last.op
    if op.kind == "reduction" and op.combine is not None and not op.combine.exact:
        leaves = ((0, sweep.leaf(role.columns)),) if role.ends else ((1, role.columns),)
    cuts = swept_cuts(sweep, g, space)
    return GroupPlan(space, cuts, sweep.devices, leaves, sweep=sweep.first)

"""The state while a plan is lowered: its tiles, its families, and where each value's tiles begin.

The files that lower a kind of group (`combine`, `chain`, `rows`, ...) take it, read the plan
through it, and add tiles and families to it; edges follow from the order in which they do.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.region import piece_boxes
from infinitensor.ir.tasks import Column, Family, TaskGraph, TileSet
from infinitensor.price import kernel_seconds
from infinitensor.tasking.graph.edges import Edges
from infinitensor.tasking.kernels.choose_kernel import group_inputs, kind_of_group

if TYPE_CHECKING:
    from infinitensor.ir.graph import Group, Operand
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.plan import GroupPlan, Moves, Plan, Route
    from infinitensor.ir.space import Read
    from infinitensor.tasking.graph.batch import Batch, Pattern


class Lowering:
    """A plan on its way to a `TaskGraph`: the tiles of its leaves are there, the rest is added."""

    def __init__(self, plan: Plan, moves: Moves) -> None:
        self.plan = plan
        self.moves = moves
        self.graph = plan.analysed.graph
        self.roots = plan.analysed.roots
        self.target = plan.mesh.target
        self.kind = self.target.kind
        self.families: list[Family] = []
        self.tiles: list[TileSet] = []
        self.n_tasks = 0
        self.n_tiles = 0
        self.first_of: dict[int, int] = {}
        self.fetched: dict[int, int] = {}
        self.patterns: dict[Any, Pattern] = {}
        self.renewals: dict[Any, Any] = {}
        self.batch: Batch | None = None
        self.boxes_by_layout: dict[Layout, np.ndarray] = {}
        self.windows = {leaf.value for leaf in self.graph.leaves if leaf.partly}
        self.n_reads = Counter(o.value for node in self.graph.nodes for o in node.operands)
        self.in_one_piece = values_in_one_piece(plan, moves)
        written = {self.roots[n.outs[0]] for n in self.graph.nodes if n.in_place}
        self.edges = Edges(self.add_family, written)
        self.alike: Counter[Any] = Counter()
        for group in plan.analysed.groups:
            if len(group.nodes) > 1:
                sizes = self.graph.nodes[group.nodes[-1]].call.form.sizes
                self.alike[kind_of_group(self.graph, group)] += prod(sizes)

        for number, leaf in enumerate(self.graph.leaves):
            self.new_tiles(leaf.value, leaf.layout, number)

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """The groups that read each value, in order."""
        found: dict[int, list[int]] = {}
        for g, group in enumerate(self.plan.analysed.groups):
            for value in {o.value for n in group.nodes for o in self.graph.nodes[n].operands}:
                found.setdefault(value, []).append(g)
        return found

    def task_graph(self) -> TaskGraph:
        """All families, their tiles and edges, and where the values are that are kept."""
        held = {}
        for value in sorted(self.graph.kept):
            root = self.roots[value]
            held[value] = (self.first_of[root], self.plan.layouts[root])
        sources, targets = self.edges.columns()
        return TaskGraph(
            tuple(self.families),
            tuple(self.tiles),
            sources,
            targets,
            self.n_tasks,
            self.n_tiles,
            held,
        )

    def n_alike(self, group: Group) -> int:
        """Elements of all groups of this graph that do the same: a loop compiles it once."""
        return self.alike[kind_of_group(self.graph, group)]

    def new_tiles(self, value: int, layout: Layout | None = None, leaf: int = -1) -> TileSet:
        """The tiles of a value by its layout; `leaf`: its number if it is a leaf."""
        layout = layout or self.plan.layouts[value]
        dtype = self.graph.specs[value].dtype
        boxes = self.boxes_by_layout.get(layout)
        if boxes is None:
            boxes = self.boxes_by_layout[layout] = boxes_array(layout.cuts)
        tiles = self.add_tiles(boxes, layout.owner_array, dtype, value, leaf)
        self.first_of[value] = tiles.first
        return tiles

    def add_tiles(
        self,
        boxes: np.ndarray,
        devices: np.ndarray,
        dtype: np.dtype[Any],
        value: int,
        leaf: int = -1,
    ) -> TileSet:
        """Tiles in these boxes, on these devices; value -1: they are of no value, only between."""
        whole = len(devices) > 1 and value in self.in_one_piece
        tiles = TileSet(self.n_tiles, dtype, boxes, devices, value, leaf, whole)
        self.n_tiles += tiles.n
        self.tiles.append(tiles)
        self.edges.new_tiles(tiles)
        return tiles

    def add_family(self, **columns: Any) -> Family:
        """Tasks with the next numbers; who calls says what they wait for (`edges`)."""
        family = Family(first=self.n_tasks, **columns)
        self.n_tasks += family.n
        self.families.append(family)
        return family

    def add_group(self, plan: GroupPlan, **columns: Any) -> Family:
        """A family for a group, which waits for what its columns read; it is named, placed and
        priced by the group's plan where nothing else is said."""
        node = plan.space.last
        by_plan = {"op": node.op.name, "site": node.site, "devices": plan.devices}
        family = self.add_family(**by_plan | {"seconds": self.seconds(plan)} | columns)
        self.edges.of_columns(family)
        return family

    def routes(self, g: int) -> dict[Read, Route]:
        """How each read of a group reaches its tasks."""
        return dict(zip(self.plan.groups[g].space.reads, self.moves.routes[g], strict=True))

    def columns(
        self, g: int, n_tasks: int | None = None, inside: frozenset[int] = frozenset()
    ) -> list[Column]:
        """A column for each external operand of each node of a group, in the order kernels take
        them; none for values `inside` a family of several groups, which may have `n_tasks`."""
        plan, routes = self.plan.groups[g], self.routes(g)
        by_key = {(read.operand, read.labels, read.shape, read.place): read for read in routes}
        last = plan.space.last
        columns = []
        n = len(plan.devices) if n_tasks is None else n_tasks
        for node_number, i in group_inputs(self.graph, self.plan.analysed.groups[g]):
            node = self.graph.nodes[node_number]
            operand = node.operands[i]
            if operand.value in inside:
                continue
            if operand.value < 0:
                columns.append(Column(np.full(n, operand.scalar, np.int32), scalar=True))
                continue
            labels = node.call.form.inputs[i]
            if node is not last and last.op.kind != "elementwise":
                rename = last.call.form.inputs[0]
                labels = tuple(None if label is None else rename[label] for label in labels)
            place = -1 if node.op.kind in ("elementwise", "creation") else i
            read = by_key[operand, labels, node.shapes[i], place]
            columns.append(self.column(read.operand, routes[read]))
        return columns

    def column(self, operand: Any, route: Route) -> Column:
        """The route of each task's read of an operand."""
        root = self.roots[operand.value]
        base = self.first_of[root]
        tiles = np.where(route.tiles >= 0, route.tiles + base, -1).astype(np.int32)
        if (route.fetches >= 0).any():
            numbers = np.asarray([self.fetched.get(int(f), -1) for f in route.fetches], np.int32)
            tiles = np.where(route.fetches >= 0, numbers, tiles)
        span = None
        if route.span is not None:
            borders, every = route.span
            span = (borders, (every + base).astype(np.int32))
        return Column(tiles, route.boxes, operand.access, span=span)

    def first_tile(self, operand: Operand) -> int:
        """The first tile of the value that an operand reads."""
        return self.first_of[self.roots[operand.value]]

    def seen_box(self, column: Column, i: int) -> Any:
        """The box that task i sees of an operand; None if it reads nothing of it."""
        if column.scalar:
            return ()
        if column.tiles[i] < 0:
            return None
        if column.boxes is None:
            return self.box_of(int(column.tiles[i]))
        return tuple(map(tuple, column.boxes[i].tolist()))

    def operand_dtype(self, operand: Operand) -> np.dtype[Any]:
        """The dtype of an operand; scalars count as the widest."""
        if operand.value < 0:
            return np.dtype(np.float64)
        return self.graph.specs[operand.value].dtype

    def seconds(self, plan: GroupPlan) -> float:
        """The estimated seconds of a group's largest task."""
        lengths = plan.longest()
        return kernel_seconds(plan.space.last.op.cost, prod(lengths), self.plan.mesh)

    def set_with(self, tile: int) -> TileSet:
        """The tile set a tile belongs to."""
        return self.edges.set_with(tile)

    def box_of(self, tile: int) -> Any:
        """The box of a tile."""
        return self.set_with(tile).box(tile)

    def boxes_of_tiles(self, tiles: np.ndarray) -> np.ndarray:
        """The boxes of tiles, as an array (tile, axis, lo/hi)."""
        first = self._set_of_all(tiles)
        if first is None:
            return np.asarray([self.box_of(int(t)) for t in tiles], np.int64)
        boxes: np.ndarray = first.boxes[tiles - first.first]
        return boxes

    def device_of(self, tiles: np.ndarray) -> np.ndarray:
        """The device of each tile."""
        first = self._set_of_all(tiles) if len(tiles) else None
        if first is None:
            sets = [self.set_with(t) for t in tiles.tolist()]
            found = [s.devices[t - s.first] for s, t in zip(sets, tiles.tolist(), strict=True)]
            return np.asarray(found, np.int16)
        devices: np.ndarray = first.devices[tiles - first.first]
        return devices

    def _set_of_all(self, tiles: np.ndarray) -> TileSet | None:
        """The tile set that all of some tiles belong to; None: they are of several."""
        first = self.set_with(int(tiles[0]))
        is_one = tiles.min() >= first.first and tiles.max() < first.first + first.n
        return first if is_one else None


def values_in_one_piece(plan: Plan, moves: Moves) -> frozenset[int]:
    """Values whose tiles are parts of one piece: where there is one memory, all that is stored and
    all that is read across tiles."""
    if not plan.mesh.is_one_memory:
        return frozenset()
    graph, roots = plan.analysed.graph, plan.analysed.roots
    found = {roots[value] for value in graph.kept}
    found.update(leaf.value for leaf in graph.leaves)
    found -= {leaf.value for leaf in graph.leaves if not leaf.whole}
    for group, routes in zip(plan.groups, moves.routes, strict=True):
        for read, route in zip(group.space.reads if routes else (), routes, strict=True):
            if route.span is not None:
                found.add(roots[read.operand.value])
    return frozenset(found)


def boxes_array(cuts: Any) -> np.ndarray:
    """Every tile's box as an array (tile, axis, lo/hi)."""
    return piece_boxes(cuts, tuple(range(len(cuts))), ())

"""The tasking stage: every group becomes families of tasks over tiles."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.ir.op import At, Spec
from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import grid_shape, overlap, piece_boxes, relative
from infinitensor.ir.tasks import COMPUTE, LOAD, PEER, Column, Family, TaskGraph, TileSet
from infinitensor.ops.kernels import (
    combine_scratch,
    lower,
    lower_finish,
    lower_partial,
    merge_tree,
    namespace,
    task_scratch,
)
from infinitensor.price import kernel_seconds
from infinitensor.tasking.batch import Batch, Pattern, reads_of
from infinitensor.tasking.chain import lower_chain
from infinitensor.tasking.copies import copies_in_c, write_in_c
from infinitensor.tasking.edges import Edges
from infinitensor.tasking.kernels import (
    Fused,
    fused_kernel,
    group_inputs,
    kind_of_group,
    may_reuse,
    product_called,
    reduce_kernel,
    single_called,
    tile_scratch,
)
from infinitensor.tasking.passes import find_passes, lower_pass
from infinitensor.tasking.rows import find_rows, lower_rows
from infinitensor.tasking.streamed import lower_streamed
from infinitensor.tasking.together import lower_together, reductions_together
from infinitensor.tasking.triton_group import may_generate
from infinitensor.tasking.window import lower_renewed
from infinitensor.tasking.write import put
from infinitensor.tasking.written import lower_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.calls import InC
    from infinitensor.ir.graph import Group, Node, Operand
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.op import Labels
    from infinitensor.ir.plan import GroupPlan, Moves, Plan, Route

PLACES = 64
"""Tasks of a family whose places are remembered."""
RADIX = 8
"""Partial results one combine task merges (a power of two keeps the tree by index)."""


def lower_plan(plan: Plan, moves: Moves) -> TaskGraph:
    """Families in the order of groups; edges by tile, and by region on tiles written to."""
    return _Lowering(plan, moves).result()


class _Lowering:
    def __init__(self, plan: Plan, moves: Moves) -> None:
        self.plan = plan
        self.moves = moves
        self.graph = plan.analysed.graph
        self.roots = plan.analysed.roots
        self.kind = "cuda" if plan.mesh.kind == "cuda" else "cpu"
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
        self.edges = Edges(self, written)
        self.alike: Counter[Any] = Counter()
        for group in plan.analysed.groups:
            if len(group.nodes) > 1:
                sizes = self.graph.nodes[group.nodes[-1]].call.form.sizes
                self.alike[kind_of_group(self.graph, group)] += prod(sizes)

    def result(self) -> TaskGraph:
        for number, leaf in enumerate(self.graph.leaves):
            self.new_tiles(leaf.value, leaf.layout, self.graph.specs[leaf.value].dtype, number)
        self.lower_groups()
        self.end_batch()
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

    # tiles

    def new_tiles(
        self, value: int, layout: Layout, dtype: np.dtype[Any], leaf: int = -1
    ) -> TileSet:
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
        whole = len(devices) > 1 and value in self.in_one_piece
        tiles = TileSet(self.n_tiles, dtype, boxes, devices, value, leaf, whole)
        self.n_tiles += tiles.n
        self.tiles.append(tiles)
        self.edges.new_tiles(tiles)
        return tiles

    def add_family(self, **columns: Any) -> Family:
        family = Family(first=self.n_tasks, **columns)
        self.n_tasks += family.n
        self.families.append(family)
        return family

    # groups

    def lower_groups(self) -> None:
        """Each group in order; several as one where they can be."""
        done: set[int] = set()
        together = reductions_together(self) if self.kind == "cuda" else {}
        rows = find_rows(self)
        in_rows = {member.g for found in rows.values() for member in found.members}
        passes = find_passes(self, in_rows) if self.kind == "cpu" else {}
        for g, (group, plan) in enumerate(
            zip(self.plan.analysed.groups, self.plan.groups, strict=True)
        ):
            if g in done:
                continue
            if g in in_rows:
                if g in rows:
                    lower_rows(self, rows[g])
            elif g in passes:
                lower_pass(self, passes[g])
                done.update(passes[g])
            elif g in together and lower_together(self, together[g]):
                done.update(together[g])
            elif self.kind == "cuda" and lower_written(self, g):
                done.add(g + 1)
            else:
                self.lower_group(g, group, plan)

    def lower_group(self, g: int, group: Group, plan: GroupPlan) -> None:
        node = plan.space.last
        pattern = None if plan.kin is None else self.patterns.get(plan.kin)
        if pattern is not None:
            self.repeat(pattern, plan)
            return
        self.end_batch()
        if node.renews:
            lower_renewed(self, group, plan)
            return
        reads = plan.space.reads
        routes = dict(zip(reads, self.moves.routes[g], strict=True))
        self.bring_fetches(routes.values(), node)
        if plan.tiles is not None:
            self.lower_update(g, node, plan, routes)
        else:
            contracted = [label for label in plan.space.contracted if len(plan.cuts[label]) > 2]
            if plan.chained in contracted:
                chain = lower_streamed if node.op.pairs else lower_chain
                chain(self, group, plan, routes)
            elif contracted:
                self.lower_contracted(group, plan, routes)
            else:
                self.lower_mapped(group, plan, routes)

    def columns(
        self,
        group: Group,
        plan: GroupPlan,
        routes: dict[Any, Route],
        inside: frozenset[int] = frozenset(),
    ) -> list[Column]:
        """A column for each external operand of each node, in the order kernels take them; none for
        values `inside` a family of several groups."""
        by_key = {(read.operand, read.labels, read.shape, read.place): read for read in routes}
        last = plan.space.last
        columns = []
        n = len(plan.devices)
        for node_number, i in group_inputs(self.graph, group):
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

    def bring_fetches(self, routes: Any, node: Node) -> None:
        """A fetch family for the regions this group is the first to want."""
        fresh: dict[int, None] = {}
        for route in routes:
            if route.fetches.size and route.fetches.max() >= 0:
                for number in np.unique(route.fetches):
                    if number >= 0 and int(number) not in self.fetched:
                        fresh[int(number)] = None
        alike: dict[tuple[int, Any, str], list[int]] = {}
        for number in fresh:
            fetch = self.moves.fetches[number]
            root = self.roots[fetch.value]
            owners = self.device_of(np.asarray(fetch.tiles, np.int32) + self.first_of[root])
            # what comes from elsewhere is counted, and runs beside kernels; what comes from below
            # can be read again: each is apart from the rest
            comes = "here"
            if (owners != fetch.device).any():
                comes = "below" if (owners < 0).any() else "beside"
            key = (len(fetch.box), self.graph.specs[root].dtype, comes)
            alike.setdefault(key, []).append(number)
        for (ndim, dtype, _), numbers in alike.items():
            fetches = [self.moves.fetches[number] for number in numbers]
            boxes = np.asarray([f.box for f in fetches], np.int64).reshape(len(fetches), ndim, 2)
            devices = np.asarray([f.device for f in fetches], np.int16)
            target = self.add_tiles(boxes, devices, dtype, -1)
            borders = np.cumsum([0, *(len(f.tiles) for f in fetches)]).astype(np.int64)
            sources = np.concatenate(
                [
                    np.asarray(f.tiles, np.int32) + self.first_of[self.roots[f.value]]
                    for f in fetches
                ]
            )
            self.gather_family(target, borders, sources, node)
            for k, number in enumerate(numbers):
                self.fetched[number] = target.first + k

    def gather_family(
        self, target: TileSet, borders: np.ndarray, sources: np.ndarray, node: Node
    ) -> None:
        """Tasks that bring regions together from tiles."""
        box_of = self.box_of
        targets = target.boxes
        parts = [
            [box_of(int(t)) for t in sources[borders[i] : borders[i + 1]]] for i in range(target.n)
        ]

        def run(ins: list[Any], outs: list[Any], i: int) -> None:
            box = tuple(map(tuple, targets[i].tolist()))
            out = outs[0]
            for tile, where in zip(ins, parts[i], strict=True):
                common = overlap(where, box)
                if common is None:
                    continue
                piece = tile[relative(common, where)]
                spot = out[relative(common, box)] if common else out
                copy_into(spot, piece)

        owners = self.device_of(sources)
        crosses = bool((owners != np.repeat(target.devices, np.diff(borders))).any())
        lane = COMPUTE if not crosses else (LOAD if (owners < 0).any() else PEER)
        family = self.add_family(
            op="move",
            site=node.site,
            lane=lane,
            devices=target.devices,
            run=run,
            reads=(),
            writes=(np.arange(target.first, target.first + target.n, dtype=np.int32),),
            many=(borders, sources),
        )
        self.edges.of_many(family, targets)

    def lower_mapped(self, group: Group, plan: GroupPlan, routes: dict[Any, Route]) -> None:
        """One task a piece, straight into the output tiles."""
        node = plan.space.last
        columns = self.columns(group, plan, routes)
        sets = [
            self.new_tiles(value, self.plan.layouts[value], self.graph.specs[value].dtype)
            for value, _ in plan.space.outs
        ]
        order = [piece_to_tile(plan, labels) for _, labels in plan.space.outs]
        writes = tuple(
            (tiles.first + index).astype(np.int32) for tiles, index in zip(sets, order, strict=True)
        )
        if len(group.nodes) > 1 or may_generate(node, self.kind):
            fused = fused_kernel(self.graph, group, plan, self.kind, False, self.n_alike(group))
        elif node.op.kind == "reduction":
            fused = Fused(self.reduction_run(node, plan, columns, sets, order, parts_out=False))
        else:
            fused = Fused(self.single_run(node, columns, sets, order))
            if self.kind == "cpu":
                fused = fused._replace(called=single_called(self.graph, group, plan))
        family = self.add_family(
            op=node.op.name,
            site=node.site,
            lane=COMPUTE,
            devices=plan.devices,
            run=fused.run,
            in_c=fused.called
            or self.product_in_c(node)
            or copies_in_c(self, node, columns, sets[0], order[0]),
            reads=tuple(columns),
            writes=writes,
            scratch_bytes=self.scratch(group, plan, columns, fused),
            in_place=len(sets) == 1 and may_reuse(self.graph, group, self.kind),
            eager=fused.eager,
            seconds=self.seconds(plan),
            values=tuple(value for value, _ in plan.space.outs),
        )
        self.edges.of_columns(family)
        simple = all(route.span is None and (route.fetches < 0).all() for route in routes.values())
        if plan.kin is not None and node.op.kind == "elementwise" and len(sets) == 1 and simple:
            tiles = sets[0]
            bases = tuple(0 if o.value < 0 else self.first_tile(o) for o in node.operands)
            self.patterns[plan.kin] = Pattern(
                family, tiles.boxes, tiles.devices, tiles.dtype, order[0], bases
            )

    def product_in_c(self, node: Node) -> InC | None:
        """The tasks of a product as calls that C makes."""
        return product_called(self.graph, node) if self.kind == "cpu" else None

    def first_tile(self, operand: Operand) -> int:
        return self.first_of[self.roots[operand.value]]

    def repeat(self, pattern: Pattern, plan: GroupPlan) -> None:
        """As a group of equal kin before: it joins those that came just before it, if it can."""
        node = plan.space.last
        value = node.outs[0]
        alone = value in self.edges.written or (
            value in self.in_one_piece and len(pattern.owners) > 1
        )
        batch = self.batch
        if (
            batch is None
            or alone
            or not batch.takes(pattern, node.site, reads_of(node.operands, self.roots))
        ):
            self.end_batch()
            batch = self.batch = Batch(pattern, node.site, self.n_tiles)
        bases = [o.scalar if o.value < 0 else self.first_tile(o) for o in node.operands]
        self.first_of[value] = batch.add(value, bases)
        if alone:
            self.end_batch()

    def end_batch(self) -> None:
        """The groups that were collected become one family."""
        batch, self.batch = self.batch, None
        if batch is None:
            return
        pattern, k = batch.pattern, len(batch.values)
        boxes = pattern.boxes if k == 1 else np.tile(pattern.boxes, (k, 1, 1))
        owners = pattern.owners if k == 1 else np.tile(pattern.owners, k)
        self.add_tiles(boxes, owners, pattern.dtype, batch.values[0] if k == 1 else -1)
        self.edges.of_columns(self.add_family(**batch.columns()))

    def single_run(
        self,
        node: Node,
        columns: Sequence[Column],
        sets: Sequence[TileSet],
        order: Sequence[np.ndarray],
    ) -> Any:
        kernel = lower(node.op, node.call, self.kind)
        if node.op.kind == "elementwise" or not (
            node.op.located or node.op.kind in ("creation", "gather")
        ):
            return lambda ins, outs, i: kernel(ins, outs, None)
        where = self.locator(columns, sets, order)
        return lambda ins, outs, i: kernel(ins, outs, where(i))

    def locator(
        self, columns: Sequence[Column], sets: Sequence[TileSet], order: Sequence[np.ndarray]
    ) -> Any:
        """`at(i)`: where the tiles of task i lie in their tensors (inputs: in their views)."""

        @lru_cache(maxsize=PLACES)
        def at(i: int) -> At:
            outputs = tuple(
                tuple(map(tuple, tiles.boxes[index[i]].tolist()))
                for tiles, index in zip(sets, order, strict=True)
            )
            return At(outputs, tuple(self.seen_box(column, i) for column in columns))

        return at

    def seen_box(self, column: Column, i: int) -> Any:
        if column.scalar:
            return ()
        if column.tiles[i] < 0:
            return None
        if column.boxes is None:
            return self.box_of(int(column.tiles[i]))
        return tuple(map(tuple, column.boxes[i].tolist()))

    def reduction_run(
        self,
        node: Node,
        plan: GroupPlan,
        columns: Sequence[Column],
        sets: Sequence[TileSet],
        order: Sequence[np.ndarray],
        parts_out: bool,
    ) -> Any:
        if len(columns) > 1:
            partial = lower_partial(
                node.op, node.call, self.kind, plan.leaves if len(columns) == 1 else ()
            )
            finish = lower_finish(node.op, node.call, self.kind)
            where = self.locator(columns, *((), ()) if parts_out else (sets, order))

            def run(ins: list[Any], outs: list[Any], i: int) -> None:
                parts = partial(ins, where(i))
                if parts_out:
                    for part, out in zip(parts, outs, strict=True):
                        copy_into(out, part)
                else:
                    finish(parts, outs)

            return run
        reduce = reduce_kernel(node, plan, self.kind, parts_out)
        return lambda ins, outs, i: reduce(ins[0], outs, i)

    def partial_tiles(self, node: Node, plan: GroupPlan) -> list[TileSet]:
        """Tiles for the partial results of each piece."""
        form = node.call.form
        dtypes = node.call.parts or tuple(spec.dtype for spec in node.call.outs)
        sets = []
        for part, dtype in enumerate(dtypes):
            if node.op.kind == "contraction":
                kept: Labels = form.outputs[0]
            elif node.op.finish is None:
                kept = tuple(k for k in form.outputs[part] if k is not None)
            else:
                kept = tuple(
                    k for k in form.inputs[0] if k is not None and k not in form.contracted
                )
            boxes = piece_boxes(plan.cuts, kept, node.call.tail)
            sets.append(self.add_tiles(boxes, plan.devices, dtype, -1))
        return sets

    def lower_contracted(self, group: Group, plan: GroupPlan, routes: dict[Any, Route]) -> None:
        """Partial results for each piece, then a tree of combines into the output tiles."""
        node = plan.space.last
        columns = self.columns(group, plan, routes)
        sets = self.partial_tiles(node, plan)
        identity = np.arange(len(plan.devices), dtype=np.int32)
        extra = [
            self.new_tiles(value, self.plan.layouts[value], self.graph.specs[value].dtype)
            for value, _ in plan.space.outs[: -len(node.outs)]
        ]
        writes = [(identity + tiles.first).astype(np.int32) for tiles in sets]
        writes += [
            (tiles.first + piece_to_tile(plan, labels)).astype(np.int32)
            for tiles, (_, labels) in zip(extra, plan.space.outs, strict=False)
        ]
        if len(group.nodes) > 1 or may_generate(node, self.kind):
            fused = self.fused_partial(group, plan, len(sets))
        elif node.op.kind == "reduction":
            fused = Fused(self.reduction_run(node, plan, columns, sets, [identity], parts_out=True))
        else:
            fused = Fused(self.single_run(node, columns, sets, [identity]))
        family = self.add_family(
            op=node.op.name,
            site=node.site,
            lane=COMPUTE,
            devices=plan.devices,
            run=fused.run,
            in_c=fused.called or self.product_in_c(node),
            reads=tuple(columns),
            writes=tuple(writes),
            scratch_bytes=self.scratch(group, plan, columns, fused),
            eager=fused.eager,
            seconds=self.seconds(plan),
        )
        self.edges.of_columns(family)
        outs = [
            self.new_tiles(value, self.plan.layouts[value], self.graph.specs[value].dtype)
            for value, _ in plan.space.outs[-len(node.outs) :]
        ]
        self.combine(node, plan, sets, outs)

    def fused_partial(self, group: Group, plan: GroupPlan, n_parts: int) -> Fused:
        """A fused kernel whose reduction leaves partial results; kept intermediates come after."""
        fused = fused_kernel(self.graph, group, plan, self.kind, True, self.n_alike(group))

        def rest_first(ins: list[Any], outs: list[Any], i: int) -> None:
            fused.run(ins, [*outs[n_parts:], *outs[:n_parts]], i)

        return fused._replace(run=rest_first)

    def combine(
        self, node: Node, plan: GroupPlan, sets: list[TileSet], outs: list[TileSet]
    ) -> None:
        """Merge partial results along contracted labels, innermost first, in a tree by index."""
        form = node.call.form
        contracted = [a for a in self.contracted_order(node, plan) if len(plan.cuts[a]) > 2]
        grid = grid_shape(plan.cuts)
        kept = [label for label in range(len(grid)) if label not in contracted]
        numbers = np.arange(prod(grid)).reshape(grid).transpose([*kept, *contracted])
        numbers = numbers.reshape(prod(grid[k] for k in kept), *(grid[c] for c in contracted))
        current = [tiles.first + numbers for tiles in sets]
        out_tiles = self.out_tiles_by_kept(plan, kept, form.outputs, outs)
        while current[0].ndim > 1:
            n = current[0].shape[-1]
            if n == 1:
                current = [level[..., 0] for level in current]
                continue
            last = n <= RADIX and current[0].ndim == 2
            current = self.combine_level(
                node, plan, sets, current, outs if last else None, out_tiles
            )
            if last:
                return

    def contracted_order(self, node: Node, plan: GroupPlan) -> list[int]:
        """Contracted labels, outermost first."""
        if plan.leaves:
            labels = node.call.form.inputs[0]
            return [labels[axis] for axis, _ in plan.leaves]  # type: ignore[misc]
        return list(plan.space.contracted)

    def out_tiles_by_kept(
        self, plan: GroupPlan, kept: list[int], outputs: tuple[Labels, ...], outs: list[TileSet]
    ) -> list[np.ndarray]:
        grid = grid_shape(plan.cuts)
        found = []
        for labels, tiles in zip(outputs, outs, strict=True):
            index = piece_to_tile(plan, labels).reshape(grid)
            first = index[tuple(slice(None) if k in kept else 0 for k in range(len(grid)))]
            found.append((first.reshape(-1) + tiles.first).astype(np.int32))
        return found

    def combine_level(
        self,
        node: Node,
        plan: GroupPlan,
        sets: list[TileSet],
        current: list[np.ndarray],
        outs: list[TileSet] | None,
        out_tiles: list[np.ndarray],
    ) -> list[np.ndarray]:
        """One level of the tree: up to RADIX neighbours each; the last level finishes."""
        n = current[0].shape[-1]
        n_next = -(-n // RADIX)
        rows = [level.reshape(-1, n) for level in current]
        n_tasks = rows[0].shape[0] * n_next
        borders = np.zeros(n_tasks + 1, np.int64)
        sources: list[np.ndarray] = []
        devices = np.zeros(n_tasks, np.int16)
        for t in range(n_tasks):
            row, k = divmod(t, n_next)
            span = slice(k * RADIX, min((k + 1) * RADIX, n))
            members = np.stack([level[row, span] for level in rows], axis=1)
            if outs is not None:
                devices[t] = self.device_of(out_tiles[0][row : row + 1])[0]
            else:
                devices[t] = self.device_of(members[:1, 0])[0]
            local = self.bring(members.reshape(-1), int(devices[t]), node)
            sources.append(local)
            borders[t + 1] = borders[t] + len(local)
        n_parts = len(sets)
        xp = namespace(self.kind)
        op, call = node.op, node.call
        finish = (
            lower_finish(op, call, self.kind)
            if outs is not None and op.kind == "reduction"
            else None
        )

        def run(ins: list[Any], targets: list[Any], i: int) -> None:
            pieces = [tuple(ins[k : k + n_parts]) for k in range(0, len(ins), n_parts)]
            merged = merge_tree(op, xp, pieces)
            if finish is not None:
                finish(merged, targets)
            else:
                for part, target in zip(merged, targets, strict=True):
                    copy_into(target, part)

        if outs is not None:
            writes = tuple(out_tiles)
            next_level: list[np.ndarray] = []
        else:
            first_boxes = [
                self.boxes_of_tiles(level.reshape(-1, n)[:, ::RADIX].reshape(-1))
                for level in current
            ]
            fresh = [
                self.add_tiles(boxes, devices, tiles.dtype, -1)
                for boxes, tiles in zip(first_boxes, sets, strict=True)
            ]
            identity = np.arange(n_tasks, dtype=np.int32)
            writes = tuple((identity + tiles.first).astype(np.int32) for tiles in fresh)
            shape = (*current[0].shape[:-1], n_next)
            next_level = [(identity + tiles.first).reshape(shape) for tiles in fresh]
        biggest = max(
            (
                prod(int(hi - lo) for lo, hi in self.box_of(int(s[0]))) * sets[0].dtype.itemsize
                for s in sources[:1]
            ),
            default=0,
        )
        family = self.add_family(
            op=f"combine {node.op.name}",
            site=node.site,
            lane=COMPUTE,
            devices=devices,
            run=run,
            reads=(),
            writes=writes,
            many=(borders, np.concatenate(sources).astype(np.int32)),
            scratch_bytes=combine_scratch(min(n, RADIX), n_parts * max(biggest, 64)),
            values=node.outs if outs is not None else (),
        )
        self.edges.of_many(family, None)
        return next_level

    def bring(self, tiles: np.ndarray, device: int, node: Node) -> np.ndarray:
        """The same tiles, those on other devices as copies on this one."""
        owners = self.device_of(tiles)
        away = np.flatnonzero(owners != device)
        if not len(away):
            return tiles
        local = tiles.copy()
        for k in away:
            tile = int(tiles[k])
            source = self.set_with(tile)
            box = source.boxes[tile - source.first : tile - source.first + 1]
            target = self.add_tiles(box, np.asarray([device], np.int16), source.dtype, -1)
            self.gather_family(target, np.asarray([0, 1]), np.asarray([tile], np.int32), node)
            way = (int(owners[k]), device)
            size = prod(int(hi - lo) for lo, hi in box[0]) * source.dtype.itemsize
            self.moves.moved[way] = self.moves.moved.get(way, 0) + size
            local[k] = target.first
        return local

    def lower_update(self, g: int, node: Node, plan: GroupPlan, routes: dict[Any, Route]) -> None:
        """In place into the tiles of the version before."""
        root = self.roots[node.outs[0]]
        tiles = self.set_with(self.first_of[root])
        assert plan.tiles is not None
        targets = (tiles.first + plan.tiles).astype(np.int32)
        by_place = {read.place: route for read, route in routes.items()}
        columns = []
        for place, operand in enumerate(node.operands[1:], 1):
            if operand.value < 0:
                columns.append(Column(np.full(len(targets), operand.scalar, np.int32), scalar=True))
            else:
                columns.append(self.column(operand, by_place[place]))
        written = self.moves.writes.get(g)
        in_c = None
        if written is not None:
            run = self.write_run(node, tiles, plan.tiles, written)
            in_c = write_in_c(self, node, tiles, plan.tiles, written)
        else:
            run = self.update_run(node, columns, tiles, plan.tiles)
        family = self.add_family(
            op=node.op.name,
            site=node.site,
            lane=COMPUTE,
            devices=plan.devices,
            run=run,
            reads=tuple(columns),
            writes=(targets,),
            scratch_bytes=self.update_scratch(node, columns, tiles),
            updates=True,
            values=node.outs,
            in_c=in_c,
        )
        self.edges.of_update(family, node, written)

    def write_run(self, node: Node, tiles: TileSet, which: np.ndarray, written: np.ndarray) -> Any:
        region = node.region
        assert region is not None

        def run(ins: list[Any], outs: list[Any], i: int) -> None:
            box = tuple(map(tuple, written[i].tolist()))
            origin = tuple(map(tuple, tiles.boxes[which[i]].tolist()))
            if all(hi > lo for lo, hi in box):
                put(outs[0], region, box, origin, ins[0])

        return run

    def update_run(
        self, node: Node, columns: list[Column], tiles: TileSet, which: np.ndarray
    ) -> Any:
        kernel = node.op.kernel_for(self.kind)
        xp = namespace(self.kind)
        params = dict(node.call.params)

        def run(ins: list[Any], outs: list[Any], i: int) -> None:
            if columns and all(column.tiles[i] < 0 and not column.scalar for column in columns):
                return
            origin = tuple(map(tuple, tiles.boxes[which[i]].tolist()))
            boxes = (origin, *(self.seen_box(column, i) for column in columns))
            kernel(xp, *ins, out=outs[0], at=At((origin,), boxes), **params)

        return run

    # prices and look-ups

    def scratch(
        self, group: Group, plan: GroupPlan, columns: Sequence[Column], fused: Fused
    ) -> int:
        lengths = plan.longest()
        if fused.one_pass:  # what is created, and partial results of at least 8 elements each
            is_reduced = fused.steps is None
            return (8 * fused.n_registers + 3 * is_reduced) * prod(lengths)
        widest = 0
        for n in group.nodes:
            node = self.graph.nodes[n]
            form = node.call.form
            if node is plan.space.last and node.op.need is None:
                ins = tuple(
                    Spec(
                        tuple(1 if k is None else lengths[k] for k in labels), self.operand_dtype(o)
                    )
                    for labels, o in zip(form.inputs, node.operands, strict=True)
                )
                outs = tuple(
                    Spec(tuple(1 if k is None else lengths[k] for k in labels), spec.dtype)
                    for labels, spec in zip(form.outputs, node.call.outs, strict=True)
                )
            elif node.op.need is not None:
                ins = self.needed_specs(node, columns)
                outs = tuple(
                    Spec(tuple(1 if k is None else lengths[k] for k in labels), spec.dtype)
                    for labels, spec in zip(form.outputs, node.call.outs, strict=True)
                )
            else:
                ins = (Spec((prod(lengths),), node.call.outs[0].dtype),) * len(node.operands)
                outs = (Spec((prod(lengths),), node.call.outs[0].dtype),)
            widest = max(widest, task_scratch(node, ins, outs, self.kind))
        wide = max(
            spec.dtype.itemsize for n in group.nodes for spec in self.graph.nodes[n].call.outs
        )
        return widest + fused.n_registers * prod(lengths) * wide

    def needed_specs(self, node: Node, columns: Sequence[Column]) -> tuple[Spec, ...]:
        """The largest box that any task gets of each operand."""
        specs = []
        operands = node.operands[len(node.operands) - len(columns) :]
        for operand, column in zip(operands, columns, strict=True):
            shape: tuple[int, ...] = ()
            if column.boxes is not None and len(column.boxes):
                shape = tuple((column.boxes[:, :, 1] - column.boxes[:, :, 0]).max(axis=0).tolist())
            specs.append(Spec(shape, self.operand_dtype(operand)))
        return tuple(specs)

    def operand_dtype(self, operand: Operand) -> np.dtype[Any]:
        if operand.value < 0:
            return np.dtype(np.float64)
        return self.graph.specs[operand.value].dtype

    def update_scratch(self, node: Node, columns: list[Column], tiles: TileSet) -> int:
        if node.region is not None:
            return 0
        ins = (Spec((0,), tiles.dtype), *self.needed_specs(node, columns))
        largest = max(
            (tuple(int(hi - lo) for lo, hi in b) for b in tiles.boxes.tolist()),
            key=prod,
            default=(),
        )
        return tile_scratch(node, ins, (Spec(largest, tiles.dtype),), self.kind)

    def seconds(self, plan: GroupPlan) -> float:
        lengths = plan.longest()
        return kernel_seconds(plan.space.last.op.cost, prod(lengths), self.plan.mesh)

    def set_with(self, tile: int) -> TileSet:
        return self.edges.set_with(tile)

    def box_of(self, tile: int) -> Any:
        tiles = self.set_with(tile)
        return tuple(map(tuple, tiles.boxes[tile - tiles.first].tolist()))

    def boxes_of_tiles(self, tiles: np.ndarray) -> np.ndarray:
        first = self.set_with(int(tiles[0]))
        if tiles[-1] < first.first + first.n and tiles.min() >= first.first:
            boxes: np.ndarray = first.boxes[tiles - first.first]
            return boxes
        return np.asarray([self.box_of(int(t)) for t in tiles], np.int64)

    def device_of(self, tiles: np.ndarray) -> np.ndarray:
        if not len(tiles):
            return np.zeros(0, np.int16)
        first = self.set_with(int(tiles[0]))
        if len(tiles) == 1 or (tiles.min() >= first.first and tiles.max() < first.first + first.n):
            devices: np.ndarray = first.devices[tiles - first.first]
            return devices
        return np.asarray(
            [self.device_of(tiles[k : k + 1])[0] for k in range(len(tiles))], np.int16
        )


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

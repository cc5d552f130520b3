"""Direct tile-intersection moves.

A task that needs a region of one tile on its own device reads it there. Else the region
is brought together on that device from the tiles that hold it, once for all tasks there that want
it; bytes that cross devices are counted.
"""

from __future__ import annotations

from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.layout import HOST
from infinitensor.ir.op import Spec
from infinitensor.ir.plan import Fetch, Moves, Route
from infinitensor.ir.region import box_size, grid_shape, overlap, tile_box, tiles_over

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.plan import GroupPlan, Plan
    from infinitensor.ir.region import Box
    from infinitensor.ir.space import Read


def route(plan: Plan) -> Moves:
    """Routes of every operand of every group. Linear in tasks; vectorised on aligned tiles."""
    router = _Router(plan)
    routes: list[tuple[Route, ...]] = []
    writes: dict[int, np.ndarray] = {}
    alike: dict[Any, tuple[Route, ...]] = {}
    for g, group in enumerate(plan.groups):
        if group.space.last.renews:  # its tasks find their own way (`tasking/groups/stencil.py`)
            routes.append(())
            continue
        if group.tiles is not None and group.space.last.region is not None:
            writes[g] = write_boxes(group)
        found = alike.get(group.kin) if group.kin is not None else None
        if found is None:
            found = tuple(router.routes(group, writes.get(g)))
            if group.kin is not None and all((r.fetches < 0).all() for r in found):
                alike[group.kin] = found
        routes.append(found)
    return Moves(tuple(routes), tuple(router.fetches), router.moved, writes)


def write_boxes(group: GroupPlan) -> np.ndarray:
    """For each tile a plain write touches: the box of the written view that falls into it."""
    node = group.space.last
    region = node.region
    assert region is not None
    assert group.tiles is not None
    shape = node.shapes[1]
    boxes = np.zeros((len(group.tiles), len(shape), 2), np.int64)
    for i, index in enumerate(group.tiles):
        boxes[i] = np.reshape(region.view_box(tile_box(group.cuts, int(index)), shape), (-1, 2))
    return boxes


def in_lines(box: Box, layout: Layout) -> Box:
    """A box of a value in C order, and all elements in memory between its first and last."""
    first = next((a for a, (lo, hi) in enumerate(box) if hi - lo > 1), len(box))
    whole = tuple((0, borders[-1]) for borders in layout.cuts)
    return (*box[: first + 1], *whole[first + 1 :])


class _Router:
    """Collects fetches while routes are made: a region is fetched once to each device."""

    def __init__(self, plan: Plan) -> None:
        self.graph: Graph = plan.analysed.graph
        self.roots = plan.analysed.roots
        self.layouts = plan.layouts
        self.reads_host = plan.mesh.kind != "cuda"
        self.is_one_memory = plan.mesh.is_one_memory
        self.apart = {leaf.value for leaf in self.graph.leaves if not leaf.whole}
        self.fetches: list[Fetch] = []
        self.moved: dict[tuple[int, int], int] = {}
        self._known: dict[Any, int] = {}

    def routes(self, group: GroupPlan, written: np.ndarray | None) -> list[Route]:
        """Routes of a group's external operands, in the order of its reads."""
        node = group.space.last
        found = []
        needs = None
        if node.op.need is not None:
            needs = self._needs(group)
        for read in group.space.reads:
            layout = self.layouts[self.roots[read.operand.value]]
            if node.op.kind == "update" and read.place == 0:
                assert group.tiles is not None
                found.append(Route(group.tiles, np.full(len(group.tiles), -1, np.int32), None))
            elif needs is not None:
                boxes = [need[read.place] for need in needs]
                found.append(self._one_by_one(group, read, layout, boxes))
            elif written is not None:
                found.append(
                    self._one_by_one(
                        group, read, layout, [tuple(map(tuple, b)) for b in written.tolist()]
                    )
                )
            else:
                found.append(self._by_form(group, read, layout))
        return found

    def _needs(self, group: GroupPlan) -> list[tuple[Box | None, ...]]:
        node = group.space.last
        specs = tuple(
            Spec(shape, self.graph.specs[o.value].dtype if o.value >= 0 else np.dtype(np.int64))
            for o, shape in zip(node.operands, node.shapes, strict=True)
        )
        params = dict(node.call.params)
        assert node.op.need is not None
        if group.tiles is not None:
            boxes = [tile_box(group.cuts, int(t)) for t in group.tiles]
        else:
            labels = group.space.outs[0][1]
            pieces = product(*(tuple(pairwise(axis)) for axis in group.cuts))
            boxes = [tuple((0, 1) if k is None else piece[k] for k in labels) for piece in pieces]
        return [node.op.need(box, specs, **params) for box in boxes]

    def _one_by_one(self, group: GroupPlan, read: Read, layout: Layout, boxes: list[Any]) -> Route:
        n = len(boxes)
        seen = np.zeros((n, len(read.shape), 2), np.int64)
        wanted = []
        for i, box in enumerate(boxes):
            if box is not None:
                seen[i] = np.asarray(box, np.int64).reshape(-1, 2)
                wanted.append((i, self._base_box(read, box)))
        return self._reached(group, read, layout, np.full(n, -1, np.int32), seen, wanted)

    def _reached(
        self,
        group: GroupPlan,
        read: Read,
        layout: Layout,
        tiles: np.ndarray,
        boxes: np.ndarray,
        wanted: list[tuple[int, Box]],
    ) -> Route:
        """The route in which some tasks want these base boxes; `tiles` has what the others read."""
        fetches = np.full(len(tiles), -1, np.int32)
        is_apart = self.roots[read.operand.value] in self.apart
        spans: dict[int, list[int]] = {}
        for i, base in wanted:
            over = tiles_over(layout.cuts, base)
            tiles[i] = over[0] if over else 0  # any tile: an empty slice of it is taken
            if len(over) > 1 and self.is_one_memory and not is_apart:
                spans[i] = over
            elif over and (
                len(over) > 1 or not self._is_local(layout.owner(over[0]), int(group.devices[i]))
            ):
                tiles[i] = -1
                if group.chained >= 0 and layout.owner(over[0]) < 0:
                    # all of it is read, piece by piece: brought at once it is one run of bytes
                    base = in_lines(base, layout)
                    over = tiles_over(layout.cuts, base)
                fetches[i] = self._fetch(
                    read.operand.value, layout, base, int(group.devices[i]), over
                )
        if not spans:
            return Route(tiles, fetches, boxes)
        counts = (tiles >= 0).astype(np.int64)
        for i, over in spans.items():
            counts[i] = len(over)
        borders = np.concatenate([[0], np.cumsum(counts)])
        every = np.repeat(tiles, counts)
        for i, over in spans.items():
            every[borders[i] : borders[i + 1]] = over
        return Route(tiles, fetches, boxes, (borders, every))

    def _base_box(self, read: Read, box: Box) -> Box:
        access = read.operand.access
        if access is None:
            return box
        if any(hi <= lo for lo, hi in box):
            return tuple((0, 0) for _ in access.fixed)
        return access.base_box(box)

    def _fetch(self, value: int, layout: Layout, base: Box, device: int, over: list[int]) -> int:
        """The number of the fetch that brings a box together on a device."""
        root = self.roots[value]
        # versions of one chain share tiles but not contents: the key holds the version
        key = (value, base, device)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.fetches)
            self.fetches.append(Fetch(value, base, device, tuple(over)))
            width = self.graph.specs[root].dtype.itemsize
            for index in over:
                owner = layout.owner(index)
                if owner != device:
                    common = overlap(layout.tile(index), base)
                    assert common is not None
                    way = (owner, device)
                    self.moved[way] = self.moved.get(way, 0) + box_size(common) * width
        return number

    def _is_local(self, owner: int, device: int) -> bool:
        return owner == device or (owner == HOST and self.reads_host)

    def _by_form(self, group: GroupPlan, read: Read, layout: Layout) -> Route:
        """Vectorised over the grid of labels."""
        grid = grid_shape(group.cuts)
        n = prod(grid)
        per_axis = [self._axis_boxes(group, read, axis) for axis in range(len(read.shape))]
        flat = np.zeros((1,) * len(grid), np.int64)
        alone = np.ones((1,) * len(grid), np.bool_)
        aligned = read.operand.access is None and not read.halo
        for base, borders in enumerate(layout.cuts):
            axis, lows, highs = self._base_range(read, base, per_axis)
            first = np.clip(np.searchsorted(borders, lows, side="right") - 1, 0, len(borders) - 2)
            last = np.clip(
                np.searchsorted(borders, highs, side="left") - 1, first, len(borders) - 2
            )
            shape = [1] * len(grid)
            label = None if axis is None else read.labels[axis]
            if label is not None:
                shape[label] = len(first)
                aligned = aligned and group.cuts[label] == borders
            else:
                aligned = aligned and len(borders) == 2
            flat = flat * (len(borders) - 1) + first.reshape(shape)
            alone = alone & (first == last).reshape(shape)
        tiles = np.broadcast_to(flat, grid).reshape(-1).astype(np.int32)
        owners = layout.owner_array[tiles]
        near = owners == group.devices
        if self.reads_host:
            near |= owners == HOST
        direct = np.broadcast_to(alone, grid).reshape(-1) & near
        if direct.all() and aligned:
            return Route(tiles, np.full(n, -1, np.int32), None)
        boxes = self._boxes(grid, read, per_axis)
        wanted = [
            (i, self._base_box(read, tuple(map(tuple, boxes[i].tolist()))))
            for i in np.flatnonzero(~direct).tolist()
        ]
        return self._reached(group, read, layout, tiles, boxes, wanted)

    def _axis_boxes(self, group: GroupPlan, read: Read, axis: int) -> tuple[np.ndarray, np.ndarray]:
        label = read.labels[axis]
        if label is None:
            return np.zeros(1, np.int64), np.full(1, read.shape[axis], np.int64)
        borders = np.asarray(group.cuts[label], np.int64)
        lows, highs = borders[:-1], borders[1:]
        if read.halo:
            before, after = read.halo[axis]
            lows = np.maximum(lows - before, 0)
            highs = np.minimum(highs + after, read.shape[axis])
        return lows, highs

    def _base_range(
        self, read: Read, base: int, per_axis: list[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[int | None, np.ndarray, np.ndarray]:
        access = read.operand.access
        if access is None:
            return base, *per_axis[base]
        for axis, walked in enumerate(access.axes):
            if walked is not None and walked[0] == base:
                _, start, step = walked
                lows, highs = per_axis[axis]
                ends = (start + step * lows, start + step * (highs - 1))
                return axis, np.minimum(*ends), np.maximum(*ends) + 1
        at = np.asarray([access.fixed[base]], np.int64)
        return None, at, at + 1

    def _boxes(
        self, grid: tuple[int, ...], read: Read, per_axis: list[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        boxes = np.empty((*grid, len(read.shape), 2), np.int64)
        for axis, (lows, highs) in enumerate(per_axis):
            shape = [1] * len(grid)
            label = read.labels[axis]
            if label is not None:
                shape[label] = len(lows)
            boxes[..., axis, 0] = lows.reshape(shape)
            boxes[..., axis, 1] = highs.reshape(shape)
        return boxes.reshape(prod(grid), len(read.shape), 2)

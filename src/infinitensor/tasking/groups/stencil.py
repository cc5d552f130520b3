"""Windows: a write that renews a tensor computes each new tile from where its operands are.

`x[1:-1] = x[:-2] + x[2:]` reads parts of tiles that are shifted against each other. The box of a
new tile is parted at the borders of what is read, so that every part reads each operand from one
tile; nothing is brought together first. What is not written is copied from the tile before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infinitensor.ir.graph import Group
from infinitensor.ir.plan import GroupPlan
from infinitensor.ir.region import tile_box, tiles_over
from infinitensor.ir.space import space_of
from infinitensor.ir.tasks import Column
from infinitensor.ir.view import take
from infinitensor.native import CompilerError
from infinitensor.ops.table.numpy_kernels import lower
from infinitensor.tasking.c.expressions import C_TYPES
from infinitensor.tasking.kernels.block_kernel import Script
from infinitensor.tasking.kernels.c_calls import Mapped, Parted
from infinitensor.tasking.kernels.c_kernel import copy_kernel
from infinitensor.tasking.kernels.choose_kernel import (
    Fused,
    fused_kernel,
    group_inputs,
    single_called,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infinitensor.ir.graph import Graph, Node
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.op import Labels
    from infinitensor.ir.region import Box
    from infinitensor.ir.view import Access
    from infinitensor.tasking.graph.lowering import Lowering
    from infinitensor.tasking.kernels.c_kernel import Compiled

Index: TypeAlias = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """A read of one operand by a group: its root, the root's layout, and the view of it."""

    root: int
    layout: Layout
    access: Access | None
    labels: Labels
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A part of one source of a window: by index, or through its access where that turns axes."""

    source: int
    index: Index | None
    through: tuple[Access, Box, Box] | None

    def of(self, tile: Any) -> Any:
        """The part, without copying; one element is an array too, for it has to have an address."""
        if self.index is not None:
            return tile[self.index] if self.index else tile
        assert self.through is not None
        found = take(tile, *self.through)
        if not isinstance(found, np.generic):
            return found
        access, _, origin = self.through
        at = [k - lo for k, (lo, _) in zip(access.fixed, origin, strict=True)]
        element = tile[tuple(slice(k, k + 1) for k in at)].reshape(())
        return getattr(element, access.part) if access.part else element


@dataclass(frozen=True, slots=True)
class Window:
    """One task: the tiles it looks into, the boxes it copies from the tile before (its source 0),
    and the parts it computes, with what each operand is there (None: a scalar)."""

    sources: tuple[tuple[int, int], ...]
    """(root, tile)."""
    copies: tuple[Index, ...]
    parts: tuple[tuple[Index, tuple[Seen | None, ...]], ...]


@lru_cache(maxsize=256)
def find_windows(
    region: Access,
    shape: tuple[int, ...],
    layout: Layout,
    base: int,
    looks: tuple[Look | None, ...],
) -> tuple[Window, ...]:
    """The window of every tile of a tensor of which a region, seen in a shape, is written."""
    return tuple(
        _window(tile_box(layout.cuts, t), (base, t), region, shape, looks)
        for t in range(layout.n_tiles)
    )


def _window(
    box: Box,
    before: tuple[int, int],
    region: Access,
    shape: tuple[int, ...],
    looks: tuple[Look | None, ...],
) -> Window:
    view = region.view_box(box, shape)
    starts = [walked[1] for walked in region.axes if walked is not None]
    sources: dict[tuple[int, int], int] = {}
    if any(hi <= lo for lo, hi in view):
        return Window((before,), (tuple(slice(None) for _ in box),), ())
    inner = tuple((lo + s, hi + s) for (lo, hi), s in zip(view, starts, strict=True))
    copies = [_index(piece, box) for piece in boxes_around(box, inner)]
    if copies:
        sources[before] = 0
    parts = []
    borders = [_borders(axis, ends, looks) for axis, ends in enumerate(view)]
    for part in product(*(tuple(pairwise(cuts)) for cuts in borders)):
        target = tuple((lo + s, hi + s) for (lo, hi), s in zip(part, starts, strict=True))
        seen = tuple(None if look is None else _see_part(look, part, sources) for look in looks)
        parts.append((_index(target, box), seen))
    return Window(tuple(sources), tuple(copies), tuple(parts))


def boxes_around(box: Box, inner: Box) -> list[Box]:
    """Boxes that make up a box without an inner one.

    >>> boxes_around(((0, 4), (0, 4)), ((1, 4), (1, 3)))
    [((0, 1), (0, 4)), ((1, 4), (0, 1)), ((1, 4), (3, 4))]
    """
    found: list[Box] = []
    for axis, ((lo, hi), (first, end)) in enumerate(zip(box, inner, strict=True)):
        for ends in ((lo, first), (end, hi)):
            if ends[0] < ends[1]:
                found.append((*inner[:axis], ends, *box[axis + 1 :]))
    return found


def _index(part: Box, box: Box) -> Index:
    return tuple(slice(lo - at, hi - at) for (lo, hi), (at, _) in zip(part, box, strict=True))


def _borders(axis: int, ends: tuple[int, int], looks: tuple[Look | None, ...]) -> list[int]:
    """The ends of parts along an axis, where some operand's tile ends."""
    lo, hi = ends
    found = {lo, hi}
    for look in looks:
        if look is None or axis not in look.labels:
            continue
        own = look.labels.index(axis)
        base, start, step = own, 0, 1
        if look.access is not None:
            walked = look.access.axes[own]
            if walked is None:
                continue
            base, start, step = walked
        for cut in look.layout.cuts[base][1:-1]:
            at = -(-(cut - start) // step) if step > 0 else (start - cut) // -step + 1
            if lo < at < hi:
                found.add(at)
    return sorted(found)


def _see_part(look: Look, part: Box, sources: dict[tuple[int, int], int]) -> Seen:
    box = tuple(
        (0, n) if label is None else part[label]
        for label, n in zip(look.labels, look.shape, strict=True)
    )
    base = box if look.access is None else look.access.base_box(box)
    (tile,) = tiles_over(look.layout.cuts, base)
    origin = tile_box(look.layout.cuts, tile)
    source = sources.setdefault((look.root, tile), len(sources))
    if look.access is None:
        return Seen(source, _index(box, origin), None)
    plain = not look.access.part and len(look.access.axes) == len(base)
    if plain and all(
        walked is not None and walked[0] == axis and walked[2] > 0
        for axis, walked in enumerate(look.access.axes)
    ):
        steps = [walked[2] for walked in look.access.axes if walked is not None]
        index = tuple(
            slice(s.start, s.stop, step)
            for s, step in zip(_index(base, origin), steps, strict=True)
        )
        return Seen(source, index, None)
    return Seen(source, None, (look.access, box, origin))


def lower_renewed(lowering: Lowering, g: int) -> None:
    """A write that makes new tiles: computed in them, from windows of others."""
    group, plan = lowering.plan.analysed.groups[g], lowering.plan.groups[g]
    graph, roots, layouts = lowering.graph, lowering.roots, lowering.plan.layouts
    node = plan.space.last
    base = roots[node.operands[0].value]
    numbered = {base: 0}
    """Steps in time differ in which values they look into, not in where."""
    columns: list[Column] = []
    looks: list[Look | None] = []
    for number, i in window_inputs(graph, group):
        reader = graph.nodes[number]
        operand = reader.operands[i]
        if operand.value < 0:
            scalar = np.full(len(plan.devices), operand.scalar, np.int32)
            columns.append(Column(scalar, scalar=True))
            looks.append(None)
            continue
        root = roots[operand.value]
        labels = reader.call.form.inputs[i]
        if reader is node:
            labels = tuple(range(len(node.shapes[1])))
        which = numbered.setdefault(root, len(numbered))
        looks.append(Look(which, layouts[root], operand.access, labels, reader.shapes[i]))
    assert node.region is not None
    key = (_shape(graph, group), node.region, node.shapes[1], layouts[base], tuple(looks))
    if key not in lowering.renewals:
        fused = window_kernel(lowering, group)
        found = find_windows(node.region, node.shapes[1], layouts[base], 0, tuple(looks))
        dtypes = [graph.specs[root].dtype for root in numbered]
        in_c = window_in_c(fused, found, [*dtypes, graph.specs[node.outs[0]].dtype])
        lowering.renewals[key] = fused, found, window_run(fused, found), in_c
    fused, found, run, in_c = lowering.renewals[key]
    firsts = [lowering.first_of[root] for root in numbered]
    borders = np.cumsum([0, *(len(window.sources) for window in found)]).astype(np.int64)
    sources = [firsts[r] + t for window in found for r, t in window.sources]
    value = node.outs[0]
    tiles = lowering.new_tiles(value)
    family = lowering.add_family(
        op=node.op.name,
        site=node.site,
        devices=plan.devices,
        run=run,
        in_c=in_c,
        reads=tuple(columns),
        writes=(np.arange(tiles.first, tiles.first + tiles.n, dtype=np.int32),),
        many=(borders, np.asarray(sources, np.int32)),
        scratch_bytes=fused.n_registers * prod(plan.longest()[: len(node.shapes[0])]) * 16,
        renews=True,
        eager=fused.eager,
        seconds=lowering.seconds(plan),
        values=node.outs,
    )
    lowering.edges.of_many(family, None)


def _shape(graph: Graph, group: Group) -> tuple[Any, ...]:
    """A key of a group's computation, without the values it reads."""
    made = {graph.nodes[n].outs[0]: k for k, n in enumerate(group.nodes)}
    return tuple(
        (id(node.op), id(node.call), tuple(made.get(o.value, -1) for o in node.operands))
        for node in (graph.nodes[n] for n in group.nodes)
    )


def window_inputs(graph: Graph, group: Group) -> list[tuple[int, int]]:
    """(node, operand) of what a group with a renewing write at its end computes from."""
    write = graph.nodes[group.nodes[-1]]
    if len(group.nodes) == 1:
        return [(group.nodes[-1], 1)]
    found = group_inputs(graph, Group(group.nodes[:-1]))
    assert all(graph.nodes[n] is not write for n, _ in found)
    return found


def window_kernel(lowering: Lowering, group: Group) -> Fused:
    """The kernel of what is written, on arrays of any shape."""
    graph, target = lowering.graph, lowering.target
    inner = Group(group.nodes[:-1])
    if not inner.nodes:
        write = graph.nodes[group.nodes[-1]]
        called = _copy_call(graph, write) if target.compiles else None
        return Fused(lambda ins, outs, i: np.copyto(outs[0], ins[0]), called=called)
    last = graph.nodes[inner.nodes[-1]]
    space = space_of(graph, inner, frozenset(last.outs))
    plan = GroupPlan(space, tuple((0, n) for n in space.sizes), np.zeros(1, np.int16))
    if len(inner.nodes) == 1:
        kernel = lower(last.op, last.call, "cpu")
        called = single_called(graph, inner, plan, target)
        n_registers = 1 + len(last.operands)
        return Fused(lambda ins, outs, i: kernel(ins, outs, None), n_registers, called=called)
    return fused_kernel(graph, inner, plan, target, False, lowering.n_alike(group))


def _copy_call(graph: Graph, write: Node) -> Mapped | None:
    """A write of stored values as a call that C makes; it has the dtype of what it is written to
    unless that is a part of it, or a scalar."""
    value, dtype = write.operands[1], graph.specs[write.outs[0]].dtype
    if value.value < 0:
        return None
    assert write.region is not None
    part = (value.access is not None and value.access.part) or write.region.part
    if part or graph.specs[value.value].dtype != dtype or dtype.name not in C_TYPES:
        return None
    return Mapped(copy_kernel(dtype))


def window_run(
    fused: Fused, windows: tuple[Window, ...]
) -> Callable[[list[Any], list[Any], int], None]:
    """`run(ins, outs, i)`: sources, then scalars, in; the new tile out."""
    scripts: dict[tuple[Any, ...], Script] = {}

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        window = windows[i]
        n = len(window.sources)
        sources, scalars = [*ins[:n], outs[0]], ins[n:]
        if fused.in_c is not None and window.parts:
            key = (i, *[tile.strides for tile in sources])
            try:
                if key not in scripts:
                    in_c = fused.in_c
                    scripts[key] = Script(sources, lambda stands: _calls(window, in_c, stands))
                scripts[key](sources, scalars)
            except CompilerError:
                pass  # step by step below, which says so
            else:
                return
        for index in window.copies:
            outs[0][index] = ins[0][index]
        for k in range(len(window.parts)):
            views, target = _arguments(window, k, sources)
            left = iter(scalars)
            fused.run([next(left) if x is None else x for x in views], [target], 0)

    return run


def window_in_c(
    fused: Fused, windows: tuple[Window, ...], dtypes: list[np.dtype[Any]]
) -> Parted | None:
    """The calls of windows, for C; of what is looked into and of the new tiles `dtypes`."""
    called = fused.called
    if called is None:
        return None
    return Parted(
        called,
        lambda i, sources: _calls(windows[i], called.in_c, sources),
        lambda i: [*(dtypes[root] for root, _ in windows[i].sources), dtypes[-1]],
    )


def _calls(window: Window, in_c: Compiled, sources: list[Any]) -> Iterator[Any]:
    """The calls of a window: copies of what stays, then its parts."""
    copy = copy_kernel(sources[-1].dtype)
    for index in window.copies:
        yield copy, [sources[0][index]], sources[-1][index]
    for k in range(len(window.parts)):
        views, target = _arguments(window, k, sources)
        yield in_c, [views[at] for at in in_c.arrays], target


def _arguments(window: Window, k: int, sources: list[Any]) -> tuple[list[Any], Any]:
    """The sources of a part (None: a scalar), and its place in the output."""
    index, seen = window.parts[k]
    return [None if s is None else s.of(sources[s.source]) for s in seen], sources[-1][index]

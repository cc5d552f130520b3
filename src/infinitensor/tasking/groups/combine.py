"""Contracted labels that are cut: partial results of each piece, and the tree that combines them.

The tree is by index, a few neighbours a task, innermost label first, so that its result
does not depend on which task is done first.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import grid_shape, piece_boxes
from infinitensor.ir.tasks import COMPUTE
from infinitensor.ops.forms.reduction import SUM, wide
from infinitensor.ops.table.numpy_kernels import (
    add_tree,
    added_scratch,
    combine_scratch,
    lower_finish,
    merge_tree,
    namespace,
)
from infinitensor.tasking.graph.fetch_tasks import bring
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.single_op import product_in_c, reduction_kernel, single_run
from infinitensor.tasking.kernels.choose_kernel import Fused, fused_kernel
from infinitensor.tasking.triton.triton_group import may_generate

if TYPE_CHECKING:
    from infinitensor.ir.graph import Group, Node
    from infinitensor.ir.op import Labels
    from infinitensor.ir.plan import GroupPlan, Route
    from infinitensor.ir.tasks import TileSet
    from infinitensor.tasking.graph.lowering import Lowering

RADIX = 8
"""Partial results one combine task merges (a power of two keeps the tree by index)."""
ADDED = 4
"""How many of a product, which are as large as tiles: a task holds all that it merges."""


def lower_contracted(
    lowering: Lowering, group: Group, plan: GroupPlan, routes: dict[Any, Route]
) -> None:
    """Partial results for each piece, then a tree of combines into the output tiles."""
    node = plan.space.last
    columns = lowering.columns(group, plan, routes)
    sets = partial_tiles(lowering, node, plan)
    identity = np.arange(len(plan.devices), dtype=np.int32)
    extra = [
        lowering.new_tiles(value, lowering.plan.layouts[value], lowering.graph.specs[value].dtype)
        for value, _ in plan.space.outs[: -len(node.outs)]
    ]
    writes = [(identity + tiles.first).astype(np.int32) for tiles in sets]
    writes += [
        (tiles.first + piece_to_tile(plan, labels)).astype(np.int32)
        for tiles, (_, labels) in zip(extra, plan.space.outs, strict=False)
    ]
    if len(group.nodes) > 1 or may_generate(node, lowering.kind):
        fused = fused_partial(lowering, group, plan, len(sets))
    elif node.op.kind == "reduction":
        fused = reduction_kernel(lowering, node, plan, columns, sets, [identity], parts_out=True)
    else:
        fused = Fused(single_run(lowering, node, columns, sets, [identity]))
    family = lowering.add_family(
        op=node.op.name,
        site=node.site,
        lane=COMPUTE,
        devices=plan.devices,
        run=fused.run,
        in_c=fused.called or product_in_c(lowering, node),
        reads=tuple(columns),
        writes=tuple(writes),
        scratch_bytes=group_scratch(lowering, group, plan, columns, fused),
        eager=fused.eager,
        sources=fused.sources,
        seconds=lowering.seconds(plan),
    )
    lowering.edges.of_columns(family)
    outs = [
        lowering.new_tiles(value, lowering.plan.layouts[value], lowering.graph.specs[value].dtype)
        for value, _ in plan.space.outs[-len(node.outs) :]
    ]
    combine(lowering, node, plan, sets, outs)


def partial_tiles(lowering: Lowering, node: Node, plan: GroupPlan) -> list[TileSet]:
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
            kept = tuple(k for k in form.inputs[0] if k is not None and k not in form.contracted)
        boxes = piece_boxes(plan.cuts, kept, node.call.tail)
        sets.append(lowering.add_tiles(boxes, plan.devices, dtype, -1))
    return sets


def fused_partial(lowering: Lowering, group: Group, plan: GroupPlan, n_parts: int) -> Fused:
    """A fused kernel whose reduction leaves partial results; kept intermediates come after."""
    fused = fused_kernel(
        lowering.graph, group, plan, lowering.target, True, lowering.n_alike(group)
    )

    def rest_first(ins: list[Any], outs: list[Any], i: int) -> None:
        fused.run(ins, [*outs[n_parts:], *outs[:n_parts]], i)

    return fused._replace(run=rest_first)


def combine(
    lowering: Lowering, node: Node, plan: GroupPlan, sets: list[TileSet], outs: list[TileSet]
) -> None:
    """Merge partial results along contracted labels, innermost first, in a tree by index."""
    form = node.call.form
    contracted = [a for a in contracted_order(node, plan) if len(plan.cuts[a]) > 2]
    grid = grid_shape(plan.cuts)
    kept = [label for label in range(len(grid)) if label not in contracted]
    numbers = np.arange(prod(grid)).reshape(grid).transpose([*kept, *contracted])
    numbers = numbers.reshape(prod(grid[k] for k in kept), *(grid[c] for c in contracted))
    current = [tiles.first + numbers for tiles in sets]
    out_tiles = out_tiles_by_kept(plan, kept, form.outputs, outs)
    radix = ADDED if _are_added(lowering, node, sets, outs) else RADIX
    while current[0].ndim > 1:
        n = current[0].shape[-1]
        if n == 1:
            current = [level[..., 0] for level in current]
            continue
        last = n <= radix and current[0].ndim == 2
        current = combine_level(
            lowering, node, plan, sets, current, outs if last else None, out_tiles, radix
        )
        if last:
            return


def _are_added(lowering: Lowering, node: Node, sets: list[TileSet], outs: list[TileSet]) -> bool:
    """Whether partial results are those of a product of floats on one CPU, added where they go;
    of several devices fewer would be at one, and more would move."""
    dtypes = {tiles.dtype for tiles in (*sets, *outs)}
    return (
        node.op.kind == "contraction"
        and node.op.combine is SUM
        and lowering.kind == "cpu"
        and lowering.plan.mesh.n_devices == 1
        and len(sets) == len(outs) == len(dtypes) == 1
        and all(dtype.kind in "fc" and dtype == wide(dtype) for dtype in dtypes)
    )


def contracted_order(node: Node, plan: GroupPlan) -> list[int]:
    """Contracted labels, outermost first."""
    if plan.leaves:
        labels = node.call.form.inputs[0]
        return [labels[axis] for axis, _ in plan.leaves]  # type: ignore[misc]
    return list(plan.space.contracted)


def out_tiles_by_kept(
    plan: GroupPlan, kept: list[int], outputs: tuple[Labels, ...], outs: list[TileSet]
) -> list[np.ndarray]:
    """The output tile of each combination of labels that are kept, for each output."""
    grid = grid_shape(plan.cuts)
    found = []
    for labels, tiles in zip(outputs, outs, strict=True):
        index = piece_to_tile(plan, labels).reshape(grid)
        first = index[tuple(slice(None) if k in kept else 0 for k in range(len(grid)))]
        found.append((first.reshape(-1) + tiles.first).astype(np.int32))
    return found


def combine_level(
    lowering: Lowering,
    node: Node,
    plan: GroupPlan,
    sets: list[TileSet],
    current: list[np.ndarray],
    outs: list[TileSet] | None,
    out_tiles: list[np.ndarray],
    radix: int,
) -> list[np.ndarray]:
    """One level of the tree: up to `radix` neighbours each; the last level finishes."""
    n = current[0].shape[-1]
    n_next = -(-n // radix)
    rows = [level.reshape(-1, n) for level in current]
    n_tasks = rows[0].shape[0] * n_next
    borders = np.zeros(n_tasks + 1, np.int64)
    sources: list[np.ndarray] = []
    devices = np.zeros(n_tasks, np.int16)
    for t in range(n_tasks):
        row, k = divmod(t, n_next)
        span = slice(k * radix, min((k + 1) * radix, n))
        members = np.stack([level[row, span] for level in rows], axis=1)
        if outs is not None:
            devices[t] = lowering.device_of(out_tiles[0][row : row + 1])[0]
        else:
            devices[t] = lowering.device_of(members[:1, 0])[0]
        local = bring(lowering, members.reshape(-1), int(devices[t]), node)
        sources.append(local)
        borders[t + 1] = borders[t] + len(local)
    n_parts = len(sets)
    xp = namespace(lowering.kind)
    op, call = node.op, node.call
    finish = (
        lower_finish(op, call, lowering.kind)
        if outs is not None and op.kind == "reduction"
        else None
    )

    def run(ins: list[Any], targets: list[Any], i: int) -> None:
        if radix == ADDED:
            add_tree(ins, targets[0])
            return
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
            lowering.boxes_of_tiles(level.reshape(-1, n)[:, ::radix].reshape(-1))
            for level in current
        ]
        fresh = [
            lowering.add_tiles(boxes, devices, tiles.dtype, -1)
            for boxes, tiles in zip(first_boxes, sets, strict=True)
        ]
        identity = np.arange(n_tasks, dtype=np.int32)
        writes = tuple((identity + tiles.first).astype(np.int32) for tiles in fresh)
        shape = (*current[0].shape[:-1], n_next)
        next_level = [(identity + tiles.first).reshape(shape) for tiles in fresh]
    biggest = max(
        (
            prod(int(hi - lo) for lo, hi in lowering.box_of(int(s[0]))) * sets[0].dtype.itemsize
            for s in sources[:1]
        ),
        default=0,
    )
    family = lowering.add_family(
        op=f"combine {node.op.name}",
        site=node.site,
        lane=COMPUTE,
        devices=devices,
        run=run,
        reads=(),
        writes=writes,
        many=(borders, np.concatenate(sources).astype(np.int32)),
        scratch_bytes=(added_scratch if radix == ADDED else combine_scratch)(
            min(n, radix), n_parts * max(biggest, 64)
        ),
        values=node.outs if outs is not None else (),
    )
    lowering.edges.of_many(family, None)
    return next_level

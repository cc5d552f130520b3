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
from infinitensor.tasking.kernels.merge_kernel import merge_in_c
from infinitensor.tasking.triton.triton_group import may_generate

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.graph import Node
    from infinitensor.ir.op import Labels
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.ir.tasks import TileSet
    from infinitensor.tasking.graph.lowering import Lowering

RADIX = 8
"""Partial results one combine task merges (a power of two keeps the tree by index)."""
ADDED = 4
"""How many of a product, which are as large as tiles: a task holds all that it merges."""


def lower_contracted(lowering: Lowering, g: int) -> None:
    """Partial results for each piece, then a tree of combines into the output tiles."""
    group, plan = lowering.plan.analysed.groups[g], lowering.plan.groups[g]
    node = plan.space.last
    columns = lowering.columns(g)
    sets = partial_tiles(lowering, plan)
    identity = np.arange(len(plan.devices), dtype=np.int32)
    writes = [
        lowering.new_tiles(value).first + piece_to_tile(plan, labels)
        for value, labels in plan.space.outs[: -len(node.outs)]
    ]
    writes += [identity + tiles.first for tiles in sets]
    if len(group.nodes) > 1 or may_generate(node, lowering.kind):
        fused = fused_kernel(
            lowering.graph, group, plan, lowering.target, True, lowering.n_alike(group)
        )
    elif node.op.kind == "reduction":
        fused = reduction_kernel(lowering, node, plan, columns, sets, [identity], parts_out=True)
    else:
        fused = Fused(single_run(lowering, node, columns, sets, [identity]))
    lowering.add_group(
        plan,
        run=fused.run,
        in_c=fused.called or product_in_c(lowering, node, is_part=True),
        reads=tuple(columns),
        writes=tuple(tiles.astype(np.int32) for tiles in writes),
        scratch_bytes=group_scratch(lowering, g, columns, fused),
        eager=fused.eager,
        sources=fused.sources,
    )
    outs = [lowering.new_tiles(value) for value, _ in plan.space.outs[-len(node.outs) :]]
    combine(lowering, plan, sets, outs)


def partial_tiles(lowering: Lowering, plan: GroupPlan) -> list[TileSet]:
    """Tiles for the partial results of each piece."""
    node = plan.space.last
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


def combine(lowering: Lowering, plan: GroupPlan, sets: list[TileSet], outs: list[TileSet]) -> None:
    """Merge partial results along contracted labels, innermost first, in a tree by index.

    Where none is cut, what is ended is one of each.
    """
    node = plan.space.last
    contracted = [a for a in contracted_order(node, plan) if len(plan.cuts[a]) > 2]
    grid = grid_shape(plan.cuts)
    kept = [label for label in range(len(grid)) if label not in contracted]
    numbers = np.arange(prod(grid)).reshape(grid).transpose([*kept, *contracted])
    lengths = [grid[c] for c in contracted] or [1]
    numbers = numbers.reshape(prod(grid[k] for k in kept), *lengths)
    current = [tiles.first + numbers for tiles in sets]
    results = out_tiles_by_kept(plan, kept, node.call.form.outputs, outs)
    radix = ADDED if _are_added(lowering, node, sets, outs) else RADIX
    while current[0].ndim > 1:
        n = current[0].shape[-1]
        if n == 1 and current[0].ndim > 2:
            current = [level[..., 0] for level in current]
        elif n <= radix and current[0].ndim == 2:
            _combine_level(lowering, node, current, radix, results)
            return
        else:
            current = _combine_level(lowering, node, current, radix)


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


def _combine_level(
    lowering: Lowering,
    node: Node,
    current: list[np.ndarray],
    radix: int,
    results: list[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """One level of the tree: up to `radix` neighbours each; the last one finishes `results`.

    `current`, and what is returned, are the tiles of every part.
    """
    n = current[0].shape[-1]
    rows = [level.reshape(-1, n) for level in current]
    members = [
        np.stack([level[row, k : k + radix] for level in rows], axis=1).reshape(-1)
        for row in range(len(rows[0]))
        for k in range(0, n, radix)
    ]
    sets = [lowering.set_with(int(level[0, 0])) for level in rows]
    firsts = [level[:, ::radix].reshape(-1) for level in rows]
    devices = lowering.device_of(firsts[0] if results is None else results[0])
    sources = [bring(lowering, *both, node) for both in zip(members, devices.tolist(), strict=True)]
    writes = results
    if writes is None:
        fresh = [
            lowering.add_tiles(lowering.boxes_of_tiles(first), devices, tiles.dtype, -1)
            for first, tiles in zip(firsts, sets, strict=True)
        ]
        writes = [np.arange(tiles.first, tiles.first + tiles.n, dtype=np.int32) for tiles in fresh]
    box = lowering.box_of(int(sources[0][0]))
    largest = prod(hi - lo for lo, hi in box) * sets[0].dtype.itemsize
    family = lowering.add_family(
        op=f"combine {node.op.name}",
        site=node.site,
        devices=devices,
        run=_merge_run(lowering, node, len(rows), radix == ADDED, results is not None),
        in_c=merge_in_c(
            node, [len(m) // len(rows) for m in members], results is not None, lowering.target
        ),
        reads=(),
        writes=tuple(writes),
        many=(np.cumsum([0, *map(len, sources)]), np.concatenate(sources).astype(np.int32)),
        scratch_bytes=(added_scratch if radix == ADDED else combine_scratch)(
            min(n, radix), len(rows) * max(largest, 64)
        ),
        values=() if results is None else node.outs,
    )
    lowering.edges.of_many(family, None)
    return [tiles.reshape(*current[0].shape[:-1], -1) for tiles in writes]


def _merge_run(
    lowering: Lowering, node: Node, n_parts: int, is_added: bool, is_last: bool
) -> Callable[[list[Any], list[Any], int], None]:
    """The kernel that merges partial results, and finishes them at last."""
    if is_added:
        return lambda ins, outs, i: add_tree(ins, outs[0])
    xp, op = namespace(lowering.kind), node.op
    finish = None
    if is_last and op.kind == "reduction":
        finish = lower_finish(op, node.call, lowering.kind)

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        pieces = [tuple(ins[k : k + n_parts]) for k in range(0, len(ins), n_parts)]
        merged = merge_tree(op, xp, pieces)
        if finish is not None:
            finish(merged, outs)
        else:
            for part, out in zip(merged, outs, strict=True):
                copy_into(out, part)

    return run

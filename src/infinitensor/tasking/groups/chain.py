"""Products whose pieces are added one after another, each into the sum of those before it.

Pieces that are made apart and combined need memory for each; here there is one sum, and a piece of
an operand is free when it has been added. So an operand can be brought part by part.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import grid_shape, piece_boxes
from infinitensor.ir.tasks import Column
from infinitensor.ops.table.numpy_kernels import lower, namespace
from infinitensor.price import part_seconds
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.kernels.choose_kernel import Fused

if TYPE_CHECKING:
    from infinitensor.tasking.graph.lowering import Lowering


def lower_chain(lowering: Lowering, g: int) -> None:
    """A family for each piece of the contracted label; all but the first read the sum so far, and
    take its memory."""
    plan = lowering.plan.groups[g]
    node = plan.space.last
    columns = lowering.columns(g)
    ((value, labels),) = plan.space.outs
    dtype = lowering.graph.specs[value].dtype
    grid = grid_shape(plan.cuts)
    pieces = np.moveaxis(np.arange(prod(grid)).reshape(grid), plan.chained, 0)
    pieces = pieces.reshape(grid[plan.chained], -1)
    boxes = piece_boxes(plan.cuts, labels, ())
    tile_of = piece_to_tile(plan, labels)
    product = lower(node.op, node.call, lowering.kind)
    xp, added, params = namespace(lowering.kind), node.op.added, dict(node.call.params)
    assert added is not None

    def first(ins: list[Any], outs: list[Any], i: int) -> None:
        product(ins, outs, None)

    def following(ins: list[Any], outs: list[Any], i: int) -> None:
        added(xp, *ins, out=outs[0], **params)

    scratch_bytes = group_scratch(lowering, g, columns, Fused(first))
    seconds = lowering.seconds(plan)
    n_bytes = max(prod(hi - lo for lo, hi in box) for box in boxes.tolist()) * dtype.itemsize
    before: np.ndarray | None = None
    for j, members in enumerate(pieces):
        is_last = j == len(pieces) - 1
        devices = plan.devices[members]
        if is_last:
            tiles = lowering.new_tiles(value)
            made = (tiles.first + tile_of[members]).astype(np.int32)
        else:
            tiles = lowering.add_tiles(boxes[members], devices, dtype, -1)
            made = np.arange(tiles.first, tiles.first + tiles.n, dtype=np.int32)
        reads = tuple(take_rows(column, members) for column in columns)
        lowering.add_group(
            plan,
            devices=devices,
            run=first if before is None else following,
            # the sum comes first: of operands of that size it is the one whose memory is taken
            reads=reads if before is None else (Column(before), *reads),
            writes=(made,),
            scratch_bytes=scratch_bytes,
            in_place=before is not None,
            seconds=seconds + part_seconds(n_bytes, before is None, lowering.plan.mesh),
            values=node.outs if is_last else (),
        )
        before = made


def take_rows(column: Column, members: np.ndarray) -> Column:
    """The rows of a column that some tasks read."""
    if column.scalar or column.span is not None:
        raise AssertionError("a matrix in one memory is not read in parts")
    boxes = None if column.boxes is None else column.boxes[members]
    return replace(column, tiles=column.tiles[members], boxes=boxes)

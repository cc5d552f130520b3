"""Ops that change tiles in place: their tasks write into the tiles of the version before.

A plain write (`x[region] = v`) copies into a region; any other update has a kernel, which is given
the regions of its tile and of what it reads of each operand.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.op import At, Spec
from infinitensor.ir.tasks import Column
from infinitensor.ops.table.numpy_kernels import namespace, scratch_bytes
from infinitensor.tasking.graph.scratch import needed_specs
from infinitensor.tasking.groups.copy_groups import write_in_c
from infinitensor.tasking.groups.single_op import PLACES
from infinitensor.tasking.groups.write_group import Place, place

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node
    from infinitensor.ir.tasks import TileSet
    from infinitensor.tasking.graph.lowering import Lowering


def lower_update(lowering: Lowering, g: int) -> None:
    """In place into the tiles of the version before."""
    plan = lowering.plan.groups[g]
    node = plan.space.last
    root = lowering.roots[node.outs[0]]
    tiles = lowering.set_with(lowering.first_of[root])
    assert plan.tiles is not None
    targets = (tiles.first + plan.tiles).astype(np.int32)
    by_place = {read.place: route for read, route in lowering.routes(g).items()}
    columns = []
    for k, operand in enumerate(node.operands[1:], 1):
        if operand.value < 0:
            columns.append(Column(np.full(len(targets), operand.scalar, np.int32), scalar=True))
        else:
            columns.append(lowering.column(operand, by_place[k]))
    written = lowering.moves.writes.get(g)
    in_c = None
    if written is not None:
        run = write_run(node, tiles, plan.tiles, written)
        in_c = write_in_c(lowering, node, tiles, plan.tiles, written)
    else:
        run = update_run(lowering, node, columns, tiles, plan.tiles)
    family = lowering.add_family(
        op=node.op.name,
        site=node.site,
        devices=plan.devices,
        run=run,
        reads=tuple(columns),
        writes=(targets,),
        scratch_bytes=update_scratch(lowering, node, columns, tiles),
        updates=True,
        values=node.outs,
        in_c=in_c,
    )
    lowering.edges.of_update(family, node, written)


def write_run(node: Node, tiles: TileSet, which: np.ndarray, written: np.ndarray) -> Any:
    """The kernel of a plain write's task: it copies the part of the region in its tile, if any."""
    region = node.region
    assert region is not None

    @lru_cache(maxsize=PLACES)
    def place_of(i: int) -> Place | None:
        box = tuple(map(tuple, written[i].tolist()))
        origin = tuple(map(tuple, tiles.boxes[which[i]].tolist()))
        return place(region, box, origin) if all(hi > lo for lo, hi in box) else None

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        found = place_of(i)
        if found is not None:
            found.put(outs[0], ins[0])

    return run


def update_run(
    lowering: Lowering, node: Node, columns: list[Column], tiles: TileSet, which: np.ndarray
) -> Any:
    """The kernel of any other update's task; it does nothing without anything to read."""
    kernel = node.op.kernel_for(lowering.kind)
    xp = namespace(lowering.kind)
    params = dict(node.call.params)

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        if columns and all(column.tiles[i] < 0 and not column.scalar for column in columns):
            return
        origin = tuple(map(tuple, tiles.boxes[which[i]].tolist()))
        boxes = (origin, *(lowering.seen_box(column, i) for column in columns))
        kernel(xp, *ins, out=outs[0], at=At((origin,), boxes), **params)

    return run


def update_scratch(lowering: Lowering, node: Node, columns: list[Column], tiles: TileSet) -> int:
    """Scratch bytes of an update's kernel; a plain write has none."""
    if node.region is not None:
        return 0
    ins = (Spec((0,), tiles.dtype), *needed_specs(lowering, node, columns))
    largest = max(
        (tuple(int(hi - lo) for lo, hi in b) for b in tiles.boxes.tolist()),
        key=prod,
        default=(),
    )
    outs = (Spec(largest, tiles.dtype),)
    return scratch_bytes(node.op, node.call, ins, outs, lowering.target)

"""Reductions over pairs whose first set streams by: each lane goes on from its result so far.

A part of x stays in each lane while the tiles of y come by, once for all lanes. Then the next parts
take their place, and y comes by again, from its end this time: what is still there is used first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.ir.plan import piece_to_tile
from infinitensor.ir.region import grid_shape, piece_boxes
from infinitensor.ir.tasks import Column
from infinitensor.ops.table.numpy_kernels import lower_partial
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.chain import take_rows
from infinitensor.tasking.groups.combine import combine
from infinitensor.tasking.kernels.choose_kernel import Fused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.tasking.graph.lowering import Lowering

Y, X = 0, 1
"""The labels of the points of each set."""


def lower_streamed(lowering: Lowering, g: int) -> None:
    """A family for each tile of y in each pass. A part of x has a result of its own; where x is
    contracted too a lane has one, through all of its parts, and these are combined."""
    plan, mesh = lowering.plan.groups[g], lowering.plan.mesh
    node = plan.space.last
    columns = lowering.columns(g)
    n_y, n_x, *rest = grid_shape(plan.cuts)
    assert set(rest) <= {1}, "only points are cut"
    n_lanes = min(mesh.n_devices * mesh.n_concurrent, n_x)
    is_one = X in plan.space.contracted
    """Whether all parts of x have one result."""
    n_results = n_lanes if is_one else n_x
    results = replace(
        plan,
        cuts=((0, plan.cuts[Y][-1]), tuple(range(n_results + 1)), *plan.cuts[2:]),
        devices=plan.devices[:n_results],
    )
    kept = [labels for _, labels in plan.space.outs]
    dtypes = [spec.dtype for spec in node.call.outs]
    outs = [lowering.new_tiles(value) for value, _ in plan.space.outs]
    boxes = [piece_boxes(plan.cuts, labels, ()) for labels in kept]
    ends = outs
    if is_one and n_lanes > 1:
        ends = [
            lowering.add_tiles(box[:n_lanes], results.devices, dtype, -1)
            for box, dtype in zip(boxes, dtypes, strict=True)
        ]
        last = [tiles.first + np.arange(n_lanes) for tiles in ends]
    else:
        made_of = zip(outs, kept, strict=True)
        last = [tiles.first + piece_to_tile(results, labels) for tiles, labels in made_of]
    first, following = _kernels(lowering, node, len(kept))
    scratch_bytes = group_scratch(lowering, g, columns, Fused(first))
    so_far: list[np.ndarray] = []
    for parts, j, is_first, is_last in turns(n_y, n_x, n_lanes, is_one):
        members = j * n_x + parts
        devices = plan.devices[members]
        so_far = [] if is_first else [tiles[: len(parts)] for tiles in so_far]
        before = tuple(Column(tiles) for tiles in so_far)
        so_far = []
        for box, dtype, end in zip(boxes, dtypes, last, strict=True):
            tiles = lowering.add_tiles(box[members[~is_last]], devices[~is_last], dtype, -1)
            made = np.empty(len(parts), np.int32)
            made[~is_last] = tiles.first + np.arange(tiles.n)
            made[is_last] = end[(parts % n_lanes if is_one else parts)[is_last]]
            so_far.append(made)
        lowering.add_group(
            plan,
            devices=devices,
            run=following if before else first,
            # what was made so far comes first: its memory is taken
            reads=(*before, *(take_rows(column, members) for column in columns)),
            writes=tuple(so_far),
            scratch_bytes=scratch_bytes,
            in_place=bool(before),
            in_turn=True,
            values=node.outs if ends is outs and is_last.any() else (),
        )
    if ends is not outs:
        combine(lowering, results, ends, outs)


def turns(
    n_y: int, n_x: int, n_lanes: int, is_one: bool
) -> Iterator[tuple[np.ndarray, int, bool, np.ndarray]]:
    """Parts of x that work on a tile of y, one in each lane; the tile; whether they begin; which of
    them end. `is_one`: a lane goes on with its next part.

    >>> [(parts.tolist(), j, ends.tolist()) for parts, j, _, ends in turns(2, 3, 2, True)]
    [([0, 1], 0, [False, False]), ([0, 1], 1, [False, True]), ([2], 1, [False]), ([2], 0, [True])]
    """
    for turn, start in enumerate(range(0, n_x, n_lanes)):
        parts = np.arange(start, min(start + n_lanes, n_x))
        tiles = range(n_y) if turn % 2 == 0 else range(n_y - 1, -1, -1)
        for step, j in enumerate(tiles):
            is_last = np.full(len(parts), step == n_y - 1)
            if is_one:
                is_last &= parts + n_lanes >= n_x
            yield parts, j, step == 0 and not (is_one and turn), is_last


def _kernels(lowering: Lowering, node: Any, n_parts: int) -> tuple[Any, Any]:
    """The kernel of a first tile of y, and of those that follow: they get the result so far."""
    partial = lower_partial(node.op, node.call, lowering.kind)

    def first(ins: list[Any], outs: list[Any], i: int) -> None:
        for part, out in zip(partial(ins, None), outs, strict=True):
            copy_into(out, part)

    def following(ins: list[Any], outs: list[Any], i: int) -> None:
        parts = partial(ins[n_parts:], None, tuple(ins[:n_parts]))
        for part, out in zip(parts, outs, strict=True):
            copy_into(out, part)

    return first, following

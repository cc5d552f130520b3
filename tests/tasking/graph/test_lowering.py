"""The state while a plan is lowered: tiles by number, families by their first task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.ir.graph import Operand
from infinitensor.tasking import lower_plan
from infinitensor.tasking.graph.lowering import Lowering, boxes_array, values_in_one_piece

if TYPE_CHECKING:
    from infinitensor.pipeline import Prepared


def plan(devices: str) -> Prepared:
    with strict(devices) as session:
        x, y = it.asarray(np.ones((9, 6))), it.asarray(np.ones(6))
        return prepared(session, it.cumsum(x * 2, axis=0) + y)


def test_tiles_of_leaves_are_there_first_in_the_order_of_the_leaves() -> None:
    found = plan("null*2")
    lowering = Lowering(found.plan, found.moves)
    assert [tiles.leaf for tiles in lowering.tiles] == list(range(len(lowering.graph.leaves)))
    at = 0
    for leaf, tiles in zip(lowering.graph.leaves, lowering.tiles, strict=True):
        assert lowering.first_of[leaf.value] == tiles.first == at
        assert lowering.first_tile(Operand(leaf.value)) == at
        assert tiles.devices.tolist() == leaf.layout.owner_array.tolist()
        at += leaf.layout.n_tiles
    assert lowering.n_tiles == at


def test_tiles_and_families_have_the_next_numbers() -> None:
    found = plan("null*2")
    lowering = Lowering(found.plan, found.moves)
    before = lowering.n_tiles
    boxes = np.asarray([[[0, 2]], [[2, 6]]])
    tiles = lowering.add_tiles(boxes, np.asarray([0, 1], np.int16), np.dtype("f4"), -1)
    assert (tiles.first, lowering.n_tiles, tiles.whole) == (before, before + 2, False)
    assert lowering.box_of(before + 1) == ((2, 6),)
    assert lowering.set_with(before + 1) is tiles
    assert lowering.device_of(np.asarray([before + 1, 0])).tolist()[0] == 1
    columns: dict[str, Any] = {"op": "op", "site": None, "lane": 0, "run": None, "reads": ()}
    devices = np.zeros(3, np.int16)
    one = lowering.add_family(devices=devices, writes=(), **columns)
    two = lowering.add_family(devices=devices, writes=(), **columns)
    assert (one.first, two.first, lowering.n_tasks) == (0, 3, 6)


def test_boxes_of_tiles_are_those_of_their_sets_also_across_sets() -> None:
    found = plan("null*2")
    lowering = Lowering(found.plan, found.moves)
    extra = lowering.add_tiles(
        np.asarray([[[5, 7], [0, 1]]]), np.zeros(1, np.int16), np.dtype("f8"), -1
    )
    tiles = np.asarray([1, extra.first, 0])
    assert [tuple(map(tuple, box)) for box in lowering.boxes_of_tiles(tiles).tolist()] == [
        lowering.box_of(int(tile)) for tile in tiles
    ]


@pytest.mark.parametrize("devices", ["null*2", "cpu*2", "cpu"])
def test_held_values_begin_where_their_tiles_do(devices: str) -> None:
    found = plan(devices)
    graph = lower_plan(found.plan, found.moves)
    assert graph.held.keys() == found.analysed.graph.kept
    for first, layout in graph.held.values():
        tiles = next(tiles for tiles in graph.tiles if tiles.first == first)
        assert tiles.n == layout.n_tiles
        assert tiles.boxes.tolist() == boxes_array(layout.cuts).tolist()
    assert graph.n_tasks == sum(family.n for family in graph.families)
    assert graph.n_tiles == sum(tiles.n for tiles in graph.tiles)


def test_in_one_memory_what_is_stored_is_in_one_piece_and_else_nothing() -> None:
    found = plan("cpu")
    pieces = values_in_one_piece(found.plan, found.moves)
    graph, roots = found.analysed.graph, found.analysed.roots
    assert {roots[value] for value in graph.kept} <= pieces
    assert {leaf.value for leaf in graph.leaves if leaf.whole} <= pieces
    other = plan("cpu*2")
    assert values_in_one_piece(other.plan, other.moves) == frozenset()

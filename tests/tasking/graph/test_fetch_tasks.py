"""Regions that are not in one tile beside a task are brought together first, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict
from tests.tasking.order import box_of, set_of

import infinitensor as it
from infinitensor.ir.region import overlap
from infinitensor.ir.tasks import COMPUTE, LOAD, PEER
from infinitensor.tasking.graph.fetch_tasks import bring
from infinitensor.tasking.graph.lowering import Lowering

if TYPE_CHECKING:
    from pathlib import Path

    from infinitensor.ir.tasks import Family, Program

A = np.arange(60.0).reshape(10, 6)


def moves(program: Program) -> list[Family]:
    return [family for family in program.graph.families if family.op == "move"]


def by_columns(x: Any) -> list[Any]:
    """Two results of whole columns of a matrix that is stored in rows."""
    return [it.sort(x, axis=0), it.argsort(x, axis=0)]


def by_columns_on_two_devices() -> Program:
    with strict("null*2") as session:
        return prepared(session, *by_columns(it.asarray(A))).program


def test_a_region_that_several_groups_want_is_brought_once() -> None:
    program = by_columns_on_two_devices()
    brought = []
    for family in moves(program):
        assert family.many is not None
        borders, sources = family.many
        for i, target in enumerate(family.writes[0].tolist()):
            value = set_of(program, int(sources[borders[i]])).first
            brought.append((value, box_of(program, target), int(family.devices[i])))
    assert brought
    assert len(brought) == len(set(brought))


def test_the_sources_of_a_move_cover_its_region_and_lanes_say_what_crosses() -> None:
    program = by_columns_on_two_devices()
    assert moves(program)
    for family in moves(program):
        assert family.many is not None
        borders, sources = family.many
        crosses = False
        for i, target in enumerate(family.writes[0].tolist()):
            box = box_of(program, target)
            covered = np.zeros([hi - lo for lo, hi in box], bool)
            for tile in sources[borders[i] : borders[i + 1]].tolist():
                common = overlap(box_of(program, tile), box)
                assert common is not None
                at = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(common, box, strict=True))
                covered[at] = True
                tiles = set_of(program, tile)
                crosses |= int(tiles.devices[tile - tiles.first]) != int(family.devices[i])
            assert covered.all()
        assert family.lane == (PEER if crosses else COMPUTE)


def test_a_move_puts_parts_of_tiles_where_they_belong() -> None:
    program = by_columns_on_two_devices()
    assert moves(program)
    for family in moves(program):
        assert family.many is not None
        borders, sources = family.many
        for i, target in enumerate(family.writes[0].tolist()):
            tiles = sources[borders[i] : borders[i + 1]].tolist()
            spots = [tuple(slice(lo, hi) for lo, hi in box_of(program, t)) for t in tiles]
            wanted = A[tuple(slice(lo, hi) for lo, hi in box_of(program, target))]
            out = np.full(wanted.shape, -1.0)
            family.run([A[spot] for spot in spots], [out], i)
            np.testing.assert_array_equal(out, wanted)


def test_what_is_in_a_file_is_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", A)
    with strict("cpu", 7, 100_000, "64MiB") as session:
        x = it.open(tmp_path / "a.npy")
        program = prepared(session, it.sum(x * 2, axis=0)).program
    assert {family.lane for family in moves(program)} == {LOAD}


@pytest.mark.parametrize("device", [0, 1])
def test_tiles_on_other_devices_come_as_copies_and_are_counted(device: int) -> None:
    with strict("null*2") as session:
        found = prepared(session, it.sort(it.asarray(A), axis=1))
    lowering = Lowering(found.plan, found.moves)
    leaf = lowering.tiles[0]
    tiles = np.arange(leaf.n, dtype=np.int32)
    moved = dict(found.moves.moved)
    local = bring(lowering, tiles, device, found.analysed.graph.nodes[0])
    away = leaf.devices != device
    assert away.any()
    assert (local[~away] == tiles[~away]).all()
    assert (lowering.device_of(local) == device).all()
    assert [lowering.box_of(int(t)) for t in local] == [lowering.box_of(int(t)) for t in tiles]
    sizes = (leaf.boxes[away, :, 1] - leaf.boxes[away, :, 0]).prod(axis=1).sum() * 8
    way = (1 - device, device)
    assert found.moves.moved[way] - moved.get(way, 0) == sizes

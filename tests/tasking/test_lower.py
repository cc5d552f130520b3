"""What must hold of every Program: nothing is read before it is made, nothing written unordered."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.ir.region import box_size, overlap
from infinitensor.ir.slab import slab_bytes
from infinitensor.ir.tasks import PEER

from .order import ancestors, box_of, ordered, set_of, touches
from .programs import recorded

if TYPE_CHECKING:
    from infinitensor.ir.tasks import Program
    from infinitensor.ir.tracker import Region
    from infinitensor.pipeline import Prepared

seeds = st.integers(0, 1 << 30)
sessions = st.sampled_from([("null*3", 7), ("cpu*3", 7), ("cpu*3", 3), ("cpu*2", 20)])


@given(seeds, sessions)
@examples(40)
def test_every_program_is_ordered_where_it_must_be(seed: int, kind: tuple[str, int]) -> None:
    with strict(*kind) as session:
        tensors = recorded(seed)
        if tensors:
            check(prepared(session, *tensors))


@pytest.mark.parametrize("memory", [6000, 12_000, 30_000])
@pytest.mark.parametrize("seed", range(6))
def test_a_tight_budget_orders_slots_that_are_used_again(seed: int, memory: int) -> None:
    with strict("cpu*2", 7, memory) as session:
        tensors = recorded(seed, 12)
        try:
            found = prepared(session, *tensors)
        except it.MemoryBudgetError:
            return
        check(found)


def check(found: Prepared) -> None:
    check_reads(found)
    check_slots(found)
    check_regions(found)
    check_peaks(found)


def check_reads(found: Prepared) -> None:
    """Every tile a task reads is a leaf's, or made by a task before it."""
    program = found.program
    above = ancestors(program)
    leaves = {
        tiles.first + k for tiles in program.graph.tiles if tiles.leaf >= 0 for k in range(tiles.n)
    }
    for touch in touches(program):
        read = touch.reads | (touch.writes if touch.family.updates else frozenset())
        for tile in read - leaves:
            producer = int(program.producers[tile])
            assert producer >= 0, (touch.family.op, tile)
            assert program.needed[producer]
            assert above[touch.task] >> producer & 1, (touch.family.op, tile)
        assert all(program.slots[tile] >= 0 for tile in touch.writes)


def check_slots(found: Prepared) -> None:
    """Tasks that use one buffer for different tiles never run at the same time."""
    program = found.program
    above = ancestors(program)
    users: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for touch in touches(program):
        for tile in touch.tiles:
            if program.slots[tile] >= 0:
                users[int(program.slots[tile])].append((touch.task, tile))
    for mine in users.values():
        for (a, tile_a), (b, tile_b) in combinations(mine, 2):
            assert tile_a == tile_b or ordered(above, a, b)
    held = {
        first + k for first, layout in program.graph.held.values() for k in range(layout.n_tiles)
    }
    slots = [int(program.slots[tile]) for tile in held if program.slots[tile] >= 0]
    assert len(slots) == len(set(slots)), "two kept tiles in one buffer"
    for tile in held:
        maker = int(program.producers[tile])
        for task, other in users.get(int(program.slots[tile]), ()):
            if other != tile:
                assert task == maker or above[maker] >> task & 1, "a kept tile is written over"


def check_regions(found: Prepared) -> None:
    """Two tasks that write one element of a tile, or write and read it, are ordered."""
    program = found.program
    above = ancestors(program)
    regions = written_regions(found)
    accesses: dict[int, list[tuple[int, bool, Any]]] = defaultdict(list)
    for touch in touches(program):
        for tile in touch.writes:
            accesses[tile].append((touch.task, True, regions.get((touch.task, tile))))
        for column in touch.family.reads:
            tile = int(column.tiles[touch.place]) if not column.scalar else -1
            if tile >= 0:
                region: Region | None = None
                if column.boxes is not None:
                    box = tuple(map(tuple, column.boxes[touch.place].tolist()))
                    if any(hi <= lo for lo, hi in box):
                        continue
                    region = tuple((lo, hi, 1) for lo, hi in box)
                    if column.access is not None:
                        region = column.access.base_region(box)
                accesses[tile].append((touch.task, False, region))
    for mine in accesses.values():
        for (a, a_writes, a_region), (b, b_writes, b_region) in combinations(mine, 2):
            if (a_writes or b_writes) and a != b and share(a_region, b_region):
                assert ordered(above, a, b), (a, b, a_region, b_region)


def written_regions(found: Prepared) -> dict[tuple[int, int], Region]:
    """(task, tile) -> the elements of the base that a plain write changes."""
    regions: dict[tuple[int, int], Region] = {}
    nodes = {node.outs[0]: node for node in found.analysed.graph.nodes}
    groups = {plan.space.last.outs[0]: g for g, plan in enumerate(found.plan.groups)}
    for family in found.program.graph.families:
        if not family.updates:
            continue
        node = nodes[family.values[0]]
        boxes = found.moves.writes.get(groups[family.values[0]])
        if boxes is None or node.region is None:
            continue
        for place, tile in enumerate(family.writes[0].tolist()):
            box = tuple(map(tuple, boxes[place].tolist()))
            empty = any(hi <= lo for lo, hi in box)
            region = ((0, 0, 1),) * 2 if empty else node.region.base_region(box)
            regions[family.first + place, tile] = region
    return regions


def share(a: Region | None, b: Region | None) -> bool:
    """Whether two regions share an element; None is the whole tile."""
    if a is None or b is None:
        other = a if b is None else b
        return other is None or all(hi > lo for lo, hi, _ in other)
    return all(set(range(*p)) & set(range(*q)) for p, q in zip(a, b, strict=True))


def check_peaks(found: Prepared) -> None:
    """Buffers and the tiles of leaves are within the planned peak of their device."""
    program = found.program
    used = dict.fromkeys(program.peak_bytes, 0)
    for n_bytes, device in zip(program.slot_bytes, program.slot_devices, strict=True):
        used[int(device)] += int(n_bytes)
    for tiles in program.graph.tiles:
        if tiles.leaf < 0:
            continue
        for k, device in enumerate(tiles.devices.tolist()):
            if device >= 0 and program.slots[tiles.first + k] < 0:
                shape = tiles.boxes[k, :, 1] - tiles.boxes[k, :, 0]
                used[device] += int(slab_bytes(int(np.prod(shape)) * tiles.dtype.itemsize))
    assert all(used[device] <= peak for device, peak in program.peak_bytes.items())


@given(seeds, st.sampled_from([3, 7, 20]))
@examples(25)
def test_moved_bytes_are_what_was_planned(seed: int, tile_elements: int) -> None:
    with strict("cpu*3", tile_elements) as session:
        tensors = recorded(seed)
        if not tensors:
            return
        program = prepared(session, *tensors).program
        it.stats(reset=True)
        it.compute(*tensors)
        counted = it.stats()["bytes_moved"]
        assert counted == moved_by_tasks(program)
        if program.needed.all():
            assert counted == sum(program.moved.values())


def moved_by_tasks(program: Program) -> int:
    """Bytes that the tasks that run bring from other devices."""
    n_bytes = 0
    for touch in touches(program):
        if touch.family.lane == PEER:
            (target,) = touch.writes
            device = int(touch.family.devices[touch.place])
            for tile in touch.reads:
                tiles = set_of(program, tile)
                if int(tiles.devices[tile - tiles.first]) != device:
                    common = overlap(box_of(program, tile), box_of(program, target))
                    n_bytes += 0 if common is None else box_size(common) * tiles.dtype.itemsize
    return n_bytes


def test_tasks_that_nobody_needs_do_not_run() -> None:
    with strict("cpu*2", 10) as session:
        found = prepared(session, it.sort(it.asarray(np.ones((40, 5))), axis=1)[:2] + 1)
        assert np.count_nonzero(found.program.needed) < found.program.graph.n_tasks


def test_a_plan_takes_few_bytes_a_tile() -> None:
    with strict("null", 1) as session:
        found = prepared(session, it.ones((50, 100)) + it.arange(100))
        n_tiles = found.program.graph.n_tiles
        assert n_tiles >= 5000
        assert found.program.plan_bytes <= 300 * n_tiles

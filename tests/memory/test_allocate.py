"""Buffers before running: what fits, what is used again, what is refused and how."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.ir.sessions import prepared, strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.ir.tasks import Misfit, Program
from infinitensor.memory import allocate


def chain(n_steps: int = 6) -> Any:
    x = it.ones((64, 16))
    for _ in range(n_steps):
        x = it.cumsum(x, axis=1)
    return x


def test_a_program_that_cannot_fit_names_op_need_limit_and_line() -> None:
    with strict("null*2", 64, memory=3000) as session:
        x = it.ones((64, 16))
        y = it.cumsum(x, axis=1)
        with pytest.raises(it.MemoryBudgetError, match="does not fit on null:") as caught:
            prepared(session, y)
    error = caught.value
    assert error.limit_bytes == 3000
    assert error.need_bytes > 3000
    assert error.op in str(error)
    assert f"{error.need_bytes} bytes" in str(error)
    assert "3000 bytes" in str(error)
    assert "test_allocate.py:" in error.built_at
    assert error.built_at in str(error)
    assert "remedy" in str(error)
    assert isinstance(error, MemoryError)


def test_the_memory_stage_says_which_device_and_task() -> None:
    with strict("null*2", 64) as session:
        found = prepared(session, chain())
    tasks = found.program.graph
    misfit = allocate(tasks, [1 << 40, 1000], [], 1, {})
    assert isinstance(misfit, Misfit)
    assert re.search(r"cumsum|_scan|ones|creat|full", misfit.op)
    assert misfit.device == 1
    assert misfit.limit_bytes == 1000 < misfit.need_bytes
    assert "test_allocate.py:" in str(misfit.site)


def test_the_planned_peak_is_enough_and_a_byte_less_is_not_the_same_plan() -> None:
    with strict("null", 64) as session:
        found = prepared(session, chain())
    need = found.program.peak_bytes[0]
    again = allocate(found.program.graph, [need], [], 1, {})
    assert isinstance(again, Program)
    assert again.peak_bytes[0] == need
    tighter = allocate(found.program.graph, [need - 1], [], 1, {})
    if isinstance(tighter, Misfit):  # both ends are right
        assert tighter.need_bytes >= need
    else:
        assert tighter.peak_bytes[0] < need


def test_smaller_tiles_are_tried_before_a_program_is_refused() -> None:
    def record() -> Any:
        return it.sum(it.ones((256, 64)) * it.arange(64.0), axis=0)

    with strict("null", 0) as session:
        roomy = prepared(session, record())
    need = roomy.program.peak_bytes[0]
    with strict("null", 0, memory=need // 2) as session:
        tight = prepared(session, record())
        assert tight.tile_elements > 0
        assert tight.program.peak_bytes[0] <= need // 2
        assert tight.program.graph.n_tasks > roomy.program.graph.n_tasks
        assert "smaller" in str(it.plan(record()))


def test_a_chain_needs_few_versions_at_a_time() -> None:
    def slots(n_steps: int, memory: int) -> int:
        with strict("null", 64, memory=memory) as session:
            return sum(prepared(session, chain(n_steps)).program.slot_bytes.tolist())

    whole = 64 * 16 * 8
    assert slots(12, 6 * whole) <= 6 * whole


@given(st.integers(0, 1 << 30), st.sampled_from(["null*3", "cpu*2"]))
@examples(40)
def test_in_place_never_takes_a_kept_or_foreign_tile(seed: int, devices: str) -> None:
    with strict(devices, 7) as session:
        tensors = recorded(seed)
        if not tensors:
            return
        program = prepared(session, *tensors).program
    graph = program.graph
    held = {
        first + k: value
        for value, (first, layout) in graph.held.items()
        for k in range(layout.n_tiles)
    }
    by_slot: dict[int, list[int]] = defaultdict(list)
    for tile, slot in enumerate(program.slots.tolist()):
        if slot >= 0:
            by_slot[slot].append(tile)
    for tiles in by_slot.values():
        assert len([tile for tile in tiles if tile in held]) <= 1
        sizes = {int(program.slot_bytes[program.slots[tile]]) for tile in tiles}
        assert len(sizes) == 1
    for tile_set in graph.tiles:
        own = program.slots[tile_set.first : tile_set.first + tile_set.n]
        if tile_set.leaf >= 0:
            assert all(s < 0 or int(s) in program.slot_leaves for s in own)
    outside = [
        tile_set.first + k
        for tile_set in graph.tiles
        if tile_set.leaf >= 0
        for k in range(tile_set.n)
        if program.slots[tile_set.first + k] < 0
    ]
    for family in graph.families:
        for writes in family.writes:
            assert not set(writes.tolist()) & set(outside), "a foreign tile is written"


def test_a_live_leaf_is_not_used_up_and_a_dead_one_is() -> None:
    with strict("cpu", 1000) as session:
        x = it.asarray(np.ones((10, 10)))
        it.compute(x * 1)  # puts x into tiles
        y = x + 1
        assert not prepared(session, y).program.slot_leaves
        del x
        assert prepared(session, y).program.slot_leaves
        assert float(y.sum()) == 200.0


def expect_refusal() -> None:
    """Apart, so that the traceback does not hold the caller's tensors."""
    with pytest.raises(it.MemoryBudgetError, match="does not fit"):
        it.compute(it.ones((300, 300)) + 2)


def test_what_others_hold_is_not_there_to_be_used() -> None:
    with strict("cpu", 10_000, memory="1MiB"):
        x = it.ones((300, 300)) + 1
        it.compute(x)
        expect_refusal()
        del x
        it.compute(it.ones((300, 300)) + 2)

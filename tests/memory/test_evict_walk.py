"""Programs larger than memory: the same values whatever the budget, the order and the events."""

from __future__ import annotations

import random
from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import local, prepared, strict
from tests.reliability.sampling import WHOLE, sample, time_limit
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor import events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from infinitensor.runtime import Run

DISK = "64MiB"
SHARES = (0.75, 0.5, 0.3, 0.15)
PROGRAMS = list(range(1000))


@contextmanager
def any_ready_task(seed: int) -> Iterator[None]:
    """Every lane takes a ready task by chance, not the next of the order."""

    def shuffle(run: Run) -> None:
        devices = run.tiles.devices
        is_null = len(devices) == 2 and devices[0].kind == "null"
        if run.program.order is None and (is_null or run.program.at_once == 1):
            return  # one thread takes all of them as they are numbered
        order = list(run.start.order)
        random.Random(seed).shuffle(order)
        ranks = array("q", bytes(8 * run.program.graph.n_tasks))
        for place, task in enumerate(order):
            ranks[task] = place
        run.start = run.start._replace(order=array("q", order), ranks=ranks)

    with events.on("run_start", shuffle):
        yield


def results(
    seed: int, devices: str, memory: int | None, tile_elements: int = 7
) -> tuple[list[Any], int, bool]:
    """The values of a random program in a budget, the bytes it was planned to need, and whether
    its blocks were smaller for want of memory."""
    with strict(devices, tile_elements, memory, DISK, inline_elements=0) as session:
        asked = recorded(seed)
        if not asked:
            return [], 0, False
        peak = max(prepared(session, *asked).program.peak_bytes.values())
        with any_ready_task(seed):
            it.compute(*asked)
        found = [np.array(tensor.numpy()) for tensor in asked]
        taken = max(ledger.peak_bytes for ledger in local(session).ledgers)
        assert memory is None or taken <= memory
        del asked
        session.drain()
        assert local(session).tiers.spilled_bytes == 0
        return found, peak, it.stats()["smaller_blocks"] > 0


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", sample(PROGRAMS, 60, "tight budgets"))
@time_limit(60)
def test_a_tight_budget_changes_no_bit_in_whatever_order_tasks_run(seed: int) -> None:
    devices = ("cpu", "cpu*2")[seed % 2]
    roomy, peak, _ = results(seed, devices, None)
    for share in SHARES if WHOLE else SHARES[seed % 2 :: 2]:
        budget = int(share * peak)
        try:
            found, needed, is_smaller = results(seed, devices, budget)
        except it.MemoryBudgetError as error:
            assert error.need_bytes > budget  # noqa: PT017 - a budget may be too small
            continue
        assert needed <= budget
        for a, b in zip(roomy, found, strict=True):
            if is_smaller:
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
            else:
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", sample(PROGRAMS, 40, "null budgets"))
@time_limit(60)
def test_programs_of_nothing_never_overrun_nor_wait_for_ever(seed: int) -> None:
    with strict("null*2", 7) as session:
        asked = recorded(seed)
        if not asked:
            return
        peak = max(prepared(session, *asked).program.peak_bytes.values())
    for share in SHARES:
        with strict("null*2", 7, int(share * peak), DISK, inline_elements=0) as session:
            asked = recorded(seed)
            try:
                program = prepared(session, *asked).program
            except it.MemoryBudgetError as error:
                assert error.need_bytes > share * peak - 1  # noqa: PT017
                continue
            assert all(need <= share * peak for need in program.peak_bytes.values())
            with any_ready_task(seed):
                it.compute(*asked)
            for ledger in local(session).ledgers:
                assert ledger.peak_bytes <= share * peak


def test_what_is_read_from_a_file_is_never_written_back(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((400, 50))
    np.save(tmp_path / "x.npy", values)
    with strict("cpu", 500, 80_000, DISK):
        x = it.open(tmp_path / "x.npy")
        found = (x - x.mean(axis=0)).std(axis=0).numpy()
        stats = it.stats()
    np.testing.assert_allclose(found, values.std(axis=0))
    assert stats["bytes_evicted"] == 0
    assert values.nbytes < stats["bytes_read"] <= 3 * values.nbytes
    assert stats["peak_bytes"]["cpu:0", "device"] <= 80_000


def test_a_result_larger_than_memory_is_on_disk_and_can_be_used() -> None:
    values = np.random.default_rng(1).random((300, 40))
    with strict("cpu", 500, 60_000, DISK) as session:
        x = it.asarray(values[:100])
        y = it.concat([x, it.asarray(values[100:200]), it.asarray(values[200:])]) * 2
        it.compute(y)
        assert local(session).tiers.spilled_bytes > 0
        np.testing.assert_array_equal(y.numpy(), values * 2)
        np.testing.assert_array_equal(y[7:250:3, 5].numpy(), values[7:250:3, 5] * 2)
        y[3] = 0
        np.testing.assert_array_equal(y[2:5].numpy()[1], np.zeros(40))
        del x, y
        session.drain()
        assert local(session).tiers.spilled_bytes == 0


def test_a_plan_takes_no_more_of_the_disk_than_is_left() -> None:
    with strict("cpu", 500, 60_000, 90_000) as session:
        kept = it.asarray(np.ones((100, 50)))
        more = it.asarray(np.ones((50, 50)))
        it.compute(it.full((100, 50), 2.0) + 1)  # evicts what was stored before it
        left = 90_000 - local(session).tiers.spilled_bytes
        assert left < 90_000
        with pytest.raises(it.MemoryBudgetError, match="does not fit"):
            it.compute(it.concat([kept, kept, more]) * 2)
        assert float(kept.sum() + more.sum()) == 7500


def test_tensors_not_read_for_long_make_room_for_new_ones() -> None:
    with strict("cpu", 500, 100_000, DISK) as session:
        kept = [it.full((100, 50), k) + 0.5 for k in range(5)]
        for tensor in kept:
            it.compute(tensor)
        assert local(session).ledgers[0].used_bytes <= 100_000
        assert local(session).tiers.spilled_bytes >= 2 * 40_000
        for k, tensor in enumerate(kept):
            assert float(tensor.sum()) == (k + 0.5) * 5000
        assert it.stats()["bytes_evicted"] >= 2 * 40_000


def test_a_result_of_one_tile_that_was_evicted_is_an_array_of_numbers() -> None:
    with strict("cpu", 500, 60_000, DISK) as session:
        x = it.asarray(np.ones((20, 20))) + 1
        it.compute(x)
        session.make_room(1 << 20, ())
        found = [it.concat([x * k]).numpy() for k in range(3)]
        tensors = [it.full((20, 20), float(k)) + x for k in range(30)]
        it.compute(*tensors)
        assert any(tensor._version.table.layout.owners[0] < 0 for tensor in tensors)  # type: ignore[union-attr]
        for k, tensor in enumerate(tensors):
            assert tensor.numpy().dtype == np.float64
            np.testing.assert_array_equal(tensor.numpy(), np.full((20, 20), k + 2.0))
    np.testing.assert_array_equal(found[2], np.full((20, 20), 4.0))

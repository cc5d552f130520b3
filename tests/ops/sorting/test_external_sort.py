"""Lines longer than memory are sorted in parts, within the budget, to NumPy's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict

import infinitensor as it
from infinitensor.ops.sorting.external_sort import split_equal

N = 120_000
BUDGET = N * 8 * 3 // 4


def lines() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(N)
    few = rng.integers(0, 3, N)
    return {
        "normal": normal,
        "sorted": np.sort(normal),
        "all equal": np.ones(N),
        "few values": few,
        "one value and some": np.where(few == 0, normal, 0.5),
        "holes": np.where(few == 1, np.nan, normal),
        "infinite": np.where(few == 1, -np.inf, normal),
        "unsigned": rng.integers(0, 2**64, N, dtype=np.uint64),
        "bytes": rng.integers(-100, 100, 8 * N).astype(np.int8),
    }


@pytest.mark.parametrize("name", list(lines()))
def test_a_line_longer_than_memory_is_sorted_within_the_budget(name: str) -> None:
    devices = "cpu*2" if name in ("holes", "few values") else "cpu"
    values = lines()[name]
    with strict(devices, 16_000, BUDGET, "64MiB") as session:
        x = it.asarray(values)
        found = it.sort(x)
        assert it.stats()["forced_evaluations"] > 0
        it.compute(found)
        for ledger in local(session).ledgers:
            assert ledger.peak_bytes <= BUDGET
        np.testing.assert_array_equal(found.numpy(), np.sort(values))
        del x, found
        session.drain()
        assert local(session).tiers.spilled_bytes == 0


def test_descending_and_flattened_lines_are_sorted_in_parts_too() -> None:
    values = lines()["normal"]
    with strict("cpu", 16_000, BUDGET, "64MiB"):
        x = it.asarray(values.reshape(100, -1))
        np.testing.assert_array_equal(it.sort(x, axis=None).numpy(), np.sort(values))
        down = it.sort(x.reshape(-1), descending=True)
        np.testing.assert_array_equal(down.numpy(), np.sort(values)[::-1])


def test_a_line_that_fits_or_has_no_lower_tier_is_merged_without_an_evaluation() -> None:
    values = lines()["normal"]
    with strict("cpu", 16_000, "8MiB", "64MiB"):
        found = it.sort(it.asarray(values))
        assert it.stats()["forced_evaluations"] == 0
        np.testing.assert_array_equal(found.numpy(), np.sort(values))
    with strict("cpu", 16_000, BUDGET * 5 // 3):
        found = it.sort(it.asarray(values))
        assert it.stats()["forced_evaluations"] == 0
        with pytest.raises(it.MemoryBudgetError, match="does not fit"):
            it.compute(found)


@pytest.mark.parametrize("lines_of_memory", [1.5, 2.3, 3, 4, 5, 6])
def test_a_line_is_sorted_in_every_memory_with_a_lower_tier(lines_of_memory: float) -> None:
    """What merging works in is as much as three lines here: where it has no room, parts do."""
    values = lines()["normal"]
    budget = int(lines_of_memory * values.nbytes)
    with strict("cpu", 16_000, budget, "64MiB") as session:
        np.testing.assert_array_equal(it.sort(it.asarray(values)).numpy(), np.sort(values))
        assert local(session).ledgers[0].peak_bytes <= budget


def test_equal_values_are_shared_out_by_run_and_reach_every_rank() -> None:
    rng = np.random.default_rng(1)
    runs = np.sort(rng.integers(0, 4, (5, 40)), axis=1)
    ranks = np.arange(0, 201, 10)
    values = np.sort(runs.ravel())[np.minimum(ranks, 199)]
    left, right = (
        np.stack([np.searchsorted(run, values, side) for run in runs]) for side in ("left", "right")
    )
    borders = split_equal(left, right, ranks)
    np.testing.assert_array_equal(borders.sum(axis=0), ranks)
    assert (np.diff(borders, axis=1) >= 0).all()

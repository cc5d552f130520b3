"""Weights that stream through a GPU's memory: near the bound, in few bytes, planned in few steps.

Plans for an H200 in virtual time (`benchmarks/simulate_tiers.py`); no GPU is needed.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from benchmarks.bench_tiers import WIDTH
from benchmarks.plot_budgets import measured
from benchmarks.simulate_tiers import LINK_BYTES_PER_S, Pass, budget_of, network, passes

from infinitensor import pipeline
from infinitensor.memory import evict_walk
from infinitensor.memory.best_order import AHEAD, a_little_less
from infinitensor.pipeline import STREAMED_PARTS

N_LAYERS = 12
WEIGHT_BYTES = WIDTH * WIDTH * 4
CASES = [
    (rows, share, varied)
    for varied in (False, True)
    for rows in (512, 2048, 4096)
    for share in (1.0, 0.75, 0.5, 0.25, 0.1)
]
SAMPLE = [(512, 0.1, False), (4096, 0.25, False), (512, 0.5, True), (4096, 0.25, True)]
SAMPLE += [(4096, 0.1, True), (2048, 1.0, True), (512, 1.0, False), (2048, 0.5, False)]


def fill_seconds(rows: int) -> float:
    """Before the first kernel runs: the rows, and the first part of a weight."""
    return (rows * WIDTH * 4 + WEIGHT_BYTES / 8) / LINK_BYTES_PER_S


def part_bytes(found: Pass) -> int:
    """What a load brings of a weight at most."""
    part: int = found.prepared.part_elements * 4
    return min(part, WEIGHT_BYTES)


def check(found: Pass, rows: int, budget: int) -> None:
    program = found.prepared.program
    assert program.peak_bytes[0] <= budget
    assert found.evicted_bytes == 0, "weights are clean, and activations fit"
    assert found.seconds <= 1.1 * found.bound_seconds
    assert found.seconds <= 1.03 * (found.bound_seconds + fill_seconds(rows))
    assert found.seconds <= 1.03 * found.fixed_seconds


@pytest.mark.parametrize(
    ("rows", "share", "varied"), CASES if os.environ.get("INFINITENSOR_TEST_ALL") else SAMPLE
)
def test_a_pass_takes_no_longer_than_the_slower_of_compute_and_link(
    rows: int, share: float, varied: bool
) -> None:
    budget = budget_of(share, rows, N_LAYERS)
    found = passes(network(rows, N_LAYERS, varied), budget)
    for one in found:
        check(one, rows, budget)
    n_rows_bytes = rows * WIDTH * 4
    assert found[0].loaded_bytes == N_LAYERS * WEIGHT_BYTES + n_rows_bytes, "each byte once"
    # what cannot stay: beside kept weights there are three activations, the part that is multiplied
    # and a ring of parts; what is left over is less than a part, and a 64th of the budget stays
    # free. Where kernels take longer than the link, parts may be larger: that makes a pass shorter
    # (the test below)
    last = found[-1]
    lacking = max(N_LAYERS * WEIGHT_BYTES - budget, 0) + 4 * n_rows_bytes
    assert AHEAD[0] is not None
    busy = (AHEAD[0] + 2) * part_bytes(last) + budget - a_little_less(budget)
    assert last.loaded_bytes <= lacking + busy
    is_loading = last.compute_seconds < last.loaded_bytes / LINK_BYTES_PER_S
    assert (
        busy <= WEIGHT_BYTES
        if is_loading
        else part_bytes(last) <= WEIGHT_BYTES // STREAMED_PARTS[0]
    )


@pytest.mark.parametrize(("rows", "share"), [(512, 1.0), (2048, 0.75), (2048, 0.5)])
def test_a_pass_with_smaller_parts_would_load_less_but_take_longer(
    rows: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, budget = network(rows, N_LAYERS, False), budget_of(share, rows, N_LAYERS)
    chosen = passes(graph, budget)[-1]
    assert part_bytes(chosen) == WEIGHT_BYTES // STREAMED_PARTS[0]
    for n in STREAMED_PARTS[1:]:
        monkeypatch.setattr(pipeline, "STREAMED_PARTS", (n,))
        other = passes(graph, budget)[-1]
        assert part_bytes(other) == WEIGHT_BYTES // n
        assert other.loaded_bytes < chosen.loaded_bytes
        assert other.seconds > chosen.seconds


@pytest.mark.parametrize("share", [0.25, 0.1])
def test_kernels_that_vary_leave_the_hand_written_loop_behind(share: float) -> None:
    rows, n_layers = 4096, 6
    last = passes(network(rows, n_layers, True), budget_of(share, rows, n_layers))[-1]
    load = WEIGHT_BYTES / LINK_BYTES_PER_S
    # two buffers, one layer ahead: a copy waits for the long kernel that uses its buffer
    by_hand = n_layers // 2 * (last.compute_seconds / (n_layers // 2) + load)
    assert last.seconds < 0.9 * by_hand


def test_a_weight_that_does_not_fit_twice_is_read_in_parts() -> None:
    rows, n_layers = 4096, 6
    found = passes(network(rows, n_layers, False), 3 * rows * WIDTH * 4 + WEIGHT_BYTES // 2)
    assert found[0].seconds <= 1.1 * (found[0].bound_seconds + fill_seconds(rows))
    assert found[0].evicted_bytes == 0


def test_planning_is_linear_in_layers_and_walks_few_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[int] = []
    walked = evict_walk._Walk.step

    def counted(self: Any, at: int, task: int) -> None:
        steps[-1] += 1
        walked(self, at, task)

    monkeypatch.setattr(evict_walk._Walk, "step", counted)
    n_tasks = []
    for n_layers in (6, 12, 24):
        steps.append(0)
        budget = budget_of(0.25, 4096, n_layers)
        (first,) = passes(network(4096, n_layers, True), budget, n_passes=1)
        n_tasks.append(first.prepared.program.graph.n_tasks)
    assert n_tasks[1] <= 20 * 12
    assert n_tasks[2] <= 2.1 * n_tasks[1]
    assert steps[2] <= 2.1 * steps[1]
    for walked_tasks, n_layers in zip(steps, (6, 12, 24), strict=True):
        # sizes of parts, and room to read ahead; a part is read and multiplied
        assert walked_tasks <= len(AHEAD) * sum(2 * n + 3 for n in STREAMED_PARTS) * n_layers


def test_the_plot_takes_its_points_from_what_was_printed() -> None:
    said = "weights 6.44 GB, torch 1.0 ms, 55.0 GB/s\n"
    said += "budget 120%: [300.0, 9.0, 4.0, 6.0] ms, bound 4.0; 1 parts of a layer: [7.0, 7.5] ms\n"
    said += "budget  10%: [30.0, 20.0, 8.0] ms, bound 4.0; 2 parts of a layer: [9.0, 9.5] ms\n"
    said += "by hand, one layer ahead, whatever the budget: [5.0, 7.0, 6.0] ms\n"
    assert measured(said) == ({1.2: 5.0, 0.1: 8.0}, 6.0)

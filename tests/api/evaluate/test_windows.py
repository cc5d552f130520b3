"""Offsets of indices are bound when a plan runs: loops over slices find their plan again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import events

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["one tile", "many tiles"])
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    before = it.config.small_elements, it.config.tile_elements
    it.config.small_elements = 0
    it.config.tile_elements = 0 if request.param == "one tile" else 64
    with it.init("cpu" if request.param == "one tile" else "cpu*3") as opened:
        yield opened
    it.config.small_elements, it.config.tile_elements = before


def misses() -> int:
    return int(it.stats()["plan_misses"])


def plans_for(loop: Any) -> int:
    before = misses()
    loop()
    return misses() - before


def buffers_of(x: it.Tensor) -> list[Any]:
    table = x._version.table
    assert table is not None
    return table.buffers


def values(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape)


def classes(session: Any) -> int:
    """Ways in which a row can fall on tiles: its owner, and how it is cut."""
    return 1 if len(session.engine.devices) == 1 else 8


def test_rows_read_one_by_one_share_a_plan(session: Any) -> None:
    a = values((60, 32))
    x = it.asarray(a)

    def loop() -> None:
        for i in range(60):
            assert float(x[i].sum()) == pytest.approx(a[i].sum())

    assert plans_for(loop) <= classes(session)


def test_columns_and_steps_and_both_signs_share_a_plan(session: Any) -> None:
    a = values((32, 60))
    x = it.asarray(a)

    def loop() -> None:
        for j in range(50):
            np.testing.assert_array_equal(
                (x[::-2, j : j + 4 : 3] + 1).numpy(), a[::-2, j : j + 4 : 3] + 1
            )

    assert plans_for(loop) <= 3 * classes(session)


def test_rows_written_one_by_one_share_a_plan_and_stay_in_place(session: Any) -> None:
    a = values((60, 32))
    x = it.asarray(a)
    held = {id(buffer) for buffer in buffers_of(x)}

    def loop() -> None:
        for i in range(1, 60):
            x[i] = x[i - 1] * 0.5 + i
            a[i] = a[i - 1] * 0.5 + i
            it.compute(x)

    assert plans_for(loop) <= 3 * classes(session)
    np.testing.assert_array_equal(x.numpy(), a)
    assert {id(buffer) for buffer in buffers_of(x)} == held


def test_a_row_written_while_an_earlier_version_is_held_leaves_that_as_it_was(session: Any) -> None:
    a = values((20, 8))
    x = it.asarray(a)
    before = x.copy()
    it.compute(before, x)
    x[3] = before[4] + 1
    it.compute(x)
    np.testing.assert_array_equal(before.numpy(), a)
    a[3] = before.numpy()[4] + 1
    np.testing.assert_array_equal(x.numpy(), a)


def test_an_interrupted_row_write_goes_on_and_keeps_the_other_rows(session: Any) -> None:
    a = values((20, 8))
    x = it.asarray(a)
    x[7] = x[3] * 2
    x[8] = x[7] + 1

    def interrupt(**what: Any) -> None:
        raise KeyboardInterrupt("now")

    hook = events.on("task_start", interrupt)
    with pytest.raises(KeyboardInterrupt, match="now"):
        it.compute(x)
    hook.off()
    a[7] = a[3] * 2
    a[8] = a[7] + 1
    np.testing.assert_array_equal(x.numpy(), a)


def test_a_loop_cut_by_the_limit_on_waiting_calls_is_planned_once(session: Any) -> None:
    n = 900
    a = values((n, 4))
    x = it.asarray(a)
    before = it.config.max_recorded_nodes
    it.config.max_recorded_nodes = 100
    try:

        def loop() -> None:
            for i in range(1, n):
                x[i] = x[i - 1] + 1
            it.compute(x)

        n_plans = plans_for(loop)
    finally:
        it.config.max_recorded_nodes = before
    for i in range(1, n):
        a[i] = a[i - 1] + 1
    np.testing.assert_array_equal(x.numpy(), a)
    if len(session.engine.devices) == 1:
        assert n_plans <= 4  # the first, the second, all others, the rest

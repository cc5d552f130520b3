"""Evaluations: one for what is asked for together, stopped and resumed, forced when much waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.api.evaluate.evaluate import (
    compute_if_read_often,
    evaluate,
    evaluate_all,
    forget_done,
    way_of,
)

A = np.arange(60.0).reshape(10, 6)


def fails_once(what: str = "not yet") -> Any:
    """A function of tiles that raises the first time it is called."""
    calls = []

    def function(tile: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ArithmeticError(what)
        return tile + 1

    return function


def test_what_is_met_on_the_way_and_shown_is_computed_too() -> None:
    with strict("cpu*2"):
        x = it.asarray(A)
        shown = x + 1
        made = (shown * 2).sum(0)
        made.numpy()
        assert not shown._version.is_waiting
        it.stats(reset=True)
        np.testing.assert_array_equal(shown.numpy(), A + 1)
        assert it.stats()["evaluations"] == 0


def test_a_peek_computes_the_roots_and_commits_nothing_else() -> None:
    with strict("cpu*2") as session:
        x = it.asarray(A)
        shown = x + 1
        made = (shown * 2).sum(0)
        evaluate(session, [made._version], peek=True)
        assert not made._version.is_waiting
        assert shown._version.is_waiting
        np.testing.assert_array_equal(shown.numpy(), A + 1)


def test_what_has_values_is_not_evaluated() -> None:
    with strict("cpu") as session:
        x = it.compute(it.asarray(A) + 1)
        it.stats(reset=True)
        evaluate(session, [x._version])
        evaluate(session, [])
        assert it.stats()["evaluations"] == 0


def test_an_error_leaves_what_waits_and_the_next_evaluation_goes_on() -> None:
    with strict("cpu", 7):
        x = it.asarray(A)
        before = x * 2
        made = it.map_tiles(fails_once(), before, form="nd->nd")
        with pytest.raises(ArithmeticError, match="not yet"):
            made.numpy()
        assert made._version.is_waiting
        np.testing.assert_array_equal(made.numpy(), A * 2 + 1)
        assert it.stats()["ways"]["resumed"] == 1
        np.testing.assert_array_equal(before.numpy(), A * 2)


def test_a_stopped_run_goes_with_the_last_tensor_that_needs_it() -> None:
    with strict("cpu", 7) as session:
        x = it.asarray(A)
        made = it.map_tiles(fails_once(), x, form="nd->nd")
        with pytest.raises(ArithmeticError, match="not yet"):
            made.numpy()
        del made
        session.drain()
        np.testing.assert_array_equal((x + 1).numpy(), A + 1)
        assert it.stats()["ways"]["resumed"] == 0


def test_a_program_that_ran_before_is_found_by_what_it_is_recorded_with() -> None:
    with strict("cpu"):
        x = it.compute(it.asarray(A) + 0)
        for k in range(3):
            np.testing.assert_array_equal((x * 2 + k).numpy(), A * 2 + k)
        counts = it.stats()
        assert counts["plan_misses"] <= 2
        assert counts["plan_hits"] >= 2


def test_the_way_is_known_before_a_program_runs() -> None:
    with strict("cpu") as session:
        x = it.compute(it.asarray(A) + 0)

        def way() -> str:
            made = x * 2 + 1
            session.drain()  # what was made before is gone
            found = way_of(Bound(session, [made._version]))
            made.numpy()
            return found

        assert way() == "planned"
        way()
        assert way() == "repeated"


def test_all_that_waits_is_evaluated_and_what_fails_raises_where_it_is_asked_for() -> None:
    with strict("cpu", 7) as session:
        x = it.asarray(A)
        good = x + 1
        bad = it.map_tiles(fails_once("bad"), x, form="nd->nd")
        evaluate_all(session)
        assert not good._version.is_waiting
        assert it.stats()["forced_evaluations"] == 1
        assert session.tape == [] or all(ref() is bad._version for ref in session.tape)
        np.testing.assert_array_equal(bad.numpy(), A + 1)


def test_what_is_done_or_dead_is_forgotten() -> None:
    with strict("cpu") as session:
        x = it.asarray(A)
        waiting, dead, done = x + 1, x + 2, x + 3
        assert session.waiting_bytes == 3 * A.nbytes
        it.compute(done)
        del dead
        session.drain()
        forget_done(session)
        assert [ref() for ref in session.tape] == [waiting._version]
        assert session.waiting_bytes == A.nbytes


def test_too_much_that_waits_is_computed_by_itself() -> None:
    with strict("cpu", max_recorded_nodes=5):
        x = it.asarray(A)
        made = [x + k for k in range(12)]
        assert it.stats()["forced_evaluations"] >= 1
        for k, one in enumerate(made):
            np.testing.assert_array_equal(one.numpy(), A + k)


@pytest.mark.parametrize(
    ("n", "n_read", "reads"), [(100_000, 5, 3), (10, 5, 50), (100_000, 100_000, 50)]
)
def test_small_parts_of_something_large_are_worth_all_of_it_only_if_read_often(
    n: int, n_read: int, reads: int
) -> None:
    with it.init("cpu") as session:
        x = it.asarray(np.arange(float(n))) * 2
        x._version.readers += reads
        assert not compute_if_read_often(session, [(x._version, n_read)])
        x._version.readers -= reads


def test_devices_that_refuse_memory_are_planned_for_again_or_say_so() -> None:
    with strict("cpu", 1 << 20, memory=3 * A.nbytes + 4096, disk="8MiB"):
        x = it.asarray(A)
        np.testing.assert_array_equal(((x + 1) * (x + 2)).numpy(), (A + 1) * (A + 2))


@pytest.mark.parametrize("devices", ["cpu", "cpu*2", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("tile", [7, 1 << 20])
def test_a_program_that_sees_parts_of_its_operands_is_known_when_it_is_repeated(
    devices: str, tile: int
) -> None:
    rng = np.random.default_rng(0)
    wide, tall = rng.normal(size=(20, 30)).astype("f4"), rng.normal(size=(20, 30)).astype("f4")
    with strict(devices, tile):
        for n_before in range(4):
            x, y = it.asarray(wide), it.asarray(tall)
            it.compute(x, y)
            for first in (0, 3):  # parts of equal size at other places have the same plan
                made = x[first : first + 5, 2:9].T * 2 + y[first : first + 5, 1:8].T
                expected = wide[first : first + 5, 2:9].T * 2 + tall[first : first + 5, 1:8].T
                if n_before > 1:
                    it.stats(reset=True)
                np.testing.assert_array_equal(it.compute(made).numpy(), expected)
                if n_before > 1:
                    assert it.stats()["ways"]["planned"] == 0
            np.testing.assert_array_equal(x.numpy(), wide)
            wide, tall = wide + 1, tall * 2


def test_a_program_that_writes_a_part_is_planned_each_time() -> None:
    wanted = A.copy()
    with strict("cpu", 7):
        x = it.asarray(A)
        it.compute(x)
        for _ in range(4):
            x[2:5, 1:3] = x[2:5, 1:3] * 2 + x[2:5, 2:4]
            it.compute(x)
            wanted[2:5, 1:3] = wanted[2:5, 1:3] * 2 + wanted[2:5, 2:4]
            np.testing.assert_array_equal(x.numpy(), wanted)

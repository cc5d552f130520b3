"""The values that a run keeps, and the tasks that only they need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.api.evaluate.demand import fit_bound
from infinitensor.runtime.run.results import is_value_made, table_of, tasks_without

pytestmark = pytest.mark.local


def two_values(session: it.Session) -> Any:
    """A run that keeps two values of different shapes, and their numbers."""
    versions = [tensor._version for tensor in (it.ones(14) * 3, it.ones(21) - 5)]
    session.drain()
    bound = Bound(session, versions).detail()
    program = fit_bound(bound)[1].program
    return session.engine.start(program, bound.tables, bound.scalars), list(bound.kept)


def test_tasks_of_a_value_that_is_not_wanted_are_found() -> None:
    with strict("cpu", 7, compile="never") as session:
        run, (one, other) = two_values(session)
        order = list(run.start.order)
        without = [set(tasks_without(run.tiles, reversed(order), [v])) for v in (one, other)]
        assert all(without)
        assert not without[0] & without[1]
        assert set(tasks_without(run.tiles, reversed(order), [])) == set(order)
        assert tasks_without(run.tiles, reversed(order), [one, other]) == []
        run.release()


def test_an_abandoned_value_is_not_made_and_the_other_is() -> None:
    with strict("cpu", 7, compile="never") as session:
        run, (one, other) = two_values(session)
        assert not is_value_made(run.program, run.status.done, one)
        run.abandon([one])
        run.go(None, lambda: None)
        assert run.is_made(one)
        assert not run.is_made(other)
        assert is_value_made(run.program, run.status.done, one)
        table = table_of(run.tiles, one, run.calls.array)
        for found in (table, run.table(one)):
            values = session.engine.read(found, ((0, 14),))
            np.testing.assert_array_equal(values, np.full(14, 3.0))
        run.release()

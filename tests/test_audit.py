"""The audit of memory finds each kind of broken promise, and nothing where all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.audit import Audit, BrokenPromise
from tests.ir.sessions import local, strict

import infinitensor as it
from infinitensor import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.api.session.session import Session

pytestmark = [pytest.mark.local, pytest.mark.unaudited]


@pytest.fixture
def session() -> Iterator[Session]:
    with strict("cpu*2", 7) as session:
        yield session


def audited_evaluation() -> None:
    with Audit().on():
        it.compute(it.asarray(np.arange(40.0)) * 2)


def test_an_evaluation_that_keeps_its_promises_is_let_through(session: Session) -> None:
    with Audit().on() as audit:
        x = it.asarray(np.arange(40.0))
        x[3:20] += x[20:3:-1]
        assert float((x * 2).sum()) == float(np.asarray(x).sum() * 2)
    assert audit.n_runs


def test_a_run_that_takes_more_than_was_planned(session: Session) -> None:
    held: list[Any] = []

    def grab(**what: Any) -> None:
        held.append(local(session).ledgers[0].take(1 << 20))

    with (
        events.on("task_start", grab),
        pytest.raises(BrokenPromise, match=r"cpu:0: the run took \d{7,} bytes, its slots"),
    ):
        audited_evaluation()


def test_a_buffer_that_outlives_its_tensor(session: Session) -> None:
    x = it.compute(it.asarray(np.arange(40.0)) * 2)
    leaked = [x._version.table]
    del x
    with pytest.raises(BrokenPromise, match=r"counts \d+ bytes in use; tensors hold"):
        audited_evaluation()
    assert leaked


def test_a_slab_that_is_handed_out_twice(session: Session) -> None:
    x = it.compute(it.asarray(np.arange(40.0)) * 2)
    buffers = x._version.table.buffers
    buffers[1].block = buffers[0].block
    with pytest.raises(BrokenPromise, match="two slabs share memory"):
        audited_evaluation()


def test_a_slab_that_rests_and_is_in_use(session: Session) -> None:
    x = it.compute(it.asarray(np.arange(40.0)) * 2)
    buffer = x._version.table.buffers[0]
    resting = local(session).ledgers[0]._resting.setdefault(buffer.n_bytes, [])
    audit = Audit()
    audit.evaluated(session)
    resting.append(buffer.block)
    with pytest.raises(BrokenPromise, match="two slabs share memory"), audit.on():
        pass
    resting.pop()


def test_bytes_at_rest_that_are_not_counted(session: Session) -> None:
    it.compute(it.asarray(np.arange(40.0)) * 2)
    local(session).ledgers[0]._resting_bytes += 64
    with pytest.raises(BrokenPromise, match="bytes rest, not as counted"):
        audited_evaluation()


def test_more_held_than_the_budget(session: Session) -> None:
    x = it.compute(it.asarray(np.arange(40.0)) * 2)
    local(session).ledgers[0].budget_bytes = 64
    with pytest.raises(BrokenPromise, match=r"holds \d+ bytes, its budget is 64"):
        Audit().evaluated(session)
    assert x is not None


def test_tasks_that_are_left_in_a_lane(session: Session) -> None:
    def leave(run: Any) -> None:
        run.fill(False).heaps[0].append(0)

    with (
        events.on("run_end", leave),
        pytest.raises(BrokenPromise, match="a finished run has tasks to start"),
    ):
        audited_evaluation()


def test_a_stopped_run_and_its_end_keep_the_promises(session: Session) -> None:
    failing = [True]

    def sometimes(tile: Any) -> Any:
        if failing[0]:
            raise RuntimeError("not now")
        return tile + 1

    with Audit().on() as audit:
        x = it.asarray(np.arange(40.0)) * 2
        y = it.map_tiles(sometimes, x, form="n->n")
        with pytest.raises(RuntimeError, match="not now"):
            it.compute(y)
        it.compute(it.ones(3) + 1)
        failing[0] = False
        np.testing.assert_array_equal(y.numpy(), np.arange(40.0) * 2 + 1)
    assert audit.n_runs == 3

"""One pass through the whole flow, in seconds: record, plan, cut, move, run, write, resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import local, prepared, strict

import infinitensor as it
from infinitensor import events

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = np.arange(60.0).reshape(10, 6)


@pytest.fixture(params=["cpu", "cpu*3"])
def session(request: pytest.FixtureRequest) -> Iterator[it.Session]:
    with strict(request.param, 7) as opened:
        yield opened


def program(xp: Any, x: Any) -> Any:
    y = x * 2 + 1
    y[1:] = y[:-1]
    y[:, ::2] -= y[:, 1::2]
    for k in range(3):
        y[k] = xp.sum(y, axis=0) / 10
    return (y @ y.T) - xp.max(y, axis=1)


def test_a_program_gives_numpys_values(session: it.Session) -> None:
    found = program(it, it.asarray(VALUES))
    assert it.stats()["tasks"] == 0, "nothing has run yet"
    np.testing.assert_allclose(found.numpy(), program(np, VALUES.copy()))
    assert it.stats()["tasks"] > 10


def test_a_plan_says_what_will_run(session: it.Session) -> None:
    tensor = program(it, it.asarray(VALUES))
    plan = it.plan(tensor)
    it.stats(reset=True)
    it.compute(tensor)
    stats = it.stats()
    assert plan.n_tasks >= stats["tasks"] > 0
    assert plan.moved_bytes >= stats["bytes_moved"]
    assert all(stats["peak_bytes"][at] <= peak for at, peak in plan.peak_bytes.items())
    assert "matmul" in str(plan)


def test_every_stage_says_something(session: it.Session) -> None:
    found = prepared(session, program(it, it.asarray(VALUES)))
    assert found.analysed.dependence.versions_shared > 0
    assert len(found.plan.groups) == len(found.analysed.groups) == len(found.moves.routes)
    assert found.program.graph.n_tasks == sum(f.n for f in found.program.graph.families)


def test_the_same_program_again_takes_the_plan_it_has(session: it.Session) -> None:
    x = it.asarray(VALUES)
    for n in range(3):
        it.compute(it.sum(x * (n + 1.5), axis=0))
    assert it.stats()["plan_hits"] >= 1


def test_a_stopped_program_goes_on(session: it.Session) -> None:
    left = [5]

    def stop(**what: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    tensor = program(it, it.asarray(VALUES))
    with events.on("task_start", stop), pytest.raises(KeyboardInterrupt):
        it.compute(tensor)
    np.testing.assert_allclose(tensor.numpy(), program(np, VALUES.copy()))


def test_nothing_is_held_when_all_tensors_are_gone(session: it.Session) -> None:
    it.compute(program(it, it.asarray(VALUES)))
    session.drain()
    assert all(ledger.used_bytes == 0 for ledger in local(session).ledgers)


def test_a_plan_runs_without_a_device() -> None:
    with strict("null*3", 7):
        tensor = program(it, it.ones((10, 6)))
        it.compute(tensor)
        assert it.stats()["tasks"] > 10
        with pytest.raises(ValueError, match="holds no values"):
            tensor.numpy()

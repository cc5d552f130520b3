"""The queue of ready tasks: each task once, after all it waits for, in the program's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.runtime.run.test_run import begin, record

import infinitensor as it
from infinitensor.ir.tasks import COMPUTE
from infinitensor.runtime.run.ready_tasks import WINDOW

pytestmark = pytest.mark.local


def sources_of(run: Any) -> dict[int, set[int]]:
    """The tasks that each waits for."""
    program = run.program
    ends = np.repeat(np.arange(program.graph.n_tasks), np.diff(program.borders))
    found: dict[int, set[int]] = {}
    for before, task in zip(ends.tolist(), program.after.tolist(), strict=True):
        found.setdefault(task, set()).add(before)
    return found


@pytest.mark.parametrize("is_fixed", [False, True])
def test_every_task_is_taken_once_and_after_all_it_waits_for(is_fixed: bool) -> None:
    with strict("cpu", 7) as session:
        run, _ = begin(session, record())
        ready, before = run.fill(is_fixed), sources_of(run)
        done: list[int] = []
        while tasks := ready.take(COMPUTE):
            assert len(tasks) <= (1 if is_fixed else WINDOW)
            for task in tasks:
                assert before.get(task, set()) <= set(done)
                ready.finish(task)
                done.append(task)
        assert sorted(done) == sorted(run.start.order)
        if is_fixed:
            assert done == list(run.start.order)
        assert run.status.is_finished()
        assert ready.n_running == 0
        run.release()


@pytest.mark.parametrize("is_fixed", [False, True])
def test_what_is_put_back_is_taken_again(is_fixed: bool) -> None:
    with strict("cpu", 7) as session:
        run, _ = begin(session, record())
        ready = run.fill(is_fixed)
        tasks = ready.take(COMPUTE)
        ready.put_back(tasks)
        assert ready.n_running == 0
        assert ready.take(COMPUTE) == tasks
        run.release()


def test_after_a_failure_nothing_is_taken_and_a_new_queue_has_the_rest() -> None:
    with strict("cpu", 7) as session:
        run, _ = begin(session, it.sqrt(it.asarray(np.arange(60.0))) + it.ones(60))
        ready = run.fill(False)
        first, *others = ready.take(COMPUTE)
        ready.finish(first)
        ready.put_back(others)
        (*_, task) = ready.take(COMPUTE)
        ready.fail(task, ValueError("of a task"))
        assert ready.take(COMPUTE) == []
        run.status.clear_stop()
        left = run.fill(False)
        assert task in {left.pop(COMPUTE) for _ in range(len(left.heaps[COMPUTE]))}
        assert first not in left.heaps[COMPUTE]
        run.release()


def test_whoever_takes_one_of_several_calls_others_and_never_for_one() -> None:
    with strict("cpu", 7) as session:
        run, _ = begin(session, record())
        called: list[int] = []
        ready = run.fill(False, lambda: called.append(len(ready.heaps[COMPUTE])))
        while tasks := ready.take(COMPUTE):
            for task in tasks:
                ready.finish(task)
        assert run.status.is_finished()
        assert called
        assert min(called) >= 1
        run.release()


def test_lanes_and_a_fixed_order_have_all_their_threads_from_the_start() -> None:
    with strict("cpu", 7) as session:
        run, _ = begin(session, record())
        called: list[int] = []
        ready = run.fill(True, lambda: called.append(1))
        assert ready.is_awaited
        while tasks := ready.take(COMPUTE):
            for task in tasks:
                ready.finish(task)
        assert not called
        run.release()

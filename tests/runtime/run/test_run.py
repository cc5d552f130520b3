"""Runs: each task once, also when a run is stopped and goes on."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict

import infinitensor as it
from infinitensor import events
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.api.evaluate.demand import fit_bound
from infinitensor.runtime import Run, TileTable, Workers

pytestmark = pytest.mark.local


class Broken(Exception):
    """Raised by a hook."""


def no_tick() -> None:
    """Nothing to watch."""


def record() -> Any:
    x = it.asarray(np.arange(60.0).reshape(10, 6))
    y = x * 2
    for k in range(9):
        y[k + 1] += y[k]
    return it.cumsum(y, axis=0) + it.sum(x, axis=0)


def wanted() -> Any:
    x = np.arange(60.0).reshape(10, 6)
    y = x * 2
    for k in range(9):
        y[k + 1] += y[k]
    return np.cumsum(y, axis=0) + x.sum(0)


def begin(session: it.Session, tensor: Any) -> tuple[Run, int]:
    session.drain()
    bound = Bound(session, [tensor._version]).detail()
    (number,) = [n for n, version in bound.kept.items() if version is tensor._version]
    program = fit_bound(bound)[1].program
    return local(session).start(program, bound.tables, bound.scalars), number


def values(session: it.Session, run: Run, number: int) -> Any:
    return run.table(number).read(((0, 10), (0, 6)), local(session).devices)


@pytest.mark.parametrize("n_workers", [0, 1, 3])
def test_a_run_does_every_task_once(n_workers: int) -> None:
    workers = Workers(n_workers) if n_workers else None
    ran: Counter[tuple[str, int]] = Counter()
    with strict("cpu*3", 7) as session:
        run, number = begin(session, record())
        with events.on("tile_commit", lambda **what: ran.update([(what["op"], what["tile"])])):
            run.go(workers, no_tick)
        assert run.status.is_finished()
        assert run.status.n_done == run.status.n_tasks
        assert run.is_made(number)
        np.testing.assert_allclose(values(session, run, number), wanted())
    if workers is not None:
        workers.close()


@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize("stop_after", [1, 5, 20])
def test_a_stopped_run_goes_on_where_it_was(stop_after: int, n_workers: int) -> None:
    workers = Workers(n_workers) if n_workers else None
    started: list[int] = []
    with strict("cpu*3", 7) as session:
        run, number = begin(session, record())

        def stop(**what: Any) -> None:
            started.append(1)
            if len(started) == stop_after:
                run.stop()

        with events.on("task_start", stop):
            with pytest.raises(KeyboardInterrupt):
                run.go(workers, no_tick)
            assert not run.status.is_finished()
            done = run.status.n_done
            assert 1 <= done < run.status.n_tasks
            run.go(workers, no_tick)
        assert run.status.is_finished()
        assert len(started) == run.status.n_tasks
        np.testing.assert_allclose(values(session, run, number), wanted())
    if workers is not None:
        workers.close()


@pytest.mark.parametrize("compile_when", ["never", "always"])
@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_run_asked_to_stop_before_it_begins_does_not_begin(
    n_workers: int, compile_when: str
) -> None:
    workers = Workers(n_workers) if n_workers else None
    with strict("cpu*3", 7, compile=compile_when) as session:
        run, number = begin(session, record())
        run.stop()
        with pytest.raises(KeyboardInterrupt):
            run.go(workers, no_tick)
        assert run.status.n_done == 0
        run.go(workers, no_tick)
        assert run.status.is_finished()
        np.testing.assert_allclose(values(session, run, number), wanted())
    if workers is not None:
        workers.close()


def test_ctrl_c_comes_though_a_task_raises() -> None:
    def fail(**what: Any) -> None:
        what["run"].stop()
        raise Broken

    with strict("cpu*3", 7) as session:
        run, number = begin(session, record())
        with events.on("task_start", fail), pytest.raises(KeyboardInterrupt) as found:
            run.go(None, no_tick)
        assert isinstance(found.value.__context__, Broken)
        run.go(None, no_tick, resumed=True)
        np.testing.assert_allclose(values(session, run, number), wanted())


@pytest.mark.parametrize("fails_at", [1, 6, 25])
def test_a_task_that_raised_runs_again(fails_at: int) -> None:
    started: list[str] = []

    def fail(**what: Any) -> None:
        started.append(what["op"])
        if len(started) == fails_at:
            raise Broken

    with strict("cpu*3", 7) as session:
        run, number = begin(session, record())
        with events.on("task_start", fail):
            with pytest.raises(Broken, match=r"^$"):
                run.go(None, no_tick)
            run.go(None, no_tick, resumed=True)
        assert len(started) == run.status.n_tasks + 1
        np.testing.assert_allclose(values(session, run, number), wanted())


def test_a_lost_tile_is_made_again() -> None:
    with strict("cpu*2", 7) as session:
        x = it.asarray(np.arange(60.0).reshape(10, 6))
        run, number = begin(session, it.sqrt(x) + 1)
        run.go(None, no_tick)
        first, _ = run.program.graph.held[number]
        run.drop(first)
        found = values(session, run, number)
        np.testing.assert_allclose(found, np.sqrt(np.arange(60.0).reshape(10, 6)) + 1)
        assert run.take_counts()["tiles_rebuilt"] == 1


def test_a_finished_run_gives_its_memory_back() -> None:
    with strict("cpu*2", 7) as session:
        it.compute(record())
        session.drain()
        assert [ledger.used_bytes for ledger in local(session).ledgers] == [0, 0]


def test_tables_hold_what_was_scattered() -> None:
    with strict("cpu*3", 7) as session:
        from infinitensor.partition import canonical_layout

        values = np.arange(60).reshape(10, 6)
        layout = canonical_layout((10, 6), session.engine.mesh, 7)
        table = session.engine.store(values, layout)
        np.testing.assert_array_equal(table.read(((0, 10), (0, 6)), local(session).devices), values)
        part = table.read(((2, 7), (1, 3)), local(session).devices)
        np.testing.assert_array_equal(part, values[2:7, 1:3])
        used = sum(ledger.used_bytes for ledger in local(session).ledgers)
        assert table.n_bytes == used >= values.nbytes
        host = TileTable.of_host(values)
        assert host.n_bytes == 0
        np.testing.assert_array_equal(host.read(((0, 1), (0, 6)), []), values[:1])


def test_two_threads_may_compute_at_once() -> None:
    found: list[float] = []
    failed: list[BaseException] = []
    with strict("cpu*2", 50):

        def work(k: int) -> None:
            try:
                for _ in range(5):
                    found.append(float(it.sum(it.ones((20, 10)) * k)))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    assert sorted(found) == [200.0] * 5 + [400.0] * 5

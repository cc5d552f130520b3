"""What every engine must do: a suite that each inherits, and one that passes calls on to another.

The contract asks by the protocols of `engines/engine.py`, sessions and events alone.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict
from tests.programs import products, statistics, stencils
from tests.programs.registry import PROGRAMS, Program

import infinitensor as it
from infinitensor import events
from infinitensor.engines import Engine, Room, Run, open_engine
from infinitensor.engines.engine import ENGINES
from infinitensor.partition import canonical_layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from infinitensor.runtime import TileTable

WHOLE = ((0, 10), (0, 6))
VALUES = np.arange(60.0).reshape(10, 6)


def interrupt(**what: object) -> None:
    """Ctrl-C, whatever happens."""
    signal.raise_signal(signal.SIGINT)


class EngineTests:
    """An engine inherits these; `name` opens it on devices of one kind."""

    name = ""
    kind = "cpu"
    has_values = True
    """Whether what is stored can be read: the null device holds nothing."""

    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        engine = open_engine(self.name, f"{self.kind}*3", Room("1MiB", disk="64MiB"), 2)
        yield engine
        engine.close()

    def session(self, **given: Any) -> AbstractContextManager[it.Session]:
        return strict(f"{self.kind}*3", 7, engine=self.name, **given)

    def check(self, engine: Engine, table: TileTable, wanted: np.ndarray) -> None:
        """What a table holds is this, where engines hold something."""
        assert table.dtype == wanted.dtype
        assert tuple(borders[-1] for borders in table.layout.cuts) == wanted.shape
        if self.has_values:
            box = tuple((0, n) for n in wanted.shape)
            np.testing.assert_array_equal(engine.read(table, box), wanted)

    def check_values(self, tensor: it.Tensor, wanted: np.ndarray) -> None:
        it.compute(tensor)
        assert tensor.shape == wanted.shape
        if self.has_values:
            np.testing.assert_array_equal(tensor.numpy(), wanted)

    # memory and values

    def test_it_has_a_mesh_of_its_devices(self, engine: Engine) -> None:
        assert engine.mesh.n_devices == 3
        assert engine.mesh.kind == self.kind
        assert [device.memory_bytes for device in engine.mesh.devices] == [1 << 20] * 3
        assert engine.mesh_now() == engine.mesh

    def test_what_is_stored_counts_until_it_is_let_go(self, engine: Engine) -> None:
        before = [engine.available_bytes(d) for d in range(3)]
        assert before == engine.budgets() == [1 << 20] * 3
        layout = canonical_layout((10, 6), engine.mesh, 7)
        table = engine.store(np.ones((10, 6)), layout)
        held = [b - engine.available_bytes(d) for d, b in enumerate(before)]
        assert held == engine.bytes_for(layout, 8)
        assert sum(held) == table.n_bytes
        assert min(held) > 0
        del table
        assert [engine.available_bytes(d) for d in range(3)] == before

    def test_what_is_stored_is_read_by_box_and_step(self, engine: Engine) -> None:
        table = engine.store(VALUES, canonical_layout((10, 6), engine.mesh, 7))
        self.check(engine, table, VALUES)
        if self.has_values:
            found = engine.read(table, ((2, 9), (1, 5)))
            np.testing.assert_array_equal(found, VALUES[2:9, 1:5])
            np.testing.assert_array_equal(engine.read(table, WHOLE, (3, 2)), VALUES[::3, ::2])

    def test_what_is_evicted_is_read_and_takes_no_device(self, engine: Engine) -> None:
        layout = canonical_layout((10, 6), engine.mesh, 7)
        for table in (
            engine.evict(engine.store(VALUES, layout)),
            engine.store_in_lower_tier(VALUES, layout),
        ):
            assert [engine.available_bytes(d) for d in range(3)] == engine.budgets()
            assert table.layout.is_in_lower_tier
            if self.has_values:
                self.check(engine, table, VALUES)

    def test_memory_is_reported_for_every_device_and_tier(self, engine: Engine) -> None:
        before = engine.free_lower_bytes()
        table = engine.store(np.ones((10, 6)), canonical_layout((10, 6), engine.mesh, 7))
        found = engine.memory_use()
        devices = [memory for memory in found if memory.tier == "device"]
        assert [memory.device for memory in devices] == [f"{self.kind}:{d}" for d in range(3)]
        assert [memory.budget for memory in devices] == engine.budgets()
        assert sum(memory.used for memory in devices) == table.n_bytes
        assert {memory.tier for memory in found} <= {"device", "host", "disk"}
        assert all(memory.peak >= memory.used for memory in found)
        below = engine.evict(table)
        del table
        engine.reset_peaks()
        assert [m.peak for m in engine.memory_use() if m.tier == "device"] == [0, 0, 0]
        assert before == engine.mesh.host_bytes + engine.mesh.disk_bytes
        assert (engine.free_lower_bytes() < before) == self.has_values
        assert engine.not_pinned_bytes() == 0
        del below
        assert engine.free_lower_bytes() == before

    def test_every_worker_shares_a_job(self, engine: Engine) -> None:
        called: list[int] = []
        engine.share(lambda: called.append(1), 99)
        assert len(called) == engine.n_workers

    def test_closing_twice_is_closing_once(self, engine: Engine) -> None:
        engine.synchronize()
        engine.synchronize(0)
        engine.close()
        engine.close()
        assert all(memory.resting == 0 for memory in engine.memory_use())

    # runs

    @pytest.mark.parametrize("inline", [True, False])
    def test_it_runs_a_program_and_reports_when(self, inline: bool) -> None:
        events_seen: list[str] = []
        with self.session() as session:
            program = prepared(session, it.ones((10, 6)) * 3).program
            engine = session.engine
            run = engine.start(program, [], [3])
            (number,) = program.graph.held
            assert not run.is_made(number)
            with (
                events.on("run_start", lambda **what: events_seen.append("start")),
                events.on("run_end", lambda **what: events_seen.append("end")),
            ):
                engine.finish(run, inline, False)
            assert run.is_made(number)
            self.check(engine, run.table(number), np.full((10, 6), 3.0))
            run.release()
            assert [engine.available_bytes(d) for d in range(3)] == engine.budgets()
        assert events_seen == ["start", "end"]

    def test_a_run_counts_what_it_did_once(self) -> None:
        with self.session() as session:
            program = prepared(session, it.ones((10, 6)) * 3).program
            run = session.engine.start(program, [], [3])
            assert list(run.leaves) == []
            assert run.tables_with_reads() == {}
            session.engine.finish(run, True, False)
            counts = run.take_counts()
            assert counts["tasks"] == int(program.needed.sum())
            assert counts.keys() <= it.stats().keys()
            run.release()
            assert not any(run.take_counts().values())

    def test_what_was_abandoned_is_not_made(self) -> None:
        with self.session(compile="never") as session:
            program = prepared(session, it.ones((10, 6)) * 3, it.ones(8) * 5).program
            scalars = [3, 5]
            run = session.engine.start(program, [], scalars)
            one, other = program.graph.held
            run.abandon([one])
            session.engine.finish(run, True, False)
            assert run.is_made(one)
            assert not run.is_made(other)
            assert run.table(one).layout == program.graph.held[one][1]
            run.release()

    def test_a_task_that_failed_is_run_again(self) -> None:
        failing = [True]

        def fail(**what: Any) -> None:
            if failing.pop():
                raise ZeroDivisionError("of a task")

        with self.session() as session:
            program = prepared(session, it.ones((10, 6)) * 3).program
            run = session.engine.start(program, [], [3])
            (number,) = program.graph.held
            with (
                events.on("task_start", fail),
                pytest.raises(ZeroDivisionError, match="of a task"),
            ):
                session.engine.finish(run, True, False)
            assert not run.is_made(number)
            session.engine.finish(run, True, False, resumed=True)
            self.check(session.engine, run.table(number), np.full((10, 6), 3.0))
            run.release()

    @pytest.mark.parametrize("event", ["run_start", "task_start", "run_end"])
    def test_ctrl_c_is_never_lost_and_what_it_stopped_goes_on(self, event: str) -> None:
        before = signal.getsignal(signal.SIGINT)
        with self.session():
            x = it.cumsum(it.ones((10, 6)), axis=0)
            with events.on(event, interrupt), pytest.raises(KeyboardInterrupt):
                it.compute(x)
            assert signal.getsignal(signal.SIGINT) is before
            self.check_values(x, np.cumsum(np.ones((10, 6)), axis=0))

    def test_ctrl_c_beside_an_error_is_not_lost(self) -> None:
        def fail(**what: object) -> None:
            interrupt()
            raise ZeroDivisionError("of a task")

        with self.session():
            x = it.ones((10, 6)) * 3
            with events.on("task_start", fail), pytest.raises(KeyboardInterrupt) as found:
                it.compute(x)
            assert isinstance(found.value.__context__, ZeroDivisionError)
            del found  # it holds the frames of what it stopped
            self.check_values(x, np.full((10, 6), 3.0))


# --- an engine that passes calls on to another ----------------------------------------------------


def names_of(protocol: Any) -> set[str]:
    """What a protocol asks for."""
    found = set(vars(protocol)) | set(protocol.__annotations__)
    return {name for name in found if not name.startswith("_")}


class Passing:
    """Passes on to another object what a protocol names, and nothing else."""

    protocol: Any = None

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name not in names_of(self.protocol):
            raise AttributeError(f"{name} is behind the border of {self.protocol.__name__}")
        return getattr(self.inner, name)


class PassingRun(Passing):
    """The run of an engine that this process knows by its protocol alone."""

    protocol = Run


class PassingEngine(Passing):
    """An engine whose devices, memory and runs are another engine's."""

    protocol = Engine

    def __init__(self, devices: Any, room: Room, n_workers: int) -> None:
        super().__init__(ENGINES["local"](devices, room, n_workers))

    def start(self, *given: Any) -> Run:
        """A run, not yet begun."""
        return cast("Run", PassingRun(self.inner.start(*given)))

    def finish(self, run: Any, inline: bool, progress: bool, resumed: bool = False) -> None:
        """Begin or resume a run."""
        assert isinstance(run, PassingRun)
        self.inner.finish(run.inner, inline, progress, resumed)


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a third engine."""
    monkeypatch.setitem(ENGINES, "passing", cast("Any", PassingEngine))


@pytest.mark.local
@pytest.mark.usefixtures("passing")
class TestPassing(EngineTests):
    name = "passing"

    def test_nothing_behind_the_border_can_be_reached(self, engine: Engine) -> None:
        hidden: Any = engine
        with pytest.raises(AttributeError, match="ledgers is behind the border of Engine"):
            hidden.ledgers  # noqa: B018

    @pytest.mark.parametrize(
        "program",
        [p for p in PROGRAMS if p.run.__module__ in {m.__name__ for m in (products, stencils)}][:8]
        + [p for p in PROGRAMS if p.run.__module__ == statistics.__name__][:4],
        ids=str,
    )
    def test_whole_programs_give_numpys_values(self, program: Program) -> None:
        ours, theirs = (program.arguments(np.random.default_rng(5)) for _ in range(2))
        wanted = program.run(np, *theirs)
        with self.session():
            given = [it.asarray(a) if isinstance(a, np.ndarray) else a for a in ours]
            found = program.run(it, *given)
            for one, other in zip([found, *given], [wanted, *theirs], strict=True):
                if isinstance(one, it.Tensor):
                    np.testing.assert_allclose(one.numpy(), other, rtol=program.rtol, atol=1e-12)

    def test_more_than_its_memory_goes_to_files_and_comes_back(self, tmp_path: Path) -> None:
        values = np.random.default_rng(0).normal(size=(64, 64))
        np.save(tmp_path / "x.npy", values)
        with strict("cpu", 256, 60_000, "64MiB", engine=self.name):
            x = it.open(tmp_path / "x.npy")
            y = it.tanh(it.asarray(values) @ x.T)
            found = (y @ x - y, it.sum(y, axis=0))
            it.compute(*found)
            counts = it.stats()
            assert counts["bytes_loaded"] > 0
            assert counts["bytes_read"] > 0
            np.testing.assert_allclose(
                found[0].numpy(), np.tanh(values @ values.T) @ values - np.tanh(values @ values.T)
            )

    def test_a_call_runs_in_tiles_on_devices_and_memory_is_lent(self) -> None:
        with self.session():
            x = it.asarray(VALUES) + 1
            for box, tile in x.local_tiles():
                (a, b), (c, d) = box
                np.testing.assert_array_equal(tile, VALUES[a:b, c:d] + 1)
            assert "tasks" in it.stats()
            assert it.plan(x * 2).n_tasks > 0

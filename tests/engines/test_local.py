"""What every engine must do; the local one inherits it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.ir.sessions import local, prepared, strict

import infinitensor as it
from infinitensor import events
from infinitensor.devices import Ledger
from infinitensor.devices.device import CpuDevice
from infinitensor.engines import Engine, LocalEngine, Room, open_engine
from infinitensor.partition import canonical_layout
from infinitensor.runtime import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = ((0, 10), (0, 6))


class EngineTests:
    """An engine inherits these; `name` opens it."""

    name = ""

    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        engine = open_engine(self.name, "cpu*3", Room("1MiB"), 2)
        yield engine
        engine.close()

    def test_it_has_a_mesh_of_its_devices(self, engine: Engine) -> None:
        assert engine.mesh.n_devices == 3
        assert engine.mesh.kind == "cpu"
        assert [device.memory_bytes for device in engine.mesh.devices] == [1 << 20] * 3

    def test_what_is_stored_counts_until_it_is_let_go(self, engine: Engine) -> None:
        before = [engine.available_bytes(d) for d in range(3)]
        assert before == [1 << 20] * 3
        table = engine.store(np.ones((10, 6)), canonical_layout((10, 6), engine.mesh, 7))
        held = [b - engine.available_bytes(d) for d, b in enumerate(before)]
        assert sum(held) == table.n_bytes
        assert min(held) > 0
        del table
        assert [engine.available_bytes(d) for d in range(3)] == before

    def test_what_is_stored_is_read_by_box_and_step(self, engine: Engine) -> None:
        values = np.arange(60.0).reshape(10, 6)
        table = engine.store(values, canonical_layout((10, 6), engine.mesh, 7))
        np.testing.assert_array_equal(engine.read(table, WHOLE), values)
        np.testing.assert_array_equal(engine.read(table, ((2, 9), (1, 5))), values[2:9, 1:5])
        np.testing.assert_array_equal(engine.read(table, WHOLE, (3, 2)), values[::3, ::2])

    def test_what_is_evicted_is_read_and_takes_no_device(self, engine: Engine) -> None:
        values = np.arange(60.0).reshape(10, 6)
        layout = canonical_layout((10, 6), engine.mesh, 7)
        for table in (
            engine.evict(engine.store(values, layout)),
            engine.store_below(values, layout),
        ):
            assert [engine.available_bytes(d) for d in range(3)] == engine.budgets()
            np.testing.assert_array_equal(engine.read(table, WHOLE), values)

    def test_memory_is_reported_for_every_device_and_tier(self, engine: Engine) -> None:
        before = engine.free_below()
        table = engine.store(np.ones((10, 6)), canonical_layout((10, 6), engine.mesh, 7))
        found = engine.memory_use()
        devices = [memory for memory in found if memory.tier == "device"]
        assert [memory.device for memory in devices] == ["cpu:0", "cpu:1", "cpu:2"]
        assert [memory.budget for memory in devices] == engine.budgets()
        assert sum(memory.used for memory in devices) == table.n_bytes
        assert {memory.tier for memory in found} <= {"device", "host", "disk"}
        assert all(memory.peak >= memory.used for memory in found)
        below = engine.evict(table)
        del table
        engine.reset_peaks()
        assert [m.peak for m in engine.memory_use() if m.tier == "device"] == [0, 0, 0]
        assert engine.free_below() < before == engine.mesh.host_bytes + engine.mesh.disk_bytes
        assert engine.not_pinned_bytes() == 0
        del below
        assert engine.free_below() == before

    @pytest.mark.parametrize("inline", [True, False])
    def test_it_runs_a_program_and_reports_when(self, inline: bool) -> None:
        events_seen: list[str] = []
        with strict("cpu*3", 7) as session:
            x = it.ones((10, 6)) * 3
            program = prepared(session, x).program
            engine = session.engine
            run = engine.start(program, [], [3])
            with (
                events.on("run_start", lambda **what: events_seen.append("start")),
                events.on("run_end", lambda **what: events_seen.append("end")),
            ):
                engine.finish(run, inline, False)
            (number,) = program.graph.held
            found = engine.read(run.table(number), WHOLE)
            np.testing.assert_array_equal(found, np.full((10, 6), 3.0))
        assert events_seen == ["start", "end"]

    def test_ctrl_c_after_the_last_task_is_not_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with strict("cpu*3", 7):
            x = it.ones((10, 6)) * 3
            go = Run.go

            def go_then_interrupt(run: Run, *args: Any, **kwargs: Any) -> None:
                go(run, *args, **kwargs)
                run.stop()

            monkeypatch.setattr(Run, "go", go_then_interrupt)
            with pytest.raises(KeyboardInterrupt):
                it.compute(x)
            monkeypatch.setattr(Run, "go", go)
            np.testing.assert_array_equal(x.numpy(), np.full((10, 6), 3.0))

    def test_ctrl_c_before_the_first_task_is_not_lost(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with strict("cpu*3", 7):
            x = it.ones((10, 6)) * 3
            go = Run.go

            def interrupt_then_go(run: Run, *args: Any, **kwargs: Any) -> None:
                signal.raise_signal(signal.SIGINT)
                go(run, *args, **kwargs)

            monkeypatch.setattr(Run, "go", interrupt_then_go)
            with pytest.raises(KeyboardInterrupt):
                it.compute(x)
            monkeypatch.setattr(Run, "go", go)
            np.testing.assert_array_equal(x.numpy(), np.full((10, 6), 3.0))

    def test_ctrl_c_beside_an_error_is_not_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = signal.getsignal(signal.SIGINT)
        with strict("cpu*3", 7):
            x = it.ones((10, 6)) * 3

            def go(run: Run, *args: Any, **kwargs: Any) -> None:
                signal.raise_signal(signal.SIGINT)
                raise ZeroDivisionError("of a tick")

            with monkeypatch.context() as patch:
                patch.setattr(Run, "go", go)
                with pytest.raises(KeyboardInterrupt) as found:
                    it.compute(x)
            assert isinstance(found.value.__context__, ZeroDivisionError)
            assert signal.getsignal(signal.SIGINT) is before
            del found  # it holds the frames of what it stopped
            np.testing.assert_array_equal(x.numpy(), np.full((10, 6), 3.0))

    def test_ctrl_c_stops_between_tasks_and_the_handler_is_put_back(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with strict("cpu*3", 7):
            x = it.cumsum(it.ones((10, 6)), axis=0)

            def interrupt(**what: object) -> None:
                signal.raise_signal(signal.SIGINT)

            with events.on("task_start", interrupt), pytest.raises(KeyboardInterrupt):
                it.compute(x)
            assert signal.getsignal(signal.SIGINT) is before
            np.testing.assert_array_equal(x.numpy(), np.cumsum(np.ones((10, 6)), axis=0))

    def test_closing_twice_is_closing_once(self, engine: LocalEngine) -> None:
        engine.close()
        engine.close()
        assert all(ledger.resting_bytes == 0 for ledger in engine.ledgers)


@pytest.mark.local
class TestLocal(EngineTests):
    name = "local"

    def test_null_devices_need_no_workers(self) -> None:
        engine = LocalEngine("null*2", Room(None), 4)
        assert engine.mesh.workers == 1
        assert engine.mesh.n_devices == 2

    def test_devices_share_what_is_free(self) -> None:
        engine = LocalEngine("cpu*4", Room(None), 1)
        free = engine.devices[0].free_bytes()
        assert sum(d.memory_bytes for d in engine.mesh.devices) <= free


def test_an_unknown_engine_is_named() -> None:
    with pytest.raises(ValueError, match="no engine 'remote'; this version has 'local'"):
        open_engine("remote", "cpu", Room(), 1)


@pytest.mark.parametrize("memory", [0, -5, "0GiB"])
def test_a_device_without_memory_is_refused(memory: str | int) -> None:
    with pytest.raises(ValueError, match="a device needs some memory"):
        LocalEngine("cpu", Room(memory), 1)


def test_a_memory_in_no_known_unit_is_refused() -> None:
    with pytest.raises(
        ValueError, match="memory='2 kk' is not a number of bytes; write for example '2GiB'"
    ):
        LocalEngine("cpu", Room("2 kk"), 1)


@pytest.mark.parametrize("memory", [True, 1.5, "1e9", "abc", float("nan")])
def test_what_is_no_number_of_bytes_says_what_to_write(memory: Any) -> None:
    with pytest.raises(ValueError, match="is not a number of bytes; write for example '2GiB'"):
        it.init("cpu", memory=memory)


@pytest.mark.parametrize("memory", [1e9, np.int64(10**9), "1GB", "1000 MB"])
def test_whole_numbers_are_bytes_whatever_their_type(memory: Any) -> None:
    with it.init("cpu", memory=memory, disk=1e9) as session:
        assert local(session).ledgers[0].budget_bytes == 10**9
        assert local(session).tiers.disk_bytes == 10**9


def test_no_memory_is_refused_by_init() -> None:
    with pytest.raises(ValueError, match=r"memory=0: a device needs some memory; write for exam"):
        it.init("cpu", memory=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
@pytest.mark.parametrize("devices", ["cuda", "cuda:0", "cuda:0*2", ["cpu", "cuda"]])
def test_gpu_that_is_not_there_says_so(devices: Any) -> None:
    with pytest.raises(ValueError, match=r"there is no GPU to use \(.*\); write 'cpu', or leave"):
        it.init(devices)


class NothingPinned(CpuDevice):
    """A system that pins no memory."""

    def allocate(self, n_bytes: int) -> Any:
        raise MemoryError(f"{n_bytes} bytes cannot be pinned")


def test_what_cannot_be_pinned_goes_to_files_and_is_counted() -> None:
    values = np.arange(60.0).reshape(10, 6)
    with strict("cpu", disk="1MiB") as session:
        engine = local(session)
        engine.tiers.host = Ledger(NothingPinned(0), 1 << 20)
        layout = canonical_layout(values.shape, engine.mesh, 60)
        table = engine.store_below(values, layout)
        assert it.stats(reset=True)["bytes_not_pinned"] >= values.nbytes
        assert it.stats()["bytes_not_pinned"] == 0
        np.testing.assert_array_equal(engine.read(table, WHOLE), values)

"""Programs of a few kernels that are repeated are started without a run, and leave as little."""

from __future__ import annotations

import ctypes
import signal
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.audit import Audit
from tests.fake_gpu import fake_gpu, with_tools
from tests.ir.sessions import local

import infinitensor as it
from infinitensor import events, jit
from infinitensor.api.evaluate import evaluate
from infinitensor.devices import gpu_driver
from infinitensor.devices.device import CudaDevice
from infinitensor.ir.mesh import Tools
from infinitensor.native import extension
from infinitensor.runtime.replay import few_kernels
from infinitensor.runtime.replay.few_kernels import Few
from infinitensor.runtime.replay.one_launch import Again

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.unaudited  # whoever looks at runs gets runs

X = np.random.default_rng(0).normal(size=(300, 40))


@pytest.fixture(params=["fake", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    it.config.small_elements = 0
    with events.on("evaluated", Audit().evaluated):
        if request.param == "gpu":
            yield
            return
        monkeypatch.setattr(it.config, "compile", "never")
        with fake_gpu():
            yield


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each program that could be was started as a few kernels."""
    found: list[bool] = []
    start = Few.start

    def noted(self: Few, *given: Any) -> Any:
        tables = start(self, *given)
        found.append(tables is not None)
        return tables

    monkeypatch.setattr(Few, "start", noted)
    return found


def steps(x: Any) -> list[Any]:
    """Programs of one to three tasks, over parts of tensors, with scalars and two results."""
    return [x * 2 + 1, x[:, ::-1] - x, x.sum(axis=0), (x @ x.T)[3:], it.compute(x + 1, x - 1)]


def values_of(found: list[Any]) -> list[np.ndarray]:
    return [
        np.array(v.numpy()) for each in found for v in (each if type(each) is tuple else [each])
    ]


def test_what_is_repeated_is_started_and_has_the_same_values(started: list[bool]) -> None:
    with it.init("cuda:0", memory="64MiB") as session:
        x = it.asarray(X)
        first = values_of(steps(x))
        n_tasks = it.stats(reset=True)["tasks"]
        assert not started
        for _ in range(2):
            for found, wanted in zip(values_of(steps(x)), first, strict=True):
                np.testing.assert_array_equal(found, wanted)
            stats = it.stats(reset=True)
            assert stats["tasks"] == n_tasks
            assert stats["plan_misses"] == 0
        assert len(started) >= 8
        assert all(started)
        del x
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0


@pytest.mark.gpu
def test_one_launch_that_is_repeated_goes_straight_to_its_stream(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other operands and other numbers: each time its own values."""
    if request.node.callspec.params["device"] == "fake":
        pytest.skip("there are no kernels")
    n_straight = []
    start = Again.start

    def noted(self: Again, *given: Any) -> bool:
        n_straight.append(start(self, *given))
        return n_straight[-1]

    monkeypatch.setattr(Again, "start", noted)
    monkeypatch.setattr(it.config, "compile", "always")
    with it.init("cuda:0", memory="64MiB"):
        for k in range(6):
            values = X + k
            x = it.compute(it.asarray(values))
            for number in (2.0, 3.0):
                found = it.compute(x * number + k)
                np.testing.assert_array_equal(found.numpy(), values * number + k)
    assert n_straight.count(True) >= 8


class Recorded:
    """What Triton makes of a kernel, and its launches: (stream, pointers and numbers)."""

    function, packed_metadata = 1, ()

    def __init__(self) -> None:
        self.calls: list[tuple[int, tuple[Any, ...]]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *given, **how: self

    def run(self, x: int, y: int, z: int, stream: int, function: int, *given: Any) -> None:
        self.calls.append((stream, given[4:]))


def test_what_is_launched_again_gets_its_own_tiles_and_numbers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here without a kernel: the arguments are looked at."""
    if request.node.callspec.params["device"] == "gpu":
        pytest.skip("the values are looked at there")
    import torch

    kernel = Recorded()
    monkeypatch.setattr(it.config, "compile", "always")
    monkeypatch.setattr(jit, "load", lambda source: kernel)
    monkeypatch.setattr(jit, "options", dict)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda gpu: 5, raising=False)
    monkeypatch.setattr(CudaDevice, "stream", lambda self: 7)
    with with_tools(Tools()), it.init("cuda:0", memory="64MiB"):
        x, y = it.compute(it.asarray(X), it.asarray(X + 1))

        def ran(given: Any, number: float) -> tuple[int, tuple[Any, ...]]:
            made = it.compute(given * number + 1)
            stream, (read, written, *numbers) = kernel.calls[-1]
            assert read == given._version.table.arrays[0].data_ptr()
            assert written == made._version.table.arrays[0].data_ptr()
            return stream, tuple(numbers)

        it.compute(x * 2.0 + 1)  # through Triton's front end
        assert not kernel.calls
        stream, before = ran(x, 2.0)
        assert (stream, before[:2]) == (7, (2.0, 1.0))
        assert ran(y, 2.0) == (7, before)
        assert ran(y, 3.0) == (7, (3.0, *before[1:]))
        monkeypatch.setattr(CudaDevice, "stream", lambda self: None)  # another GPU is the current
        assert ran(x, 3.0) == (5, (3.0, *before[1:]))
        assert len(kernel.calls) == 4


def _run_again(work: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `work` runs, on the same memory; like a recording it holds no buffer."""
    seen: list[Any] = []

    def noted(self: Few, *given: Any) -> None:
        seen.append((self, *given))

    with monkeypatch.context() as patched:
        patched.setattr(Few, "_run", noted)
        work()
    return lambda: run(*seen[0])


@pytest.mark.parametrize("form", ["c", "python"])
def test_tasks_of_several_kernels_are_recorded_on_memory_that_is_used_again(
    started: list[bool],
    form: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other values in the same memory, other numbers, other memory: each time its own result."""
    if form == "python":
        monkeypatch.setattr(few_kernels, "_started", lambda few, leaves, scalars: few._take())
    n_recorded, n_replayed = [], []
    plain, run = CudaDevice.record, Few._run
    is_fake = request.node.callspec.params["device"] == "fake"

    def record(self: CudaDevice, work: Any) -> Any:
        again: Any = plain(self, work) if not is_fake else _run_again(work, run, monkeypatch)
        if again is None:
            return None
        n_recorded.append(again)

        def start() -> None:
            n_replayed.append(1)
            again()

        return start

    monkeypatch.setattr(CudaDevice, "record", record)
    with it.init("cuda:0", memory="64MiB") as session:
        x, y = it.compute(it.asarray(X), it.asarray(X - 3))
        for k in range(8):
            values = X + k
            x[...] = values
            it.compute(x)
            for number in (2.0, 3.0):
                found = it.compute(it.var(it.arctan(x * number), axis=0))
                expected = np.var(np.arctan(values * number), axis=0)
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
            found = it.compute(it.var(it.arctan(y * 2.0), axis=0))
            np.testing.assert_allclose(found.numpy(), np.var(np.arctan((X - 3) * 2), axis=0))
        assert 0 < len(n_recorded) < len(n_replayed)
        del x, y, found
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0
    assert all(started)


class FakeDriver:
    """Starts what was recorded by its number, as NVIDIA's does: by an address that C calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = extension("devices/gpu_driver")
        if module is None or few_kernels._alone is None:
            pytest.skip("no compiler")
        self.n_launched, self.refuses = 0, False
        self.works: list[Any] = []
        self.recorded: list[gpu_driver.Recorded] = []
        self.module = module
        self._launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self.launch)
        self.start_by(self._launch)
        calls = module.launch_graph, gpu_driver._never, gpu_driver._never
        monkeypatch.setattr(gpu_driver, "_driver", lambda: calls)
        run = Few._run

        def record(device: CudaDevice, work: Any) -> Any:
            self.works.append(_run_again(work, run, monkeypatch))
            number = len(self.works)
            graph = SimpleNamespace(raw_cuda_graph_exec=lambda: number, replay=self.works[-1])
            self.recorded.append(gpu_driver.Recorded(graph, 7))
            return self.recorded[-1]

        def play(device: CudaDevice, start: Any) -> None:
            if not start.launch():
                start()

        monkeypatch.setattr(CudaDevice, "record", record)
        monkeypatch.setattr(CudaDevice, "play", play)

    def start_by(self, function: Any, number: int = 0) -> None:
        """Let another function of C start recordings, and give it that number."""
        self.module.use(ctypes.cast(function, ctypes.c_void_p).value, 0, 0)
        for one in self.recorded:
            one._handles = (number, 7)

    def launch(self, number: int, stream: int) -> int:
        if self.refuses:
            return 1
        self.works[number - 1]()
        self.n_launched += 1
        return 0


@pytest.fixture
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    if request.node.callspec.params["device"] == "gpu":
        pytest.skip("the driver is looked at here")
    found = FakeDriver(monkeypatch)
    with events_off():
        yield found
    found.module.use(0, 0, 0)


@contextmanager
def events_off() -> Iterator[None]:
    """Nobody looks at evaluations: whoever does gets some of Python."""
    before = dict(events.hooks)
    events.hooks.clear()
    try:
        yield
    finally:
        events.hooks.update(before)


def test_what_was_recorded_is_started_by_c_alone(started: list[bool], driver: FakeDriver) -> None:
    """Other values, other numbers, several results: each time their own, counted as before."""
    with it.init("cuda:0", memory="64MiB") as session:
        x = it.compute(it.asarray(X))
        for k in range(12):
            x[...] = X + k
            it.compute(x)
            for number in (2.0, -0.0):
                first, second = it.compute(it.var(it.arctan(x * number), axis=0), x * number - 1)
                np.testing.assert_allclose(
                    first.numpy(), np.var(np.arctan((X + k) * number), axis=0), rtol=1e-12
                )
                np.testing.assert_array_equal(second.numpy(), (X + k) * number - 1)
            if k == 8:
                it.stats(reset=True)
                n_before, n_python = driver.n_launched, len(started)
        stats = it.stats()
        assert stats["ways"]["few_kernels"] == driver.n_launched - n_before == 9
        assert len(started) == n_python
        assert stats["tasks"] >= 9
        del x, first, second
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0


def test_what_c_cannot_start_alone_is_started_by_python(
    started: list[bool], driver: FakeDriver
) -> None:
    """A driver that refuses, somebody who looks at evaluations, too little room."""
    with it.init("cuda:0", memory="64MiB") as session:
        x = it.compute(it.asarray(X))

        def agrees() -> int:
            """How often Python started it."""
            n_before = len(started)
            np.testing.assert_array_equal(it.compute(it.sort(x * 2.0, axis=0)).numpy(), wanted)
            return len(started) - n_before

        wanted = np.sort(X * 2, axis=0)
        for _ in range(8):
            agrees()
        assert not agrees()
        driver.refuses = True
        assert agrees() == 1
        driver.refuses = False
        assert not agrees()
        seen: list[Any] = []
        with events.on("evaluated", lambda **what: seen.append(what)):
            assert agrees() == 1
        assert len(seen) == 1
        ledger = local(session).ledgers[0]
        free = ledger.budget_bytes - ledger.used_bytes
        taken = ledger.take(free - (1 << 16))
        with pytest.raises(it.MemoryBudgetError, match="does not fit"):
            agrees()
        del taken
        assert not agrees()


def test_what_a_handler_raises_meanwhile_comes_when_all_is_committed(driver: FakeDriver) -> None:
    """A signal that arrives while kernels are started is heard after the evaluation: here what
    starts them is C's `raise`, and what they computed before is still in their memory."""

    class Heard(Exception):
        pass

    def hear(number: int, frame: Any) -> None:
        raise Heard("meanwhile")

    with it.init("cuda:0", memory="64MiB") as session:
        x = it.compute(it.asarray(X))
        for _ in range(8):
            it.compute(it.sort(x * 2.0, axis=0))
        before = signal.signal(signal.SIGUSR1, hear)
        try:
            driver.start_by(ctypes.CDLL(None)["raise"], int(signal.SIGUSR1))
            made = it.sort(x * 2.0, axis=0)
            with pytest.raises(Heard, match="meanwhile"):
                it.compute(made)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert made._version.node is None, "it is committed"
        np.testing.assert_array_equal(made.numpy(), np.sort(X * 2, axis=0))
        del x, made
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0


WITH_HOST_VALUES: dict[str, Any] = {
    "row": lambda xp, x, row, at: x * row + 1,
    "product": lambda xp, x, row, at: xp.sum(x + 1, axis=0) @ row,
    "index": lambda xp, x, row, at: xp.take(xp.sort(x, axis=1), at, axis=1) - row[at],
    "quantile": lambda xp, x, row, at: xp.quantile(x, 0.3, axis=1) * at[0],
}


@pytest.mark.parametrize("name", WITH_HOST_VALUES)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_values_of_the_host_are_brought_each_time(
    name: str, dtype: str, started: list[bool]
) -> None:
    program, rng = WITH_HOST_VALUES[name], np.random.default_rng(1)
    values, tolerance = X.astype(dtype), 1e-12 if dtype == "f8" else 1e-4
    with it.init("cuda:0", memory="64MiB") as session:
        x = it.compute(it.asarray(values))
        it.config.small_elements = 1 << 16
        loaded = []
        for _ in range(6):
            row, at = rng.normal(size=40).astype(dtype), rng.integers(0, 40, 5)
            found = it.compute(program(it, x, row, at))
            expected = program(np, values, row, at)
            np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)
            loaded.append(it.stats(reset=True)["bytes_loaded"])
        assert len(set(loaded)) == 1, "a start counts what a run does"
        assert started.count(True) >= 4
        del x, found
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0


def test_values_of_the_host_are_no_part_of_what_is_recorded(
    started: list[bool], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.node.callspec.params["device"] == "gpu":
        pytest.skip("recordings are looked at here")
    run, n_replayed = Few._run, []

    def record(self: CudaDevice, work: Any) -> Any:
        again = _run_again(work, run, monkeypatch)
        return lambda: n_replayed.append(again())

    monkeypatch.setattr(CudaDevice, "record", record)
    with it.init("cuda:0", memory="64MiB"):
        x = it.compute(it.asarray(X))
        it.config.small_elements = 1 << 16
        for k in range(8):
            row = np.arange(40.0) + k
            found = it.compute(it.var(it.arctan(x * row), axis=1) - row[:1])
            expected = np.var(np.arctan(X * row), axis=1) - row[:1]
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
            del found
    assert len(n_replayed) >= 5


def test_programs_of_many_tasks_are_started_too_up_to_a_limit(
    started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few_kernels, "MOST_TASKS", 64)

    def spread(x: Any) -> Any:
        low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
        y = (x - low) / (high - low) @ x.T
        return it.sort(y @ y, axis=0) + it.cumsum(y, axis=1), it.sort(y, axis=1)

    def long(x: Any) -> Any:
        for _ in range(few_kernels.MOST_TASKS + 1):
            x = it.sort(x, axis=1)
        return x

    with it.init("cuda:0", memory="64MiB") as session:
        x = it.compute(it.asarray(X))
        first = values_of([it.compute(*spread(x))])
        n_tasks = it.stats(reset=True)["tasks"]
        assert n_tasks >= 8
        for _ in range(4):
            for found, wanted in zip(values_of([it.compute(*spread(x))]), first, strict=True):
                np.testing.assert_array_equal(found, wanted)
        assert it.stats(reset=True)["tasks"] == 4 * n_tasks
        assert len(started) == 4
        assert all(started)
        for _ in range(3):
            np.testing.assert_array_equal(it.compute(long(x)).numpy(), np.sort(X))
        assert len(started) == 4
        del x
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0


def test_programs_that_see_parts_of_their_operands_are_started_by_first_sight(
    started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for repeat in (evaluate.repeat, evaluate.repeat_in_python):
        monkeypatch.setattr(evaluate, "repeat", repeat)
        started.clear()
        with it.init("cuda:0", memory="64MiB") as session:
            x = it.compute(it.asarray(X))
            for k in range(5):
                found = it.compute((x[:4, None, :3] - x[None, 1:6, :3]).sum(axis=2))
                expected = (X[:4, None, :3] - X[None, 1:6, :3]).sum(axis=2)
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
                if k == 1:
                    it.stats(reset=True)
                del found
            assert it.stats()["ways"]["few_kernels"] == 3
            assert it.stats()["plan_hits"] == 3
            assert all(started)
            np.testing.assert_array_equal(x.numpy(), X)  # it is not used up
            y = it.compute(x * 2)
            del x
            found = it.compute(y[1:3].sum(axis=0))
            np.testing.assert_allclose(found.numpy(), (X * 2)[1:3].sum(axis=0))
            del y, found
            session.drain()
            assert local(session).ledgers[0].used_bytes == 0


def test_what_does_not_hold_afterwards_is_explained_by_a_run(
    started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel goes on before it knows that its operands are right."""
    is_right = [True]
    plain = Few._run

    def run(self: Few, *given: Any) -> None:
        assert events.lane.checks is not None
        events.lane.checks.append(lambda: is_right[0])
        plain(self, *given)

    monkeypatch.setattr(Few, "_run", run)
    with it.init("cuda:0", memory="64MiB"):
        x = it.compute(it.asarray(X))
        for k in range(6):
            is_right[0] = k < 4
            np.testing.assert_allclose(it.compute(it.arctan(x)).numpy(), np.arctan(X))
    assert started == [True, True, True, False, False]
    assert events.lane.checks is None


def test_what_a_program_makes_it_may_change(started: list[bool]) -> None:
    """An index that is wrong is an error each time, and nothing is changed twice."""

    def changed(x: Any, at: Any) -> Any:
        y = x.copy()
        it.add.at(y, at, x[:3])
        y[5:9, ::2] = 7.0
        return y

    def wanted(at: np.ndarray) -> np.ndarray:
        y = X.copy()
        np.add.at(y, at, X[:3])
        y[5:9, ::2] = 7.0
        return y

    with it.init("cuda:0", memory="64MiB"):
        x = it.compute(it.asarray(X))
        for at in (np.array([4, -1, 4]), np.array([0, 0, 0])):
            index = it.compute(it.asarray(at))
            for _ in range(3):
                np.testing.assert_allclose(it.compute(changed(x, index)).numpy(), wanted(at))
        index = it.compute(it.asarray(np.array([1, 300, 2])))
        for _ in range(3):
            with pytest.raises(IndexError, match="index 300 is out of bounds for axis 0"):
                it.compute(changed(x, index))
        np.testing.assert_array_equal(x.numpy(), X)
    assert started.count(True) >= 5


def test_a_leaf_that_is_changed_is_changed_by_a_run(started: list[bool]) -> None:
    with it.init("cuda:0", memory="64MiB"):
        x, at = it.compute(it.asarray(X), it.asarray(np.array([4, 4])))
        values = X.copy()
        for _ in range(4):
            it.add.at(x, at, 1.0)
            np.add.at(values, [4, 4], 1.0)
            np.testing.assert_array_equal(it.compute(x).numpy(), values)
    assert not any(started)


def test_what_nobody_else_reads_goes_when_kernels_have_started(started: list[bool]) -> None:
    with it.init("cuda:0", memory="64MiB") as session:
        for _ in range(3):
            x = it.compute(it.asarray(X))
            y = x * 2
            del x
            np.testing.assert_allclose(y.numpy(), X * 2)
        del y
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0
    assert started == [True, True]


def test_hooks_see_every_task(started: list[bool]) -> None:
    seen: list[str] = []
    with it.init("cuda:0", memory="64MiB"):
        x = it.asarray(X)
        it.compute(x * 3)
        with events.on("task_start", lambda **what: seen.append(what["op"])):
            it.compute(x * 3)
    assert seen
    assert started == [False]


def test_a_kernel_that_fails_is_explained_by_a_run(
    started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fails_later(tile: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("not again")
        return tile * 2

    with it.init("cuda:0", memory="64MiB") as session:
        x = it.compute(it.asarray(X))

        def asked() -> Any:
            return it.map_tiles(fails_later, x, form="nd->nd")

        before = local(session).ledgers[0].used_bytes
        it.compute(asked())
        again = asked()
        with pytest.raises(ValueError, match="not again") as caught:
            it.compute(again)
        assert "test_few_kernels.py" in "".join(caught.value.__notes__)
        del caught, again
        session.drain()
        assert local(session).ledgers[0].used_bytes == before


def test_memory_refused_while_kernels_are_started_changes_nothing(started: list[bool]) -> None:
    n_seen = []

    def refuse(device: str, n_bytes: int) -> None:
        n_seen.append(n_bytes)
        if len(n_seen) == 1:
            raise it.DeviceOutOfMemoryError(f"{device} has no {n_bytes} bytes left", n_bytes)

    with it.init("cuda:0", memory="64MiB"):
        x = it.compute(it.asarray(X))
        it.compute(x * 5)
        with events.on("allocate", refuse):
            found = x * 5
            np.testing.assert_array_equal(found.numpy(), X * 5)
    assert started == [False]
    assert len(n_seen) == 2


def test_a_step_that_uses_up_the_one_before_is_started(
    started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operand stays as it is until the step is made, in memory of its own."""
    values = X.copy()
    with it.init("cuda:0", memory="64MiB") as session:
        x = it.compute(it.asarray(X))
        for _ in range(8):
            x *= 0.5
            x += 1
            it.compute(x)
            values = values * 0.5 + 1
            np.testing.assert_array_equal(x.numpy(), values)
        assert started.count(True) >= 6
        with monkeypatch.context() as patched:  # a run makes it after all, of the same operand
            patched.setattr(Few, "_call", lambda self, *given: [lambda: False])
            patched.setattr(Few, "_replay", lambda self, *given: None)
            x *= 0.5
            it.compute(x)
        np.testing.assert_array_equal(x.numpy(), values * 0.5)
        del x
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0


def test_a_step_whose_operand_leaves_too_little_room_uses_it_up(started: list[bool]) -> None:
    n = 1 << 20
    values = np.arange(1.0 * n)
    with it.init("cuda:0", memory="18MiB", host_memory=0, disk=0):  # not 8 more
        x = it.compute(it.asarray(values))
        for _ in range(4):
            x += 1
            it.compute(x)
        np.testing.assert_array_equal(x.numpy(), values + 4)
    assert True not in started

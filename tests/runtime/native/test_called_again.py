"""Programs that C runs again without a run: the same values, counts and memory, and when not."""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.at_line import AtLine
from tests.ir.sessions import local, strict

import infinitensor as it
from infinitensor import events, native, threads
from infinitensor.devices import Ledger
from infinitensor.engines import LocalEngine
from infinitensor.errors import DeviceOutOfMemoryError
from infinitensor.runtime.native import c_program, c_team, called_again
from infinitensor.runtime.native.c_team import c_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(native.compiler() is None, reason="nothing is generated"),
]


@pytest.fixture(autouse=True)
def bound_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are bound when they run for the first time, however few tasks they have; and are
    run so though the audit of all tests listens to runs, and however long they had no core."""
    monkeypatch.setattr(called_again, "HOOKS", ("task_start", "tile_commit"))
    monkeypatch.setattr(called_again, "MOST_NS", 1 << 60)
    monkeypatch.setattr(c_program, "BIND", 0)
    monkeypatch.setattr(c_program, "BIND_MORE", 0)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The runs that are begun meanwhile."""
    begun: list[Any] = []
    start = LocalEngine.start

    def starting(*args: Any) -> Any:
        begun.append(start(*args))
        return begun[-1]

    monkeypatch.setattr(LocalEngine, "start", starting)
    yield begun
    begun.clear()


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "int64"])
@pytest.mark.parametrize("shape", [(1,), (30,), (7, 11), (0, 3), (3, 4, 5)])
@pytest.mark.parametrize("shared_ns", [1, 1 << 40])
def test_a_program_that_ran_in_c_runs_again_without_a_run(
    dtype: str,
    shape: tuple[int, ...],
    shared_ns: int,
    runs: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(called_again, "SHARED_NS", shared_ns)
    rng = np.random.default_rng(3)
    with strict("cpu", 7, compile="always"):
        for turn in range(4):
            values = rng.integers(0, 50, shape).astype(dtype)
            x = it.asarray(values)
            it.compute(x)
            begun = len(runs)
            before = it.stats()
            two = turn + 2
            made = it.compute((x + two + x)[::-1] + x.T.T)
            np.testing.assert_array_equal(made.numpy(), (values + two + values)[::-1] + values)
            after = it.stats()
            if turn > 1 and values.size:
                assert len(runs) == begun
                assert after["ways"]["repeated"] == before["ways"]["repeated"] + 1
                n_tasks = after["tasks"] - before["tasks"]
                assert after["tasks_in_c"] - before["tasks_in_c"] == n_tasks > 0


def test_memory_of_operands_that_nobody_else_reads_is_used_again(runs: list[Any]) -> None:
    with strict("cpu", 50, compile="always") as session:
        x = it.asarray(np.arange(400.0))
        it.compute(x)
        wanted = np.arange(400.0)
        used = []
        for _ in range(6):
            x = x * 0.5 + 3
            it.compute(x)
            wanted = wanted * 0.5 + 3
            used.append(sum(use.used for use in session.engine.memory_use()))
        np.testing.assert_array_equal(x.numpy(), wanted)
        assert len(set(used)) == 1
        assert len(runs) < 6


def repeat(program: Callable[[], Any], runs: list[Any], n: int = 3) -> int:
    """How many runs the last of so many evaluations begins."""
    begun = 0
    for _ in range(n):
        begun = len(runs)
        it.compute(program())
    return len(runs) - begun


def test_what_takes_long_can_be_stopped(runs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with strict("cpu", 7, compile="always"):
        x = it.asarray(np.arange(30.0))
        it.compute(x)
        assert repeat(lambda: x * 2 + 1, runs) == 0
        monkeypatch.setattr(called_again, "MOST_NS", -1)
        assert repeat(lambda: x * 2 + 1, runs) == 1


@pytest.mark.parametrize("name", ["task_start", "tile_commit"])
def test_a_run_reports_what_somebody_listens_to(name: str, runs: list[Any]) -> None:
    with strict("cpu", 7, compile="always"):
        x = it.asarray(np.arange(30.0))
        it.compute(x)
        assert repeat(lambda: x * 2 + 1, runs) == 0
        heard = []
        with events.on(name, lambda **what: heard.append(what)):
            assert repeat(lambda: x * 2 + 1, runs, 1) == 1
        assert heard


def test_where_there_is_too_little_memory_a_run_says_so(
    runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Ledger, n_bytes: int) -> Any:
        raise DeviceOutOfMemoryError("no", n_bytes)

    with strict("cpu", 7, compile="always") as session:
        x = it.asarray(np.arange(30.0))
        it.compute(x)
        assert repeat(lambda: x * 2 + 1, runs) == 0
        y = x * 2 + 1
        with monkeypatch.context() as refusing:
            refusing.setattr(Ledger, "take", refuse)
            local(session).ledgers[0].trim()  # what rests would be taken
            with pytest.raises(DeviceOutOfMemoryError, match="no"):
                it.compute(y)
        np.testing.assert_array_equal(y.numpy(), np.arange(30.0) * 2 + 1)


def step_by_step(*args: Any) -> None:
    """What a job is not done by in one call of C."""


def test_ctrl_c_is_heard_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = c_functions()

    class Interrupted:
        """C, while somebody presses Ctrl-C."""

        @staticmethod
        def alone(*args: Any) -> int:
            signal.raise_signal(signal.SIGINT)
            return int(functions.alone(*args))

    with strict("cpu", 30, compile="always"):
        x = it.asarray(np.arange(30.0))
        for _ in range(3):
            y = it.compute(x * 2 + 1)
        y = x * 2 + 1
        with monkeypatch.context() as pressed:
            pressed.setattr(called_again, "c_functions", lambda: Interrupted)
            pressed.setattr(called_again.Again, "_run_in_c", step_by_step)
            with pytest.raises(KeyboardInterrupt):
                it.compute(y)
        before = it.stats()["tasks"]
        np.testing.assert_array_equal(y.numpy(), np.arange(30.0) * 2 + 1)
        assert it.stats()["tasks"] == before


def test_ctrl_c_at_any_line_of_it_leaves_everything_right(runs: list[Any]) -> None:
    values = np.arange(30.0)
    traced = sys.gettrace()
    with strict("cpu", 30, compile="always") as session:
        x = it.asarray(values)
        for _ in range(3):
            it.compute(x * 2 + 1)
        session.drain()
        used = sum(use.used for use in session.engine.memory_use())
        n_lines, at, n_pressed, n_heard, begun = 1, -1, 0, 0, len(runs)
        while at <= n_lines:
            y, line = x * 2 + 1, AtLine(at, signal.SIGINT)
            try:
                sys.settrace(line)
                it.compute(y)
            except KeyboardInterrupt:
                n_heard += 1
            finally:
                sys.settrace(traced)
            n_pressed += 0 < at <= line.seen
            n_lines, at = max(n_lines, line.seen), max(at, 0) + 1
            np.testing.assert_array_equal(y.numpy(), values * 2 + 1)
            del y
            session.drain()
            assert sum(use.used for use in session.engine.memory_use()) == used, f"line {at}"
        assert n_heard == n_pressed > 50
        assert len(runs) == begun
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("n_bindings", [1, 4])
def test_each_kind_of_strides_has_its_own_job(
    n_bindings: int, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(called_again, "KEPT_BINDINGS", n_bindings)
    rng = np.random.default_rng(5)
    with strict("cpu", 1 << 20, compile="always"):
        base = rng.random((40, 40))
        tables = [it.asarray(base), it.compute(it.asarray(base).T.copy())]
        foreign = base[::2, ::2]
        seen = [*tables, it.from_dlpack(foreign)]
        wanted = [base, base.T, foreign]
        for _ in range(4):
            for x, values in zip(seen, wanted, strict=True):
                made = it.compute(x * 2 + 1, x.sum(axis=0))
                np.testing.assert_array_equal(made[0].numpy(), values * 2 + 1)
                np.testing.assert_allclose(made[1].numpy(), values.sum(axis=0))
        begun = len(runs)
        for x in seen:
            it.compute(x * 2 + 1, x.sum(axis=0))
        assert len(runs) == begun


@pytest.mark.parametrize("in_levels", [0, 64])
def test_no_more_threads_are_asked_than_there_is_work_or_where_tasks_are_not_cut_tasks(
    in_levels: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    functions, asked = c_functions(), []

    class Noted:
        """C, and how many others it was to run a program with."""

        alone = functions.alone

        @staticmethod
        def together(handle: int, at: int, n_others: int, slice_ns: int) -> int:
            asked.append(n_others)
            return int(functions.together(handle, at, n_others, slice_ns))

    monkeypatch.setattr(called_again, "c_functions", lambda: Noted)
    monkeypatch.setattr(called_again.Again, "_run_in_c", step_by_step)
    monkeypatch.setattr(called_again, "Pace", Most)
    monkeypatch.setattr(called_again, "MOST_IN_LEVELS", in_levels)
    for each_ns, most in [(1, 15), (1 << 40, 0)]:
        monkeypatch.setattr(called_again, "SHARED_NS", each_ns)
        for n_tasks in (2, 5, 40):
            with strict("cpu", 10, compile="always", workers=16):
                values = np.arange(10.0 * n_tasks)
                x = it.compute(it.asarray(values))
                for _ in range(3):
                    before = it.stats()["tasks"]
                    made = it.compute(x * 2 + 1)
                    found = it.stats()["tasks"] - before
                    np.testing.assert_array_equal(made.numpy(), values * 2 + 1)
            expected = most if in_levels else min(most, found - 1)
            assert set(asked) == ({expected} if most else set())
            asked.clear()


class Most:
    """A pace of all threads, always."""

    is_timed = True

    def __init__(self, most: int, first: int) -> None:
        self.most = most

    def n_threads(self, work_ns: int) -> int:
        return self.most

    def note(self, n_threads: int, ns: int) -> None:
        pass


SHARED: dict[str, Callable[[Any], Any]] = {
    "a line": lambda x: it.exp(x.reshape(-1)) * 2 + 1,
    "rows": lambda x: x[:, ::2] * 2 - x[:, 1::2],
    "few rows": lambda x: x.reshape(3, -1)[:, :-1] / 3 + x.reshape(3, -1)[:, 1:],
    "transposed": lambda x: x.T * 2 + it.arange(len(x)),
    "flipped": lambda x: it.flip(x, 0) + it.flip(x, 1) * x,
    "a value for each row": lambda x: x - x[:, :1],
    "sums of rows": lambda x: (x * x).sum(axis=1),
    "places in rows": lambda x: it.argmax(x * 2, axis=1),
    "sums of columns": lambda x: (x * x).sum(axis=0),
    "moments": lambda x: (it.var(x, axis=0), it.var(x, axis=1)),
    "rows used again": lambda x: (x - x.max(axis=1, keepdims=True)) / 7,
    "three axes": lambda x: x.reshape(6, -1, 50)[::-1].sum(axis=1) + 1,
    "all": lambda x: (x * 3 + 1).sum(),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_a_call_that_threads_share_gives_the_same_bits(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(called_again, "SHARED_NS", 1)
    monkeypatch.setattr(called_again, "Pace", Most)
    values = np.random.default_rng(5).integers(0, 9, (900, 50)).astype(dtype)
    found = []
    for n_workers in (1, 2, 5):
        with strict("cpu", 1 << 20, compile="always", workers=n_workers):
            x = it.compute(it.asarray(values))
            for _ in range(3):
                made = SHARED[name](x)
                parts = made if isinstance(made, tuple) else (made,)
                it.compute(*parts)
                found.append([part.numpy().tobytes() for part in parts])
    assert all(one == found[0] for one in found)


OFFER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@pytest.mark.parametrize(
    ("shape", "n_wanted"), [((40_000,), [3]), ((200, 200), [3]), ((5000,), []), ((9000,), [1])]
)
def test_others_are_asked_to_share_what_is_worth_it(
    shape: tuple[int, ...], n_wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def offer(work: int, given: int, n: int) -> None:
        asked.append(n)  # and nobody comes

    in_c = OFFER(offer)
    address = ctypes.cast(in_c, ctypes.c_void_p).value
    known = threads.function_address
    monkeypatch.setattr(
        c_team, "function_address", lambda name: address if "offer" in name else known(name)
    )
    monkeypatch.setattr(called_again, "SHARED_NS", 1)
    monkeypatch.setattr(called_again, "Pace", Most)
    values = np.arange(np.prod(shape)).reshape(shape)
    with strict("cpu", 1 << 20, compile="always", workers=4):
        x = it.compute(it.asarray(values))
        for _ in range(4):
            asked.clear()
            np.testing.assert_array_equal(it.compute(x * 2 + 1).numpy(), values * 2 + 1)
    assert asked == n_wanted


def test_the_least_work_is_remembered_for_a_while() -> None:
    with strict("cpu", 1 << 20, compile="always", workers=2):
        x = it.compute(it.asarray(np.arange(300_000.0)))
        for _ in range(4):
            it.compute(x * 2 + 1)
        (again,) = [one for one in gc.get_objects() if type(one) is called_again.Again]
        again.called.work_ns = 1000
        it.compute(x * 2 + 1)  # takes longer than that
        assert 1000 < again.called.work_ns <= 1000 + 1000 // called_again.FORGOTTEN + 1
        again.called.work_ns = called_again.MOST_NS
        it.compute(x * 2 + 1)
        assert again.called.work_ns < called_again.MOST_NS


def test_no_task_of_a_level_waits_for_another() -> None:
    def found(edges: dict[int, list[int]], n: int) -> tuple[list[int], list[int], int]:
        after = [follower for task in range(n) for follower in edges.get(task, [])]
        borders = np.cumsum([0, *(len(edges.get(task, [])) for task in range(n))])
        program = SimpleNamespace(
            graph=SimpleNamespace(n_tasks=n), borders=borders, after=np.asarray(after, int)
        )
        levels = called_again.find_levels(program, np.arange(n))  # type: ignore[arg-type]
        return levels.order.tolist(), levels.borders.tolist(), levels.width

    assert found({0: [1], 1: [2]}, 3) == ([0, 1, 2], [0, 1, 2, 3], 1)
    assert found({0: [3], 1: [3], 2: [3]}, 4) == ([0, 1, 2, 3], [0, 3, 4], 3)
    assert found({0: [2], 1: [], 2: [3]}, 4) == ([0, 1, 2, 3], [0, 2, 3, 4], 2)
    assert found({1: [2]}, 4) == ([0, 1, 3, 2], [0, 3, 4], 3)
    assert found({}, 5) == ([0, 1, 2, 3, 4], [0, 5], 5)
    assert found({}, 0) == ([], [0], 0)


@pytest.mark.parametrize("in_levels", [0, 1 << 20])
def test_programs_of_many_tasks_are_right_whoever_takes_them(
    in_levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(called_again, "MOST_IN_LEVELS", in_levels)
    monkeypatch.setattr(called_again, "SHARED_NS", 1)
    monkeypatch.setattr(called_again, "Pace", Most)
    values = np.random.default_rng(0).integers(0, 99, (300, 70)).astype(float)
    with strict("cpu", 700, compile="always", workers=6):
        x = it.compute(it.asarray(values))
        for _ in range(20):
            y = x * 2 + 1
            rows = (y - y.max(axis=1, keepdims=True)) * 3
            made = it.compute(rows[:, ::-1] + y, y.sum(axis=0))
            wanted = values * 2 + 1
            seen = (wanted - wanted.max(axis=1, keepdims=True)) * 3
            np.testing.assert_array_equal(made[0].numpy(), seen[:, ::-1] + wanted)
            np.testing.assert_array_equal(made[1].numpy(), wanted.sum(axis=0))


@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
def test_python_takes_and_makes_what_c_does(
    devices: str, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values in one array and in tiles, leaves that are used up, other dtypes."""
    found = []
    for form in (called_again._in_c, None):
        monkeypatch.setattr(called_again, "_in_c", form)
        with strict(devices, 1000, compile="always") as session:
            x = it.asarray(np.arange(3000.0).reshape(60, 50))
            it.compute(x)
            for k in range(5):
                y = x * k + 1
                it.compute(y)
                y += 2  # in its own memory
                z = (y[1:] - y[:-1]).astype("f4").sum(axis=0)
                found.append([y.numpy().copy(), it.compute(z).numpy().copy(), (y > 9).numpy()])
                assert z.dtype == np.float32
            del x, y, z
            session.drain()
            assert not any(ledger.used_bytes for ledger in local(session).ledgers)
    for mine, theirs in zip(found[:5], found[5:], strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)

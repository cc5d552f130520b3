"""Programs that C runs: the same values as from Python, stopped and resumed, with its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict
from tests.runtime.run.test_run import begin

import infinitensor as it
from infinitensor import events, native
from infinitensor.devices import Ledger
from infinitensor.errors import DeviceOutOfMemoryError
from infinitensor.ops.backend import blas
from infinitensor.runtime import Workers
from infinitensor.runtime.native import c_program
from infinitensor.tasking.kernels.c_calls import Mapped, kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.call_tables import Operands

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(native.compiler() is None, reason="nothing is generated"),
]
ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"


@pytest.fixture(autouse=True)
def bound_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are bound when they run for the first time, however few tasks they have."""
    monkeypatch.setattr(c_program, "BIND", 0)
    monkeypatch.setattr(c_program, "BIND_MORE", 0)


DTYPES = ("float32", "float64", "int32", "int64", "uint8", "complex64", "complex128")


def random_program(rng: np.random.Generator) -> Callable[[Any, list[np.ndarray]], list[Any]]:
    """Calls, views and writes by chance, the same each time it is called."""
    seed = int(rng.integers(1 << 30))

    def program(xp: Any, arrays: list[np.ndarray]) -> list[Any]:
        own = np.random.default_rng(seed)
        held = [xp.asarray(a.copy()) for a in arrays]
        for _ in range(own.integers(2, 7)):
            x, y = (held[own.integers(len(held))] for _ in range(2))
            what = own.integers(11)
            if what == 0 and x.ndim:
                x = x[tuple(slice(None, None, int(own.choice([1, -1, 2]))) for _ in x.shape)]
            elif what == 1:
                x = x.T
            elif what == 2 and x.ndim and x.shape[0] > 2:
                x[1:-1] = x[:-2] + x[2:] * 3 - x[1:-1]
            elif what == 6 and x.ndim == 2 and min(x.shape) > 2:
                x[1:, 1:] -= 2 * (x[1:, :1] * x[0, 1:]) + x[1:, 0].copy()[:, None] * 3
            elif what == 3 and x.ndim and x.shape[-1] > 1:
                x = x[..., 1:] + x[..., :1]
            elif what == 4 and np.iscomplexobj(x):
                x = x.imag * 2 + x.real
            elif what == 7 and x.ndim and x.shape[0] > 3:
                x[1::2] = x[-2::-2][: x[1::2].shape[0]] + 1
            elif what == 8 and x.ndim:
                x = xp.roll(x, (1, -2), (0, x.ndim - 1))
            elif what == 9 and x.ndim > 1 and x.shape[0] > 2:
                x = x.copy()
                x[::-2, 0] = (x * 2)[::-2, -1]
            elif what == 5 and x.shape == y.shape:
                x = xp.maximum(x.real, y.real) - (x + y).real
            x = x * own.choice([2, 3]) + (1.5 if x.dtype.kind in "fc" else 2)
            if own.random() < 0.3:
                x = x - (x + 1)
            held.append(x)
        return held[len(arrays) // 2 :]

    return program


def operands(rng: np.random.Generator) -> list[np.ndarray]:
    shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 4)))
    shapes = [shape, shape, shape[1:]]
    made = []
    for each in shapes:
        values = rng.normal(size=each) * 9
        dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
        made.append(values + 1j * values[..., ::-1] if dtype.kind == "c" and each else values)
        made[-1] = made[-1].astype(dtype) if dtype.kind != "u" else np.abs(made[-1]).astype(dtype)
    return made


def results(program: Any, arrays: list[np.ndarray]) -> list[bytes]:
    made = program(it, arrays)
    it.compute(*made)
    return [x.numpy().tobytes() for x in made]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(200 if ALL else 30))
def test_c_makes_the_bytes_that_python_makes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, arrays = random_program(rng), operands(rng)
    devices, tile = f"cpu*{rng.integers(1, 4)}", int(rng.choice([3, 7, 20, 1000]))
    how: dict[str, Any] = {"compile": "always", "inline_elements": int(rng.choice([0, 1 << 20]))}
    with strict(devices, tile, workers=int(rng.integers(1, 4)), **how):
        with events.on("task_start", lambda **what: None):
            from_python = results(program, arrays)
        assert it.stats()["tasks_in_c"] == 0
        for _ in range(2):
            assert results(program, arrays) == from_python


def test_most_of_those_programs_run_in_c() -> None:
    n_in_c = n_all = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        program, arrays = random_program(rng), operands(rng)
        with strict("cpu", 7, compile="always"):
            results(program, arrays)
            n_in_c += it.stats()["tasks_in_c"]
            n_all += it.stats()["tasks"]
    assert n_in_c > n_all / 2


def chain(x: Any) -> Any:
    """Two families of tasks with tiles between them that nobody keeps."""
    return it.sqrt(x)[::-1] + 1


def halves(x: Any) -> Any:
    """Two writes into the tiles of a copy, each reading what the one before has written."""
    y = x.copy()
    y[::2] = it.sqrt(y)[1::2]
    y[1::2] = y[::2] * 2 + 1
    return y


def is_stopped(run: Any, workers: Workers | None, stop_after: int) -> bool:
    """Stop a run after some ticks; whether it was not at its end."""
    n_ticks = []

    def tick() -> None:
        n_ticks.append(1)
        if len(n_ticks) == stop_after:
            run.stop()

    try:
        run.go(workers, tick)
    except KeyboardInterrupt:
        return bool(run.status.n_done < run.status.n_tasks)
    return False


@pytest.mark.parametrize("program", [chain, halves])
@pytest.mark.parametrize(("stop_after", "n_workers"), [(1, 0), (3, 0), (900, 0), (1, 3)])
def test_a_program_stopped_in_c_goes_on_in_python(
    stop_after: int,
    n_workers: int,
    program: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(c_program, "SLICE_NS", 0)  # the ticks come after every task
    workers = Workers(n_workers) if n_workers else None
    with strict("cpu", 7, compile="always") as session:
        values = np.arange(5000.0)
        for _ in range(50):  # other threads may be done before this one ticks
            run, number = begin(session, program(it.asarray(values)))
            if is_stopped(run, workers, stop_after):
                break
            run.release()
        assert 0 < run.status.counts["tasks_in_c"] == run.status.n_done < run.status.n_tasks
        assert run.status.n_done == sum(run.status.done)
        run.go(workers, lambda: None)
        assert run.status.is_finished()
        found = run.table(number).read(((0, 5000),), local(session).devices)
        halved = np.repeat(np.sqrt(values[1::2]), 2)
        halved[1::2] = halved[1::2] * 2 + 1
        expected = halved if program is halves else np.sqrt(values)[::-1] + 1
        np.testing.assert_array_equal(found, expected)
        run.release()
    if workers is not None:
        workers.close()


def test_what_a_tick_raises_ends_the_tasks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_program, "SLICE_NS", 0)
    workers = Workers(3)

    def tick() -> None:
        raise ZeroDivisionError("of a tick")

    with strict("cpu", 7, compile="always") as session:
        run, _ = begin(session, chain(it.asarray(np.arange(2000.0))))
        with pytest.raises(ZeroDivisionError, match="of a tick"):
            run.go(workers, tick)
        assert run.status.job is None
        assert run.status.n_done == sum(run.status.done)
        run.release()
    workers.close()


def mixed(x: Any) -> Any:
    """Calls with tasks between them that NumPy runs; a loop op and a sum among them."""
    y = it.sqrt(x)[::-1] + 1
    z = it.cumsum(y * 2 - x)
    return (z - y.sum()) * 3 + it.exp(x * 1e-3)[::-1] * y


@pytest.mark.parametrize("devices", ["cpu", "cpu*3"])
@pytest.mark.parametrize("n_workers", [0, 1, 3])
def test_tasks_between_calls_are_run_from_python(
    n_workers: int, devices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_program, "MIXED", 100)  # on several devices most tasks are moves
    workers = Workers(n_workers) if n_workers else None
    values = np.arange(300.0)
    found = []
    with strict(devices, 7, compile="always") as session:
        for hooked in (False, True):
            run, number = begin(session, mixed(it.asarray(values)))
            run.start.bindings.is_over |= hooked
            run.go(workers, lambda: None)
            assert run.status.is_finished()
            assert (0 < run.status.counts["tasks_in_c"] < run.status.n_tasks) != hooked
            found.append(run.table(number).read(((0, 300),), local(session).devices).tobytes())
            run.release()
    assert found[0] == found[1]
    if workers is not None:
        workers.close()


class Broken(Exception):
    """Raised by a task."""


@pytest.mark.parametrize("n_workers", [0, 3])
@pytest.mark.parametrize("fails_at", [1, 4])
def test_a_task_between_calls_that_fails_is_run_again(
    fails_at: int, n_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers(n_workers) if n_workers else None
    values = np.arange(300.0)
    with strict("cpu", 7, compile="always") as session:
        wanted = mixed(it.asarray(values)).numpy()
        run, number = begin(session, mixed(it.asarray(values)))
        one, n_run = run.run_task, []

        def broken(task: int) -> None:
            n_run.append(task)
            if len(n_run) == fails_at:
                raise Broken("here")
            one(task)

        with monkeypatch.context() as patch:
            patch.setattr(run, "run_task", broken)
            with pytest.raises(Broken, match="here"):
                run.go(workers, lambda: None)
        assert 0 < run.status.n_done == sum(run.status.done) < run.status.n_tasks
        assert run.ready is None
        run.go(workers, lambda: None)
        assert run.status.is_finished()
        np.testing.assert_array_equal(
            run.table(number).read(((0, 300),), local(session).devices), wanted
        )
        run.release()
    if workers is not None:
        workers.close()


def test_what_a_tick_raises_ends_the_workers_first(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(3)

    def tick() -> None:
        raise ZeroDivisionError("of a tick")

    with strict("cpu", 7, compile="always") as session:
        run, _ = begin(session, mixed(it.asarray(np.arange(300.0))))
        with pytest.raises(ZeroDivisionError, match="of a tick"):
            run.go(workers, tick)
        assert run.status.job is None
        assert run.status.n_done == sum(run.status.done)
        run.release()
    workers.close()


@pytest.mark.skipif(native.IS_CHECKED, reason="no tiles share memory")
def test_a_device_that_gives_less_is_asked_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    take, n_refused = Ledger.take, []

    def refuse(self: Ledger, n_bytes: int) -> Any:
        if n_bytes > 500:
            n_refused.append(n_bytes)
            raise DeviceOutOfMemoryError("no", n_bytes)
        return take(self, n_bytes)

    with strict("cpu*2", 7, compile="always"):
        x = it.asarray(np.arange(100.0))
        it.compute(x)
        monkeypatch.setattr(Ledger, "take", refuse)
        np.testing.assert_array_equal(chain(x * 2).numpy(), np.sqrt(np.arange(100.0) * 2)[::-1] + 1)
        assert it.stats()["tasks_in_c"] == 0
    assert n_refused


def test_hooks_on_tasks_are_called_from_python() -> None:
    started = []
    with strict("cpu", 7, compile="always"):
        x = it.asarray(np.arange(30.0))
        with events.on("task_start", lambda **what: started.append(what["op"])):
            it.compute(chain(x))
        assert len(started) == it.stats()["tasks"] > it.stats()["tasks_in_c"] == 0
        it.compute(chain(x))
        assert it.stats()["tasks_in_c"] == it.stats()["tasks"] - len(started) > 0


def test_windows_of_leaves_of_other_widths_are_bound_anew() -> None:
    with strict("cpu", 50, compile="always"):
        for width in (40, 70, 40, 55):
            values = np.arange(30.0 * width).reshape(30, width)
            x = it.asarray(values)
            y = (x[2:22, 3:23] * 2 + 1)[::-1] * 3
            np.testing.assert_array_equal(y.numpy(), (values[2:22, 3:23] * 2 + 1)[::-1] * 3)
        assert it.stats()["tasks_in_c"] > 0


def test_windows_look_into_operands_of_fewer_axes() -> None:
    rng = np.random.default_rng(3)
    x, v, w = rng.random((9, 8)), rng.random(9), rng.random(8)
    with strict("cpu", 7, compile="always"):
        ours = [it.asarray(a) for a in (x, v, w)]
        it.compute(*ours)
        y, a, b = ours[0] * 2, *ours[1:]
        x *= 2
        for k in (1, 2):
            y[k:, k:] -= 2 * a[k:, None] * b[k:] + y[k:, k:]
            x[k:, k:] -= 2 * v[k:, None] * w[k:] + x[k:, k:]
        np.testing.assert_array_equal(y.numpy(), x)
        assert it.stats()["tasks_in_c"] > 0


def test_scalars_are_handed_over_in_every_kind() -> None:
    with strict("cpu", 7, compile="always"):
        for dtype, scalars in (
            ("float32", (0.5, -0.0, np.inf)),
            ("int64", (-3, 2**62)),
            ("uint64", (2**63 + 5, 7)),
            ("complex128", (1.5 - 2j, 3)),
            ("bool", (True,)),
        ):
            values = np.arange(20).astype(dtype)
            for scalar in scalars:
                wanted = values + np.asarray(scalar, dtype)
                found = (it.asarray(values) + np.asarray(scalar, dtype)[()]).numpy()
                np.testing.assert_array_equal(found, wanted)
        assert it.stats()["tasks_in_c"] > 0


@pytest.mark.parametrize("turns", [3, 400])
def test_loops_of_many_turns_hand_over_a_number_for_each(turns: int) -> None:
    factors = np.random.default_rng(4).random(turns) + 0.5

    def program(x: Any) -> Any:
        for factor in factors.tolist():
            x = x * factor - 0.25
        return x

    values = np.arange(300.0)
    with strict("cpu", 100, compile="always"):
        x = it.asarray(values)
        np.testing.assert_array_equal(program(x).numpy(), program(values))
        it.stats(reset=True)
        np.testing.assert_array_equal(program(x).numpy(), program(values))
        assert it.stats()["tasks"] == it.stats()["tasks_in_c"] > 0


def test_rows_of_one_kind_are_found_even_where_their_sums_agree() -> None:
    weights = np.random.default_rng(0).integers(1, 1 << 62, 2) | 1
    alike = np.asarray([[0, 0], [weights[1], -weights[0]], [0, 0]])
    first, kind = kinds(alike)
    assert len(first) == 2
    np.testing.assert_array_equal(alike[first][kind], alike)


def test_programs_of_few_tasks_are_bound_when_they_are_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(c_program, "BIND", 16)
    values = np.arange(30.0)  # eight tasks of one family
    with strict("cpu", 7, compile="always"):
        x = it.asarray(values)
        n_in_c = []
        for _ in range(5):
            np.testing.assert_array_equal((x * 2 + 1).numpy(), values * 2 + 1)
            n_in_c.append(it.stats()["tasks_in_c"])
        assert n_in_c == [0, 8, 16, 24, 32]


def test_families_that_are_due_later_are_bound_beside_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_due, asked_of = Mapped.is_due, c_program._asked_of
    late, bound = [True], []

    def due(self: Mapped, n_tasks: int) -> bool:
        return not (late[0] and self._counts) and is_due(self, n_tasks)

    def noted(tiles: Any, places: Any, family: Any, own: Any) -> Any:
        bound.append(family.first)
        return asked_of(tiles, places, family, own)

    monkeypatch.setattr(Mapped, "is_due", due)
    monkeypatch.setattr(c_program, "_asked_of", noted)
    values = np.arange(30.0)
    with strict("cpu", 7, compile="always"):
        x = it.asarray(values)
        n_in_c = []
        for k in range(3):
            late[0] = k == 0
            y = x * 2 + 1
            z = -x[::-1]
            it.compute(y, z)
            np.testing.assert_array_equal(y.numpy(), values * 2 + 1)
            np.testing.assert_array_equal(z.numpy(), -values[::-1])
            n_in_c.append(it.stats(reset=True)["tasks_in_c"])
        assert 0 < n_in_c[0] < n_in_c[1] == n_in_c[2]
        assert len(bound) == len(set(bound)) == 2


def test_families_of_one_kernel_are_worked_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    worked: list[int] = []
    calls = Mapped.calls

    def noted(self: Mapped, asked: Operands) -> Any:
        worked.append(len(asked.tasks))
        return calls(self, asked)

    monkeypatch.setattr(Mapped, "calls", noted)
    y = np.random.default_rng(2).integers(1, 90, (30, 30))
    with strict("cpu", 50, compile="always"):
        x = it.asarray(y)
        for k in range(6):
            x[:] = it.minimum(x, it.add.outer(x[:, k], x[k] * (k + 2)))
            y[:] = np.minimum(y, np.add.outer(y[:, k], y[k] * (k + 2)))
        rest = x[4:] + x[:-4] * 3
        it.compute(x, rest)
        np.testing.assert_array_equal(x.numpy(), y)
        np.testing.assert_array_equal(rest.numpy(), y[4:] + y[:-4] * 3)
        counts = it.stats()
    assert len(worked) <= 6
    assert sum(worked) == counts["tasks_in_c"] == counts["tasks"]


def test_writes_and_products_of_columns_are_worked_out_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked: list[tuple[str, int]] = []
    for kind in (Mapped, blas.Multiplied):
        calls = kind.calls

        def noted(self: Any, asked: Operands, calls: Any = calls) -> Any:
            worked.append((type(self).__name__, len(asked.tasks)))
            return calls(self, asked)

        monkeypatch.setattr(kind, "calls", noted)
    values = np.random.default_rng(5).integers(-9, 9, (40, 12)).astype(float)
    with strict("cpu", 100, compile="always"):
        for _ in range(2):
            x, made, expected = it.asarray(values), it.zeros((12, 12)), np.zeros((12, 12))
            for i in range(12):
                made[i:, i] = made[i, i:] = x[:, i] @ x[:, i:] / 2
                expected[i:, i] = expected[i, i:] = values[:, i] @ values[:, i:] / 2
            np.testing.assert_array_equal(made.numpy(), expected)
        counts = it.stats()
    products = [n for name, n in worked if name == "Multiplied"]
    assert len(products) <= 2
    assert sum(products) >= 12
    assert len(worked) <= 8
    assert counts["tasks_in_c"] >= 2 * sum(n for _, n in worked) > 72


CHILD = """
import numpy as np, infinitensor as it
from infinitensor.runtime.run import run
x = it.asarray(np.random.default_rng(0).random((1500, 1500)))
def steps(n):
    for _ in range(n):
        x[1:-1, 1:-1] = 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
it.config.max_recorded_bytes = 1 << 40
steps(2)
it.compute(x)
n_tiles = it.stats(reset=True)["tasks"] // 2
steps(1000)
run_called = run.run_called
def noted(*args):
    print("begun", flush=True)
    return run_called(*args)
run.run_called = noted
try:
    it.compute(x)
except KeyboardInterrupt:
    assert 0 < it.stats()["tasks_in_c"] < 1000 * n_tiles, it.stats()
    print("stopped", flush=True)
"""


def test_ctrl_c_stops_a_program_in_c_before_its_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, env={**os.environ}
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.4)
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "stopped\n"

"""Each way a call can run, by a call that must take it: no other counter rises."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.docs.test_architecture_page import page
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import local
from tests.without_c import assert_passes_without_c

import infinitensor as it
from infinitensor import events
from infinitensor.api.session import ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.unaudited  # whoever looks at runs gets runs
LARGE = 123_400
"""Elements: more than is small, and a length that no other file has: calls are known by shapes."""
NEVER = os.environ.get("INFINITENSOR_COMPILE") == "never"
without_plans = pytest.mark.skipif(NEVER, reason='only compile="auto" runs large calls unplanned')


@pytest.fixture(autouse=True)
def session() -> Iterator[it.Session]:
    with it.init("cpu") as opened:
        yield opened


def taken(call: Callable[[], Any]) -> dict[str, int]:
    """The ways that a call takes, with how often."""
    it.stats(reset=True)
    made = call()
    found = it.stats()["ways"]
    del made
    return {name: n for name, n in found.items() if n}


def small(*shape: int) -> it.Tensor:
    return it.asarray(np.arange(1.0, 1 + np.prod(shape)).reshape(shape))


def large(n: int) -> it.Tensor:
    """Of a length that no other test has."""
    return it.asarray(np.ones(LARGE + n))


def put(x: it.Tensor, index: Any, value: Any) -> None:
    x[index] = value


MASK = np.eye(3, dtype=bool)
SMALL: dict[str, list[Callable[[it.Tensor], Any]]] = {
    "numpy": [
        lambda x: x + x,
        lambda x: 2.0 - x,
        lambda x: -x,
        lambda x: x < 3,
        lambda x: x @ x,
        it.exp,
        lambda x: it.add(x, 1),
        lambda x: it.matmul(x, x),
        it.mean,
        lambda x: x.sum(),
        lambda x: x.sum(axis=0),
        lambda x: it.where(x, x, 0),
        lambda x: it.zeros(7),
        lambda x: it.arange(7),
        lambda x: it.concatenate([x, x]),
        lambda x: x.copy(),
        lambda x: x.astype("float32"),
    ],
    "kernel": [it.i0],
    "read": [lambda x: x[1, 2], lambda x: x[it.asarray([2, 0])], lambda x: x[MASK]],
    "write": [
        lambda x: put(x, (1, 2), 5.0),
        lambda x: put(x, slice(1, 2), x[0]),
        lambda x: put(x, [0, 2], 1.0),
        lambda x: put(x, ..., [1.0, 2.0, 3.0]),
    ],
    "in_place": [lambda x: x.__iadd__(x), lambda x: it.add(x, 1, out=x), lambda x: x.__imul__(2)],
}


@pytest.mark.parametrize(
    ("way", "k"), [(way, k) for way, calls in SMALL.items() for k in range(len(calls))]
)
def test_a_small_call_takes_its_way(way: str, k: int) -> None:
    x, call = small(3, 3), SMALL[way][k]
    assert taken(lambda: call(x)) == {way: 1}
    assert it.stats()["small_calls"] == 1


def test_views_and_strict_runs_take_no_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = small(3, 3)
    assert taken(lambda: (x[1:], x.T, x.reshape(9))) == {}
    monkeypatch.setattr(it.config, "small_elements", 0)
    x = small(3, 3)
    found = taken(lambda: it.compute(it.exp(x + 1)))
    assert found == {"recorded": 2, "planned": 1}
    assert it.stats()["small_calls"] == 0


CHANGING: dict[str, Callable[[it.Tensor, int], Any]] = {
    "operator": lambda x, n: x[:n] + 1.5,
    "ufunc": lambda x, n: it.exp(x[:n]),
    "function": lambda x, n: it.cumsum(x[:n].astype("int64")),
}


@without_plans
@pytest.mark.parametrize("name", CHANGING)
def test_a_call_at_a_place_of_changing_shapes_runs_without_a_plan(name: str) -> None:
    call, x = CHANGING[name], it.asarray(np.ones(LARGE + 9))
    found = []
    for n in range(LARGE, LARGE + 6):
        found.append(taken(partial(lambda n: it.compute(call(x, n)), n)))
    assert set(found[0]) == {"recorded", "unplanned"}
    assert "changing_shapes" in found[-1]
    assert set(found[-1]) <= {"changing_shapes", "moved"}


def test_a_call_that_is_repeated_is_recorded_without_its_rule() -> None:
    x = large(10)

    def again() -> Any:
        return x * 2.5, it.exp(x), it.sum(x, axis=0)

    assert taken(again) == {"recorded": 3}
    assert taken(again) == {"recorded_again": 3}
    it.stats(reset=True)
    assert not any(it.stats()["ways"].values())


@without_plans
def test_a_program_is_unplanned_then_planned_then_repeated() -> None:
    x = large(11)

    def program() -> Any:
        return it.compute(it.exp(x) * 2.5)

    assert taken(program) == {"recorded": 2, "unplanned": 2}
    assert taken(program) == {"recorded_again": 2, "planned": 1}
    assert taken(program) == {"recorded_again": 2, "repeated": 1}


def test_a_stopped_program_is_resumed() -> None:
    x = it.asarray(np.ones((3000, 3000), np.float32))
    y = it.exp(x) * 2

    def stop(**_: Any) -> None:
        raise ZeroDivisionError("stop here")

    with events.on("task_start", stop), pytest.raises(ZeroDivisionError, match="stop here"):
        it.compute(y)
    assert taken(lambda: it.compute(y)) == {"resumed": 1}


def test_few_elements_of_a_file_are_read_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(2_000_000.0))
    x = it.open(tmp_path / "x.npy")
    found = taken(lambda: it.compute(x[it.asarray([5, 1_500_000])]))
    assert found.pop("read_few") == 1
    assert sum(found[name] for name in ("planned", "unplanned") if name in found) == 1


def test_a_program_of_few_kernels_that_ran_before_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "compile", "never")
    monkeypatch.setattr(it.config, "small_elements", 0)
    with fake_gpu(), it.init("cuda:0", memory="64MiB"):
        x = it.asarray(np.ones((307, 43)))
        it.compute(x)
        assert taken(lambda: it.compute(x * 2 + 1)) == {"recorded": 2, "planned": 1}
        assert taken(lambda: it.compute(x * 2 + 1)) == {"recorded_again": 2, "few_kernels": 1}


def test_a_device_that_refuses_memory_is_planned_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "compile", "never")
    monkeypatch.setattr(it.config, "small_elements", 0)
    with fake_gpu(), it.init("cuda:0", memory="64MiB", host_memory="256MiB") as session:
        x = it.compute(it.asarray(np.ones((1000, 1000))))
        ledger = local(session).ledgers[0]

        def refuse(device: str, n_bytes: int) -> None:
            if ledger.used_bytes + n_bytes > 20 << 20:
                raise it.DeviceOutOfMemoryError(f"{device} has no {n_bytes} bytes left", n_bytes)

        y = it.tanh(x @ x.T) @ x
        with events.on("allocate", refuse):
            found = taken(lambda: it.compute(y))
    assert found["planned_in_less"] == 1


def test_all_ways_are_in_the_table_of_the_page() -> None:
    head = "| way | for | who decides | up to | cost |"
    tables = page().split(head)[1:]
    rows = [line for table in tables for line in table.split("\n\n")[0].split("\n")[2:]]
    assert [row.split("|")[1].strip(" `") for row in rows] == list(ways.NAMES)


def test_the_ways_are_the_same_without_c() -> None:
    assert_passes_without_c(__file__)

"""Reductions and scans give the same bits however they are cut, placed, stopped and resumed."""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.special

import infinitensor as it
from infinitensor import events

from .sampling import logged_rng, sample, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [time_limit(300), pytest.mark.filterwarnings("error")]

SHAPE = (1537, 2731)  # 4.2 million: uneven, and more than the largest tile
CUTS = list(itertools.product([1 << 17, 1 << 18, 1 << 20, 1 << 22], [1, 2, 3, 4]))
AXES: list[Any] = [None, 0, 1, (0, 1)]
SCANS = ["cumsum"]
REDUCTIONS = ["sum", "mean", "var", "std", "logsumexp", "prod"]
CASES = [
    (name, axis, dtype)
    for name, axis, dtype in itertools.product(REDUCTIONS + SCANS, AXES, ["float32", "float64"])
    if not (name in SCANS and axis == (0, 1))
]


@pytest.fixture(scope="module")
def values() -> dict[str, np.ndarray[Any, Any]]:
    """Numbers of many magnitudes, so that every order of adding them rounds differently."""
    rng = logged_rng("same bits")
    numbers = rng.normal(size=SHAPE) * np.exp(rng.uniform(-6, 6, SHAPE))
    near_one = 1 + rng.uniform(-1e-3, 1e-3, SHAPE)  # a product neither zero nor infinite
    return {
        "float64": numbers,
        "float32": numbers.astype(np.float32),
        "prod float64": near_one,
        "prod float32": near_one.astype(np.float32),
    }


def operand(values: dict[str, Any], name: str, dtype: str) -> np.ndarray[Any, Any]:
    chosen: np.ndarray[Any, Any] = values.get(f"{name} {dtype}", values[dtype])
    return chosen


def evaluate(name: str, axis: Any, numbers: np.ndarray[Any, Any], cut: tuple[int, int]) -> bytes:
    it.config.tile_elements = cut[0]
    with it.init(devices=f"cpu*{cut[1]}"):
        return build(name, axis, numbers).numpy().tobytes()


def build(name: str, axis: Any, numbers: np.ndarray[Any, Any]) -> it.Tensor:
    result: it.Tensor = getattr(it, name)(it.asarray(numbers), axis=axis)
    return result


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("name", "axis", "dtype"), CASES, ids=str)
def test_every_tile_size_and_device_count_gives_the_same_bits(
    name: str, axis: Any, dtype: str, values: dict[str, np.ndarray[Any, Any]]
) -> None:
    numbers = operand(values, name, dtype)
    first, *others = CUTS[:1] + sample(CUTS[1:], 3, name, axis, dtype)
    wanted = evaluate(name, axis, numbers, first)
    different = [cut for cut in others if evaluate(name, axis, numbers, cut) != wanted]
    assert different == [], f"(tile_elements, devices) that differ from {first}"


@pytest.mark.parametrize("name", REDUCTIONS + SCANS)
def test_the_value_is_numpys_up_to_rounding(
    name: str, values: dict[str, np.ndarray[Any, Any]]
) -> None:
    numbers = operand(values, name, "float64")[:, :200]
    oracle = scipy.special.logsumexp if name == "logsumexp" else getattr(np, name)
    it.config.tile_elements = 1 << 17
    with it.init(devices="cpu*3"):
        got = getattr(it, name)(it.asarray(numbers), axis=0).numpy()
    np.testing.assert_allclose(got, oracle(numbers, axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", REDUCTIONS + SCANS)
def test_repeated_runs_give_the_same_bits_whatever_order_tasks_end_in(
    name: str, values: dict[str, np.ndarray[Any, Any]]
) -> None:
    runs = {evaluate(name, 0, operand(values, name, "float32"), (1 << 17, 4)) for _ in range(4)}
    assert len(runs) == 1


@pytest.mark.parametrize(("name", "axis", "dtype"), sample(CASES, 14, "stopped"), ids=str)
def test_a_run_stopped_and_resumed_gives_the_same_bits(
    name: str, axis: Any, dtype: str, values: dict[str, np.ndarray[Any, Any]]
) -> None:
    numbers = operand(values, name, dtype)
    rng = logged_rng("stopped", name, axis, dtype)
    it.config.tile_elements = 1 << 17
    with it.init(devices="cpu*3"):
        stopper = Stopper(at=-1)
        with events.on("task_start", stopper):
            wanted = build(name, axis, numbers).numpy().tobytes()
        n_tasks = stopper.n_seen
        assert n_tasks > 1
        stops = {0, n_tasks - 1, *rng.integers(0, n_tasks, 3).tolist()}
        for at in sorted(stops):
            result = build(name, axis, numbers)
            interrupted(result, at)
            assert result.numpy().tobytes() == wanted, f"stopped at task {at} of {n_tasks}"


class Stopper:
    """Raises KeyboardInterrupt at the n-th start of a task."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.n_seen = 0
        self.lock = threading.Lock()

    def __call__(self, **what: object) -> None:
        with self.lock:
            now, self.n_seen = self.n_seen, self.n_seen + 1
        if now == self.at:
            raise KeyboardInterrupt("injected")


def interrupted(result: it.Tensor, at: int) -> None:
    with events.on("task_start", Stopper(at)), pytest.raises(KeyboardInterrupt, match="injected"):
        result.numpy()


WRITES: dict[str, Callable[[it.Tensor], it.Tensor]] = {
    "in place": lambda x: x.__imul__(3),
    "shifted": lambda x: _shift(x),
    "stencil": lambda x: _relax(x),
}


def _shift(x: Any) -> Any:
    x[1:] = x[:-1]
    x[:, ::2] += 1
    return x


def _relax(x: Any) -> Any:
    for _ in range(3):
        x[1:-1] = (x[:-2] + x[2:]) * 0.5
    return x


@pytest.mark.parametrize("name", WRITES)
def test_writes_in_place_stopped_anywhere_are_never_torn(name: str) -> None:
    numbers = logged_rng("torn", name).normal(size=(900, 400))
    it.config.small_elements, it.config.tile_elements = 0, 1 << 14
    with it.init(devices="cpu*3"):
        stopper = Stopper(at=-1)
        with events.on("task_start", stopper):
            wanted = WRITES[name](it.asarray(numbers)).numpy().tobytes()
        for at in sample(range(stopper.n_seen), 12, "torn", name):
            x = it.asarray(numbers)
            it.compute(x)  # the base is stored, so that the write may happen in place
            result = WRITES[name](x)
            interrupted(result, at)
            with events.on("task_start", Stopper(at=2)), contextlib.suppress(KeyboardInterrupt):
                result.numpy()  # stopped a second time, if two tasks are left
            assert result.numpy().tobytes() == wanted, f"stopped at task {at}"
            assert x.numpy().tobytes() == wanted

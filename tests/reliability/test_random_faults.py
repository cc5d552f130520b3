"""An error out of any task, allocation or read: every live value is right afterwards.

Large programs in the settings users have. At a random moment something raises; some tensors are
let go of, so that the run that was stopped is finished in part only; all others are compared.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import events

from .sampling import WHOLE, logged_rng, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [time_limit(180), pytest.mark.filterwarnings("error")]

N_ROUNDS = 60 if WHOLE else 3
SETTINGS: dict[str, dict[str, Any]] = {
    "one device": {"devices": "cpu", "memory": "400MiB"},
    "three devices": {"devices": "cpu*3", "memory": "200MiB"},
    "little memory": {"devices": "cpu", "memory": "24MiB"},
}


def sorting(xp: Any, x: Any) -> Iterator[Any]:
    y = x * 2 + 1
    yield y
    yield xp.sort(y)
    yield xp.cumsum(y > 1)


def stencil(xp: Any, x: Any) -> Iterator[Any]:
    grid = x.reshape(1000, -1) + 0
    for _ in range(4):
        grid[1:-1] = (grid[:-2] + grid[2:]) * 0.5
        yield grid * 1
    yield grid.max(axis=1)


def reductions(xp: Any, x: Any) -> Iterator[Any]:
    table = x.reshape(-1, 40)
    centred = table - table.max(axis=0)
    yield centred
    yield xp.argmax(centred, axis=1)
    yield centred.min(axis=0)


def masked_writes(xp: Any, x: Any) -> Iterator[Any]:
    y = xp.abs(x)
    yield y * 1
    y[y > 0.5] = -1.0
    yield y * 1
    y[::3] += y[::3]
    yield y


def chosen(xp: Any, x: Any) -> Iterator[Any]:
    yield x[x > 0.25] * 2
    yield xp.flip(x) + x
    yield xp.concatenate([x[500:], x[:500]]).reshape(-1, 8).T


PROGRAMS = {f.__name__: f for f in (sorting, stencil, reductions, masked_writes, chosen)}


def raise_at(n: int) -> tuple[Callable[..., None], list[int]]:
    """A callback that raises at the n-th event, and how many there were."""
    seen: list[int] = []
    lock = threading.Lock()

    def callback(**what: object) -> None:
        with lock:
            seen.append(1)
            now = len(seen) - 1
        if now == n:
            raise OSError("injected")

    return callback, seen


def results(program: Callable[..., Iterator[Any]], x: Any, kept: list[Any]) -> None:
    """All results of a program, computed together; they are in `kept` if it is stopped, too."""
    kept.extend(program(it, x))
    it.compute(*kept)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("event", ["task_start", "allocate", "tile_commit"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_after_a_fault_at_a_random_moment_all_live_values_are_right(
    name: str, setting: str, event: str
) -> None:
    rng = logged_rng("random fault", name, setting, event)
    values = rng.normal(size=600_000)
    program = PROGRAMS[name]
    wanted = list(program(np, values))
    n_raised = 0
    with it.init(**SETTINGS[setting]):
        x = it.asarray(values)
        results(program, x, [])  # little work is done without tasks when it is new
        callback, seen = raise_at(-1)
        with events.on(event, callback):
            results(program, x, [])
        for turn in range(10 * N_ROUNDS):
            if turn >= N_ROUNDS and n_raised:
                break
            kept: list[Any] = []  # memory that is kept, or comes sooner, makes events fewer
            callback, _ = raise_at(int(rng.integers(0, len(seen))) if turn < N_ROUNDS else 0)
            with events.on(event, callback):
                try:
                    results(program, x, kept)
                except (OSError, it.TaskError):
                    n_raised += 1
            live = {k: made for k, made in enumerate(kept) if rng.random() < 0.6}
            del kept
            for k in rng.permutation(list(live)).tolist():
                np.testing.assert_array_equal(live[k].numpy(), wanted[k], f"{turn}: value {k}")
            np.testing.assert_array_equal(x.numpy(), values)
    assert n_raised, "no fault was injected"


def test_after_a_read_that_fails_at_a_random_moment_all_live_values_are_right(
    tmp_path: Path,
) -> None:
    rng = logged_rng("random fault in a file")
    values = rng.normal(size=(3000, 200))
    np.save(tmp_path / "x.npy", values)
    wanted = [values.max(axis=0), values * 2 + 1, np.sort(values[:, 0])]
    n_raised = 0
    with it.init("cpu", memory="24MiB"):
        x = it.open(tmp_path / "x.npy")
        callback, seen = raise_at(-1)

        def made() -> list[Any]:
            return [x.max(axis=0), x * 2 + 1, it.sort(x[:, 0])]

        with events.on("file", callback):
            it.compute(*made())
        for turn in range(N_ROUNDS):
            kept = made()
            callback, _ = raise_at(int(rng.integers(0, len(seen))))
            with events.on("file", callback):
                try:
                    it.compute(*kept)
                except OSError:
                    n_raised += 1
            kept.pop(turn % 3)
            rest = [w for k, w in enumerate(wanted) if k != turn % 3]
            for tensor, right in zip(kept, rest, strict=True):
                np.testing.assert_array_equal(tensor.numpy(), right)
    assert n_raised, "no fault was injected"


def test_what_is_let_go_of_after_a_fault_keeps_its_turn_in_the_order_of_the_rest() -> None:
    """Tasks that nobody wants any more stand between others that use the same memory."""
    values = logged_rng("let go").normal(size=600_000)
    wanted = [values * 2 + 1, np.cumsum(values * 2 + 1 > 1)]

    def made(x: Any) -> list[Any]:
        y = x * 2 + 1
        return [y, it.cumsum(y > 1), it.flip(y) + 1]

    with it.init("cpu", memory="14MiB"):
        x = it.asarray(values)
        it.compute(*made(x))
        callback, seen = raise_at(-1)
        with events.on("task_start", callback):
            it.compute(*made(x))
        assert it.stats()["bytes_evicted"], "the program fits: nothing is used twice"
        for at in range(0, len(seen), 1 if WHOLE else len(seen) // 25):
            kept = made(x)
            with events.on("task_start", raise_at(at)[0]), pytest.raises(OSError, match="injected"):
                it.compute(*kept)
            kept.pop()
            for tensor, right in zip(kept, wanted, strict=True):
                np.testing.assert_array_equal(tensor.numpy(), right, f"after task {at}")

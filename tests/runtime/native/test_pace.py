"""With how many threads a program is quickest, on machines that answer differently."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.runtime.native import pace
from infinitensor.runtime.native.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINES = {
    "scales": (lambda n: 4_000_000 / n, 16),
    "waking costs": (lambda n: 800_000 / n + 20_000 * n, 8),
    "nothing to share": (lambda n: 300_000 + 50_000 * n, 1),
    "four cores": (lambda n: 1_000_000 / min(n, 4) + 40_000 * max(n - 4, 0), 4),
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("first", [1, 2, 16])
def test_the_quickest_number_is_found_and_kept(name: str, first: int) -> None:
    took, best = MACHINES[name]
    found = used(Pace(16, first), took, 400)
    assert Counter(found[-100:]).most_common(1)[0][0] == best
    assert found[-100:].count(best) >= 90
    assert set(found[:40]) != {best}, "others were tried"


def test_runs_for_which_threads_are_woken_do_not_count() -> None:
    awake = [0]

    def took(n: int) -> float:
        """Threads sleep while fewer are asked for."""
        n_woken, awake[0] = max(n - awake[0], 0), n
        return 800_000 / n + 50_000 * n_woken

    assert used(Pace(16, 16), took, 400)[-100:].count(16) >= 90


def used(paced: Pace, took: Callable[[int], float], n: int) -> list[int]:
    """The threads of n runs on a machine with some noise."""
    noise = np.random.default_rng(1).uniform(1, 1.03, n)
    found = []
    for factor in noise.tolist():
        found.append(paced.n_threads())
        paced.note(found[-1], int(took(found[-1]) * factor))
    return found


def test_a_program_of_little_work_tries_one_thread_first() -> None:
    def took(n: int) -> int:
        return 80_000 if n == 1 else 200_000 + 1000 * n

    paced, found = Pace(16, 16), []
    for _ in range(60):
        found.append(paced.n_threads(pace.ALONE_NS - 1))
        paced.note(found[-1], took(found[-1]))
    n = pace.TRIES
    assert found[: 3 * n] == [16] * n + [1] * n + [2] * n
    assert set(found[3 * n :]) == {1}
    assert 1 not in used(Pace(16, 16), took, 60), "of much work that would take long"


def test_it_goes_where_another_number_becomes_quicker() -> None:
    paced = Pace(8, 8)
    assert used(paced, lambda n: 1e6 / n, 50)[-1] == 8
    assert 1 in used(paced, lambda n: 1e6 * n, 40 * pace.TRIED_AGAIN)[-3:], "others have the cores"
    assert used(paced, lambda n: 1e5 / n, 100)[-1] == 8, "a compiled one is another program"


def test_one_slow_run_says_little() -> None:
    paced = Pace(2, 2)
    used(paced, lambda n: 1000 / n, 20)
    paced.note(2, 1_000_000)
    assert paced.n_threads() == 2


def test_long_programs_have_all_threads() -> None:
    took = lambda n: 1e8 * n  # noqa: E731
    assert set(used(Pace(8, 8), took, 100)) == {8}


@pytest.mark.parametrize("most", [1, 3, 12])
def test_there_are_no_more_threads_than_workers(most: int) -> None:
    found = used(Pace(most, 64), lambda n: 1e6 / n, 100)
    assert max(found) == most
    assert min(found) >= 1


def test_a_program_of_python_tasks_is_paced_and_right() -> None:
    values = np.random.default_rng(0).random((64, 33)) + 1j
    with strict("cpu", 99, workers=4):
        x = it.compute(it.asarray(values))
        for _ in range(30):
            np.testing.assert_allclose(it.fft.fft(x).numpy(), np.fft.fft(values))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_one_thread_is_quickest_for_runs_in_the_thread_that_asks(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is woken for it; the values are those of workers."""
    ran_in: set[str] = set()

    def doubled(tile: np.ndarray) -> np.ndarray:
        ran_in.add(threading.current_thread().name)
        return tile * 2

    monkeypatch.setattr(Pace, "n_threads", lambda self, work_ns=0: n_threads)
    values = np.random.default_rng(0).random((640, 33))
    with strict("cpu", 99, workers=4):
        it.config.inline_elements = 0
        x = it.compute(it.asarray(values))
        for _ in range(3):
            found = it.map_tiles(doubled, x, form="nd->nd") + 1
            np.testing.assert_array_equal(found.numpy(), values * 2 + 1)
    assert ran_in
    assert (ran_in == {threading.current_thread().name}) == (n_threads == 1)


def test_how_long_a_run_takes_is_known_once_it_is_believed() -> None:
    found = Pace(2, 2)
    assert found.took_ns == pace.MOST_PACED_NS
    for _ in range(pace.TRIES):
        found.note(2, 300_000)
    assert found.took_ns == 300_000

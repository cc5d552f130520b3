"""Ops that have their operands in one piece run in the thread that asks: it has all cores."""

from __future__ import annotations

from typing import Any

import numpy as np

import infinitensor as it
from infinitensor.runtime import Run


def test_a_solve_with_little_around_it_runs_in_the_thread_that_asks(monkeypatch: Any) -> None:
    ran: list[Any] = []
    go = Run.go

    def noted(self: Run, workers: Any, *rest: Any) -> None:
        ran.append(workers is None)
        go(self, workers, *rest)

    monkeypatch.setattr(Run, "go", noted)
    rng = np.random.default_rng(0)
    a, b = rng.random((400, 400)) + 400 * np.eye(400), rng.random((400, 300))
    large = rng.random((2000, 2000))
    with it.init("cpu"):
        made = it.linalg.solve(it.asarray(a) * 2, it.asarray(b)) + 1
        np.testing.assert_allclose(made.numpy(), np.linalg.solve(a * 2, b) + 1)
        assert all(ran)
        ran.clear()
        # most of the work is elsewhere: all workers do it
        rest = it.exp(it.asarray(large)).sum() + it.linalg.det(it.asarray(a[:20, :20]))
        wanted = np.exp(large).sum() + np.linalg.det(a[:20, :20])
        np.testing.assert_allclose(rest.numpy(), wanted)
        assert not all(ran)

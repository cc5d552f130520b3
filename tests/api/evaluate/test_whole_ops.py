"""Ops that have their operands in one piece run in the thread that asks: it has all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.runtime import Run


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Of each run whether the thread that asks does it, and how many tasks it has."""
    found: list[tuple[bool, int]] = []
    go = Run.go

    def noted(self: Run, workers: Any, *rest: Any) -> None:
        found.append((workers is None, self.status.n_tasks))
        go(self, workers, *rest)

    monkeypatch.setattr(Run, "go", noted)
    return found


def test_a_solve_with_little_around_it_runs_in_the_thread_that_asks(
    ran: list[tuple[bool, int]],
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((400, 400)) + 400 * np.eye(400), rng.random((400, 300))
    large = rng.random((2000, 2000))
    it.config.workers = 2
    with it.init("cpu"):
        made = it.linalg.solve(it.asarray(a) * 2, it.asarray(b)) + 1
        np.testing.assert_allclose(made.numpy(), np.linalg.solve(a * 2, b) + 1)
        assert all(alone for alone, _ in ran)
        ran.clear()
        # most of the work is elsewhere: all workers do it
        rest = it.exp(it.asarray(large)).sum() + it.linalg.det(it.asarray(a[:20, :20]))
        wanted = np.exp(large).sum() + np.linalg.det(a[:20, :20])
        np.testing.assert_allclose(rest.numpy(), wanted)
        assert not all(alone for alone, _ in ran)


def test_a_matrix_that_fits_is_factored_in_one_piece_by_the_thread_that_asks(
    ran: list[tuple[bool, int]],
) -> None:
    a = np.random.default_rng(1).random((600, 600))
    a = a @ a.T + 600 * np.eye(600)
    with it.init("cpu"):
        np.testing.assert_allclose(it.linalg.cholesky(it.asarray(a)).numpy(), np.linalg.cholesky(a))
        assert ran == [(True, 1)]
        assert it.stats()["smaller_blocks"] == 0
    ran.clear()
    with it.init("cpu", memory="16MiB"):  # too little for one piece and what it is made in
        np.testing.assert_allclose(it.linalg.cholesky(it.asarray(a)).numpy(), np.linalg.cholesky(a))
        assert sum(n for _, n in ran) > 1
        assert it.stats()["smaller_blocks"] > 0


@pytest.mark.parametrize("part", [0.99, 1.0, 1.001, 1.02, 1.2])
def test_what_has_room_in_one_piece_is_not_refused_beside_what_can_be_evicted(part: float) -> None:
    a = np.random.default_rng(1).random((600, 600))
    a = a @ a.T + 600 * np.eye(600)
    spec = Spec(a.shape, a.dtype)
    scratch = TABLE["_cholesky_block"].scratch_bytes((spec,), (spec,), {})
    with it.init("cpu") as session:
        need = 2 * a.nbytes + session.engine.mesh.n_concurrent * scratch
    with it.init("cpu", memory=int(part * need), disk="64MiB"):
        other, x = it.asarray(a.repeat(2, axis=0)) + 1, it.asarray(a) + 0.0
        it.compute(other, x)
        found = it.linalg.cholesky(x)
        np.testing.assert_allclose(found.numpy(), np.linalg.cholesky(a))
        np.testing.assert_array_equal(other.numpy(), a.repeat(2, axis=0) + 1)


def test_what_is_added_in_place_is_one_pass_with_what_it_is_computed_from() -> None:
    values = np.random.default_rng(2).random((400, 300))
    with it.init("cpu"):
        x = it.asarray(values)
        shown = x
        x += 1
        x *= values
        plan = str(it.plan(x))
        assert "_copy" not in plan
        assert "add+multiply" in plan
        np.testing.assert_array_equal(x.numpy(), (values + 1) * values)
        assert shown is x
        part = x[:300]
        part -= 5  # a view writes into its base
        np.testing.assert_array_equal(x.numpy()[:300], ((values + 1) * values)[:300] - 5)
        held = x
        y = x + 0
        held += 1
        np.testing.assert_array_equal(y.numpy() + 1, held.numpy())


def test_solves_that_wait_for_nothing_of_each_other_run_in_workers(
    ran: list[tuple[bool, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    many = rng.random((7, 200, 200)) + 200 * np.eye(200)
    b = rng.random((200, 50))
    monkeypatch.setattr(it.config, "workers", 2)
    with it.init("cpu"):
        total, doubled = it.zeros((200, 50)), it.zeros((200, 50))
        for a in many:
            x = it.linalg.solve(it.asarray(a), it.asarray(b))
            total += x
            doubled += 2 * x
        made = total.numpy(), doubled.numpy()
        wanted = sum(np.linalg.solve(a, b) for a in many)
        np.testing.assert_allclose(made[0], wanted)
        np.testing.assert_allclose(made[1], 2 * wanted)
        # four at a time, and then the rest, not one by one
        assert len([n for alone, n in ran if not alone]) == 2
        assert len(ran) <= 5
        ran.clear()
        x = it.asarray(b)
        for a in many[:3]:  # each waits for the one before it
            x = it.linalg.solve(it.asarray(a), x)
        it.compute(x)
        assert [alone for alone, _ in ran] == [True]

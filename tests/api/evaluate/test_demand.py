"""What a session gives way to: each request changes the program that is planned next."""

from __future__ import annotations

import numpy as np
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.api.evaluate.demand import SessionDemand, fit_bound
from infinitensor.ir.layout import DISK

N = 4096
"""Elements of a tensor: 32 KiB."""


def test_a_plan_is_kept_and_found_again() -> None:
    with strict("cpu", 512) as session:
        x = it.asarray(np.ones(N))
        bound = Bound(session, [(x + 1)._version], True).detail()
        demand = SessionDemand(bound)
        assert demand.planned_before() is None
        _, prepared = fit_bound(bound)
        assert demand.planned_before() is prepared
        assert it.stats()["plan_misses"] == 2
        assert it.stats()["plan_hits"] == 1


def test_budgets_are_what_others_leave_with_its_own_leaves() -> None:
    with strict("cpu", 512, memory="1MiB") as session:
        x, other = it.asarray(np.ones(N)), it.asarray(np.zeros(N))
        it.compute(x, other)
        demand = SessionDemand(Bound(session, [(x + 1)._version], True).detail())
        assert demand.budgets() == [(1 << 20) - other.nbytes]
        limited = Bound(session, [(x + 1)._version], True, limits=(1 << 19,)).detail()
        assert SessionDemand(limited).budgets() == [(1 << 19) - other.nbytes]


def test_heavy_leaves_go_and_the_program_is_bound_anew() -> None:
    with strict("cpu", 512, memory="1MiB", disk="1MiB") as session:
        x, light = it.asarray(np.ones(2 * N)), it.asarray(np.ones(8))
        it.compute(x, light)
        demand = SessionDemand(Bound(session, [(x.sum() + light)._version], True).detail())
        assert demand.heavy_bytes() == x.nbytes
        before = demand.bound
        demand.evict_leaves()
        assert demand.bound is not before
        assert demand.bound.lean
        assert x._version.table is not None
        assert x._version.table.layout.owners == (DISK,)
        assert demand.heavy_bytes() == 0
        np.testing.assert_array_equal(x.numpy(), np.ones(2 * N))


def test_others_go_before_its_leaves() -> None:
    with strict("cpu", 512, memory="1MiB", disk="1MiB") as session:
        x, other = it.asarray(np.ones(N)), it.asarray(np.zeros(N))
        it.compute(x, other)
        demand = SessionDemand(Bound(session, [(x + 1)._version], True).detail())
        assert demand.evict_others(1)
        assert other._version.table is not None
        assert other._version.table.layout.owners == (DISK,)
        assert not demand.evict_others(1)
        assert demand.evict_others(1, leaves_too=True)


def test_what_was_not_asked_for_is_kept_no_more() -> None:
    with strict("cpu", 512, memory="1MiB", disk="1MiB") as session:
        held = it.asarray(np.ones(8 * N)) * 2
        demand = SessionDemand(Bound(session, [held.sum()._version]).detail())
        assert demand.keeps_too_much()
        assert len(demand.bound.kept) == 2
        key = demand.bound.lean_key()
        demand.keep_less()
        assert len(demand.bound.kept) == 1
        assert key in session.leans
        assert not demand.keeps_too_much()
        np.testing.assert_array_equal(held.numpy(), np.full(8 * N, 2.0))


def test_spare_tiles_of_a_file_are_given_back(tmp_path: object) -> None:
    np.save(f"{tmp_path}/x.npy", np.ones(N))
    with strict("cpu", 512, memory="1MiB", disk="1MiB") as session:
        x = it.open(f"{tmp_path}/x.npy")
        it.compute(x.sum())
        demand = SessionDemand(Bound(session, [(x + 1)._version], True).detail())
        spare = demand.spare_bytes()
        assert spare > 0
        rest = demand.graph_without_spares()
        assert rest is not None
        assert rest.leaves[0].layout.owners == (DISK,)
        demand.give_back(spare)
        assert demand.spare_bytes() == 0

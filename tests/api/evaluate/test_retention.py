"""What programs with little room keep, and what tensors in lower tiers give back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.retention import (
    AT_MOST,
    LITTLE_BUDGET_PART,
    bytes_of,
    comes_from_lower_tier,
    give_back,
    spare_leaves,
    worth_keeping,
)
from infinitensor.api.session.version import Version


def version(session: it.Session, n: int, node: Any = None) -> Version:
    made = Version(session, (n,), np.dtype("f8"))
    made.node = node
    return made


def test_bytes_are_those_of_the_values() -> None:
    with strict("cpu") as session:
        assert bytes_of(version(session, 5)) == 40
        assert bytes_of(Version(session, (), np.dtype("i2"))) == 2
        assert bytes_of(Version(session, (3, 0), np.dtype("f8"))) == 0


def test_little_values_are_kept_up_to_a_part_of_the_budget() -> None:
    budget = 8 * 32 * 100
    with strict("cpu") as session:
        little = [version(session, budget // LITTLE_BUDGET_PART // 8) for _ in range(20)]
        large = version(session, budget // LITTLE_BUDGET_PART // 8 + 1)
        found = worth_keeping([], [], [large, *little], budget, ())
        assert id(large) not in found
        assert len(found) == LITTLE_BUDGET_PART // AT_MOST


def test_what_was_made_before_is_kept_the_second_time_if_it_is_less_than_what_it_is_made_of(
    tmp_path: Any,
) -> None:
    np.save(tmp_path / "a.npy", np.arange(4000.0))
    with strict("cpu", 100, memory=100_000, disk="16MiB"):
        x = it.open(tmp_path / "a.npy")
        made = x[:2000] + 1
        versions, node = [made._version], made._version.node
        assert node is not None
        leaves = [x._version]
        assert comes_from_lower_tier(x._version)
        budget = 100_000
        assert worth_keeping([node], leaves, versions, budget, ()) == set()
        assert worth_keeping([node], leaves, versions, budget, versions) == {id(versions[0])}
        assert worth_keeping([node], leaves, versions, 20_000, versions) == set(), "no room"


def test_values_in_memory_do_not_come_from_a_lower_tier() -> None:
    with strict("cpu", 10):
        x = it.compute(it.asarray(np.arange(50.0)) + 1)
        assert not comes_from_lower_tier(x._version)
        assert spare_leaves([x._version]) == []


@pytest.mark.parametrize("n_bytes", [1, 3000, 1 << 30])
def test_tiles_that_stay_only_to_be_read_less_are_given_back(n_bytes: int, tmp_path: Any) -> None:
    np.save(tmp_path / "a.npy", np.arange(4000.0))
    with strict("cpu", 250, memory="4MiB", disk="16MiB"):
        x = it.open(tmp_path / "a.npy")
        for _ in range(2):
            it.compute(x + 1, x.sum())
        leaf = x._version
        assert spare_leaves([leaf]) == [leaf]
        assert leaf.table is not None
        before = leaf.table.spare_bytes
        give_back([leaf], n_bytes)
        freed = before - leaf.table.spare_bytes
        assert freed >= min(n_bytes, before)
        assert freed <= n_bytes + 250 * 8 + 4096
        np.testing.assert_array_equal(x.numpy(), np.arange(4000.0))

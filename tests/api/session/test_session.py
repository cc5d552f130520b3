"""Sessions: which is current, what they count, store, evict and refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.session.session import current_session
from infinitensor.errors import InfiniTensorError, MemoryBudgetError, SessionClosedError


def test_the_innermost_open_session_is_the_current_one() -> None:
    with it.init("cpu") as outer:
        assert current_session() is outer
        with it.init("cpu*2") as inner:
            assert current_session() is inner
        assert current_session() is outer
        assert inner.closed
        assert not outer.closed


def test_without_a_session_one_is_opened_at_the_first_need_and_shut_down() -> None:
    it.shutdown()
    first = current_session()
    assert current_session() is first
    assert float(it.ones(3).sum()) == 3.0
    it.shutdown()
    assert first.closed
    assert current_session() is not first
    first.close()  # a second time is nothing


def test_tensors_of_a_closed_session_say_so() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.arange(5.0))
        waiting = x + 1
    assert "closed" in repr(session)
    for tensor in (x, waiting):
        with pytest.raises(SessionClosedError, match="has been shut down and its values are gone"):
            tensor.numpy()


def test_options_that_no_engine_takes_and_wrong_devices_are_errors_at_once() -> None:
    with pytest.raises(TypeError, match="engine 'local' takes no option nodes"):
        it.init("cpu", nodes=3)
    with pytest.raises(ValueError, match="tpu"):
        it.init("tpu")


def test_counts_begin_anew_when_they_are_reset() -> None:
    with strict("cpu"):
        (it.asarray(np.arange(20.0)) + 1).numpy()
        first = it.stats(reset=True)
        assert first["evaluations"] == 1
        assert first["tasks"] >= 3
        again = it.stats()
        assert again["evaluations"] == again["tasks"] == 0
        assert sum(again["ways"].values()) == 0
        assert set(first) == set(again)


def test_plans_are_kept_up_to_a_bound_and_the_first_goes_first() -> None:
    with strict("cpu", plan_cache=2) as session:
        cache: Any = session.plans
        cache.clear()
        for key in "abc":
            session.add(cache, key, key)
        assert list(cache) == ["b", "c"]
        assert session.is_new("never seen")
        assert not session.is_new("never seen")


def test_every_random_call_has_a_key_of_its_own_and_seeds_repeat_them() -> None:
    with it.init("cpu") as session:
        session.seed, session.stream = 5, 0
        first = [session.next_seed() for _ in range(50)]
        session.stream = 0
        assert [session.next_seed() for _ in range(50)] == first
        assert len(set(first)) == 50
        session.seed, session.stream = 6, 0
        assert session.next_seed() != first[0]
        assert all(0 <= key < 2**63 for key in first)


def test_values_that_do_not_fit_are_refused_with_a_remedy_or_go_to_a_lower_tier() -> None:
    x = np.zeros(20_000)
    with (
        strict("cpu", 1000, memory=100_000),
        pytest.raises(MemoryBudgetError, match="'asarray' does not fit on cpu:0: it needs 160"),
    ):
        it.compute(it.asarray(x) + 0)
    with strict("cpu", 1000, memory=100_000, disk="16MiB"):
        tensor = it.asarray(x + 3)
        assert float(tensor.sum()) == 60_000.0
        assert it.stats()["bytes_evicted"] >= x.nbytes


def test_tensors_read_longest_ago_are_evicted_first() -> None:
    with strict("cpu", 1000, memory=400_000, disk="16MiB") as session:
        tensors = [it.compute(it.zeros(10_000) + k) for k in range(3)]
        versions = [tensor._version for tensor in tensors]
        it.compute(tensors[0] + 0)  # the first was read last
        assert session.make_room(1, ())
        tables = [version.table for version in versions]
        assert [bool(table and table.device_bytes()) for table in tables] == [True, False, True]
        for k, tensor in enumerate(tensors):
            assert (tensor.numpy() == k).all()


def test_without_a_lower_tier_nothing_can_be_evicted() -> None:
    with strict("cpu", 1000, memory=400_000) as session:
        it.compute(it.zeros(10_000) + 1)
        assert not session.make_room(1, ())


def test_a_function_of_tiles_that_uses_a_tensor_is_given_a_remedy() -> None:
    with strict("cpu"):
        captured = it.asarray(np.arange(4.0)) + 1
        made = it.map_tiles(
            lambda tile: tile + captured.numpy()[0], it.asarray(np.arange(9.0)), form="n->n"
        )
        with pytest.raises(InfiniTensorError, match="uses a tensor it has captured"):
            made.numpy()

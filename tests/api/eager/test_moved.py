"""Calls that only move host values of medium size run at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.little_work import values

import infinitensor as it
from infinitensor.api.eager.changing_places import LEAF, MEDIUM
from infinitensor.api.eager.moved import is_medium, is_moved, move
from infinitensor.config import config
from infinitensor.dtypes import bfloat16
from infinitensor.ir.op import Call, Op, Spec
from infinitensor.ops import TABLE

pytestmark = [
    pytest.mark.usefixtures("counted_session"),
    pytest.mark.skipif(config.compile != "auto", reason="everything is planned"),
]
F4, I8 = np.dtype(np.float32), np.dtype(np.int64)


def session() -> Any:
    return it.asarray(values())._session


def calls(n: int) -> tuple[Op, Call]:
    """The join of two halves to n elements."""
    op = TABLE["_concatenate"]
    return op, op.rule([Spec((n // 2,), F4)] * 2)


def moved() -> int:
    return int(it.stats()["ways"]["moved"])


def test_what_is_large_or_has_no_room_is_not_moved() -> None:
    def is_so(n: int) -> bool:
        (op, call), half = calls(n), session()
        return is_moved(half, op, call)

    assert is_so(MEDIUM)
    assert not is_so(MEDIUM + 2)
    with it.init("cpu", memory="1MB"):
        assert is_so(1000)
        assert not is_so(200_000)


def test_counting_is_as_much_as_what_is_counted() -> None:
    count, weigh = TABLE["_count"], TABLE["_count_weighted"]
    for n, n_counts in ((MEDIUM, 7), (7, MEDIUM)):
        x, more = Spec((n,), I8), Spec((n + 1,), I8)
        assert is_medium(count, count.rule(x, n_counts))
        assert not is_medium(count, count.rule(more, n_counts + 1))
    x, more = Spec((LEAF,), I8), Spec((LEAF + 1,), I8)
    assert is_medium(weigh, weigh.rule(x, x, 7))
    assert not is_medium(weigh, weigh.rule(more, more, 7))


def test_a_version_is_what_was_filled_and_none_is_made_where_nothing_was() -> None:
    here = session()
    made = move(here, Spec((70_000,), F4), "_concatenate", lambda out: out.fill(3))
    assert made is not None
    assert made.table is not None
    assert made.host is not None
    assert np.array_equal(made.host, np.full(70_000, 3, F4))
    assert move(here, Spec((70_000,), F4), "_concatenate", lambda out: False) is None
    assert moved() == 1


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", bfloat16], ids=str)
def test_joins_reads_and_rolls_of_medium_size_are_there_when_they_return(dtype: Any) -> None:
    a = np.arange(300 * 400).reshape(300, 400).astype(dtype)
    index = np.arange(-250, 250)
    along = np.argsort(a, axis=1)
    x, i, j = it.asarray(a), it.asarray(index % 300 - 150), it.asarray(along)
    wanted = index % 300 - 150
    for ours, numpys in (
        (it.concatenate([x, x], axis=1), np.concatenate([a, a], axis=1)),
        (it.stack([x, x[::-1], x], axis=1), np.stack([a, a[::-1], a], axis=1)),
        (it.vstack([x, x]), np.vstack([a, a])),
        (it.append(x, x, axis=0), np.append(a, a, axis=0)),
        (it.roll(x, 3, axis=0), np.roll(a, 3, axis=0)),
        (it.roll(x, -3, axis=1), np.roll(a, -3, axis=1)),
        (it.repeat(x, 2, axis=1), np.repeat(a, 2, axis=1)),
        (it.repeat(x, wanted[:300] % 3, axis=0), np.repeat(a, wanted[:300] % 3, axis=0)),
        (it.tile(x, (2, 1)), np.tile(a, (2, 1))),
        (it.pad(x, ((1, 2), (0, 3))), np.pad(a, ((1, 2), (0, 3)))),
        (it.resize(x, (200, 500)), np.resize(a, (200, 500))),
        (x[i], a[wanted]),
        (x[:, i], a[:, wanted]),
        (it.take(x.T, i, axis=1), np.take(a.T, wanted, axis=1)),
        (it.take_along_axis(x, j, axis=1), np.take_along_axis(a, along, axis=1)),
    ):
        assert not ours._version.is_waiting
        assert ours.dtype == numpys.dtype
        assert np.array_equal(ours.numpy(), numpys)
    assert moved() >= 10


def test_operands_that_wait_let_the_call_wait() -> None:
    a = np.arange(100_000.0)
    x = it.asarray(a)
    for _ in range(2):  # known calls too
        joined = it.concatenate([x * 2, x])
        assert joined._version.is_waiting
        assert np.array_equal(joined.numpy(), np.concatenate([a * 2, a]))
    assert moved() == 0


def test_what_is_moved_is_a_tensor_of_its_own() -> None:
    a = np.arange(100_000.0)
    x = it.asarray(a)
    for index in (it.arange(99_999, -1, -1), it.arange(100_000)):
        made = x[index]
        made[0] = -1.0
        made += 1
        x[5] = 7.0
    a[5] = 7.0
    wanted = a.copy()
    wanted[0] = -1.0
    assert np.array_equal(x.numpy(), a)
    assert np.array_equal(made.numpy()[6:], wanted[6:] + 1)


@pytest.mark.parametrize("wrong", [100_000, -100_001])
def test_an_index_out_of_bounds_is_said_when_it_is_computed(wrong: int) -> None:
    x = it.asarray(np.arange(100_000.0))
    index = it.asarray(np.r_[np.arange(80_000), wrong])
    for _ in range(2):
        for made in (x[index], it.take(x, index), it.take_along_axis(x, index, 0)):
            assert made._version.is_waiting
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0"):
                made.numpy()
    assert moved() == 0


def test_strict_runs_move_nothing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "small_elements", 0)
    a = np.arange(100_000.0)
    x = it.asarray(a)
    joined = it.concatenate([x, x])
    assert joined._version.is_waiting
    assert np.array_equal(joined.numpy(), np.concatenate([a, a]))
    assert moved() == 0


@pytest.mark.parametrize("n", [70_000, 300_000])
def test_counts_of_medium_size_are_there_when_they_return(n: int) -> None:
    rng = np.random.default_rng(0)
    whole, real = rng.integers(0, 5000, n), rng.standard_normal(n).astype(F4)
    x, y = it.asarray(whole), it.asarray(real)
    for _ in range(2):
        for ours, numpys in (
            (it.bincount(x), np.bincount(whole)),
            (it.bincount(x, None, 9000), np.bincount(whole, None, 9000)),
            (it.bincount(x % 10), np.bincount(whole % 10)),
            (it.histogram(y, 100, (-2, 2))[0], np.histogram(real, 100, (-2, 2))[0]),
        ):
            assert ours.dtype == numpys.dtype
            assert np.array_equal(ours.numpy(), numpys)
        assert np.allclose(it.bincount(x, y).numpy(), np.bincount(whole, real))
    assert moved() >= 4
    with pytest.raises(ValueError, match="negative"):
        it.bincount(x - 1)

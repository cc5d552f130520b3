"""Tensors that wait are computed before small writes and frequent reads, and no plan is made."""

from __future__ import annotations

import numpy as np
import pytest
from tests.api.little_work import values

import infinitensor as it
from infinitensor.api.access.compute_first import (
    compute_parts_read_often,
    is_for_later,
    make_copy,
)
from infinitensor.api.evaluate.evaluate import READ_OFTEN
from infinitensor.config import config

pytestmark = pytest.mark.usefixtures("counted_session")


def test_a_small_write_computes_what_it_is_written_to_and_later_ones_cost_nothing() -> None:
    a = values()
    x, y = it.asarray(a) * 2, a * 2
    assert x._version.is_waiting
    for k in range(20):
        x[k] = y[k] = -float(k)
        x[k + 100 : k + 105] = y[k + 100 : k + 105] = 7.0
    assert not x._version.is_waiting
    assert it.stats()["evaluations"] <= 1
    np.testing.assert_array_equal(x.numpy(), y)


def test_a_write_of_much_waits_with_what_it_is_written_to() -> None:
    a = values()
    x = it.asarray(a) * 2
    x[:] = it.asarray(a) + 1
    assert x._version.is_waiting
    np.testing.assert_array_equal(x.numpy(), a + 1)


def test_a_small_value_that_waits_for_little_is_computed_too_and_one_for_much_waits() -> None:
    a = values()
    base = it.asarray(a) * 2
    light = it.asarray(np.arange(5.0)) + 1
    base[:5] = light
    assert not base._version.is_waiting
    other, heavy = it.asarray(a) * 2, it.asarray(a).sum()
    other[0] = heavy
    assert other._version.is_waiting
    np.testing.assert_array_equal(base.numpy()[:6], [1, 2, 3, 4, 5, 2 * a[5]])
    assert float(other[0]) == pytest.approx(a.sum())


def test_what_waits_for_much_is_for_later_however_small_it_is() -> None:
    a = values()
    stored, waiting = it.asarray(a), it.asarray(a) * 2
    heavy = waiting.sum()
    assert not is_for_later(stored, 3.0)
    assert not is_for_later(stored, np.ones(3))
    assert is_for_later(stored, heavy)
    assert is_for_later(it.asarray(a) + 1, heavy)


def test_parts_that_are_read_again_and_again_are_computed_once() -> None:
    a = values()
    x = it.asarray(a) * 2
    session = x._session
    part = x[:3]
    assert not compute_parts_read_often(session, (part,))
    waiting = [x[k : k + 3] + 1 for k in range(READ_OFTEN)]
    assert compute_parts_read_often(session, (part, 5, "text"))
    assert not x._version.is_waiting
    for k, made in enumerate(waiting):
        np.testing.assert_array_equal(made.numpy(), a[k : k + 3] * 2 + 1)


@pytest.mark.skipif(config.compile != "auto", reason="everything is planned")
def test_a_copy_that_waits_is_made_where_it_is_to_be_changed() -> None:
    a = values()
    x = it.asarray(a)
    y = x.copy()
    z = y + 1
    assert y._version.is_waiting
    make_copy(y)
    assert not y._version.is_waiting
    y[3] = -1.0
    assert np.array_equal(x.numpy(), a)
    assert np.array_equal(z.numpy(), a + 1)
    assert y.tolist() == [*a[:3], -1.0, *a[4:]]


def test_copies_of_parts_and_of_what_waits_are_left_to_wait() -> None:
    a = values()
    x = it.asarray(a)
    for waiting, wanted in ((x[::-1].copy(), a[::-1]), ((x * 2).copy(), a * 2), (x * 3, a * 3)):
        make_copy(waiting)
        assert waiting._version.is_waiting
        assert np.array_equal(waiting.numpy(), wanted)


@pytest.mark.skipif(config.compile != "auto", reason="everything is planned")
def test_a_copy_is_written_to_by_index_and_by_ufuncs_without_an_evaluation() -> None:
    a = values()
    x = it.asarray(a)
    index = np.arange(0, 50_000, 7)
    for k in range(3):
        y, wanted = x.copy(), a.copy()
        y[it.asarray(index)] = float(k)
        wanted[index] = k
        z, largest = x.copy(), a.copy()
        it.maximum.at(z, it.asarray(index), 0.5)
        np.maximum.at(largest, index, 0.5)
        assert np.array_equal(y.numpy(), wanted)
        assert np.array_equal(z.numpy(), largest)
    assert np.array_equal(x.numpy(), a)
    assert it.stats()["evaluations"] == 0

"""`compute`: several tensors together, once; what is no tensor goes through."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it


def test_what_is_asked_for_together_is_one_evaluation() -> None:
    with strict("cpu*2"):
        x = it.asarray(np.arange(30.0))
        y, z = x + 1, x * 2
        it.stats(reset=True)
        found = it.compute(y, z)
        assert it.stats()["evaluations"] == 1
        assert found[0] is y
        assert found[1] is z
        assert not y._version.is_waiting
        np.testing.assert_array_equal(z.numpy(), np.arange(30.0) * 2)


def test_one_tensor_is_returned_itself_and_a_second_time_costs_nothing() -> None:
    with strict("cpu"):
        y = it.asarray(np.arange(30.0)) + 1
        assert it.compute(y) is y
        it.stats(reset=True)
        assert it.compute(y) is y
        assert it.stats()["evaluations"] == 0


def test_small_values_that_are_there_get_no_version() -> None:
    x = it.asarray(np.arange(30.0))
    y, z = x + 1, x * 2
    assert it.compute(y) is y
    found = it.compute(y, z)
    assert found[0] is y
    assert found[1] is z
    assert y._owner is not None
    assert z._owner is not None
    np.testing.assert_array_equal(y.numpy() + z.numpy(), np.arange(30.0) * 3 + 1)


def test_what_is_no_tensor_goes_through() -> None:
    array = np.arange(3)
    assert it.compute(5) == 5
    assert it.compute() == ()
    found = it.compute(array, it.ones(3), None)
    assert found[0] is array
    assert found[2] is None


def test_tensors_of_several_sessions_are_computed_in_theirs() -> None:
    with strict("cpu"):
        x = it.asarray(np.arange(20.0)) + 1
        with strict("cpu*2"):
            y = it.asarray(np.arange(20.0)) + 2
            it.compute(x, y)
            assert not x._version.is_waiting
            assert not y._version.is_waiting


def test_errors_are_raised_here() -> None:
    with strict("cpu"):
        x = it.asarray(np.arange(4))
        broken = it.map_tiles(lambda tile: 1 / 0, x, form="n->n")
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            it.compute(broken)

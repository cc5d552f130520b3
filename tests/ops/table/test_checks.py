"""Values that are looked at: known at the call, or an error when they are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.ops.table_xp import TableXp

import infinitensor as it
from infinitensor.ops.table.checks import ERRORS, host_values_of, is_on_host


@pytest.mark.parametrize("value", [1, 2.5, 1j, True, np.int8(3), np.arange(3), [1, 2], (1,)])
def test_numbers_arrays_and_lists_are_known_at_the_call(value: Any) -> None:
    assert is_on_host(value)
    np.testing.assert_array_equal(host_values_of(None, value), np.asarray(value))


def test_a_tensor_is_computed_for_its_values() -> None:
    class Counting(TableXp):
        n_forced = 0

        def force(self, t: Any) -> Any:
            self.n_forced += 1
            return np.asarray(t)

    xp = Counting()
    with strict("cpu"):
        tensor = it.arange(5) * 2
        assert not is_on_host(tensor)
        assert host_values_of(xp, tensor, np.int16).tolist() == [0, 2, 4, 6, 8]
    assert host_values_of(xp, [1], np.int16).dtype == np.int16
    assert xp.n_forced == 1


@pytest.mark.parametrize("name", sorted(ERRORS))
@pytest.mark.parametrize("step", [1, 3, 1 << 40])
def test_a_condition_that_fails_in_any_tile_raises_the_named_error(name: str, step: int) -> None:
    xp, x = TableXp(step), np.arange(7.0)
    np.testing.assert_array_equal(xp.call("_ensured", x, x >= 0, name, "no"), x)
    for wrong in range(7):
        with pytest.raises(ERRORS[name], match="number is wrong"):
            xp.call("_ensured", x, np.arange(7) != wrong, name, "number is wrong")


@pytest.mark.parametrize("old", ["i1", "u1", "i4", "u8", "i8"])
@pytest.mark.parametrize("new", ["i1", "u1", "i4", "u8", "i8"])
def test_integers_that_fit_are_kept_and_others_overflow(old: str, new: str) -> None:
    here, there, xp = np.iinfo(old), np.iinfo(new), TableXp(2)
    for value in {here.min, here.max, 0, 1}:
        x = np.array([0, 1, value, 0], old)
        if there.min <= value <= there.max:
            found = xp.call("_narrowed", x, np.dtype(new))
            assert found.dtype == np.dtype(new)
            assert found.tolist() == x.tolist()
        else:
            with pytest.raises(OverflowError, match=f"out of bounds for {np.dtype(new)}"):
                xp.call("_narrowed", x, np.dtype(new))

"""Ufuncs at places whose shapes change: NumPy's values at once, or nothing is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.little_work import N, values

import infinitensor as it
from infinitensor.api.known.changing_shapes import call_ufunc

pytestmark = pytest.mark.usefixtures("counted_session")


def shrinking(call: Any, steps: int = 8) -> tuple[Any, Any]:
    """A loop whose shapes change at every step, ours and NumPy's."""
    a = values()
    x, y = it.asarray(a), a.copy()
    for k in range(1, steps):
        x = call(it, x)[:-k]
        y = call(np, y)[:-k]
        if k % 2:
            it.compute(x)
    return x, y


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.add(x, 0.5),
        lambda xp, x: xp.multiply(x, x),
        lambda xp, x: xp.subtract(3, x),
        lambda xp, x: xp.maximum(x, 0.0) - 1,
        lambda xp, x: xp.negative(x),
    ],
    ids=["number", "itself", "other way round", "two calls", "one operand"],
)
def test_a_loop_whose_shapes_change_has_numpys_values_and_few_plans(call: Any) -> None:
    found, wanted = shrinking(call)
    np.testing.assert_array_equal(found.numpy(), wanted)
    counts = it.stats()
    assert counts["plan_misses"] == 0
    assert counts["ways"]["changing_shapes"] > 0


def test_dtypes_are_numpys() -> None:
    for dtype in ("f4", "i8"):
        a = np.arange(N).astype(dtype)
        x, y = it.asarray(a), a
        for k in range(1, 8):
            x, y = (x * 3)[:-k], (y * 3)[:-k]
            it.compute(x)
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x.numpy(), y)


def test_what_is_no_tensor_small_or_too_large_is_left_to_the_others() -> None:
    x = it.asarray(values())
    shrinking(lambda xp, t: xp.add(t, 0.5))
    small = it.asarray(np.arange(3.0))
    for args in ((small, 1.0), (x, [1.0]), (x, "text"), (1.0, 2.0), (x, 1000), (x, it.ones(7))):
        assert call_ufunc(np.add, args) is None


def test_errors_have_our_words() -> None:
    x = it.asarray(values())
    shrinking(lambda xp, t: xp.add(t, 0.5))
    with pytest.raises(ValueError, match="add"):
        x + it.asarray(np.ones(N - 1))


def test_division_by_zero_says_nothing() -> None:
    x = it.asarray(values())
    for k in range(1, 4):
        x = (x / 0.0)[:-k]
        it.compute(x)
    assert np.isinf(x.numpy()).all()

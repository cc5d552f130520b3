"""The plain write: a region has the value, what is around it stays, older reads keep theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.ir.op import Spec
from infinitensor.ops.table.registry import TABLE

pytestmark = [
    pytest.mark.usefixtures("in_small_tiles"),
    pytest.mark.parametrize(
        "in_small_tiles", [("cpu", 7), ("cpu*3", 7)], indirect=True, scope="module"
    ),
]

KEYS: list[Any] = [
    (),
    2,
    (slice(1, 3), slice(None, None, 2)),
    (slice(None, None, -1), 4),
    (..., slice(5, 2, -2)),
    (slice(2, 2), slice(None)),
    (-1, -1),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", ["i2", "f8"])
def test_a_region_has_the_value_and_the_rest_stays(key: Any, dtype: str) -> None:
    want = np.arange(28).reshape(4, 7).astype(dtype)
    found = it.asarray(want.copy())
    value = (np.arange(want[key].size).reshape(want[key].shape) + 100).astype("f4")
    want[key] = value
    found[key] = it.asarray(value)
    np.testing.assert_array_equal(found.numpy(), want)
    found[key] = -1
    want[key] = -1
    np.testing.assert_array_equal(found.numpy(), want)


def test_what_was_read_before_a_write_keeps_its_values() -> None:
    x = it.arange(30.0)
    before, x[10:20] = x + 0, 0.0
    np.testing.assert_array_equal(before.numpy(), np.arange(30.0))
    assert float(x.sum()) == np.arange(30.0).sum() - np.arange(10, 20).sum()


def test_a_region_may_be_written_from_one_that_overlaps_it() -> None:
    want = np.arange(30.0)
    found = it.asarray(want.copy())
    want[3:] = want[:-3].copy()
    found[3:] = found[:-3]
    np.testing.assert_array_equal(found.numpy(), want)


def test_the_entry_keeps_the_shape_of_what_is_written_to() -> None:
    x, value = Spec((4, 7), np.dtype("f8")), Spec((2,), np.dtype("f8"))
    made = TABLE["_write"].rule(x, value)
    assert made.outs == (x,)
    assert made.form.inputs == ((0, 1), (2,))
    assert made.form.outputs == ((0, 1),)


def test_a_value_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        it.zeros((3, 4))[1:] = it.ones((3, 4))

"""Running sums as tasks that C runs: one entry for a dtype and an axis, the sums NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor import native
from infinitensor.ops.reduce.scan_calls import scanned


def test_families_of_one_dtype_and_axis_share_their_c() -> None:
    assert scanned(np.dtype("f8"), 1) is scanned(np.dtype("f8"), 1)
    assert scanned(np.dtype("f8"), 1) is not scanned(np.dtype("f8"), 0)
    assert scanned(np.dtype("f8"), 1) is not scanned(np.dtype("f4"), 1)
    assert scanned(np.dtype("f8"), 1).is_due(1)


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
@pytest.mark.parametrize("dtype", ["i8", "f4", "f8"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_many_tasks_in_c_have_numpys_sums(dtype: str, axis: int) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (20, 6, 5)).astype(dtype)
    with strict("cpu*2", tile_elements=40):
        found: Any = it.cumsum(it.asarray(x), axis=axis)
        np.testing.assert_array_equal(found.numpy(), np.cumsum(x, axis))
        transposed = it.cumsum(it.asarray(x).transpose(2, 0, 1)[:, ::2], axis=axis)
        np.testing.assert_array_equal(
            transposed.numpy(), np.cumsum(x.transpose(2, 0, 1)[:, ::2], axis)
        )

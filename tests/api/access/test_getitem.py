"""Reading through indices of every kind gives what NumPy gives, on small and on large tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config

A = np.arange(64.0).reshape(4, 4, 4)
NUMBER = np.array(2)
WITH_ARRAYS_WITHOUT_AXES: list[Any] = [
    (NUMBER,),
    (NUMBER, None),
    (None, NUMBER),
    (NUMBER, None, 1),
    (slice(None), NUMBER, None),
    (NUMBER, ..., None),
    (np.int64(1), None, np.array(-1, np.int8)),
    (NUMBER, np.array([1, 2]), None),
    (slice(3, 0, -2), NUMBER, NUMBER),
]


@pytest.mark.parametrize("small_elements", [65_536, 0])
@pytest.mark.parametrize("index", WITH_ARRAYS_WITHOUT_AXES)
def test_an_array_without_axes_is_an_integer(
    index: Any, small_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "small_elements", small_elements)
    x, expected = it.asarray(A), A.copy()
    np.testing.assert_array_equal(x[index].numpy(), A[index], strict=True)
    x[index] = -1
    expected[index] = -1
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("dtype", ["i2", "f8", "c16"])
def test_bytes_of_a_strided_view_are_swapped(dtype: str) -> None:
    a = np.arange(20).astype(dtype)
    np.testing.assert_array_equal(it.asarray(a)[::3].byteswap().numpy(), a[::3].byteswap())

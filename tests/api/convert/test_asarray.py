"""Values from outside as tensors: copied, of NumPy's dtype and shape, or refused as by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import infinitensor as it

GIVEN: list[Any] = [
    3, 2.5, True, [], [[1, 2], [3, 4]], [1, 2.5], (1, (2)), [[True], [False]], range(4),
    np.float32(1.5), np.arange(6).reshape(2, 3).T, np.ones((0, 3), "i2"), [[1], [2.5]],
]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=range(len(GIVEN)))
@pytest.mark.parametrize("dtype", [None, "f4", "c16"])
def test_shape_dtype_and_values_are_numpys(given: Any, dtype: Any) -> None:
    want, found = np.asarray(given, dtype), it.asarray(given, dtype)
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(found.numpy(), want)


def test_complex_numbers_become_no_real_ones() -> None:
    assert it.asarray([1, 2j]).dtype == np.complex128
    with pytest.raises(TypeError, match="complex"):
        it.asarray(1j, "f4")


def test_later_changes_reach_neither_side() -> None:
    x = np.arange(5.0)
    t = it.asarray(x)
    x[0] = 9.0
    t[1] = 7.0
    assert t.tolist() == [0, 7, 2, 3, 4]
    assert x.tolist() == [9, 1, 2, 3, 4]


def test_a_tensor_is_itself_unless_a_copy_is_asked_for() -> None:
    t = it.arange(4)
    assert it.asarray(t) is t
    assert it.asarray(t, dtype=t.dtype, copy=False) is t
    for copy in (it.array(t), it.asarray(t, copy=True), it.copy(t)):
        copy[0] = 99
    assert t.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        it.asarray(t, dtype="f4", copy=False)


@pytest.mark.parametrize("ndmin", [0, 1, 2, 4])
def test_missing_axes_are_put_in_front(ndmin: int) -> None:
    for given in (3.0, [1, 2], [[1, 2]]):
        assert it.array(given, ndmin=ndmin).shape == np.array(given, ndmin=ndmin).shape


def test_memory_is_given_by_dlpack_with_its_values() -> None:
    for source in (np.arange(6.0).reshape(2, 3), torch.arange(6).reshape(3, 2), it.arange(4)):
        found = it.from_dlpack(source)
        np.testing.assert_array_equal(found.numpy(), np.asarray(source))


def test_what_is_no_array_of_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="fill it first"):
        it.asarray(np.ma.masked_array([1, 2], [True, False]))
    with pytest.raises(ValueError, match="inhomogeneous"):
        it.asarray([[1, 2], [3]])
    with pytest.raises(TypeError, match="holds numbers"):
        it.asarray(["a"])
    with pytest.raises(TypeError, match="Input should be a NumPy array"):
        it.astype([1, 2], "f4")
    with pytest.raises(ValueError, match="ndmax must be in the range"):
        it.array([1], ndmax=-1)

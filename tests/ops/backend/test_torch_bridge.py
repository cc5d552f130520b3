"""Between NumPy tiles and torch: memory is shared where it can be, values always are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from infinitensor.ops.backend.torch_bridge import (
    as_signed,
    cast,
    dtype_of,
    strided,
    strides_of,
    tensor_of,
)

DTYPES = ["?", "i1", "u1", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def test_a_tile_that_torch_can_share_is_not_copied() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for tile in (x, x.T, x[:, ::2]):
        tensor_of(tile)[0, 0] += 100
    assert x[0, 0] == 300


def test_what_torch_cannot_share_is_copied() -> None:
    x = np.arange(5.0)
    backwards = tensor_of(x[::-1])
    assert backwards.tolist() == [4, 3, 2, 1, 0]
    backwards[0] = 9
    fixed = x.copy()
    fixed.flags.writeable = False
    tensor_of(fixed)[0] = 9
    tensor_of(x, np.dtype("f4"))[0] = 9
    assert x.tolist() == fixed.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_the_same_on_both_sides(dtype: str) -> None:
    x = np.arange(4).astype(dtype)
    tile = tensor_of(x)
    assert dtype_of(tile) == dtype_of(x) == np.dtype(dtype)
    np.testing.assert_array_equal(tile.numpy(), x)
    for xp, given in ((np, x), (torch, tile)):
        assert cast(xp, given, np.dtype(dtype)) is given
        assert dtype_of(cast(xp, given, np.dtype("c16"))) == np.complex128


@pytest.mark.parametrize("dtype", ["u2", "u4", "u8"])
def test_signed_integers_have_the_same_bits(dtype: str) -> None:
    x = np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).max // 2 + 1], dtype)
    signed = as_signed(tensor_of(x))
    np.testing.assert_array_equal(signed.numpy(), x.view(dtype.replace("u", "i")))
    assert as_signed(signed) is signed


@pytest.mark.parametrize("dtype", ["i4", "u8", "f8"])
@pytest.mark.parametrize(
    ("start", "shape", "strides"),
    [
        (0, (3, 4), (4, 1)),
        (0, (4, 3), (1, 4)),
        (11, (3, 4), (-4, -1)),
        (3, (3, 2), (4, -2)),
        (5, (3,), (0,)),
        (2, (2, 2, 2), (4, 1, 1)),
        (7, (), ()),
    ],
)
def test_any_strides_read_the_memory_they_name(
    start: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str
) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)
    want = np.empty(shape, dtype)
    for place in np.ndindex(*shape):
        want[place] = x.flat[start + int(np.dot(place, strides))]
    found, on_torch = np.empty(shape, dtype), tensor_of(np.empty(shape, dtype))
    strided(x, start, shape, strides, found)
    strided(tensor_of(x), start, shape, strides, on_torch)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(on_torch.numpy(), want)


def test_strides_are_counted_in_elements() -> None:
    x: Any = np.zeros((3, 4, 5), "f4")
    assert strides_of(x.transpose(2, 0, 1)) == strides_of(tensor_of(x.transpose(2, 0, 1)))
    assert strides_of(x[::-1, ::2]) == (-20, 10, 1)

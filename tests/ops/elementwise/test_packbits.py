"""Bits packed into bytes and unpacked, and bits read as another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("shape", [(3, 17), (8, 8), (1, 1), (0, 5)])
def test_unpacking_gives_back_what_was_packed(
    shape: tuple[int, int], axis: Any, order: Any
) -> None:
    x = RNG.integers(0, 2, shape).astype(bool)
    packed = it.packbits(it.asarray(x), axis, bitorder=order)
    n = x.size if axis is None else shape[axis]
    back = it.unpackbits(packed, axis, count=n, bitorder=order).numpy()
    np.testing.assert_array_equal(back.reshape(shape), x)
    agree(lambda xp, a: xp.packbits(a, axis, bitorder=order), x)


@pytest.mark.parametrize("count", [None, 0, 3, 16, 23, -1, -5])
def test_a_count_cuts_bits_off_or_adds_zeros(count: int | None) -> None:
    x = RNG.integers(0, 256, (3, 2), dtype="u1")
    agree(lambda xp, a: xp.unpackbits(a, 1, count), x)
    agree(lambda xp, a: xp.unpackbits(a, None, count), x)


def test_any_number_that_is_not_zero_is_a_one() -> None:
    agree(lambda xp, a: xp.packbits(a), np.array([0, 5, -1, 0, 300, 0, 0, 1, 7]))


@pytest.mark.parametrize(("old", "new"), [("f8", "u1"), ("f4", "i4"), ("i2", "i8"), ("c8", "f4")])
def test_bits_read_as_another_dtype_and_back_are_the_same(old: str, new: str) -> None:
    x = RNG.integers(-99, 99, (5, 8)).astype(old)
    agree(lambda xp, a: a.view(new), x)
    np.testing.assert_array_equal(it.asarray(x).view(new).view(old).numpy(), x)


def test_what_has_no_bits_to_pack_is_refused_as_by_numpy() -> None:
    refuse(lambda xp, a: xp.packbits(a), [1.0], match="integer or boolean")
    refuse(lambda xp, a: xp.unpackbits(a), [1], match="unsigned byte")
    refuse(lambda xp, a: xp.unpackbits(a, count=-17), np.ones(2, "u1"), match="too large")
    refuse(lambda xp, a: xp.packbits(a, bitorder="up"), [1], match="'little' or 'big'")
    refuse(lambda xp, a: xp.packbits(a, 2), [1], match="axis 2")

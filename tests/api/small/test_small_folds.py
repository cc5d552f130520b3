"""Reductions of small tensors by C: the bits of plans, over any axes, of any dtype."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config
from infinitensor.dtypes import bfloat16

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPES = [
    (1,), (17,), (1000,), (5, 7), (300, 3), (40, 60), (1, 5), (5, 1), (2, 3, 40), (4, 1, 6),
    (50, 40, 3), (20, 2, 17), (3, 1, 1, 9), (2, 3, 4, 5),
]  # fmt: skip
ROUNDED = ("sum", "mean", "var", "std", "max", "min")
EXACT = ("any", "all")


def axes_of(n: int) -> Iterator[Any]:
    yield from (None, *range(-n, n))
    for k in (2, 3):
        yield from combinations(range(n), k)


def planned(name: str, x: Any, **options: Any) -> Any:
    """What a plan makes of it."""
    config.small_elements = 0
    try:
        return getattr(it, name)(it.asarray(x), **options).numpy()
    finally:
        config.small_elements = type(config)().small_elements


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", bfloat16, "i8", "u1", "?"])
def test_bits_shapes_and_dtypes_are_those_of_plans(kind: Any) -> None:
    rng = np.random.default_rng(0)
    names = ROUNDED if kind in ("f2", bfloat16) else (*ROUNDED, *EXACT)
    for shape in SHAPES[:: 1 if kind in ("f4", "f2") else 3]:
        x = (np.abs(rng.standard_normal(shape)) * 3).astype(kind)
        for axis in axes_of(len(shape)):
            for name in names:
                options = {"axis": axis, "keepdims": bool(len(shape) % 2)}
                got, wanted = (
                    getattr(it, name)(it.asarray(x), **options),
                    planned(name, x, **options),
                )
                assert got.dtype == wanted.dtype
                assert got.shape == wanted.shape
                assert got.numpy().tobytes() == wanted.tobytes(), (name, shape, axis)


def test_strides_do_not_change_a_bit() -> None:
    x = np.random.default_rng(1).standard_normal((40, 60)).astype(np.float32)
    apart = it.asarray(np.repeat(x, 2, 1))[:, ::2]
    for name in ROUNDED:
        for axis in (None, 0, 1, (0, 1)):
            whole = getattr(it, name)(it.asarray(x), axis=axis).numpy()
            assert getattr(it, name)(apart, axis=axis).numpy().tobytes() == whole.tobytes()


@pytest.mark.parametrize("kind", [np.float16, bfloat16])
def test_extremes_of_halves_know_nan_infinity_and_zeros(kind: Any) -> None:
    x = np.array([[0.0, -0.0, -3.0], [np.inf, 1.0, -np.inf], [np.nan, 5.0, -1.0]]).astype(kind)
    for axis in (None, 0, 1):
        for name in ("max", "min"):
            wanted = getattr(np, name)(x.astype(np.float32), axis=axis)
            got = getattr(it, name)(it.asarray(x), axis=axis).numpy().astype(np.float32)
            np.testing.assert_array_equal(got, wanted)


def test_what_is_wrong_is_said_as_before() -> None:
    x = it.ones((3, 4), np.float32)
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds"):
        it.sum(x, axis=2)
    with pytest.raises(ValueError, match="duplicate value in 'axis'"):
        it.mean(x, axis=(0, 0))
    with pytest.raises(ValueError, match="zero-size array"):
        it.max(it.ones((0, 3), np.float16))
    assert np.isnan(float(it.mean(it.ones(0))))
    assert it.sum(x, axis=()).shape == (3, 4)


def test_options_that_are_not_plain_are_taken() -> None:
    x = it.asarray(np.arange(12.0).reshape(3, 4))
    assert it.sum(x, dtype=np.float32).dtype == np.float32
    assert float(it.var(x, ddof=1)) == np.var(np.arange(12.0), ddof=1)
    assert it.sum(x, axis=np.int64(0)).shape == (4,)
    assert it.max(x, axis=(0, 1), keepdims=True).shape == (1, 1)

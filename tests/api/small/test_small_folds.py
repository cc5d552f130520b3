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


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", bfloat16, "i1", "u1", "i2", "u2", "i8", "u8"])
def test_places_of_extremes_are_numpys(kind: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in (*SHAPES, (3, 300), (300, 2), (1, 1)):
        x = (rng.standard_normal(shape) * 3).astype(kind)
        like = x.astype(np.float32) if kind in ("f2", bfloat16) else x
        for axis in (None, *range(-len(shape), len(shape))):
            for name in ("argmax", "argmin"):
                got = getattr(it, name)(it.asarray(x), axis=axis)
                wanted = np.asarray(getattr(np, name)(like, axis=axis))
                assert got.dtype == np.int64
                assert np.array_equal(got.numpy(), wanted), (name, shape, axis)
    kept = it.argmax(it.asarray(x), axis=0, keepdims=True)
    assert kept.shape == (1, 1)


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", bfloat16])
def test_nan_and_zeros_have_numpys_places_and_extremes(kind: Any) -> None:
    line = [0.0, -0.0, -0.0, 0.0, np.inf, -np.inf, -np.nan, 5.0, np.nan, 1.0]
    rows = [line, line[:4] * 2 + [0.0, -0.0], [*line[:6], 2.0, 3.0, 4.0, np.inf], [-np.inf] * 10]
    for x in (np.array(rows).astype(kind), np.array(rows).T.astype(kind).copy()):
        like = x.astype(np.float32)
        for axis in (None, 0, 1):
            for name in ("argmax", "argmin", "max", "min"):
                got = getattr(it, name)(it.asarray(x), axis=axis).numpy().astype(np.float32)
                np.testing.assert_array_equal(got, getattr(np, name)(like, axis=axis))


def test_integers_at_their_ends_are_ordered() -> None:
    for kind in ("i1", "u1", "i4", "u4", "i8", "u8"):
        ends = np.iinfo(kind)
        x = np.array([[ends.min, ends.max, 0], [ends.max, 1, ends.min], [3, 2, 1]], kind)
        for axis in (0, 1):
            for name in ("max", "min", "argmax", "argmin"):
                got = getattr(it, name)(it.asarray(x), axis=axis)
                assert got.numpy().tolist() == getattr(np, name)(x, axis=axis).tolist()


def test_truth_values_are_counted_and_looked_through() -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for share in (0.0, 0.01, 0.99, 1.0):
            x = rng.random(shape) < share
            ours = it.asarray(x)
            for axis in axes_of(len(shape)):
                for name in ("any", "all", "sum", "count_nonzero"):
                    got = getattr(it, name)(ours, axis=axis)
                    assert np.array_equal(got.numpy(), getattr(np, name)(x, axis=axis))
    assert type(it.count_nonzero(ours).tolist()) is int
    bits = np.array([[0, 2], [4, 0], [0, 0]], np.uint8)  # true is whatever is not 0
    for axis in (None, 0, 1):
        for name in ("any", "all"):
            got = getattr(it, name)(it.asarray(bits).view(np.bool_), axis=axis)
            assert np.array_equal(got.numpy(), getattr(np, name)(bits, axis=axis))
    assert it.count_nonzero(it.asarray([2.0, 0.0])).tolist() == 1
    with pytest.raises(ValueError, match="empty sequence"):
        it.argmax(it.zeros((0,)))


def test_counts_are_numpys() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 50, 300)
    for weights in (None, rng.random(300), rng.random(300).astype("f4"), rng.integers(0, 9, 300)):
        for least in (0, 3, 90):
            given = None if weights is None else it.asarray(weights)
            got, wanted = it.bincount(it.asarray(x), given, least), np.bincount(x, weights, least)
            assert got.dtype == wanted.dtype
            assert got.numpy().tobytes() == wanted.tobytes()
    assert it.bincount(it.asarray(x[::2])).tolist() == np.bincount(x[::2]).tolist()
    assert it.bincount(it.asarray(x), None, 1 << 16).shape == (1 << 16,)
    assert it.bincount(it.asarray(x), None, 70_000).shape == (70_000,)
    with pytest.raises(ValueError, match="no negative elements"):
        it.bincount(it.asarray(x - 5))
    with pytest.raises(ValueError, match="must not be negative"):
        it.bincount(it.asarray(x), None, -1)
    with pytest.raises(ValueError, match="same length"):
        it.bincount(it.asarray(x), it.ones(3))

"""Sums of small arrays: NumPy's values, in the order of plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor.api.small import small_sums

NAMES = {
    "sum": small_sums.sum_of,
    "mean": small_sums.mean_of,
    "var": small_sums.var_of,
    "std": small_sums.std_of,
}
SHAPES = [(7,), (5, 7), (300, 3), (2, 3, 40), (4, 1, 6), (1000,)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u1", "?", "c16"])
def test_values_shapes_and_dtypes_are_numpys(name: str, kind: str) -> None:
    for shape in SHAPES:
        x = np.abs(np.random.default_rng(0).standard_normal(shape) * 3).astype(kind)
        for axis in (None, *range(-len(shape), len(shape))):
            for keepdims in (False, True):
                wanted: Any = getattr(np, name)(x, axis, keepdims=keepdims)
                got = NAMES[name](x, axis, keepdims=keepdims)
                assert got.dtype == wanted.dtype
                assert np.shape(got) == np.shape(wanted)
                np.testing.assert_allclose(got, wanted, 1e-4 if kind == "f4" else 1e-12)


def test_strides_do_not_change_a_bit() -> None:
    x = np.random.default_rng(1).standard_normal((40, 60))
    apart = np.repeat(x, 2, 1)[:, ::2]
    for call in NAMES.values():
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(call(apart, axis), call(x, axis))


def test_halves_are_added_in_float32() -> None:
    x = np.full(5000, 1, np.float16)
    assert small_sums.sum_of(x) == 5000
    assert small_sums.sum_of(x).dtype == np.float16


def test_nothing_and_one_number() -> None:
    assert small_sums.sum_of(np.zeros((0, 3))) == 0
    np.testing.assert_array_equal(small_sums.sum_of(np.zeros((0, 3)), 0), np.zeros(3))
    assert small_sums.sum_of(np.asarray(3.5)) == 3.5
    for name in ("mean", "var"):
        with pytest.raises(ValueError, match="ours"):
            NAMES[name](np.zeros(0))
        assert NAMES[name](np.asarray(3.5)) == getattr(np, name)(3.5)
    with pytest.raises(ValueError, match="ours"):
        small_sums.sum_of(np.zeros(3), 1)


def test_norms_and_traces() -> None:
    x = np.random.default_rng(2).standard_normal((6, 9))
    np.testing.assert_allclose(small_sums.norm_of(x), np.linalg.norm(x), 1e-14)
    for offset in (0, 2, -3, 20):
        np.testing.assert_allclose(small_sums.trace_of(x, offset), np.trace(x, offset), 1e-14)
    assert small_sums.trace_of(np.eye(3, dtype=int)) == 3
    with pytest.raises(ValueError, match="ours"):
        small_sums.norm_of(x, 1)
    with pytest.raises(ValueError, match="ours"):
        small_sums.trace_of(np.zeros((2, 2, 2)))

"""Products of small tensors by C: NumPy's values, and for halves the bits of plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config
from infinitensor.dtypes import bfloat16

SHAPES = [
    ((3, 4), (4, 5)), ((71, 71), (71, 71)), ((7,), (7,)), ((12000,), (12000,)), ((5, 4), (4,)),
    ((4,), (4, 5)), ((3, 4, 5), (3, 5, 6)), ((9, 30, 31), (9, 31, 20)), ((3, 4, 5), (5, 6)),
    ((4, 5), (3, 5, 6)), ((2, 3, 4, 5), (2, 3, 5, 4)), ((2, 1, 4, 5), (1, 3, 5, 4)),
    ((3, 4, 5), (5,)), ((4,), (3, 4, 5)), ((1, 60, 60), (1, 60, 3)), ((0, 3), (3, 4)),
    ((300, 300), (300,)),
]  # fmt: skip


def by_columns(x: np.ndarray) -> Any:
    """The same values, stored column by column."""
    return (
        it.asarray(np.swapaxes(x, -1, -2).copy()).swapaxes(-1, -2) if x.ndim > 1 else it.asarray(x)
    )


@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "f2", bfloat16])
def test_values_are_numpys_however_they_are_stored(kind: Any) -> None:
    rng = np.random.default_rng(0)
    is_half = kind in ("f2", bfloat16)
    close = 0.1 if kind is bfloat16 else 0.02 if kind == "f2" else 1e-4
    for left, right in SHAPES:
        a, b = (rng.standard_normal(shape).astype(kind) for shape in (left, right))
        exact = np.matmul(a.astype("f8"), b.astype("f8")) if kind != "c8" else np.matmul(a, b)
        for x in (it.asarray(a), by_columns(a)):
            for y in (it.asarray(b), by_columns(b)):
                got = x @ y
                assert got.shape == exact.shape
                assert got.dtype == kind
                allowed = close * np.sqrt(left[-1]) * 2
                np.testing.assert_allclose(got.numpy().astype(exact.dtype), exact, close, allowed)
                if is_half:
                    assert it.matmul(x, y).numpy().tobytes() == planned(x, y).tobytes()


def planned(x: Any, y: Any) -> Any:
    config.small_elements = 0
    try:
        return (x @ y).numpy()
    finally:
        config.small_elements = type(config)().small_elements


def test_shapes_that_do_not_fit_are_said_as_before() -> None:
    for kind in ("f2", "f4"):
        with pytest.raises(ValueError, match="do not fit"):
            it.ones((3, 4), kind) @ it.ones((3, 4), kind)
        with pytest.raises(ValueError, match="matmul"):
            it.ones((), kind) @ it.ones((3,), kind)


def test_dtypes_that_differ_are_promoted() -> None:
    made = it.ones((3, 4), np.float16) @ it.ones((4, 2), np.float32)
    assert made.dtype == np.float32
    assert (it.ones((3, 4), np.int64) @ it.ones((4, 2), np.float16)).dtype == np.float64

"""Copies, casts and other tiles: the same values in memory of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it

pytestmark = [
    pytest.mark.usefixtures("in_small_tiles"),
    pytest.mark.parametrize(
        "in_small_tiles", [("cpu", 7), ("cpu*3", 7)], indirect=True, scope="module"
    ),
]

X = np.arange(60.0).reshape(6, 10)
VIEWS: dict[str, Any] = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:4],
    "steps": lambda x: x[::-2, 3::3],
    "transposed": lambda x: x.T,
    "element": lambda x: x[2, 3:4],
    "nothing": lambda x: x[:0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_copy_has_the_values_and_no_memory_in_common(name: str) -> None:
    x = it.asarray(X)
    part, want = VIEWS[name](x), VIEWS[name](X).copy()
    copy = part.copy()
    part[...] = -1.0
    np.testing.assert_array_equal(copy.numpy(), want)
    copy[...] = 5.0
    np.testing.assert_array_equal(part.numpy(), np.full(want.shape, -1.0))


@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c16"])
def test_a_cast_is_numpys_and_copies_unless_asked(dtype: str) -> None:
    x = it.asarray(X)
    for name, part in VIEWS.items():
        found = part(x).astype(dtype)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found.numpy(), part(X).astype(dtype), err_msg=name)
    assert x.astype("f8", copy=False) is x
    assert x.astype("f8") is not x


def test_casts_that_the_rule_forbids_are_refused() -> None:
    for casting, dtype in [("safe", "f4"), ("same_kind", "i8"), ("no", "f4"), ("equiv", "i8")]:
        with pytest.raises(TypeError, match=f"according to the rule '{casting}'"):
            it.asarray(X).astype(dtype, casting=casting)
        with pytest.raises(TypeError, match="according to the rule"):
            X.astype(dtype, casting=casting)  # type: ignore[call-overload]


def test_a_chain_of_copies_keeps_each_its_own() -> None:
    x = it.zeros(20)
    kept = []
    for i in range(4):
        x[i * 5 : i * 5 + 5] = i + 1.0
        kept.append(x.copy())
    for i, copy in enumerate(kept):
        assert float(copy.sum()) == sum(5.0 * (j + 1) for j in range(i + 1))


@pytest.mark.parametrize("pieces", [(1, 1), (2, 3), (6, 10), (3, 1)])
def test_other_tiles_hold_the_same_values(pieces: tuple[int, int]) -> None:
    x = it.asarray(X)
    np.testing.assert_array_equal(x.relayout(*pieces).numpy(), X)


def test_counts_of_tiles_that_fit_no_shape_are_refused() -> None:
    for pieces in [(1,), (1, 0), (1, 2, 3)]:
        with pytest.raises(ValueError, match=r"needs 2 counts >= 1"):
            it.asarray(X).relayout(*pieces)

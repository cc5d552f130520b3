"""Tensors on the host are joined at once, as NumPy does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.without_c import assert_passes_without_c

import infinitensor as it
from infinitensor.api.small.host_joins import join_now
from infinitensor.dtypes import bfloat16

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("counted_session")


@pytest.mark.parametrize("n", [4, 40_000])
@pytest.mark.parametrize(
    "dtypes", [("f4", "f4"), ("i8", "i8", "i8"), ("f4", "f8"), ("i4", "f4", "c8"), ("?", "i1")]
)
def test_dtypes_axes_and_views_are_numpys(n: int, dtypes: tuple[str, ...]) -> None:
    arrays = [np.arange(2 * n).reshape(n, 2).astype(dtype) for dtype in dtypes]
    changes: tuple[Callable[[Any], Any], ...] = (
        lambda x: x, lambda x: x[::-1], lambda x: x.T, lambda x: x[:1],
    )  # fmt: skip
    for change in changes:
        given = [change(it.asarray(x)) for x in arrays]
        theirs = [change(x) for x in arrays]
        for name, axes in (("concatenate", (0, 1, -1)), ("stack", (0, 1, 2, -1, -3))):
            for axis in axes:
                made = getattr(it, name)(given, axis=axis)
                wanted = getattr(np, name)(theirs, axis=axis)
                assert made.dtype == wanted.dtype
                assert np.array_equal(made.numpy(), wanted)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_nothing_joined_with_nothing_is_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, "f4")
    ours = it.asarray(x)
    assert it.concatenate([ours, ours]).shape == np.concatenate([x, x]).shape
    assert it.stack([ours, ours], axis=-1).shape == np.stack([x, x], axis=-1).shape


def test_numbers_joined_are_a_line() -> None:
    x = it.asarray([3.0, 1.0])
    assert it.stack([x[0], x[1], x.sum()]).tolist() == [3.0, 1.0, 4.0]


def test_more_arrays_than_c_takes_are_joined() -> None:
    arrays = [np.full((2, 3), k) for k in range(200)]
    made = it.concatenate([it.asarray(x) for x in arrays], axis=1)
    assert np.array_equal(made.numpy(), np.concatenate(arrays, axis=1))


def test_what_is_not_a_plain_join_is_left() -> None:
    x = it.asarray([1.0, 2.0])
    large = it.asarray(np.arange(100_000.0)) * 2
    cases: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
        (([x, x], None), {}),
        (([x, x], 0), {"axis": 0}),
        (([x, x],), {"dtype": "f4"}),
        (([x, 1.0],), {}),
        (([],), {}),
        (([large, large],), {}),
        ((x,), {}),
    )
    for args, options in cases:
        assert join_now(np.concatenate, args, options) is None


@pytest.mark.parametrize("n", [4, 50_000])
def test_errors_are_those_of_what_waits(n: int) -> None:
    x, y = it.zeros((n, 3)), it.zeros((n, 2))
    with pytest.raises(ValueError, match="must match exactly, but along dimension 1"):
        it.concatenate([x, y])
    with pytest.raises(ValueError, match="all input arrays must have the same shape"):
        it.stack([x, y])
    with pytest.raises(np.exceptions.AxisError):
        it.concatenate([x, x], axis=2)


def test_all_of_it_without_c() -> None:
    assert_passes_without_c(__file__)


def test_halves_views_and_numbers_of_an_axis_are_joined() -> None:
    x = np.arange(24).reshape(4, 6).astype(bfloat16)
    ours = it.asarray(x)
    for axis in (0, 1, -1):
        made = it.concatenate((ours, ours[:, :]), axis=axis)
        assert np.array_equal(made.numpy(), np.concatenate((x, x), axis=axis))
        assert np.array_equal(it.concatenate([ours, ours], axis).numpy(), made.numpy())
        assert np.array_equal(it.stack([ours, ours], axis).numpy(), np.stack([x, x], axis))
    numpys: Any = np.int64(1)
    assert it.concatenate([ours], axis=numpys).shape == (4, 6)
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds"):
        it.concatenate([ours, ours], axis=2)
    with pytest.raises(ValueError, match="at least one array"):
        it.concatenate([], axis=0)
    with pytest.raises(ValueError, match="match"):
        it.concatenate([ours, ours[:2]], axis=1)

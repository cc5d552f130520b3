"""Views of views: any index, transpose or reshape of a view is what NumPy does to strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor.api.access.view_strides import (
    basic,
    change_view,
    of_integers_and_slices,
    reshaped,
    through,
    tight,
)
from infinitensor.ir.view import View

BASE = np.arange(120)


def _view(array: np.ndarray) -> View:
    """The view that an array over `BASE` is."""
    start = array.__array_interface__["data"][0] - BASE.__array_interface__["data"][0]
    return View(BASE.shape, array.shape, start // 8, tuple(s // 8 for s in array.strides))


def _seen(view: View) -> np.ndarray:
    """The elements of `BASE` that a view shows."""
    if 0 in view.shape:
        return np.empty(view.shape, BASE.dtype)
    strides = tuple(8 * s for s in view.strides)
    return np.lib.stride_tricks.as_strided(BASE[view.offset :], view.shape, strides)


def _slice(rng: np.random.Generator, n: int) -> slice:
    ends = [None, *range(-n - 2, n + 3)]
    step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
    lo, hi = (ends[int(i)] for i in rng.integers(0, len(ends), 2))
    return slice(lo, hi, step)


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_basic_indices_show_what_numpys_views_show(seed: int) -> None:
    rng = np.random.default_rng(seed)
    array = BASE.reshape(4, 5, 6)
    view = _view(array)
    for _ in range(3):
        index: list[Any] = [_slice(rng, n) for n in array.shape]
        for axis, n in enumerate(array.shape):
            if n and rng.random() < 0.2:
                index[axis] = int(rng.integers(-n, n))
        if rng.random() < 0.3:
            index.insert(int(rng.integers(0, len(index) + 1)), None)
        if index and rng.random() < 0.3:
            index[int(rng.integers(0, len(index))) :] = [..., index[-1]]
        key = tuple(index[: int(rng.integers(0, len(index) + 1))])
        array, view = array[key], basic(view, key)
        assert view.shape == array.shape
        np.testing.assert_array_equal(_seen(view), array)


def test_the_quick_way_is_the_slow_one_or_declines() -> None:
    view = _view(BASE.reshape(4, 5, 6)[:, ::-1])
    for items in [(1,), (slice(1, 3), 2), (slice(None), slice(3, 0, -2)), (-1, -2, -3), ()]:
        quick = of_integers_and_slices(view, items)
        assert quick is None or quick == basic(view, items)
    assert of_integers_and_slices(view, (slice(1, 3), 2)) is not None
    for odd in [(4,), (0, 0, 0, 0), (..., 0, ...), (..., 0, 0, 0, 0), (np.arange(2),)]:
        assert of_integers_and_slices(view, odd) is None


def test_new_axes_and_an_ellipsis_are_numpys() -> None:
    array = BASE.reshape(4, 5, 6)
    keys: list[Any] = [(None, ..., 2), (..., None), (1, None, slice(None)), ...]
    for key in keys:
        np.testing.assert_array_equal(_seen(basic(_view(array), key)), array[key])


@pytest.mark.parametrize("shape", [(120,), (20, 6), (4, 30), (2, 2, 5, 3, 2), (1, 120, 1)])
def test_a_reshape_is_a_view_exactly_where_numpy_makes_one(shape: tuple[int, ...]) -> None:
    array = BASE.reshape(4, 5, 6)
    for source in (array, array.transpose(2, 0, 1), array[:, ::-1]):
        found, want = reshaped(_view(source), shape), source.reshape(shape)
        if np.shares_memory(want, BASE):
            assert found is not None
            np.testing.assert_array_equal(_seen(found), want)
        else:
            assert found is None


def test_two_transposes_come_back_and_errors_are_numpys() -> None:
    view = _view(BASE.reshape(4, 5, 6)[1:, ::2])
    transposed = through(view, lambda a: a.transpose(2, 0, 1))
    assert transposed.shape == (6, 3, 3)
    assert through(transposed, lambda a: a.transpose(1, 2, 0)) == view
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 3"):
        basic(view, 7)
    with pytest.raises(IndexError, match="too many indices"):
        basic(view, (0, 0, 0, 0))


@pytest.mark.parametrize(
    ("change", "args", "named"),
    [
        (np.flip, (1,), {}),
        (np.flip, (), {"axis": (0, 2)}),
        (np.transpose, ((2, 0, 1),), {}),
        (np.transpose, ([2, 0, 1],), {}),
        (np.moveaxis, (0,), {"destination": 2}),
        (np.ndarray.swapaxes, (0, np.int64(2)), {}),
        (np.ndarray.diagonal, (1, 0, 2), {}),
        (np.expand_dims, ((0, 2),), {}),
        (np.broadcast_to, ((2, 4, 5, 6),), {}),
    ],
)
def test_a_function_of_numpy_changes_a_view_each_time_alike(
    change: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    for source in (BASE.reshape(4, 5, 6), BASE.reshape(4, 5, 6)[::-1, :, ::2]):
        if change is np.broadcast_to and source.shape != (4, 5, 6):
            continue
        want = change(source, *args, **named)
        for _ in range(3):
            found = change_view(_view(source), change, *args, **named)
            assert found.shape == want.shape
            np.testing.assert_array_equal(_seen(found), want)


def test_what_equals_a_known_argument_is_refused_as_by_numpy() -> None:
    view = _view(BASE.reshape(4, 5, 6))
    for _ in range(2):
        assert change_view(view, np.flip, 1).shape == (4, 5, 6)
        with pytest.raises(TypeError):
            change_view(view, np.flip, 1.0)
        assert change_view(view, np.transpose, (1, 0, 2)).shape == (5, 4, 6)
        with pytest.raises(TypeError):
            change_view(view, np.transpose, (1.0, 0.0, 2.0))
        with pytest.raises(ValueError, match="out of bounds"):
            change_view(view, np.flip, 3)


def test_shapes_are_written_as_in_numpys_errors() -> None:
    assert [tight(s) for s in [(), (3,), (2, 3)]] == ["()", "(3,)", "(2,3)"]

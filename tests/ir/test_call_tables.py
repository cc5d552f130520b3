"""Operands as addresses and strides: the memory that NumPy's slices and views have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from infinitensor.ir.call_tables import Calls, Form, InC, Operands, StridedArrays
from infinitensor.ir.view import View, structure

from .budget import examples

BASE = np.arange(6 * 8, dtype=np.int64).reshape(6, 8)


def table(tiles: list[np.ndarray[Any, Any]]) -> StridedArrays:
    """Tiles of the base as offsets into its memory."""
    start = BASE.ctypes.data
    return StridedArrays(
        np.arange(len(tiles)),
        np.array([tile.ctypes.data - start for tile in tiles]),
        np.array([tile.shape for tile in tiles]),
        np.array([tile.strides for tile in tiles]),
    )


def array_at(columns: StridedArrays, task: int) -> np.ndarray[Any, Any]:
    """What a call that is given these columns reads."""
    offset, shape, strides = (column[task].tolist() for column in columns[1:])
    first = BASE.reshape(-1)[offset // BASE.itemsize :]
    return as_strided(first, shape, strides)


TILES = [(slice(0, 3), slice(0, 8)), (slice(3, 6), slice(0, 5)), (slice(3, 6), slice(5, 8))]
STARTS = np.array([[one.start for one in tile] for tile in TILES])


def test_box_of_a_tile_begins_at_its_own_address() -> None:
    boxes = np.array([[[1, 3], [2, 8]], [[3, 6], [0, 5]], [[5, 5], [6, 8]]])
    found = table([BASE[tile] for tile in TILES]).view(STARTS, boxes, None)
    for task, ((a, b), (c, d)) in enumerate(boxes):
        np.testing.assert_array_equal(array_at(found, task), BASE[a:b, c:d])
    assert found.bases.tolist() == [0, 1, 2]


@given(st.data())
@examples(60)
def test_box_of_a_view_is_the_slice_of_numpys_view(data: st.DataObject) -> None:
    steps = [data.draw(st.sampled_from([1, 2, -1, -3])) for _ in range(2)]
    index = tuple(slice(None, None, step) for step in steps)
    viewed = BASE[index]
    if data.draw(st.booleans()):
        viewed = viewed[data.draw(st.integers(0, viewed.shape[0] - 1))]  # an axis less
    if data.draw(st.booleans()):
        viewed = viewed.T
    if data.draw(st.booleans()):
        viewed = np.broadcast_to(viewed, (3, *viewed.shape))
    offset = (viewed.__array_interface__["data"][0] - BASE.ctypes.data) // 8
    strides = tuple(step // 8 for step in viewed.strides)
    access = structure(View(BASE.shape, viewed.shape, offset, strides))
    assert access is not None
    box = [
        (lo, data.draw(st.integers(lo + 1, n)))
        for n, lo in ((n, data.draw(st.integers(0, n - 1))) for n in viewed.shape)
    ]
    found = table([BASE]).view(np.zeros((1, 2), int), np.array([box]), access)
    np.testing.assert_array_equal(
        array_at(found, 0), viewed[tuple(slice(lo, hi) for lo, hi in box)]
    )


def test_tasks_taken_apart_and_joined_are_the_same() -> None:
    whole = table([BASE[tile] for tile in TILES])
    joined = StridedArrays.join([whole.take(slice(0, 1)), whole.take(np.array([1, 2]))])
    for before, after in zip(whole, joined, strict=True):
        np.testing.assert_array_equal(after, before)


def calls_of(tasks: list[int], n_arrays: int, n_words: int) -> Calls:
    n = len(tasks)
    form = Form((0,) * 8, n_arrays, n_words, None)
    return Calls(
        np.array(tasks, int),
        np.arange(n),
        [form],
        np.arange(n * n_arrays),
        10 * np.arange(n * n_arrays),
        np.arange(n * n_words),
    )


@pytest.mark.parametrize("tasks", [[0, 0, 1, 3, 3, 3, 6], [], [2]], ids=str)
@pytest.mark.parametrize("borders", [[0, 7], [0, 1, 3, 7], [0, 0, 5, 7]], ids=str)
def test_split_calls_are_all_calls_by_the_tasks_between_borders(
    tasks: list[int], borders: list[int]
) -> None:
    whole = calls_of(tasks, 3, 2)
    parts = whole.split(borders)
    assert len(parts) == len(borders) - 1
    for first, end, part in zip(borders, borders[1:], parts, strict=False):
        assert (part.tasks + first).tolist() == [t for t in tasks if first <= t < end]
        assert len(part.bases) == len(part.offsets) == 3 * len(part.tasks)
        assert len(part.words) == 2 * len(part.tasks)
    for k in (1, 3, 4, 5):
        np.testing.assert_array_equal(np.concatenate([part[k] for part in parts]), whole[k])


class Silent(InC):
    def calls(self, asked: Operands) -> Calls:
        return calls_of(asked.tasks.tolist(), 1, 0)


def test_family_that_says_nothing_is_asked_for_alone_and_has_no_other_kernel() -> None:
    silent = Silent()
    asked = Operands(np.arange(2), None, ["in"], [])
    assert silent.together is None
    assert silent.is_due(1)
    assert silent.plain(asked) == (silent, asked)

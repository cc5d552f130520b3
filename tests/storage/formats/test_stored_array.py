"""A box of a stored array as a lazy array: slices of slices, and checks of boxes and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor.storage import NpyFile, Part
from infinitensor.storage.formats.stored_array import check_box

if TYPE_CHECKING:
    from pathlib import Path

    from infinitensor.ir.region import Box


class Whole:
    """An array that is read box by box only, as a spilled tile is."""

    chunks = None
    key = "whole"

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.shape, self.dtype, self.n_bytes = values.shape, values.dtype, values.nbytes

    def shift(self, box: Box) -> int:
        return 64 * sum(lo for lo, _ in box)

    def read(self, box: Box, out: np.ndarray[Any, Any]) -> None:
        out[...] = self.values[tuple(slice(lo, hi) for lo, hi in box)]


def test_part_of_a_part_is_the_slice_of_the_slice(tmp_path: Path) -> None:
    values = np.arange(60).reshape(3, 4, 5)
    np.save(tmp_path / "x.npy", values)
    part = Part(NpyFile(tmp_path / "x.npy"))[1:, ..., 2:5][:, 1:-1]
    wanted = values[1:, ..., 2:5][:, 1:-1]
    assert (part.shape, part.ndim, part.size) == (wanted.shape, 3, wanted.size)
    assert part.n_bytes == part.nbytes == wanted.nbytes
    out = np.empty(part.shape, part.dtype)
    part.read_into(out)
    np.testing.assert_array_equal(out, wanted)
    assert part[5:2].shape == (0, 2, 3)


def test_part_takes_slices_of_step_one_only(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    part = Part(NpyFile(tmp_path / "x.npy"))
    with pytest.raises(TypeError, match="slices of step 1, not slice"):
        part[::2]
    with pytest.raises(TypeError, match="slices of step 1, not 3"):
        part[3]
    with pytest.raises(IndexError, match="2 indices for 1 axes"):
        part[:, :]


ends = st.none() | st.integers(-7, 7)


@given(st.lists(st.lists(st.builds(slice, ends, ends), max_size=3), max_size=3))
@examples(30)
def test_slices_of_slices_are_numpys_negative_and_empty_ones_too(index: Any) -> None:
    values = np.arange(60).reshape(3, 4, 5)
    part = Part(Whole(values))
    for one in index:
        part, values = part[tuple(one)], values[tuple(one)]
    out = np.empty(part.shape, part.dtype)
    part.read_into(out)
    np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize("in_file", [True, False])
def test_elements_apart_of_a_part_are_numpys(tmp_path: Path, in_file: bool) -> None:
    values = np.arange(240).reshape(12, 20)
    np.save(tmp_path / "x.npy", values)
    stored = NpyFile(tmp_path / "x.npy") if in_file else Whole(values)
    part, taken = Part(stored)[2:11, 3:], values[2:11, 3:]
    where = (slice(1, 9, 3), slice(0, 17, 5))
    out = np.empty((3, 4), values.dtype)
    part.read_apart(out, where)
    np.testing.assert_array_equal(out, taken[where])


def test_part_without_axes_is_one_value_and_memory_begins_where_its_box_does() -> None:
    part = Part(Whole(np.array(7)))
    out = np.empty((), int)
    part[...].read_into(out)
    assert (int(out), part.ndim, part.size) == (7, 0, 1)
    assert Part(Whole(np.zeros((4, 4))))[1:, 2:].shift == 192


@pytest.mark.parametrize(
    "box", [((0, 3),), ((0, 3), (0, 5)), ((-1, 3), (0, 4)), ((2, 1), (0, 4))], ids=str
)
def test_box_that_is_not_in_the_array_is_named(box: Box) -> None:
    with pytest.raises(ValueError, match=r"x\.npy: no box .* in an array of shape \(3, 4\)"):
        check_box(box, (3, 4), np.dtype(int), np.empty((3, 4), int), "x.npy")


def test_memory_has_to_have_every_so_many_elements() -> None:
    dtype = np.dtype(int)
    check_box(((1, 6),), (6,), dtype, np.empty(3, int), "x", (2,))
    check_box(((1, 6),), (6,), dtype, np.empty(1, int), "x", (9,))
    check_box(((6, 6),), (6,), dtype, np.empty(0, int), "x", (2,))
    with pytest.raises(ValueError, match=r"x: box .* does not fit memory of shape \(2,\)"):
        check_box(((1, 6),), (6,), dtype, np.empty(2, int), "x", (2,))

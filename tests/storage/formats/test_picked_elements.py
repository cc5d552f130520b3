"""Elements of a file that an index names: NumPy's, and of the file nothing else is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.storage.boxes import boxes, memory, slices

from infinitensor import events
from infinitensor.storage import NpyFile, Picked

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (5, 6, 7)
VALUES = np.random.default_rng(6).integers(0, 1000, SHAPE)


@pytest.fixture(params=["C", "F"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> NpyFile:
    np.save(tmp_path / "x.npy", np.asarray(VALUES, order=request.param))
    return NpyFile(tmp_path / "x.npy")


def numpys(
    axes: tuple[int, ...], points: tuple[Any, ...], ranges: tuple[tuple[int, int, int], ...]
) -> np.ndarray[Any, Any]:
    """The named axes first, then the ranges of the others."""
    others = [axis for axis in range(VALUES.ndim) if axis not in axes]
    moved = VALUES.transpose(*axes, *others)
    index = (slice(None),) * len(axes) + tuple(slice(*one) for one in ranges)
    return moved[index][points] if axes else moved[index]


@st.composite
def picks(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    axes = tuple(draw(st.lists(st.integers(0, 2), max_size=3, unique=True)))
    shape = draw(st.sampled_from([(), (1,), (4,), (2, 3), (0,), (2, 1, 2)]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    points = tuple(rng.integers(0, SHAPE[axis], shape) for axis in axes)
    ranges = []
    for axis in range(3):
        if axis not in axes:
            first = draw(st.integers(0, SHAPE[axis]))
            ranges.append((first, draw(st.integers(first, SHAPE[axis])), draw(st.integers(1, 3))))
    return axes, points, tuple(ranges)


@given(picks(), st.data())
@examples(30)
def test_box_of_what_is_picked_is_the_slice_of_numpys_index(
    file: NpyFile, pick: tuple[Any, Any, Any], data: st.DataObject
) -> None:
    wanted = numpys(*pick)
    picked = Picked(file, *pick)
    assert (picked.shape, picked.dtype) == (wanted.shape, VALUES.dtype)
    assert picked.n_bytes == wanted.nbytes
    box = data.draw(boxes(wanted.shape))
    out = data.draw(memory(wanted[slices(box)].shape, wanted.dtype))
    picked.read(box, out)
    np.testing.assert_array_equal(out, wanted[slices(box)])


def test_only_the_rows_that_are_named_are_read(tmp_path: Path) -> None:
    values = np.arange(40_000.0).reshape(400, 100)
    np.save(tmp_path / "x.npy", values)
    picked = Picked(NpyFile(tmp_path / "x.npy"), (0,), (np.array([399, 3]),), ((0, 100, 1),))
    out = np.empty((2, 100))
    seen: list[int] = []
    with events.on("file", lambda **what: seen.append(what["n_bytes"])):
        picked.read(((0, 2), (0, 100)), out)
    np.testing.assert_array_equal(out, values[[399, 3]])
    assert sum(seen) == out.nbytes


def test_other_elements_have_another_key(file: NpyFile) -> None:
    whole = ((0, 6, 1), (0, 7, 1))
    keys = {
        Picked(file, (0,), (np.array(at),), ranges).key
        for at in ([0, 1], [1, 0], [0, 1])
        for ranges in (whole, ((0, 6, 2), (0, 7, 1)))
    }
    assert len(keys) == 4


def test_box_outside_of_what_is_picked_is_refused(file: NpyFile) -> None:
    picked = Picked(file, (0, 1, 2), (np.array([0]), np.array([1]), np.array([2])), ())
    with pytest.raises(ValueError, match=r"no box \(\(0, 2\),\) in an array of shape \(1,\)"):
        picked.read(((0, 2),), np.empty(2, int))


def test_steps_over_the_border_end_at_the_last_element_before_it(file: NpyFile) -> None:
    picked = Picked(file, (), (), ((0, 5, 3), (1, 6, 3), (0, 7, 6)))
    out = np.empty((2, 2, 2), VALUES.dtype)
    picked.read(((0, 2), (0, 2), (0, 2)), out)
    np.testing.assert_array_equal(out, VALUES[::3, 1::3, ::6])

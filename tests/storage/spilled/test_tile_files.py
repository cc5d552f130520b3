"""Tiles in several files, read as the one array that they were cut from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.storage.boxes import boxes, memory, slices

from infinitensor import events
from infinitensor.ir.region import boxes_of
from infinitensor.storage import Part, Spill
from infinitensor.storage.spilled.tile_files import Joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.ir.region import Cuts


@pytest.fixture(scope="module")
def spill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spill]:
    spill = Spill([tmp_path_factory.mktemp("spill")])
    yield spill
    spill.close()


@st.composite
def cuts_of(draw: st.DrawFn, shape: tuple[int, ...]) -> Cuts:
    """Uneven cuts of every axis."""
    cuts = []
    for n in shape:
        inner = draw(st.lists(st.integers(1, n - 1), max_size=3, unique=True)) if n > 1 else []
        cuts.append((0, *sorted(inner), n))
    return tuple(cuts)


def joined(spill: Spill, values: np.ndarray[Any, Any], cuts: Cuts) -> Joined:
    tiles = (np.ascontiguousarray(values[slices(box)]) for box in boxes_of(cuts))
    return Joined(cuts, [Part(spill.write(tile)) for tile in tiles])


@given(st.data())
@examples(20)
def test_box_over_any_cuts_is_the_slice_of_the_whole(spill: Spill, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3)))
    values = np.random.default_rng(8).normal(size=shape)
    stored = joined(spill, values, data.draw(cuts_of(shape)))
    assert (stored.shape, stored.dtype, stored.n_bytes) == (shape, values.dtype, values.nbytes)
    box = data.draw(boxes(shape))
    out = data.draw(memory(values[slices(box)].shape, values.dtype))
    stored.read(box, out)
    np.testing.assert_array_equal(out, values[slices(box)])


def test_parts_of_larger_tiles_are_joined(spill: Spill) -> None:
    values = np.arange(24).reshape(4, 6)
    whole = Part(spill.write(values))
    stored = Joined(((0, 2), (0, 2, 5)), [whole[1:3, 4:], whole[2:, :3]])
    out = np.empty((2, 5), int)
    stored.read(((0, 2), (0, 5)), out)
    np.testing.assert_array_equal(out, np.hstack([values[1:3, 4:], values[2:, :3]]))


def test_only_the_files_that_a_box_is_in_are_read(spill: Spill) -> None:
    stored = joined(spill, np.arange(12.0).reshape(6, 2), ((0, 2, 4, 6), (0, 2)))
    seen: list[tuple[str, str]] = []
    with events.on("file", lambda **what: seen.append((what["call"], what["path"]))):
        stored.read(((2, 4), (0, 1)), np.empty((2, 1)))
    files: list[Any] = [part.stored for part in stored.parts]
    assert {path for _, path in seen} == {files[1].path}


def test_key_is_that_of_the_parts_and_how_they_are_joined(spill: Spill) -> None:
    parts = [Part(spill.write(np.full((2, 2), k))) for k in range(2)]
    rows, columns = ((0, 2, 4), (0, 2)), ((0, 2), (0, 2, 4))
    assert Joined(rows, parts).key == Joined(rows, list(parts)).key
    keys = {Joined(cuts, some).key for cuts in (rows, columns) for some in (parts, parts[::-1])}
    assert len(keys) == 4


def test_box_outside_is_refused(spill: Spill) -> None:
    stored = joined(spill, np.arange(4.0), ((0, 2, 4),))
    with pytest.raises(ValueError, match=r"Joined\(2 parts.* no box \(\(0, 5\),\)"):
        stored.read(((0, 5),), np.empty(5))

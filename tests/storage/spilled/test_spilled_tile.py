"""A spilled tile: checksums of blocks from pieces of any length, checked before bytes are used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor.errors import CorruptTileError
from infinitensor.storage.file_io.checksum import crc32c_blocks
from infinitensor.storage.spilled import spilled_tile
from infinitensor.storage.spilled.spill_folder import ProcessFolder
from infinitensor.storage.spilled.spilled_tile import Spilled, Sums, goes_direct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK_BYTES = 64
VALUES = np.arange(40, dtype=np.int64).reshape(5, 8)  # a row is a block


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_tile, "CHECKSUM_BLOCK_BYTES", BLOCK_BYTES)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ProcessFolder]:
    folder = ProcessFolder(str(tmp_path))
    yield folder
    folder.close()


def spilled(folder: ProcessFolder, values: np.ndarray[Any, Any], read: list[int]) -> Spilled:
    name = f"{len(os.listdir(folder.path))}"
    file = folder.create(name)
    os.write(file, values.tobytes())
    os.close(file)
    sums = Sums()
    sums.add(memoryview(values.tobytes()))
    return Spilled(folder, name, values, sums.block_sums(), read.append)


def flip(tile: Spilled, at: int) -> None:
    with open(tile.path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@given(st.lists(st.integers(0, 200), max_size=6))
@examples(25)
def test_sums_do_not_depend_on_the_pieces(lengths: list[int]) -> None:
    whole = np.random.default_rng(7).integers(0, 256, sum(lengths), dtype=np.uint8).tobytes()
    sums, at = Sums(), 0
    for n in lengths:
        sums.add(memoryview(whole)[at : at + n])
        at += n
    assert sums.block_sums().tolist() == crc32c_blocks(whole, BLOCK_BYTES).tolist()


def test_boxes_are_read_and_counted(folder: ProcessFolder) -> None:
    read: list[int] = []
    tile = spilled(folder, VALUES, read)
    for box in (((0, 5), (0, 8)), ((1, 4), (2, 7)), ((4, 5), (7, 8)), ((2, 2), (0, 8))):
        index = tuple(slice(lo, hi) for lo, hi in box)
        out = np.zeros(VALUES[index].shape, VALUES.dtype)
        tile.read(box, out)
        np.testing.assert_array_equal(out, VALUES[index])
    assert read == [40 * 8, 15 * 8, 8]


def test_changed_bit_is_an_error_of_every_box_in_its_block_and_of_no_other(
    folder: ProcessFolder,
) -> None:
    tile = spilled(folder, VALUES, [])
    flip(tile, 2 * BLOCK_BYTES + 63)  # the last byte of the third row
    out = np.full((1, 1), -7)
    for row in (0, 1, 3, 4):
        tile.read(((row, row + 1), (0, 1)), out)
        assert out == VALUES[row, 0]
    out[...] = -7
    with pytest.raises(CorruptTileError, match="at byte 128: its bits are not those") as error:
        tile.read(((2, 3), (0, 1)), out)
    assert (error.value.path, error.value.offset) == (tile.path, 128)
    assert out == -7, "bytes of a block are handed out once it is checked"


def test_file_that_was_cut_or_removed_is_an_error_that_names_it(folder: ProcessFolder) -> None:
    tile = spilled(folder, VALUES, [])
    out = np.empty((5, 8), np.int64)
    os.truncate(tile.path, 100)
    with pytest.raises(CorruptTileError, match="at byte 100: the file ends there: wanted 320"):
        tile.read(((0, 5), (0, 8)), out)
    os.unlink(tile.path)
    with pytest.raises(CorruptTileError, match="No such file"):
        tile.read(((0, 5), (0, 8)), out)


def test_two_tiles_of_one_file_have_two_keys(folder: ProcessFolder) -> None:
    tile = spilled(folder, VALUES, [])
    again = Spilled(folder, os.path.basename(tile.path), VALUES, tile._sums, lambda n: None)
    assert tile.path == again.path
    assert tile.key != again.key


def test_small_tiles_go_through_the_page_cache(folder: ProcessFolder) -> None:
    limit = spilled_tile.DIRECT_BYTES
    folder.is_direct = True
    assert goes_direct(folder, limit)
    assert not goes_direct(folder, limit - 1)
    folder.is_direct = False
    assert not goes_direct(folder, limit)

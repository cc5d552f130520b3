"""The border of the file layer: boxes of .npy files and of spilled tiles."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infinitensor.errors import CorruptTileError, SpillSpaceError
from infinitensor.storage import NpyFile, NpyWriter, Part, Spill

if TYPE_CHECKING:
    from pathlib import Path


def test_part_of_a_file_is_the_slice(tmp_path: Path) -> None:
    values = np.asfortranarray(np.arange(60, dtype=">i4").reshape(3, 4, 5))
    np.save(tmp_path / "x.npy", values)
    part = Part(NpyFile(tmp_path / "x.npy"))[1:, ..., 2:4]
    out = np.empty(part.shape, part.dtype)
    part.read_into(out)
    np.testing.assert_array_equal(out, values[1:, ..., 2:4])


def test_file_changed_in_place_is_noticed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    file = NpyFile(tmp_path / "x.npy")
    os.utime(tmp_path / "x.npy", ns=(1, 1))
    with pytest.raises(OSError, match="changed after it was opened"):
        file.read(((0, 4),), np.empty(4, np.int64))


def test_written_file_is_numpys(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    with NpyWriter(tmp_path / "x.npy", (3, 4), values.dtype) as writer:
        writer.put(((0, 3), (2, 4)), values[:, 2:])
        writer.put(((0, 3), (0, 2)), values[:, :2])
    np.save(tmp_path / "y.npy", values)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


def test_spilled_tile_comes_back_and_its_file_goes(tmp_path: Path) -> None:
    spill = Spill([tmp_path])
    assert os.listdir(tmp_path) == []
    values = np.arange(300_000.0).reshape(300, 1000)
    tile = spill.write(values)
    out = np.empty((10, 5))
    Part(tile)[20:30, 7:12].read_into(out)
    np.testing.assert_array_equal(out, values[20:30, 7:12])
    assert spill.used_bytes == values.nbytes
    path = tile.path
    del tile
    assert spill.used_bytes == 0
    assert spill.sweep() == 1
    assert not os.path.exists(path)
    spill.close()
    assert os.listdir(tmp_path) == []


def test_flipped_bit_is_noticed(tmp_path: Path) -> None:
    spill = Spill([tmp_path])
    tile = spill.write(np.arange(1000.0))
    with open(tile.path, "r+b") as file:
        file.seek(4001)
        file.write(b"\x01")
    with pytest.raises(CorruptTileError, match="not those that were written"):
        tile.read(((0, 10),), np.empty(10))


def test_limit_is_kept_and_usable_again(tmp_path: Path) -> None:
    spill = Spill([tmp_path], limit_bytes=1000)
    tile = spill.write(np.zeros(100))
    with pytest.raises(SpillSpaceError, match="no room to spill a tile of 800 B"):
        spill.write(np.zeros(100))
    del tile
    assert spill.write(np.zeros(100)).n_bytes == 800

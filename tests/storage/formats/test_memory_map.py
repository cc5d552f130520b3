"""Memory maps that cannot be written are read from their files; all others are left alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor.storage.formats import memory_map
from infinitensor.storage.formats.memory_map import file_of_map

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(60, dtype=">i4").reshape(3, 4, 5)

pytestmark = pytest.mark.skipif(
    not os.path.exists(memory_map.MAPS), reason="this system does not say what is mapped"
)


def values_of(file: Any) -> np.ndarray[Any, Any]:
    out = np.empty(file.shape, file.dtype)
    file.read(tuple((0, n) for n in file.shape), out)
    return out


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "part",
    [
        np.s_[...],
        np.s_[1:],
        np.s_[2:, 1:3],
        np.s_[1],
        np.s_[1, 2:, 3:4],
        np.s_[..., 3:],
        np.s_[2:3],
    ],
)
def test_contiguous_part_of_a_map_is_the_same_part_of_its_file(
    tmp_path: Path, order: Any, part: Any
) -> None:
    np.save(tmp_path / "x.npy", np.asarray(VALUES, order=order))
    array = np.load(tmp_path / "x.npy", mmap_mode="r")[part]
    file = file_of_map(array)
    is_contiguous = array.flags.c_contiguous or array.flags.f_contiguous
    assert (file is not None) == is_contiguous
    if file is not None:
        np.testing.assert_array_equal(values_of(file), VALUES[part])


@pytest.mark.parametrize("offset", [0, 7, 4096, 5000])
def test_map_of_any_bytes_is_read_from_its_offset(tmp_path: Path, offset: int) -> None:
    (tmp_path / "x").write_bytes(bytes(offset) + VALUES.tobytes())
    array: Any = np.memmap(tmp_path / "x", VALUES.dtype, "r", offset, VALUES.shape)
    file = file_of_map(array[1:])
    assert file is not None
    np.testing.assert_array_equal(values_of(file), VALUES[1:])


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_map_that_can_be_written_is_no_file(tmp_path: Path, mode: Any) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    assert file_of_map(np.load(tmp_path / "x.npy", mmap_mode=mode)) is None


def test_part_with_gaps_or_backwards_is_no_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    array: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert file_of_map(array[::2]) is None
    assert file_of_map(array[::-1]) is None


def test_results_of_maps_have_their_class_but_not_their_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    array: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    copied = array.copy().view(np.memmap)
    copied.filename, copied.mode = array.filename, "r"
    assert file_of_map(copied) is None


def test_file_that_was_replaced_or_removed_under_its_name_is_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    array: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    (tmp_path / "x.npy").rename(tmp_path / "y.npy")
    assert file_of_map(array) is None
    np.save(tmp_path / "x.npy", VALUES + 1)
    assert file_of_map(array) is None


def test_system_that_does_not_say_what_is_mapped_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    array: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    monkeypatch.setattr(memory_map, "MAPS", str(tmp_path / "none"))
    assert file_of_map(array) is None

"""NumPy's files: what NumPy writes is read, what is written NumPy reads, nothing is unpickled."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f8", "c8"])
def test_arrays_go_to_a_file_and_back(tmp_path: Path, dtype: str) -> None:
    x = X.astype(dtype)
    it.save(tmp_path / "a.npy", it.asarray(x))
    np.save(tmp_path / "b.npy", x.T)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), x)
    for found in (it.load(tmp_path / "b.npy"), it.load(tmp_path / "b.npy", mmap_mode="r")):
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found.numpy(), x.T)


@pytest.mark.parametrize("word", ["savez", "savez_compressed"])
def test_archives_have_their_arrays_by_name(tmp_path: Path, word: str) -> None:
    getattr(it, word)(tmp_path / "a.npz", it.asarray(X), second=it.arange(5))
    with np.load(tmp_path / "a.npz") as theirs:
        assert sorted(theirs) == ["arr_0", "second"]
        np.testing.assert_array_equal(theirs["arr_0"], X)
    ours = it.load(tmp_path / "a.npz")
    assert sorted(ours) == ["arr_0", "second"]
    np.testing.assert_array_equal(ours["second"].numpy(), np.arange(5))
    with pytest.raises(KeyError, match="third"):
        ours["third"]


def test_an_open_file_is_read_from_where_it_is() -> None:
    buffer = io.BytesIO()
    it.save(buffer, it.asarray(X))
    it.save(buffer, it.asarray(X * 2))
    buffer.seek(0)
    np.testing.assert_array_equal(it.load(buffer).numpy(), X)
    np.testing.assert_array_equal(it.load(buffer).numpy(), X * 2)


def test_text_goes_out_and_comes_back(tmp_path: Path) -> None:
    it.savetxt(tmp_path / "a.txt", it.asarray(X), delimiter=",")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "a.txt", delimiter=","), X)
    np.testing.assert_array_equal(it.loadtxt(tmp_path / "a.txt", delimiter=",").numpy(), X)
    found = it.genfromtxt(io.StringIO("1,,3\n4,5,6"), delimiter=",")
    np.testing.assert_array_equal(found.numpy(), [[1, np.nan, 3], [4, 5, 6]])


def test_plain_bytes_are_read_from_an_offset_up_to_a_count(tmp_path: Path) -> None:
    X.astype("i4").tofile(tmp_path / "a.bin")
    found = it.fromfile(tmp_path / "a.bin", "i4", count=5, offset=8)
    np.testing.assert_array_equal(found.numpy(), np.arange(2, 7))
    assert found.dtype == np.int32


def test_pickles_and_writes_through_maps_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="pickled objects run code"):
        it.load(tmp_path / "a.npy", allow_pickle=True)
    with pytest.raises(ValueError, match="not written to its file"):
        it.load(tmp_path / "a.npy", mmap_mode="r+")
    with pytest.raises((ValueError, TypeError), match=r"[Oo]bject"):
        it.load(tmp_path / "o.npy")
    with pytest.raises(FileNotFoundError, match=r"none\.npy"):
        it.load(tmp_path / "none.npy")

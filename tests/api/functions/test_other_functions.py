"""NumPy's functions that are no ops: index makers, conversions, files, text, settings, writes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.api.outcomes import assert_same, values

import infinitensor as it

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")

X = np.arange(12.0).reshape(3, 4)


# --- indices ----------------------------------------------------------------------------------


# --- a user's functions -----------------------------------------------------------------------


# --- conversions and questions ----------------------------------------------------------------


# --- writes -----------------------------------------------------------------------------------


# --- settings and text ------------------------------------------------------------------------


def test_text_follows_numpys_settings() -> None:
    x = it.asarray(X / 3)
    with it.printoptions(precision=2):
        assert it.array_str(x) == np.array_str(X / 3)
        assert it.get_printoptions()["precision"] == 2
    assert it.array2string(x, precision=1) == np.array2string(X / 3, precision=1)
    assert it.array_repr(x) == repr(x)
    it.set_printoptions(precision=8)


# --- files ------------------------------------------------------------------------------------


def test_npy_and_npz_files_go_both_ways(tmp_path: Path) -> None:
    it.stats(reset=True)
    x = it.asarray(X)
    it.save(tmp_path / "x.npy", x.T)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X.T)
    loaded = it.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(loaded.numpy(), X.T)
    loaded[0] = 7
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X.T)
    for write in (it.savez, it.savez_compressed):
        write(tmp_path / "both.npz", x, name=x[0])
        with it.load(tmp_path / "both.npz") as archive:
            assert sorted(archive) == ["arr_0", "name"]
            np.testing.assert_array_equal(archive["name"].numpy(), X[0])
    stream = io.BytesIO()
    it.save(stream, it.asarray(3))
    stream.seek(0)
    assert it.load(stream).item() == 3
    assert it.stats()["bytes_written"] == 2 * X.nbytes + X.nbytes + 2 * X[0].nbytes + 8
    assert it.stats()["bytes_read"] == X.nbytes + 2 * X[0].nbytes + 8


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        it.load(tmp_path / "o.npy")
    with pytest.raises(ValueError, match="run code when they are read"):
        it.load(tmp_path / "o.npy", allow_pickle=True)


def test_text_files_go_both_ways(tmp_path: Path) -> None:
    it.savetxt(tmp_path / "x.txt", it.asarray(X), fmt="%.1f", delimiter=",")
    np.testing.assert_array_equal(it.loadtxt(tmp_path / "x.txt", delimiter=",").numpy(), X)
    columns = it.loadtxt(tmp_path / "x.txt", delimiter=",", unpack=True)
    assert_same(values(columns), list(X.T), "loadtxt")
    missing = it.genfromtxt(io.StringIO("1,,3"), delimiter=",")
    np.testing.assert_array_equal(missing.numpy(), [1, np.nan, 3])
    it.asarray(X).tofile(tmp_path / "x.bin")
    np.testing.assert_array_equal(it.fromfile(tmp_path / "x.bin").numpy(), X.reshape(-1))


# --- members ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [">i4", "<i4", ">f8", ">u2", ">c8", ">f2"])
def test_numbers_are_read_in_their_byte_order(kind: str, tmp_path: Path) -> None:
    values = np.arange(-3 if kind[1] != "u" else 0, 9).astype(kind)
    native = values.astype(values.dtype.newbyteorder("="))
    values.tofile(tmp_path / "x.bin")
    np.save(tmp_path / "x.npy", values)
    made = [
        it.frombuffer(values.tobytes(), kind),
        it.fromfile(tmp_path / "x.bin", kind),
        it.load(tmp_path / "x.npy"),
        it.asarray(values),
        it.fromiter(values.tolist(), kind),
        it.add(values, values.dtype.type(0)),
        it.where(it.ones(values.shape, bool), values, native),
    ]
    target = it.zeros(values.shape, native.dtype)
    target[:] = values
    for found in (*made, target):
        assert found.dtype == native.dtype
        np.testing.assert_array_equal(found.numpy(), native)
    if kind[1] != "c":
        assert it.fromstring("1 2", kind, sep=" ").tolist() == [1, 2]


OTHER_ORDER: dict[str, Any] = {
    "a cast": lambda kind: it.arange(3).astype(kind),
    "a new tensor": lambda kind: it.zeros(3, kind),
    "values": lambda kind: it.asarray([1, 2], dtype=kind),
    "a sum": lambda kind: it.sum(it.ones(3), dtype=kind),
    "a ufunc": lambda kind: it.add(it.ones(3), 1, dtype=kind),
}


@pytest.mark.parametrize("name", OTHER_ORDER)
def test_another_byte_order_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"byte order of this machine.*x\.numpy\(\)\.astype"):
        OTHER_ORDER[name](np.dtype("f8").newbyteorder("S"))


def test_a_path_of_operands_with_their_labels() -> None:
    x = it.ones((2, 2, 3))
    for path in (it.einsum_path(x, range(3)), np.einsum_path(x, [0, 0, 1], [1])):
        assert path[0] == ["einsum_path", (0,)]
    assert it.add(3, 4, signature=b"ii->i") == 7

"""Which format a path means, and what is said of files of other formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infinitensor.storage import NpyFile, ZarrFile
from infinitensor.storage.formats.file_formats import FORMATS, format_of, open_stored

VALUES = np.arange(12, dtype=np.int32).reshape(4, 3)


def saved(path: Path, format: str | None = None) -> Path:
    if format_of(path, format).ending == ".zarr":
        pytest.importorskip("zarr")
    whole = tuple((0, n) for n in VALUES.shape)
    with format_of(path, format).writer(path, VALUES.shape, VALUES.dtype, (4, 3)) as writer:
        writer.put(whole, VALUES)
    return path


@pytest.mark.parametrize(
    ("path", "ending"),
    [
        ("x.npy", ".npy"),
        ("x.zarr", ".zarr"),
        ("x.zarr/", ".zarr"),
        ("x", ".npy"),
        ("x.zarr.npy", ".npy"),
        (Path("x.zarr"), ".zarr"),
    ],
)
def test_path_means_the_format_it_ends_with_else_the_first(path: str | Path, ending: str) -> None:
    assert format_of(path).ending == ending


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_writes_it_opens_under_any_name(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "x.dat", name)
    stored = open_stored(path, name)
    out = np.empty(stored.shape, stored.dtype)
    stored.read(((0, 4), (0, 3)), out)
    np.testing.assert_array_equal(out, VALUES)


def test_folder_is_opened_as_chunks_and_a_file_as_npy_whatever_their_names(tmp_path: Path) -> None:
    assert isinstance(open_stored(saved(tmp_path / "folder", "zarr")), ZarrFile)
    assert isinstance(open_stored(saved(tmp_path / "file")), NpyFile)


def test_key_names_an_array_of_a_group_and_never_one_outside(tmp_path: Path) -> None:
    (tmp_path / "g.zarr" / "a").mkdir(parents=True)
    saved(tmp_path / "g.zarr" / "a" / "b.zarr")
    assert open_stored(tmp_path / "g.zarr", key="a/b.zarr").shape == (4, 3)
    saved(tmp_path / "outside.zarr")
    for key in ("../outside.zarr", "a/../../outside.zarr", str(tmp_path / "outside.zarr")):
        with pytest.raises(ValueError, match="leads out of the Zarr group"):
            open_stored(tmp_path / "g.zarr", key=key)


def test_npy_file_has_no_keys_and_a_format_that_is_not_known_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"key='a': a \.npy file holds one array"):
        open_stored(path, key="a")
    with pytest.raises(ValueError, match="no format 'hdf5'; formats are npy, zarr"):
        open_stored(path, "hdf5")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("x.csv", r"it\.loadtxt\(path"),
        ("x.H5", r"h5py\.File\(path\)"),
        ("x.parquet", r"pandas\.read_parquet"),
        ("x.raw", r"numpy\.memmap\(path"),
        ("x.unheard", r"give its values to it\.asarray"),
        ("x", r"give its values to it\.asarray"),
    ],
)
def test_file_of_another_format_is_refused_with_what_to_do(
    tmp_path: Path, name: str, advice: str
) -> None:
    (tmp_path / name).write_bytes(b"1,2,3\n")
    with pytest.raises(ValueError, match=f"{name}: no .npy file.*{advice}"):
        open_stored(tmp_path / name)


def test_broken_npy_file_is_said_to_be_broken_not_of_another_format(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="truncated") as error:
        open_stored(path)
    assert "it.asarray" not in str(error.value)

"""`it.open`: tensors over arrays in files, .npy and Zarr."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

zarr = pytest.importorskip("zarr")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.arange(360.0).reshape(18, 20)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x + 0,
    "slice": lambda x: x[3:7, 5:9] * 2,
    "steps back": lambda x: x[::-3, 1::2] + 1,
    "transposed": lambda x: x.T * 1,
    "column means": lambda x: x.mean(0),
    "normalised": lambda x: (x - x.mean(0)) / x.std(0),
    "product": lambda x: x.T @ x,
    "one element": lambda x: x[4, 5],
    "few rows": lambda x: x[::9] * 2,
    "few of a block, backwards": lambda x: x[16:1:-7, 19::-6] + 1,
    "few columns, transposed": lambda x: x[1::8, 2::9].T * 3,
    "few rows, read": lambda x: x[::17],
    "mean of few rows": lambda x: x[::9].mean(0),
    "rows by index": lambda x: x[[1, -2, 1]],
    "rows by an index of two axes": lambda x: x[np.array([[3, 4], [17, 0]])].sum(-1),
    "elements by index": lambda x: x[np.array([4, 7, -1]), 3],
    "elements by two": lambda x: x[np.array([4, 7, -1]), np.array([3, 19, 0])],
    "columns by index": lambda x: x[:, [3, 3, 11]],
    "columns by index of the transposed": lambda x: x.T[:, [3, 17]],
    "rows of a block by index": lambda x: x[3:15:2, 4:9][[5, 0, -1]] * 2,
    "block by index, backwards": lambda x: x[::-1, ::-3][[5, 0, -1]],
    "take": lambda x: np.take(x, [5, 17, -18], axis=0),
    "take of all": lambda x: np.take(x, [[5, 359], [-1, 0]]),
    "rows by a computed index": lambda x: x[np.argsort(x[:, 0])[::-5]],
    "diagonal": lambda x: np.diagonal(x),
}


@pytest.fixture(params=["npy", "fortran npy", "zarr 2", "zarr 3", "sharded"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    kind = request.param
    if kind.endswith("npy"):
        np.save(tmp_path / "x.npy", np.asarray(VALUES, order="F" if "fortran" in kind else "C"))
        return tmp_path / "x.npy"
    shards: Any = {"shards": (8, 10)} if kind == "sharded" else {}
    version: Any = 2 if kind == "zarr 2" else 3
    made = zarr.create_array(
        tmp_path / "x.zarr",
        shape=(18, 20),
        chunks=(4, 5),
        dtype="f8",
        zarr_format=version,
        **shards,
    )
    made[...] = VALUES
    return tmp_path / "x.zarr"


@pytest.fixture(params=["strict", "large tiles"], autouse=True)
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "strict":
        monkeypatch.setattr(it.config, "small_elements", 0)
        monkeypatch.setattr(it.config, "tile_elements", 7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_over_a_file_is_the_program_over_its_values(path: Path, name: str) -> None:
    found = PROGRAMS[name](it.open(path))
    np.testing.assert_allclose(np.asarray(found), PROGRAMS[name](VALUES), rtol=1e-12)


def test_writing_to_the_tensor_leaves_the_file(path: Path) -> None:
    x = it.open(path)
    x[2:4] = -1
    wanted = VALUES.copy()
    wanted[2:4] = -1
    np.testing.assert_array_equal(x.numpy(), wanted)
    np.testing.assert_array_equal(it.open(path).numpy(), VALUES)


def test_what_was_opened_can_be_saved_over_itself(path: Path) -> None:
    x = it.open(path) * 2
    it.save(path, x)
    np.testing.assert_array_equal(it.open(path).numpy(), VALUES * 2)
    assert os.listdir(path.parent) == [path.name]


def test_dtype_is_the_users(path: Path) -> None:
    x = it.open(path, dtype="float32")
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x.numpy(), VALUES.astype("f4"))


def test_saved_and_opened_is_the_same(tmp_path: Path) -> None:
    x = it.asarray(VALUES)
    for name in ("x.npy", "x.zarr"):
        it.save(tmp_path / name, x[1:, ::2])
        np.testing.assert_array_equal(it.open(tmp_path / name).numpy(), VALUES[1:, ::2])


def test_array_of_a_group_is_named_by_its_key(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "g")
    group.create_array("a/b", shape=(4,), chunks=(2,), dtype="i4")[...] = 7
    assert it.open(tmp_path / "g", key="a/b").tolist() == [7, 7, 7, 7]
    with pytest.raises(ValueError, match="a group; name one of its arrays"):
        it.open(tmp_path / "g")
    np.save(tmp_path / "x.npy", VALUES)
    with pytest.raises(ValueError, match=r"key='a': a \.npy file holds one array"):
        it.open(tmp_path / "x.npy", key="a")
    with pytest.raises(ValueError, match="no format 'csv'"):
        it.open(tmp_path / "x.npy", format="csv")


def test_file_that_changed_is_an_error_and_no_value(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    x = it.open(tmp_path / "x.npy") + 1
    os.utime(tmp_path / "x.npy", (1, 1))
    with pytest.raises(OSError, match="changed after it was opened"):
        x.numpy()


def test_key_that_leads_out_of_a_group_is_refused(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "g")
    zarr.create_array(tmp_path / "secret.zarr", shape=(4,), chunks=(2,), dtype="i4")
    for key in ("../secret.zarr", "a/../../secret.zarr", str(tmp_path / "secret.zarr")):
        with pytest.raises(ValueError, match="leads out of the Zarr group"):
            it.open(tmp_path / "g", key=key)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [">f8", "<f4", "i2", "?"])
def test_read_only_memory_map_is_opened_and_not_copied(
    tmp_path: Path, order: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", 20_000)
    values = np.asarray((np.arange(70_000) % 99).reshape(700, 100).astype(dtype), order=order)
    np.save(tmp_path / "x.npy", values)
    seen = np.load(tmp_path / "x.npy", mmap_mode="r")
    part = seen[100:] if order == "C" else seen[:, 10:]
    held = {}
    for name, x in {
        "all": it.asarray(seen),
        "part": it.asarray(part),
        "load": it.load(tmp_path / "x.npy", mmap_mode="r"),
        "as": it.asarray(seen, "f8"),
    }.items():
        wanted = part if name == "part" else seen
        np.testing.assert_array_equal(x.numpy(), wanted)
        np.testing.assert_array_equal((x * 2).numpy(), np.asarray(wanted, x.dtype) * 2)
        held[name] = [one.file for one in it.memory().tensors]
        x[0, 0] = 1  # the tensor changes, the file never does
        del x
    assert all(str(tmp_path / "x.npy") in found for found in held.values())
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)


def test_memory_map_that_may_differ_from_its_file_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", 20_000)
    values = np.arange(70_000.0).reshape(700, 100)
    np.save(tmp_path / "x.npy", values)
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[0, 0] = -1
    assert it.asarray(private)[0, 0] == -1
    np.testing.assert_array_equal(it.asarray(private).numpy(), private)
    shared = np.load(tmp_path / "x.npy", mmap_mode="r+")
    x = it.asarray(shared)
    shared[0, 0] = -2
    assert x[0, 0] == 0
    seen = np.load(tmp_path / "x.npy", mmap_mode="r")
    stepped = it.asarray(seen[::2, 1:])
    np.testing.assert_array_equal(stepped.numpy(), seen[::2, 1:])
    os.replace(tmp_path / "x.npy", tmp_path / "y.npy")
    np.save(tmp_path / "x.npy", values * 5)
    np.testing.assert_array_equal(it.asarray(seen).numpy(), seen)
    raw = np.memmap(tmp_path / "raw", "f4", "w+", shape=70_000)
    raw[:] = 3
    raw.flush()
    assert float(it.asarray(np.memmap(tmp_path / "raw", "f4", "r", 400)).sum()) == 3 * 69_900


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", r"it\.loadtxt\(path, delimiter"),
        ("x.npz", r"it\.load\(path\)\[name\]"),
        ("x.parquet", "read_parquet"),
        ("x.h5", r"h5py\.File"),
        ("x.tif", r"PIL\.Image"),
        ("x.safetensors", r"safetensors\.numpy"),
        ("x.what", r"give its values to it\.asarray"),
    ],
)
def test_file_of_another_format_names_the_formats_and_a_remedy(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_bytes(b"1,2,3,4,5,6,7,8,9\n" * 9)
    with pytest.raises(ValueError, match=rf"{name}: .*reads \.npy files and Zarr arrays; .*{text}"):
        it.open(tmp_path / name)

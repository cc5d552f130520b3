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

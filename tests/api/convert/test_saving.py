"""`it.save`: block by block from tiles, whole or not at all, .npy and Zarr."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.convert import saving

zarr = pytest.importorskip("zarr")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "rows": lambda x: x[3:, ...],
    "steps back": lambda x: x[::-2, 1::3],
    "transposed": lambda x: x.T,
    "one row": lambda x: x[2],
    "row of a transpose": lambda x: x.T[1],
    "flat": lambda x: x.T.reshape(-1),
    "diagonal": lambda x: x.diagonal(),
    "empty": lambda x: x[:0],
    "computed": lambda x: x * 2 + 1,
    "sum": lambda x: x.sum(),
}


@pytest.fixture(params=["small blocks and tiles", "large ones"], autouse=True)
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "large ones":
        yield
        return
    monkeypatch.setattr(saving, "WRITE_BLOCK_BYTES", 100)
    monkeypatch.setattr(it.config, "small_elements", 0)
    monkeypatch.setattr(it.config, "tile_elements", 7)
    yield


@pytest.mark.parametrize("view", VIEWS)
def test_file_is_byte_for_byte_numpys(tmp_path: Path, view: str) -> None:
    values = np.arange(99.0).reshape(9, 11)
    it.save(tmp_path / "ours", VIEWS[view](it.asarray(values)))
    np.save(tmp_path / "numpys", np.ascontiguousarray(VIEWS[view](values)))
    if view == "sum":
        np.save(tmp_path / "numpys", VIEWS[view](values))
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["numpys.npy", "ours.npy"]


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "c16"])
def test_every_kind_of_values_is_saved(tmp_path: Path, dtype: str) -> None:
    values = (np.arange(60) % 5).reshape(3, 4, 5).astype(dtype)
    it.save(tmp_path / "x.npy", it.asarray(values))
    it.save(tmp_path / "x.zarr", it.asarray(values))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[...], values)


@pytest.mark.parametrize("view", VIEWS)
def test_zarr_array_has_the_values(tmp_path: Path, view: str) -> None:
    values = np.arange(99.0).reshape(9, 11)
    it.save(tmp_path / "x.zarr", VIEWS[view](it.asarray(values)))
    found = zarr.open_array(tmp_path / "x.zarr", mode="r")
    np.testing.assert_array_equal(found[...], VIEWS[view](values))


def test_chunks_and_format_are_the_users(tmp_path: Path) -> None:
    values = np.arange(99.0).reshape(9, 11)
    it.save(tmp_path / "x", it.asarray(values), format="zarr", chunks=(4, 3))
    found = zarr.open_array(tmp_path / "x", mode="r")
    assert found.chunks == (4, 3)
    np.testing.assert_array_equal(found[...], values)
    it.save(tmp_path / "y.zarr", it.asarray(values), format="npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.zarr.npy"), values)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    x = it.arange(4)
    with pytest.raises(ValueError, match="no format 'hdf5'; formats are npy, zarr"):
        it.save(tmp_path / "x", x, format="hdf5")
    with pytest.raises(ValueError, match=r"a \.npy file has no chunks"):
        it.save(tmp_path / "x.npy", x, chunks=(2,))
    with pytest.raises(ValueError, match=r"chunks \(2, 2\) for a tensor of shape \(4,\)"):
        it.save(tmp_path / "x.zarr", x, chunks=(2, 2))
    with open(tmp_path / "stream", "wb") as stream, pytest.raises(ValueError, match="no path"):
        it.save(stream, x, format="zarr")


@pytest.mark.parametrize("name", ["x.npy", "x.zarr"])
def test_failed_save_leaves_the_old_file_and_no_thread(tmp_path: Path, name: str) -> None:
    import threading

    x = it.asarray(np.arange(99.0).reshape(9, 11))
    it.save(tmp_path / name, x)
    threads = set(threading.enumerate())
    n_writes = iter(range(100))

    def fail(**what: Any) -> None:
        if what["call"] == "write" and next(n_writes) == 1:
            raise OSError(28, "No space left on device")

    monkey = pytest.MonkeyPatch()
    monkey.setattr(saving, "WRITE_BLOCK_BYTES", 100)
    with it.events.on("file", fail), pytest.raises(OSError, match="No space left"):
        it.save(tmp_path / name, x + 1)
    monkey.undo()
    assert os.listdir(tmp_path) == [name]
    assert not {thread for thread in threading.enumerate() if "save" in thread.name} - threads
    found = np.load(tmp_path / name) if name == "x.npy" else zarr.open_array(tmp_path / name)[...]
    np.testing.assert_array_equal(found, x.numpy())
    it.save(tmp_path / name, x + 1)


def test_bytes_are_counted(tmp_path: Path) -> None:
    before = it.stats()["bytes_written"]
    it.save(tmp_path / "x.npy", it.arange(10))
    assert it.stats()["bytes_written"] - before == 80


@pytest.mark.unaudited
@pytest.mark.parametrize("blocks", ["large ones"], indirect=True)
def test_tensor_is_not_held_whole_beside_its_tiles(tmp_path: Path) -> None:
    import tracemalloc

    x = it.ones((4000, 4000)) * 3
    it.compute(x)
    tracemalloc.start()
    it.save(tmp_path / "x.npy", x)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes <= (saving.N_WRITERS + 2) * saving.WRITE_BLOCK_BYTES + (4 << 20)


STREAMS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: np.sqrt(x) * 2 + 1,
    "of sums": lambda x: (x - x.mean(0)) / x.sum(1, keepdims=True),
    "cast": lambda x: (x * 3).astype("float32"),
    "view": lambda x: (x + 1)[::-1, 2:],
}


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_larger_than_memory_is_made_and_written_block_by_block(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", 0)
    monkeypatch.setattr(saving, "WRITE_BLOCK_BYTES", 1 << 20)
    values = np.random.default_rng(0).random((40_000, 20))
    np.save(tmp_path / "x.npy", values)
    with it.init("cpu", memory="4MiB", disk=0):
        it.save(tmp_path / "y.npy", STREAMS[name](it.open(tmp_path / "x.npy")))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), STREAMS[name](values), rtol=1e-6)

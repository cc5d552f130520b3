"""Zarr arrays: what the zarr package reads is what we read, and the other way round."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import os
import sys
import threading
import time
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.boxes import arrays, boxes, memory, slices, whole

from infinitensor.dtypes import bfloat16
from infinitensor.storage import Part, ZarrFile, ZarrWriter

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from infinitensor.ir.region import Box

SHARED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15
)


def tiles(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[Box]:
    starts = [range(0, n, step) for n, step in zip(shape, chunks, strict=True)]
    for index in itertools.product(*starts):
        ends = zip(index, chunks, shape, strict=True)
        yield tuple((i, min(i + step, n)) for i, step, n in ends)


def write(path: Path, values: np.ndarray[Any, Any], chunks: tuple[int, ...], version: int) -> None:
    with ZarrWriter(path, values.shape, values.dtype, chunks, version=version) as writer:
        for box in tiles(values.shape, writer.chunks):
            writer.put(box, values[slices(box)])


@SHARED
@given(st.data())
@pytest.mark.parametrize("version", [2, 3])
def test_box_of_an_array_is_the_slice_of_its_values(
    tmp_path: Path, version: int, data: st.DataObject
) -> None:
    values = data.draw(arrays())
    values = values.astype(values.dtype.newbyteorder("="))
    chunks = tuple(data.draw(st.integers(n // 3 + 1, n + 1)) for n in values.shape)
    write(tmp_path / "x.zarr", values, chunks, version)
    theirs = zarr.open_array(tmp_path / "x.zarr", mode="r")
    assert theirs.metadata.zarr_format == version
    assert np.asarray(theirs[...]).tobytes() == np.ascontiguousarray(values).tobytes()
    file = ZarrFile(tmp_path / "x.zarr")
    assert (file.shape, file.dtype, file.n_bytes) == (values.shape, values.dtype, values.nbytes)
    box = data.draw(boxes(values.shape))
    out = data.draw(memory(values[slices(box)].shape, values.dtype))
    file.read(box, out)
    assert np.array_equal(out, values[slices(box)], equal_nan=values.dtype.kind in "fc")
    assert os.listdir(tmp_path) == ["x.zarr"]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "<i2", "?", "<c8"])
def test_array_of_the_package_is_read(tmp_path: Path, version: Any, kind: str) -> None:
    values = (np.arange(100) % 7).reshape(10, 10).astype(kind)
    theirs = zarr.create_array(
        tmp_path / "x.zarr", shape=(10, 10), chunks=(3, 4), dtype=kind, zarr_format=version
    )
    theirs[...] = values
    file = ZarrFile(tmp_path / "x.zarr")
    assert file.chunks == (3, 4)
    out = np.empty((5, 6), file.dtype)
    Part(file)[2:7, 3:9].read_into(out)
    np.testing.assert_array_equal(out, values[2:7, 3:9])


def test_shards_are_the_tiles_of_a_sharded_array(tmp_path: Path) -> None:
    values = np.arange(64.0).reshape(8, 8)
    theirs = zarr.create_array(
        tmp_path / "x.zarr", shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="f8"
    )
    theirs[...] = values
    file = ZarrFile(tmp_path / "x.zarr")
    assert file.chunks == (4, 4)
    out = np.empty((5, 3))
    file.read(((3, 8), (1, 4)), out)
    np.testing.assert_array_equal(out, values[3:8, 1:4])


def test_chunk_that_is_not_there_holds_the_fill_value(tmp_path: Path) -> None:
    theirs = zarr.create_array(
        tmp_path / "x.zarr", shape=(4,), chunks=(2,), dtype="f8", fill_value=7
    )
    theirs[:2] = 1
    out = np.empty(4)
    ZarrFile(tmp_path / "x.zarr").read(((0, 4),), out)
    assert out.tolist() == [1, 1, 7, 7]


def test_threads_put_and_read_at_once(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((64, 64))
    writer = ZarrWriter(tmp_path / "x.zarr", (64, 64), values.dtype, (16, 16))
    every = list(tiles((64, 64), (16, 16)))
    out = np.empty((64, 64))

    def in_threads(work: Any) -> None:
        threads = [threading.Thread(target=work, args=(every[k::4],)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def put(mine: list[Box]) -> None:
        for box in mine:
            writer.put(box, values[slices(box)])

    def read(mine: list[Box]) -> None:
        for box in mine:
            file.read(box, out[slices(box)])

    in_threads(put)
    writer.commit()
    file = ZarrFile(tmp_path / "x.zarr")
    in_threads(read)
    np.testing.assert_array_equal(out, values)


# --- whole or not at all ------------------------------------------------------------------------


def test_older_array_keeps_its_name_until_the_commit(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", np.zeros((4, 4)), (2, 2), 3)
    writer = ZarrWriter(tmp_path / "x.zarr", (2,), np.dtype("i8"), (2,))
    writer.put(((0, 2),), np.array([1, 2]))
    assert zarr.open_array(tmp_path / "x.zarr", mode="r").shape == (4, 4)
    writer.commit()
    assert np.asarray(zarr.open_array(tmp_path / "x.zarr", mode="r")[...]).tolist() == [1, 2]
    assert os.listdir(tmp_path) == ["x.zarr"]


def test_exception_or_a_dropped_writer_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", np.zeros(4), (2,), 3)
    with (
        pytest.raises(KeyError, match="no"),
        ZarrWriter(tmp_path / "x.zarr", (2,), np.dtype("i8"), (2,)),
    ):
        raise KeyError("no")
    ZarrWriter(tmp_path / "x.zarr", (2,), np.dtype("i8"), (2,))
    assert os.listdir(tmp_path) == ["x.zarr"]
    assert zarr.open_array(tmp_path / "x.zarr", mode="r").shape == (4,)


def test_what_is_no_array_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "thesis").write_text("years of work")
    with pytest.raises(FileExistsError, match="is not replaced"):
        ZarrWriter(tmp_path / "x.zarr", (2,), np.dtype("i8"), (2,))
    zarr.create_group(tmp_path / "group.zarr")
    with pytest.raises(FileExistsError, match="is not replaced"):
        ZarrWriter(tmp_path / "group.zarr", (2,), np.dtype("i8"), (2,))
    assert sorted(os.listdir(tmp_path)) == ["group.zarr", "x.zarr"]


def test_box_that_cuts_a_chunk_is_refused(tmp_path: Path) -> None:
    writer = ZarrWriter(tmp_path / "x.zarr", (5, 5), np.dtype("f8"), (2, 2))
    writer.put(((4, 5), (0, 5)), np.zeros((1, 5)))
    with pytest.raises(ValueError, match=r"cuts chunks of shape \(2, 2\)"):
        writer.put(((1, 4), (0, 5)), np.zeros((3, 5)))
    writer.abort()


def test_bfloat16_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"Zarr has no bfloat16; save x\.astype"):
        ZarrWriter(tmp_path / "x.zarr", (2,), bfloat16, (2,))


# --- changed, missing, absent -------------------------------------------------------------------


def test_chunk_written_after_opening_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", np.zeros(4), (2,), 3)
    file = ZarrFile(tmp_path / "x.zarr")
    time.sleep(0.02)  # longer than the clock of the file system ticks
    zarr.open_array(tmp_path / "x.zarr", mode="r+")[:2] = 1
    out = np.empty(2)
    file.read(((2, 4),), out)
    with pytest.raises(OSError, match=r"changed after it was opened \(chunk c/0 was written"):
        file.read(((0, 2),), out)


def test_array_replaced_after_opening_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", np.zeros(4), (2,), 3)
    file = ZarrFile(tmp_path / "x.zarr")
    write(tmp_path / "x.zarr", np.ones(4), (2,), 3)
    with pytest.raises(OSError, match="its metadata is another"):
        file.read(((0, 4),), np.empty(4))


def test_folder_without_an_array_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no zarr\.json or \.zarray"):
        ZarrFile(tmp_path)
    zarr.create_group(tmp_path / "x.zarr")
    with pytest.raises(ValueError, match="a group; name one of its arrays"):
        ZarrFile(tmp_path / "x.zarr")


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"pip install 'infinitensor\[io\]'"):
        ZarrFile(tmp_path / "x.zarr")
    with pytest.raises(ImportError, match=r"pip install 'infinitensor\[io\]'"):
        ZarrWriter(tmp_path / "x.zarr", (2,), np.dtype("f8"), (2,))


def test_package_is_imported_only_when_needed() -> None:
    from tests.reliability import child

    script = "import infinitensor.storage; reply(zarr='zarr' in sys.modules)"
    assert child.run(script) == {"zarr": False}


# --- S1, S2: forged metadata --------------------------------------------------------------------


def forged(path: Path, version: Any, **changes: Any) -> Path:
    """An array with other metadata."""
    theirs = zarr.create_array(
        path / "x.zarr", shape=(4, 4), chunks=(2, 2), dtype="f8", zarr_format=version
    )
    theirs[...] = 1
    name = path / "x.zarr" / ("zarr.json" if version == 3 else ".zarray")
    metadata = json.loads(name.read_text())
    name.write_text(json.dumps({**metadata, **changes}))
    return path / "x.zarr"


GRID = {"name": "regular", "configuration": {"chunk_shape": [1 << 20, 1 << 20]}}


@pytest.mark.parametrize(
    ("version", "changes", "text"),
    [
        (3, {"shape": [1 << 62, 4]}, "larger than any array"),
        (2, {"shape": [1 << 31, 1 << 31]}, "larger than any array"),
        (3, {"shape": [-1, 4]}, "shape .* cannot be read"),
        (3, {"shape": [True, 4]}, "shape .* cannot be read"),
        (3, {"shape": [1] * 65}, "shape .* cannot be read"),
        (2, {"chunks": [0, 2]}, "chunks"),
        (2, {"chunks": [2]}, "chunks"),
        (3, {"chunk_grid": GRID}, "larger than any we read"),
        (2, {"filters": [{"id": "pickle"}]}, "codec 'pickle' is not one we let decode"),
        (2, {"compressor": {"id": "pickle"}}, "codec 'pickle' is not one we let decode"),
        (3, {"codecs": [{"name": "numcodecs.pickle"}]}, "pickle' is not one we let decode"),
        (2, {"dtype": "|O", "filters": [{"id": "json2"}]}, "'json2' is not one we let decode"),
        (2, {"dtype": "<U5", "fill_value": ""}, "holds no <U5"),
        (3, {"data_type": "string"}, "no Zarr array we can read"),
        (3, {"attributes": {"x": "y" * 300_000}}, "no file of at most"),
    ],
)
def test_forged_metadata_is_refused(
    tmp_path: Path, version: int, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        ZarrFile(forged(tmp_path, version, **changes))


def test_metadata_that_is_nested_or_no_json_is_refused(tmp_path: Path) -> None:
    path = forged(tmp_path, 3)
    for text in ("[" * 100_000, '{"shape":' * 10_000, "", "[]", "3", "\xff", '{"shape": 1e999}'):
        (path / "zarr.json").write_text(text, encoding="latin-1")
        with pytest.raises(ValueError, match=r"x\.zarr: no Zarr array we can read"):
            ZarrFile(path)


def test_pickle_in_a_filter_is_never_run(tmp_path: Path) -> None:
    """As numcodecs would: its codec of this name loads whatever a chunk holds."""
    marker = tmp_path / "marker"
    path = forged(tmp_path, 2, filters=[{"id": "pickle", "protocol": 5}], compressor=None)
    payload = f"cos\nsystem\n(S'touch {marker}'\ntR.".encode()
    for name in os.listdir(path):
        if not name.startswith("."):
            (path / name).write_bytes(payload)
    with pytest.raises(ValueError, match="codec 'pickle'"):
        ZarrFile(path)
    assert not marker.exists()


@pytest.mark.parametrize("version", [2, 3])
def test_chunk_that_is_no_plain_file_is_refused(tmp_path: Path, version: int) -> None:
    path = forged(tmp_path, version)
    name = path / ("0.0" if version == 2 else "c/0/0")
    file = ZarrFile(path)
    name.unlink()
    os.mkfifo(name)  # who opens it waits for a writer
    with pytest.raises(ValueError, match=r"chunk .* is no regular file"):
        file.read(((0, 2), (0, 2)), np.empty((2, 2)))


BOMB = bytes(64 << 20)
BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: gzip.compress(BOMB),
    "zlib": lambda: zlib.compress(BOMB),
    "bz2": lambda: bz2.compress(BOMB),
    "lzma": lambda: lzma.compress(BOMB),
    "two members": lambda: gzip.compress(bytes(4)) + gzip.compress(BOMB),
    "blosc": lambda: numcodecs.blosc.Blosc().encode(BOMB),
    "zstd": lambda: numcodecs.zstd.Zstd().encode(BOMB),
    "lz4": lambda: numcodecs.lz4.LZ4().encode(BOMB),
}


@pytest.mark.parametrize("codec", BOMBS)
def test_chunk_that_unpacks_to_much_is_refused_before_memory_is_taken(
    tmp_path: Path, codec: str
) -> None:
    name = "gzip" if codec == "two members" else codec
    config: dict[str, Any] = {
        "blosc": {"cname": "lz4", "clevel": 5, "shuffle": 1},
        "lz4": {"acceleration": 1},
    }
    level = config.get(name, {} if name == "lzma" else {"level": 1})
    path = forged(tmp_path, 2, compressor={"id": name, **level})
    (path / "0.0").write_bytes(BOMBS[codec]())
    file = ZarrFile(path)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"chunk 0\.0 unpacks to more than 66048 bytes"):
            file.read(((0, 2), (0, 2)), np.empty((2, 2)))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_chunks_compressed_twice_are_refused(tmp_path: Path) -> None:
    twice = {"filters": [{"id": "zlib", "level": 1}], "compressor": {"id": "gzip", "level": 1}}
    with pytest.raises(ValueError, match=r"chunks are compressed 2 times \(gzip, zlib\)"):
        ZarrFile(forged(tmp_path, 2, **twice))


@pytest.mark.parametrize("kind", ["gzip", "zlib", "bz2", "lzma", "blosc", "zstd", "lz4"])
def test_chunks_of_every_compressor_are_read(tmp_path: Path, kind: str) -> None:
    values = np.random.default_rng(0).integers(0, 9, (300, 300))
    made = zarr.create_array(
        tmp_path / "x.zarr",
        shape=values.shape,
        chunks=(200, 300),
        dtype=values.dtype,
        zarr_format=2,
        compressors=numcodecs.get_codec({"id": kind}),
    )
    made[...] = values
    out = np.empty(values.shape, values.dtype)
    ZarrFile(tmp_path / "x.zarr").read(((0, 300), (0, 300)), out)
    np.testing.assert_array_equal(out, values)


def test_whole_box_of_a_zero_dimensional_array(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", np.array(3.0), (), 3)
    out = np.empty(())
    ZarrFile(tmp_path / "x.zarr").read(whole(out), out)
    assert out == 3

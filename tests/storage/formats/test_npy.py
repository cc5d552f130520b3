"""Boxes of .npy files are the slices of what np.load gives; files appear whole or not at all."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.boxes import arrays, boxes, memory, slices, whole

from infinitensor import events
from infinitensor.dtypes import bfloat16
from infinitensor.storage import (
    NpyFile,
    NpyWriter,
    Part,
    Points,
    is_memory,
)
from infinitensor.storage.file_io import byte_runs, strided_read
from infinitensor.storage.file_io.byte_runs import aligned_bytes
from infinitensor.storage.formats import npy

if TYPE_CHECKING:
    from pathlib import Path

# values are drawn between writes that wait for the disk, which may be slow
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
SHARED = settings(suppress_health_check=SLOW, deadline=None)


@pytest.fixture(params=["one span", "many spans"])
def span(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays meet the borders that large ones meet."""
    if request.param == "many spans":
        monkeypatch.setattr(byte_runs, "SPAN_BYTES", 96)
        monkeypatch.setattr(byte_runs, "RUN_BYTES", 24)
        monkeypatch.setattr(byte_runs, "GAP_BYTES", 32)


@SHARED
@given(st.data())
@pytest.mark.usefixtures("span")
def test_box_of_a_file_is_the_slice_of_the_array(tmp_path: Path, data: st.DataObject) -> None:
    values = data.draw(arrays())
    np.save(tmp_path / "x.npy", values)
    file = NpyFile(tmp_path / "x.npy")
    assert (file.shape, file.n_bytes) == (values.shape, values.nbytes)
    assert file.dtype == values.dtype.newbyteorder("=")
    for _ in range(3):
        box = data.draw(boxes(values.shape))
        out = data.draw(memory(values[slices(box)].shape, file.dtype))
        file.read(box, out)
        wanted = values[slices(box)].astype(file.dtype)
        assert np.ascontiguousarray(out).tobytes() == np.ascontiguousarray(wanted).tobytes()


@settings(SHARED, max_examples=40)  # each waits for the disk
@given(st.data())
@pytest.mark.usefixtures("span")
def test_file_written_in_boxes_is_byte_for_byte_numpys(tmp_path: Path, data: st.DataObject) -> None:
    values = data.draw(arrays())
    values = np.array(values.astype(values.dtype.newbyteorder("=")), order="C")
    writer = NpyWriter(tmp_path / "x.npy", values.shape, values.dtype)
    lo, hi = whole(values)[0] if values.ndim else (0, 0)
    cut = data.draw(st.integers(lo, hi))
    for ends in ((lo, cut), (cut, hi)) if values.ndim else (None,):
        box = whole(values) if ends is None else (ends, *whole(values)[1:])
        out = data.draw(memory(values[slices(box)].shape, values.dtype))
        out[...] = values[slices(box)]
        writer.put(box, out)
    writer.commit()
    np.save(tmp_path / "y.npy", values)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(tmp_path: Path, version: tuple[int, int]) -> None:
    values = np.arange(6.0).reshape(2, 3)
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, values, version)
    out = np.empty((2, 3))
    NpyFile(tmp_path / "x.npy").read(((0, 2), (0, 3)), out)
    np.testing.assert_array_equal(out, values)


def test_header_of_python_2_is_read(tmp_path: Path) -> None:
    text = b"{'shape': (2L, 3L,), \"fortran_order\": False, 'descr': '<f8'}"
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    (tmp_path / "x.npy").write_bytes(head + bytes(48))
    assert NpyFile(tmp_path / "x.npy").shape == (2, 3)


def test_shape_with_leading_zeros_is_refused_as_numpy_does(tmp_path: Path) -> None:
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (02, 3), }"
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    (tmp_path / "x.npy").write_bytes(head + bytes(48))
    with pytest.raises(ValueError, match=r"shape \(02, 3\) cannot be read"):
        NpyFile(tmp_path / "x.npy")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("in_c", [True, False])
def test_points_and_steps_of_a_file_are_numpys(
    tmp_path: Path, order: Any, in_c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_c:
        monkeypatch.setattr(strided_read, "_function", lambda _: None)
    values = np.arange(7 * 8 * 9).reshape(7, 8, 9).astype(">i4")
    np.save(tmp_path / "x.npy", np.asarray(values, order=order))
    np.save(tmp_path / "y.npy", np.asarray(values, "<i4", order=order))
    first, second = np.array([6, 0, 3, 3]), np.array([7, 1, 0, 1])
    for name in ("x.npy", "y.npy"):
        file = NpyFile(tmp_path / name)
        out = np.empty((2, 4, 2), "i4")
        file.read(((1, 7), (0, 8), (3, 9)), out, (4, 2, 5))
        np.testing.assert_array_equal(out, values[1:7:4, ::2, 3::5])
        line = np.empty((4, 9), "i4")
        file.read_points(Points((0, 1), (first, second), ((0, 9),), (1,)), line)
        np.testing.assert_array_equal(line, values[first, second])
        few = np.empty((4, 3, 4), "i4").transpose(0, 2, 1)
        file.read_points(Points((0,), (first,), ((0, 8), (1, 9)), (2, 3)), few)
        np.testing.assert_array_equal(few, values[first][:, ::2, 1::3])


def test_bfloat16_comes_back_from_the_bytes_it_is_written_as(tmp_path: Path) -> None:
    values = np.arange(8).astype(bfloat16)
    with NpyWriter(tmp_path / "x.npy", (8,), bfloat16) as writer:
        writer.put(((0, 8),), values)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy").view(bfloat16), values)
    file = NpyFile(tmp_path / "x.npy")
    out = np.empty(3, bfloat16)
    file.read(((2, 5),), out)
    np.testing.assert_array_equal(out, values[2:5])


def test_large_file_is_read_in_parts_by_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy, "KEPT_BYTES", 1 << 20)  # its pages are given back
    values = np.random.default_rng(0).random((1000, 1003))
    np.save(tmp_path / "x.npy", values)
    file = NpyFile(tmp_path / "x.npy")
    wrong: list[tuple[int, int]] = []

    def read(k: int) -> None:
        for lo in range(k, 1000, 128):
            out = np.empty((min(1000 - lo, 300), 501))
            Part(file)[lo : lo + 300, k : k + 501].read_into(out)
            if not np.array_equal(out, values[lo : lo + 300, k : k + 501]):
                wrong.append((k, lo))

    threads = [threading.Thread(target=read, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("has_compiler", [True, False])
def test_runs_that_are_stored_apart_are_read_with_and_without_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_compiler: bool
) -> None:
    if not has_compiler:
        monkeypatch.setattr(strided_read, "_function", lambda _: None)
    values = np.random.default_rng(0).random((64, 8192))
    np.save(tmp_path / "x.npy", values)
    out = np.zeros((64, 300))
    NpyFile(tmp_path / "x.npy").read(((0, 64), (5000, 5300)), out)
    np.testing.assert_array_equal(out, values[:, 5000:5300])


def test_runs_of_a_file_that_was_cut_short_are_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((64, 8192)))
    file = NpyFile(tmp_path / "x.npy")
    os.truncate(tmp_path / "x.npy", 1 << 20)
    with pytest.raises(OSError, match="wanted 64 runs at 40128, got 15"):
        file._fetch_runs(128 + 40_000, 65_536, np.zeros((64, 3200)))
    with pytest.raises(OSError, match="changed after it was opened"):
        file.read(((0, 64), (5000, 5300)), np.zeros((64, 300)))


@pytest.mark.unaudited
def test_narrow_box_holds_a_span_beside_the_memory(tmp_path: Path) -> None:
    import tracemalloc

    np.save(tmp_path / "x.npy", np.zeros((4000, 1000)))
    file = NpyFile(tmp_path / "x.npy")
    out = np.empty((4000, 500))
    byte_runs._buffers.span = None
    tracemalloc.start()
    file.read(((0, 4000), (250, 750)), out)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1.1 * byte_runs.SPAN_BYTES


def n_cached_pages(path: Path) -> int:
    """Pages of a file that are in memory."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        held = np.frombuffer(pages, np.uint8)
        found = np.zeros(-(-held.size // mmap.PAGESIZE), np.uint8)
        address = ctypes.c_void_p(held.ctypes.data)
        call = ctypes.CDLL(None, use_errno=True).mincore
        assert call(address, ctypes.c_size_t(held.size), ctypes.c_void_p(found.ctypes.data)) == 0
        del held
    return int((found & 1).sum())


def test_pass_over_a_large_file_leaves_no_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_memory(tmp_path):
        pytest.skip("here files are memory")
    monkeypatch.setattr(npy, "KEPT_BYTES", 1 << 20)
    np.save(tmp_path / "x.npy", np.zeros((512, 4096)))
    forget_pages(tmp_path / "x.npy")
    file = NpyFile(tmp_path / "x.npy")
    out = np.empty((64, 4096))
    for lo in range(0, 512, 64):
        Part(file)[lo : lo + 64].read_into(out)
    assert n_cached_pages(tmp_path / "x.npy") < 1000  # of 4097


def forget_pages(path: Path) -> None:
    """No page of a file is in memory."""
    with open(path, "rb") as saved:
        os.fsync(saved.fileno())  # what is not yet written cannot go
        os.posix_fadvise(saved.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("is_direct", [True, False])
def test_any_rows_of_a_large_file_are_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_direct: bool
) -> None:
    """Borders of pages are anywhere in rows, the last page ends with the file."""
    monkeypatch.setattr(npy, "KEPT_BYTES", 1 << 20)
    if not is_direct:
        monkeypatch.setattr(NpyFile, "_open_direct", lambda _: -1)
    values = np.arange(3001 * 333, dtype=np.float32).reshape(3001, 333)
    np.save(tmp_path / "x.npy", values)
    file = NpyFile(tmp_path / "x.npy")
    for lo, hi in ((0, 3001), (1, 1000), (777, 3000), (2000, 3001)):
        forget_pages(tmp_path / "x.npy")
        out = np.zeros((hi - lo, 333), np.float32)
        Part(file)[lo:hi].read_into(out)
        assert np.array_equal(out, values[lo:hi])


@pytest.mark.parametrize(("lo", "hi"), [(0, 3001), (64, 1088), (128, 129 + 1024), (2944, 3001)])
def test_rows_come_by_one_read_into_memory_that_begins_in_a_page_as_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lo: int, hi: int
) -> None:
    monkeypatch.setattr(npy, "KEPT_BYTES", 1 << 20)
    monkeypatch.setattr(npy, "DIRECT_BYTES", 1)
    values = np.arange(3001 * 336, dtype=np.float32).reshape(3001, 336)
    np.save(tmp_path / "x.npy", values)
    part = Part(NpyFile(tmp_path / "x.npy"))[lo:hi]
    if is_memory(tmp_path):
        pytest.skip("here files are memory")
    assert part.shift % 64 == 0
    assert part.shift == (128 + lo * 336 * 4) % 4096
    held = aligned_bytes(part.n_bytes + 2 * 4096)
    held[:] = 7
    out = np.ndarray(part.shape, part.dtype, held, part.shift)
    forget_pages(tmp_path / "x.npy")
    seen: list[int] = []
    with events.on("file", lambda **what: seen.append(what["n_bytes"])):
        part.read_into(out)
    assert seen == [part.n_bytes]
    assert np.array_equal(out, values[lo:hi])
    end = part.shift + part.n_bytes
    assert (held[: part.shift] == 7).all(), "bytes before it in its page are not its own"
    assert (held[end:] == 7).all()


def test_what_is_in_memory_already_is_read_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_memory(tmp_path):
        pytest.skip("here files are memory")
    monkeypatch.setattr(npy, "KEPT_BYTES", 1 << 20)
    np.save(tmp_path / "x.npy", np.ones((512, 1024)))
    file = NpyFile(tmp_path / "x.npy")
    n_before = n_cached_pages(tmp_path / "x.npy")
    monkeypatch.setattr(npy, "read_anywhere", None)  # nothing is read past the page cache
    out = np.empty((512, 1024))
    Part(file).read_into(out)
    assert (out == 1).all()
    assert n_cached_pages(tmp_path / "x.npy") == n_before > 1000


# --- what is not there, or no longer ----------------------------------------------------------


def test_file_changed_in_place_is_noticed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    file = NpyFile(tmp_path / "x.npy")
    with open(tmp_path / "x.npy", "r+b") as other:
        other.seek(-1, os.SEEK_END)
        other.write(b"\1")
    os.utime(tmp_path / "x.npy")
    with pytest.raises(OSError, match=r"changed after it was opened.*x\.npy"):
        file.read(((0, 4),), np.empty(4, np.int64))


def test_file_cut_short_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    file = NpyFile(tmp_path / "x.npy")

    def cut(**what: Any) -> None:
        if what["call"] == "read":
            os.truncate(tmp_path / "x.npy", 140)

    with events.on("file", cut), pytest.raises(OSError, match=r"wanted 32 bytes at 128, got 12"):
        file.read(((0, 4),), np.empty(4, np.int64))


def test_file_replaced_under_its_name_is_read_as_it_was(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    file = NpyFile(tmp_path / "x.npy")
    with NpyWriter(tmp_path / "x.npy", (2,), np.dtype("f4")) as writer:
        writer.put(((0, 2),), np.ones(2, "f4"))
    out = np.empty(4, np.int64)
    file.read(((0, 4),), out)
    assert out.tolist() == [0, 1, 2, 3]
    assert NpyFile(tmp_path / "x.npy").key != file.key


@pytest.mark.parametrize("n_bytes", [0, 5, 9, 11, 60, 127, 128, 159])
def test_truncated_file_is_refused_when_opened(tmp_path: Path, n_bytes: int) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    os.truncate(tmp_path / "x.npy", n_bytes)
    with pytest.raises(ValueError, match=r"x\.npy: (no \.npy file|truncated|a header)"):
        NpyFile(tmp_path / "x.npy")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"y\.npy"):
        NpyFile(tmp_path / "y.npy")
    with pytest.raises(ValueError, match="no regular file"):
        NpyFile(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):  # and it does not wait for a writer
        NpyFile(tmp_path / "pipe")


def test_box_or_memory_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    file = NpyFile(tmp_path / "x.npy")
    with pytest.raises(ValueError, match="no box"):
        file.read(((0, 5),), np.empty(5, np.int64))
    with pytest.raises(ValueError, match="does not fit memory of shape"):
        file.read(((0, 2),), np.empty(3, np.int64))
    with pytest.raises(ValueError, match="does not fit memory of shape"):
        file.read(((0, 2),), np.empty(2, np.float64))


# --- writing ----------------------------------------------------------------------------------


def test_boxes_are_put_from_many_threads(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((640, 640))
    writer = NpyWriter(tmp_path / "x.npy", (640, 640), values.dtype)

    def put(k: int) -> None:
        box = ((0, 640), (k * 80, (k + 1) * 80))
        writer.put(box, values[slices(box)])

    threads = [threading.Thread(target=put, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.commit()
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)


def test_missing_values_are_no_file(tmp_path: Path) -> None:
    writer = NpyWriter(tmp_path / "x.npy", (4,), np.dtype("f8"))
    writer.put(((0, 2),), np.zeros(2))
    with pytest.raises(ValueError, match="2 values were never put"):
        writer.commit()
    assert os.listdir(tmp_path) == []


def test_exception_in_the_block_and_a_dropped_writer_leave_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    with pytest.raises(KeyError, match="no"), NpyWriter(tmp_path / "x.npy", (1,), np.dtype("i8")):
        raise KeyError("no")
    NpyWriter(tmp_path / "x.npy", (1,), np.dtype("i8"))
    assert os.listdir(tmp_path) == ["x.npy"]
    assert np.load(tmp_path / "x.npy").tolist() == [0, 1, 2, 3]


def test_of_writers_to_one_name_one_wins_whole(tmp_path: Path) -> None:
    def write(k: int) -> None:
        for _ in range(5):
            with NpyWriter(tmp_path / "x.npy", (5000,), np.dtype("i8")) as writer:
                writer.put(((0, 2500),), np.full(2500, k))
                writer.put(((2500, 5000),), np.full(2500, k))

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(np.load(tmp_path / "x.npy").tolist())) == 1
    assert os.listdir(tmp_path) == ["x.npy"]


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real" / "x.npy", tmp_path / "x.npy")
    with NpyWriter(tmp_path / "x.npy", (), np.dtype("i8")) as writer:
        writer.put((), np.array(7))
    assert os.path.islink(tmp_path / "x.npy")
    assert np.load(tmp_path / "real" / "x.npy") == 7


def test_folder_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.npy").mkdir()
    writer = NpyWriter(tmp_path / "x.npy", (), np.dtype("i8"))
    writer.put((), np.array(7))
    with pytest.raises(IsADirectoryError, match=r"x\.npy"):
        writer.commit()
    assert os.listdir(tmp_path) == ["x.npy"]

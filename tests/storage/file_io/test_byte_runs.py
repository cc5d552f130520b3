"""Boxes as runs of bytes: what is read and written is NumPy's view of the same bytes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.storage.boxes import arrays, boxes, memory, slices

from infinitensor.storage.file_io import byte_runs
from infinitensor.storage.file_io.byte_runs import (
    PAGE_BYTES,
    aligned_bytes,
    bytes_of,
    gather,
    is_run,
    scatter,
    span_buffer,
    steps_of,
)

if TYPE_CHECKING:
    from infinitensor.ir.region import Box

HEAD = 5
"""Bytes before the values, so that nothing is aligned."""
SMALL = {"SPAN_BYTES": 64, "RUN_BYTES": 24, "GAP_BYTES": 8}


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every limit so small that arrays of some hundred bytes reach it."""
    for name, value in SMALL.items():
        monkeypatch.setattr(byte_runs, name, value)
    monkeypatch.setattr(byte_runs, "_buffers", byte_runs._Buffers())


class Disk:
    """Bytes that are read and written like a file, and what was asked of them."""

    def __init__(self, held: np.ndarray[Any, Any]) -> None:
        self.held = np.concatenate([np.full(HEAD, 7, np.uint8), held, np.full(HEAD, 7, np.uint8)])
        self.calls: list[tuple[int, np.ndarray[Any, Any]]] = []

    def fetch(self, offset: int, into: memoryview) -> None:
        out = np.frombuffer(into, np.uint8)
        self.calls.append((offset, out))
        out[...] = self.held[offset : offset + out.size]

    def store(self, offset: int, values: memoryview) -> None:
        given = np.frombuffer(values, np.uint8)
        self.held[offset : offset + given.size] = given

    def spans(self) -> list[tuple[int, int]]:
        return [(offset - HEAD, offset - HEAD + out.size) for offset, out in self.calls]


def flat_bytes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(values.tobytes(), np.uint8)


def first_byte(box: Box, steps: tuple[int, ...]) -> int:
    return HEAD + sum(lo * step for (lo, _), step in zip(box, steps, strict=True))


@pytest.mark.usefixtures("small_limits")
@given(st.data())
@examples(50)
def test_gathered_box_is_the_slice_in_any_memory_and_byte_order(data: st.DataObject) -> None:
    values = np.asarray(data.draw(arrays()), order="C")
    box = data.draw(boxes(values.shape))
    wanted = values[slices(box)]
    out = data.draw(memory(wanted.shape, values.dtype.newbyteorder("=")))
    steps = steps_of(values.shape, values.itemsize)
    disk = Disk(flat_bytes(values))
    gather(disk.fetch, first_byte(box, steps), steps, values.dtype, out)
    np.testing.assert_array_equal(out, wanted)
    own = [n for _, n in disk.calls if not np.may_share_memory(n, out)]
    assert max((n.size for n in own), default=0) <= SMALL["SPAN_BYTES"]


@pytest.mark.usefixtures("small_limits")
@given(st.data())
@examples(50)
def test_scattered_box_changes_its_own_bytes_only(data: st.DataObject) -> None:
    before = np.array(data.draw(arrays()), order="C")
    box = data.draw(boxes(before.shape))
    given = data.draw(memory(before[slices(box)].shape, before.dtype.newbyteorder("=")))
    given[...] = 1
    wanted = before.copy()
    wanted[slices(box)] = given
    steps = steps_of(before.shape, before.itemsize)
    disk = Disk(flat_bytes(before))
    scatter(disk.store, first_byte(box, steps), steps, before.dtype, given)
    assert disk.held.tobytes() == Disk(flat_bytes(wanted)).held.tobytes()


@pytest.mark.usefixtures("small_limits")
def test_small_gaps_are_read_through_and_large_ones_are_not() -> None:
    disk = Disk(np.arange(200, dtype=np.uint8))
    out = np.empty((3, 4), np.uint8)
    gather(disk.fetch, HEAD, (12, 1), out.dtype, out)  # gaps of 8
    assert disk.spans() == [(0, 28)]
    disk.calls.clear()
    gather(disk.fetch, HEAD, (13, 1), out.dtype, out)  # gaps of 9
    assert disk.spans() == [(0, 4), (13, 17), (26, 30)]
    assert out.tolist() == [[0, 1, 2, 3], [13, 14, 15, 16], [26, 27, 28, 29]]


@pytest.mark.usefixtures("small_limits")
def test_long_runs_come_straight_into_the_callers_memory() -> None:
    disk = Disk(np.arange(250, dtype=np.uint8))
    out = np.empty((2, 24), np.uint8)
    gather(disk.fetch, HEAD, (25, 1), out.dtype, out)
    assert disk.spans() == [(0, 24), (25, 49)]
    assert all(np.shares_memory(into, out) for _, into in disk.calls)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("takes", [True, False])
def test_runs_far_apart_are_offered_together_and_read_one_by_one_if_declined(takes: bool) -> None:
    disk = Disk(np.arange(200, dtype=np.uint8))
    out = np.zeros((3, 4), np.uint8)
    offered = []

    def fetch_runs(offset: int, step: int, runs: np.ndarray[Any, Any]) -> bool:
        offered.append((offset - HEAD, step, runs.shape))
        return takes

    gather(disk.fetch, HEAD + 1, (50, 1), out.dtype, out, fetch_runs)
    assert offered[0] == (1, 50, (3, 4))
    wanted = np.zeros((3, 4)) if takes else [[1, 2, 3, 4], [51, 52, 53, 54], [101, 102, 103, 104]]
    np.testing.assert_array_equal(out, wanted)
    assert len(disk.calls) == (0 if takes else 3)


def test_nothing_is_read_or_written_for_an_empty_box_and_one_value_for_no_axes() -> None:
    disk = Disk(np.arange(16, dtype=np.uint8))
    gather(disk.fetch, HEAD, (8, 1), np.dtype("u1"), np.empty((0, 3), np.uint8))
    scatter(disk.store, HEAD, (8, 1), np.dtype("u1"), np.empty((2, 0), np.uint8))
    assert disk.calls == []
    out = np.empty((), np.uint16)
    gather(disk.fetch, HEAD + 2, (), np.dtype(">u2"), out)
    assert out == 0x0203


def test_run_is_one_only_if_bytes_and_memory_are_the_same() -> None:
    out = np.empty((2, 3), "<i4")
    assert is_run(out, (12, 4), out.dtype)
    assert not is_run(out, (16, 4), out.dtype)
    assert not is_run(out, (12, 4), np.dtype(">i4"))
    assert not is_run(out.T, (8, 4), out.dtype)
    assert bytes_of(out).nbytes == out.nbytes


@given(st.lists(st.integers(1, 5), max_size=4), st.sampled_from([1, 2, 8, 16]))
@examples(20)
def test_steps_are_the_strides_of_a_new_array(shape: list[int], n_bytes: int) -> None:
    assert steps_of(shape, n_bytes) == np.empty(shape, f"V{n_bytes}").strides


def test_aligned_bytes_begin_at_a_page_and_each_thread_has_its_own_buffer() -> None:
    for n in (1, PAGE_BYTES, 3 * PAGE_BYTES + 1):
        held = aligned_bytes(n)
        assert (held.size, held.ctypes.data % PAGE_BYTES) == (n, 0)
    found: list[np.ndarray[Any, Any]] = []
    thread = threading.Thread(target=lambda: found.append(span_buffer()))
    thread.start()
    thread.join()
    assert span_buffer() is span_buffer()
    assert not np.shares_memory(found[0], span_buffer())

"""Reads and writes past the page cache: the bytes of the file, wherever memory begins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor.storage.file_io import direct_io
from infinitensor.storage.file_io.byte_runs import PAGE_BYTES, aligned_bytes
from infinitensor.storage.file_io.direct_io import (
    DirectWriter,
    padded_bytes,
    read_anywhere,
    read_direct,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOUNCE_BYTES = 2 * PAGE_BYTES
N_BYTES = 7 * PAGE_BYTES + 123


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that reads of a few pages fill several times."""
    monkeypatch.setattr(direct_io, "BOUNCE_BYTES", BOUNCE_BYTES)
    monkeypatch.setattr(direct_io, "_bounce", direct_io._Bounce())


def opened(path: Path, flags: int) -> int:
    """A descriptor past the page cache; where the file system has none, a usual one."""
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError:
        return os.open(path, flags)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """A file whose length is no multiple of a page, and its bytes."""
    values = np.random.default_rng(3).integers(0, 256, N_BYTES, dtype=np.uint8)
    (tmp_path / "x").write_bytes(values.tobytes())
    file = opened(tmp_path / "x", os.O_RDONLY)
    yield file, values
    os.close(file)


def memory_at(shift: int, n_bytes: int) -> np.ndarray[Any, Any]:
    """Memory that begins so far behind a page, with a byte around it on both sides."""
    held = aligned_bytes(shift + n_bytes + PAGE_BYTES)
    held[...] = 99
    return held[shift : shift + n_bytes]


@given(
    shift=st.sampled_from((0, 1, 64, PAGE_BYTES - 1)),
    page=st.integers(0, 7),
    n_bytes=st.integers(1, N_BYTES + 5000),
)
@examples(40)
def test_read_from_a_page_border_gives_all_bytes_or_those_up_to_the_end(
    stored: tuple[int, np.ndarray[Any, Any]], shift: int, page: int, n_bytes: int
) -> None:
    file, values = stored
    out = memory_at(shift, n_bytes)
    wanted = values[page * PAGE_BYTES :][:n_bytes]
    assert read_direct(file, "x", page * PAGE_BYTES, out.data) == wanted.size
    np.testing.assert_array_equal(out[: wanted.size], wanted)


@given(
    like_file=st.booleans(),
    shift=st.integers(0, PAGE_BYTES - 1),
    offset=st.integers(0, N_BYTES) | st.sampled_from((0, PAGE_BYTES - 1, PAGE_BYTES)),
    n_bytes=st.integers(1, N_BYTES + 5000) | st.integers(1, 3),
)
@examples(80)
def test_read_at_any_offset_gives_the_bytes_there_and_touches_nothing_else(
    stored: tuple[int, np.ndarray[Any, Any]],
    like_file: bool,
    shift: int,
    offset: int,
    n_bytes: int,
) -> None:
    file, values = stored
    shift = offset % PAGE_BYTES if like_file else shift
    around = aligned_bytes(shift + n_bytes + 1)
    around[...] = 99
    out = around[shift : shift + n_bytes]
    wanted = values[offset : offset + n_bytes]
    n_read = read_anywhere(file, "x", offset, out.data)
    assert n_read <= wanted.size
    assert n_read == wanted.size or offset + n_read == N_BYTES
    np.testing.assert_array_equal(out[:n_read], wanted[:n_read])
    assert (around[:shift] == 99).all()
    assert around[-1] == 99


def test_long_read_into_memory_like_the_file_is_made_in_several_calls(
    stored: tuple[int, np.ndarray[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, values = stored
    monkeypatch.setattr(direct_io, "MOST_CALL_BYTES", 2 * PAGE_BYTES)
    out = memory_at(100, N_BYTES - 100)
    assert read_anywhere(file, "x", 100, out.data) == N_BYTES - 100
    np.testing.assert_array_equal(out, values[100:])


@given(st.lists(st.sampled_from((0, 1, 4095, 4096, 4097, 8192, 20_000)), max_size=5), st.booleans())
@examples(30)
def test_written_pieces_follow_each_other_and_zeros_fill_the_last_page(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], at_pages: bool
) -> None:
    path = tmp_path_factory.mktemp("direct") / "x"
    file = opened(path, os.O_RDWR | os.O_CREAT)
    rng = np.random.default_rng(sum(lengths))
    writer, whole = DirectWriter(file, "x"), b""
    for n in lengths:
        piece = memory_at(0 if at_pages else 3, n)
        piece[...] = rng.integers(1, 256, n, dtype=np.uint8)
        writer.write(piece.data)
        whole += piece.tobytes()
    writer.close()
    os.close(file)
    assert path.read_bytes() == whole.ljust(padded_bytes(len(whole)), b"\0")


@given(st.integers(0, 1 << 40))
@examples(60)
def test_padded_length_is_the_next_multiple_of_a_page(n: int) -> None:
    assert padded_bytes(n) % PAGE_BYTES == 0
    assert n <= padded_bytes(n) < n + PAGE_BYTES

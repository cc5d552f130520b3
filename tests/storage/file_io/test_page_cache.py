"""Which pages of a file are in memory is asked without reading any."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from infinitensor.storage.file_io.byte_runs import PAGE_BYTES
from infinitensor.storage.file_io.page_cache import CachedPages, _mincore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

N_BYTES = 64 * PAGE_BYTES + 10


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    if _mincore() is None:
        pytest.skip("this system does not say what is in memory")
    path = tmp_path / "x"
    path.write_bytes(bytes(N_BYTES))
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.pread(file, N_BYTES, 0)
    yield file
    os.close(file)


def pages_of(file: int, path: Path) -> CachedPages:
    return CachedPages(file, str(path), os.fstat(file))


def test_what_was_just_read_is_in_memory_up_to_the_last_byte(file: int, tmp_path: Path) -> None:
    pages = pages_of(file, tmp_path / "x")
    assert pages.has(0, N_BYTES)
    assert pages.has(N_BYTES - 1, 1)
    assert pages.has(PAGE_BYTES - 1, 2)


def test_bytes_beyond_the_end_and_no_bytes_are_not_in_memory(file: int, tmp_path: Path) -> None:
    pages = pages_of(file, tmp_path / "x")
    assert not pages.has(0, N_BYTES + 1)
    assert not pages.has(N_BYTES, 1)
    assert not pages.has(0, 0)


def test_one_page_that_is_missing_is_seen_and_asking_does_not_bring_it(
    file: int, tmp_path: Path
) -> None:
    pages = pages_of(file, tmp_path / "x")
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no pages around those that are read
    if pages.has(0, N_BYTES):
        pytest.skip("files here are kept in memory")
    os.pread(file, 1, 5 * PAGE_BYTES)
    for _ in range(2):
        assert pages.has(5 * PAGE_BYTES, PAGE_BYTES)
        assert not pages.has(5 * PAGE_BYTES, PAGE_BYTES + 1)
        assert not pages.has(5 * PAGE_BYTES - 1, 2)


def test_empty_file_and_a_file_of_another_user_have_nothing_in_memory(
    file: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    empty = os.open(tmp_path / "empty", os.O_RDONLY)
    assert not pages_of(empty, tmp_path / "empty").has(0, 1)
    os.close(empty)
    monkeypatch.setattr(os, "geteuid", lambda: os.fstat(file).st_uid + 1)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not pages_of(file, tmp_path / "x").has(0, 1)

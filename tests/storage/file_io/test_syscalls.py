"""Calls to the system: whole reads and writes, announced to hooks that may take their place."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from infinitensor import events
from infinitensor.storage.file_io import syscalls
from infinitensor.storage.file_io.syscalls import (
    open_file,
    read_at,
    remove,
    rename,
    reserve,
    sync_path,
    write_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    file = open_file(str(tmp_path / "x"), os.O_RDWR | os.O_CREAT)
    yield file
    os.close(file)


@pytest.fixture
def seen() -> Iterator[list[tuple[Any, ...]]]:
    calls: list[tuple[Any, ...]] = []
    with events.on("file", lambda **what: calls.append(tuple(what.values()))):
        yield calls


def test_long_read_and_write_are_whole_though_each_call_is_short(
    file: int, monkeypatch: pytest.MonkeyPatch, seen: list[tuple[Any, ...]]
) -> None:
    monkeypatch.setattr(syscalls, "MOST_CALL_BYTES", 4)
    write_at(file, "x", 3, memoryview(b"0123456789"))
    into = bytearray(13)
    assert read_at(file, "x", 0, memoryview(into)) == 13
    assert into == b"\0\0\0" + b"0123456789"
    writes = [("write", "x", 3, 4), ("write", "x", 7, 4), ("write", "x", 11, 2)]
    assert seen[:3] == writes
    assert [n for *_, n in seen[3:]] == [4, 4, 4, 1]


def test_read_is_shorter_only_where_the_file_ends(file: int) -> None:
    write_at(file, "x", 0, memoryview(b"abc"))
    into = bytearray(b"......")
    assert read_at(file, "x", 1, memoryview(into)) == 2
    assert into == b"bc...."
    assert read_at(file, "x", 3, memoryview(into)) == 0
    assert read_at(file, "x", 0, memoryview(b"")) == 0


def test_what_a_hook_raises_takes_the_place_of_the_call(file: int, tmp_path: Path) -> None:
    path, other = str(tmp_path / "x"), str(tmp_path / "y")
    write_at(file, path, 0, memoryview(b"old"))

    def fail(**what: Any) -> None:
        raise OSError(errno.ENOSPC, "no room", what["path"])

    calls: dict[str, Callable[[], Any]] = {
        "write": lambda: write_at(file, path, 0, memoryview(b"new")),
        "rename": lambda: rename(path, other),
        "remove": lambda: remove(path),
        "open": lambda: open_file(other, os.O_CREAT | os.O_RDWR),
    }
    with events.on("file", fail):
        for call in calls.values():
            with pytest.raises(OSError, match="no room"):
                call()
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_programs_started_by_us_do_not_get_the_descriptor(file: int) -> None:
    assert not os.get_inheritable(file)


def test_name_in_an_open_folder_is_found_wherever_the_path_leads_by_now(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").write_bytes(b"ours")
    folder = os.open(tmp_path / "old", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "old").rename(tmp_path / "moved")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").write_bytes(b"theirs")
    path = str(tmp_path / "old" / "x")
    file = open_file(path, os.O_RDONLY, folder=folder)
    assert os.read(file, 10) == b"ours"
    remove(path, folder)
    assert (tmp_path / "old" / "x").exists()
    assert not (tmp_path / "moved" / "x").exists()
    os.close(file)
    os.close(folder)


def test_reserved_bytes_lengthen_the_file_and_keep_what_is_in_it(file: int, tmp_path: Path) -> None:
    write_at(file, "x", 0, memoryview(b"abcd"))
    reserve(file, "x", 2, 100)
    assert (tmp_path / "x").read_bytes() == b"abcd".ljust(102, b"\0")


def test_name_that_is_taken_away_twice_is_no_error_and_a_folder_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    remove(str(tmp_path / "x"))
    remove(str(tmp_path / "x"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        remove(str(tmp_path / "folder"))


def test_renamed_file_replaces_the_other_and_its_folder_is_synced(
    tmp_path: Path, seen: list[tuple[Any, ...]]
) -> None:
    (tmp_path / "x").write_bytes(b"new")
    (tmp_path / "y").write_bytes(b"old")
    rename(str(tmp_path / "x"), str(tmp_path / "y"))
    sync_path(str(tmp_path))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"y": b"new"}
    assert [call for call, *_ in seen] == ["rename", "open", "sync"]

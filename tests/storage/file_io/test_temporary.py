"""Temporary files beside a name: one takes its place whole, what the dead left goes."""

from __future__ import annotations

import ctypes
import fcntl
import os
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from infinitensor.storage.file_io.temporary import (
    Unfinished,
    discard,
    new_file,
    new_folder,
    put_file,
    put_folder,
)

if TYPE_CHECKING:
    from pathlib import Path


class Note(Unfinished):
    """A file of one word."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.made, self._file = new_file(self.path)
        self._discard = weakref.finalize(self, discard, self.made, self._file, os.getpid())
        os.write(self._file, b"new")

    def _finish(self) -> None:
        put_file(self.made, self.path)


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_block_that_ends_well_puts_the_file_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with Note(tmp_path / "x"):
        assert (tmp_path / "x").read_bytes() == b"old"
    assert contents(tmp_path) == {"x": b"new"}


def test_exception_in_the_block_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(KeyError, match="mine"), Note(tmp_path / "x") as note:
        raise KeyError("mine")
    note.abort()  # nothing the second time
    assert contents(tmp_path) == {"x": b"old"}


@pytest.mark.parametrize("make", [new_file, new_folder])
def test_new_one_is_locked_hidden_and_beside_its_name(tmp_path: Path, make: Any) -> None:
    made, file = make(str(tmp_path / "x"))
    assert os.path.dirname(made) == str(tmp_path)
    assert os.path.basename(made).startswith(".x.")
    again = os.open(made, os.O_RDONLY)
    with pytest.raises(BlockingIOError, match="unavailable"):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(again)
    discard(made, file, os.getpid())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("make", [new_file, new_folder])
def test_next_writer_to_a_name_removes_what_the_dead_left_for_this_name_only(
    tmp_path: Path, make: Any
) -> None:
    living, file = new_file(str(tmp_path / "x[1]"))
    for name in (".x[1].dead.tmp", ".x1.dead.tmp", ".x[1].dead.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".x[1].folder.tmp").mkdir()
    (tmp_path / ".x[1].folder.tmp" / "0").write_bytes(b"")
    made, lock = make(str(tmp_path / "x[1]"))
    wanted = {".x1.dead.tmp", ".x[1].dead.txt", *(os.path.basename(p) for p in (living, made))}
    assert set(os.listdir(tmp_path)) == wanted
    os.close(file)
    os.close(lock)


def test_forked_child_only_lets_go_of_what_is_its_parents(tmp_path: Path) -> None:
    made, file = new_file(str(tmp_path / "x"))
    discard(made, file, os.getpid() + 1)
    assert os.path.exists(made)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("replaces", [True, False])
def test_folder_takes_the_place_of_another_and_nothing_is_left_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool, replaces: bool
) -> None:
    if not exchanges:  # a system without renameat2
        monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: object())
    if replaces:
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "old").write_bytes(b"old")
    made, lock = new_folder(str(tmp_path / "x"))
    with open(os.path.join(made, "new"), "wb") as file:
        file.write(b"new")
    put_folder(made, str(tmp_path / "x"))
    os.close(lock)
    assert contents(tmp_path) == {"x/new": b"new"}
    assert os.listdir(tmp_path) == ["x"]

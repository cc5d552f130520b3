"""The folder of a process: for its files alone, locked while it lives, gone when it is closed."""

from __future__ import annotations

import fcntl
import gc
import os
import stat
from typing import TYPE_CHECKING

import pytest

from infinitensor.storage.spilled import spill_folder
from infinitensor.storage.spilled.spill_folder import (
    OWNER,
    PREFIX,
    ProcessFolder,
    is_memory,
    remove_stale,
    start_time,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_folder_says_who_lives_in_it_and_is_gone_when_closed(tmp_path: Path) -> None:
    folder = ProcessFolder(str(tmp_path / "made" / "too"))
    with open(os.path.join(folder.path, OWNER)) as file:
        assert file.read().split() == [str(os.getpid()), start_time(os.getpid())]
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    os.close(folder.create("tile"))
    folder.close()
    assert os.listdir(tmp_path / "made" / "too") == []


def test_folder_that_nobody_holds_goes_by_itself(tmp_path: Path) -> None:
    folder = ProcessFolder(str(tmp_path))
    os.close(folder.create("tile"))
    del folder
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_files_are_for_this_user_and_made_once(tmp_path: Path) -> None:
    folder = ProcessFolder(str(tmp_path))
    file = folder.create("tile", direct=folder.is_direct)
    assert stat.S_IMODE(os.fstat(file).st_mode) == 0o600
    os.close(file)
    with pytest.raises(FileExistsError, match="tile"):
        folder.create("tile")
    folder.remove("tile")
    folder.remove("tile")  # as far as that can be done
    with pytest.raises(FileNotFoundError, match="tile"):
        folder.open("tile", False)
    folder.close()


def test_files_are_found_though_the_folder_has_another_name_by_now(tmp_path: Path) -> None:
    folder = ProcessFolder(str(tmp_path))
    file = folder.create("tile")
    os.write(file, b"ours")
    os.close(file)
    os.rename(folder.path, tmp_path / "moved")
    os.mkdir(folder.path)
    file = folder.open("tile", False)
    assert os.read(file, 9) == b"ours"
    os.close(file)
    folder.close()
    assert os.listdir(tmp_path / "moved") == []


def test_stale_are_those_whose_lock_can_be_had(tmp_path: Path) -> None:
    living = ProcessFolder(str(tmp_path))
    dead = tmp_path / f"{PREFIX}dead"
    dead.mkdir()
    (dead / OWNER).write_text("1 1\n")
    (dead / "0").write_bytes(b"tile")
    remove_stale(str(tmp_path))
    assert os.listdir(tmp_path) == [os.path.basename(living.path)]
    living.close()
    remove_stale(str(tmp_path / "none"))  # no folder, nothing to remove


@pytest.mark.parametrize(("began", "is_left"), [("mine", True), ("1", False)])
def test_where_locks_do_not_work_pid_and_start_time_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: str, is_left: bool
) -> None:
    def no_locks(file: int, flags: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    began = start_time(os.getpid()) if began == "mine" else began  # else the number is used again
    folder = tmp_path / f"{PREFIX}x"
    folder.mkdir()
    (folder / OWNER).write_text(f"{os.getpid()} {began}\n")
    remove_stale(str(tmp_path))
    assert folder.exists() == is_left


def test_folder_that_others_may_enter_is_refused_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = os.mkdir

    def open_to_all(path: str, mode: int = 0) -> None:
        made(path)
        os.chmod(path, 0o755)

    monkeypatch.setattr(os, "mkdir", open_to_all)
    with pytest.raises(PermissionError, match="others may enter the folder"):
        ProcessFolder(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_start_of_a_process_is_known_while_it_lives_only() -> None:
    assert start_time(os.getpid()).isdigit()
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    assert start_time(child) == ""


def test_memory_file_systems_are_known_also_of_folders_not_yet_made(tmp_path: Path) -> None:
    assert is_memory(tmp_path / "not" / "yet") == is_memory(tmp_path)
    if os.path.ismount("/dev/shm"):
        assert is_memory("/dev/shm/not/yet")
    assert spill_folder.default_folder()

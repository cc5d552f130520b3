"""Compilers that may hang, and checks that C of ours is compiled with where that is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from infinitensor import native

HANGING = "#!/bin/sh\necho >> $0.calls\nsleep 600\n"


def compiler_of(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in the place of the compiler, with an empty cache."""
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(path.parent))
    return path


def test_a_compiler_that_hangs_is_an_error_soon_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it started holds its pipes, and is ended too."""
    hanging = compiler_of(tmp_path / "cc", HANGING, monkeypatch)
    monkeypatch.setattr(native, "LIMIT_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(native.CompilerError, match="has not ended after 0 s"):
        native.library("int64_t never_seen_before;")
    with pytest.raises(native.CompilerError, match="did not end before"):
        native.library("int64_t nor_was_this;")
    assert time.monotonic() - begin < 30
    assert (tmp_path / f"{hanging.name}.calls").read_text() == "\n"


def test_a_compiler_that_fails_is_an_error_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler_of(tmp_path / "cc", "#!/bin/sh\necho no room >&2\nexit 1\n", monkeypatch)
    monkeypatch.delenv("INFINITENSOR_SANITIZE", raising=False)
    with pytest.raises(native.CompilerError, match="failed: no room"):
        native.library("int64_t never_seen_before;")


def test_a_full_disk_is_a_failure_of_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "compiler", lambda: "cc")
    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    with pytest.raises(native.CompilerError, match=r"nothing can be compiled: .*No space left"):
        native.library("int64_t never_seen_before;")


STOPPED = """
import os, signal, sys, threading
from infinitensor import native

start = threading.Thread.start

def start_and_press(thread):
    start(thread)
    signal.raise_signal(signal.SIGINT)

os.environ["XDG_CACHE_HOME"] = sys.argv[1]
threading.Thread.start = start_and_press
try:
    native.begin("int seven(void) { return 7; }")
except KeyboardInterrupt:
    print("heard")
print(native.library("int seven(void) { return 7; }").seven())
"""


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
def test_a_process_ends_though_ctrl_c_came_while_a_compiler_was_started(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["heard", "7"], done.stderr


def test_checked_code_is_not_what_was_built_with_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "find_built", Path)
    monkeypatch.delenv("INFINITENSOR_SANITIZE", raising=False)
    assert native._prebuilt("api/session/lock") == Path("api/session/lock")
    monkeypatch.setenv("INFINITENSOR_SANITIZE", "address")
    assert native._prebuilt("api/session/lock") is None


def test_checked_code_has_flags_and_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("INFINITENSOR_SANITIZE", raising=False)
    monkeypatch.setattr(native, "IS_CHECKED", False)
    assert native.flags() == native.FLAGS
    plain = native.cache_folder()
    monkeypatch.setenv("INFINITENSOR_SANITIZE", "address,undefined")
    assert native.cache_folder() != plain
    assert {"-fsanitize=address", "-fsanitize=undefined"} <= set(native.flags())
    monkeypatch.setenv("INFINITENSOR_SANITIZE", "adress")
    with pytest.raises(ValueError, match="'adress' is none of address, "):
        native.flags()


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
def test_libraries_are_kept_for_the_next_process_where_only_their_owner_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    source = "int kept_for_the_next_process;"
    native.library(source)
    folder = native.cache_folder()
    (kept,) = folder.iterdir()
    assert os.stat(folder).st_mode & 0o777 == 0o700
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(subprocess, "run", None)  # would fail if it compiled again
    native.library(source)
    folder.chmod(0o777)  # now others may have put something there
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    shared = native.cache_folder()
    assert (
        shared == tmp_path / "temporary" / f"infinitensor-{os.getuid()}/infinitensor/{folder.name}"
    )
    assert os.stat(shared).st_mode & 0o777 == 0o700
    assert kept.exists()
    shared.parent.chmod(0o777)
    alone = native.cache_folder()
    assert alone not in (folder, shared)
    assert alone == native.cache_folder()

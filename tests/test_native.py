"""Compilers that may hang, and checks that C of ours is compiled with where that is asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from infinitensor import native

if TYPE_CHECKING:
    from pathlib import Path


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def test_a_compiler_that_hangs_is_an_error_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = script(tmp_path / "cc", "import time\ntime.sleep(600)\n")
    monkeypatch.setenv("CC", str(hanging))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "LIMIT_S", 0.2)
    with pytest.raises(native.CompilerError, match="has not ended after 0 s"):
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

"""Compilers that may hang, and checks that C of ours is compiled with where that is asked for."""

from __future__ import annotations

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

"""What a machine has is looked for when a session starts, and not again."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import infinitensor as it
from infinitensor import native
from infinitensor.devices import find_tools

if TYPE_CHECKING:
    import pytest


def test_a_session_keeps_the_tools_that_it_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_find_compiler", lambda name, path: "cc")
    with it.init("cpu"):
        assert it.Mesh.current().tools.has_compiler
        monkeypatch.setattr(native, "_find_compiler", lambda name, path: None)
        assert it.Mesh.current().tools.has_compiler
    with it.init("cpu"):
        assert not it.Mesh.current().tools.has_compiler


def test_numba_is_looked_for_and_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not find_tools().has_numba
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert find_tools().has_numba

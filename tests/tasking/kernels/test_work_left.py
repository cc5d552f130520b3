"""Kernels of little work run step by step until compiling has paid, or has happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.tasking.kernels import work_left
from infinitensor.tasking.kernels.work_left import PAID_OFF, WorkLeft

if TYPE_CHECKING:
    import pytest


def test_it_is_done_when_all_of_it_was_spent() -> None:
    left = WorkLeft()
    left.spend(PAID_OFF - 1)
    assert not left.is_done()
    left.spend(1)
    assert left.is_done()


def test_files_are_looked_for_once_and_not_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    loaded: set[str] = set()
    monkeypatch.setattr(work_left, "is_built", looked.append)
    monkeypatch.setattr(work_left, "is_loaded", loaded.__contains__)
    left = WorkLeft("int f;")
    assert looked == []
    assert not left.is_done()
    assert not left.is_done()
    assert looked == ["int f;"]
    loaded.add("int f;")
    assert left.is_done()


def test_what_was_compiled_before_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_left, "is_built", lambda source: True)
    assert WorkLeft("int f;").is_done()

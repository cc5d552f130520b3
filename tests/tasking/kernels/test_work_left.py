"""Kernels of little work run step by step until compiling has paid, or has happened."""

from __future__ import annotations

import pytest

from infinitensor.tasking.kernels import work_left
from infinitensor.tasking.kernels.work_left import BEGUN, PAID_OFF, WorkLeft


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
    monkeypatch.setattr(work_left, "is_compiled", loaded.__contains__)
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


def test_a_compiler_is_started_once_some_of_it_is_spent_and_steps_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    done: set[str] = set()
    monkeypatch.setattr(work_left, "begin", begun.append)
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    monkeypatch.setattr(work_left, "is_compiled", done.__contains__)
    monkeypatch.setattr(work_left, "_N_CORES", 2)
    left = WorkLeft("int f;")
    left.spend(BEGUN - 1)
    assert not begun
    left.spend(1)
    left.spend(BEGUN)
    assert begun == ["int f;"]
    assert not left.is_done()
    done.add("int f;")
    assert left.is_done()


def test_one_core_compiles_when_it_has_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_left, "begin", lambda source: pytest.fail("it would take the core"))
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    monkeypatch.setattr(work_left, "_N_CORES", 1)
    left = WorkLeft("int f;")
    left.spend(PAID_OFF)
    assert left.is_done()


def test_what_is_paid_for_does_not_wait_for_a_compiler_that_is_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    monkeypatch.setattr(work_left, "is_compiled", lambda source: False)
    monkeypatch.setattr(work_left, "is_compiling", lambda source: True)
    left = WorkLeft("int f;")
    left.spend(PAID_OFF)
    assert not left.is_done()
    monkeypatch.setattr(work_left, "is_compiled", lambda source: True)
    assert left.is_done()


def test_of_several_sources_all_have_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    done: set[str] = set()
    monkeypatch.setattr(work_left, "begin", begun.append)
    monkeypatch.setattr(work_left, "is_built", "int f;".__eq__)
    monkeypatch.setattr(work_left, "is_compiled", done.__contains__)
    monkeypatch.setattr(work_left, "_N_CORES", 2)
    left = work_left.left_of_all(("int f;", "int g;", "int h;"))
    assert work_left.left_of_all(("int f;", "int g;", "int h;")) is left
    assert not left.is_done()
    left.spend(BEGUN)
    assert begun == ["int g;", "int h;"]
    for source in begun:
        assert not left.is_done()
        done.add(source)
    assert left.is_done()

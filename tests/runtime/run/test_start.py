"""Compilers start with a program, not with its plan."""

from __future__ import annotations

from typing import Any

import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor import native
from infinitensor.runtime.run import start

needs_compiler = pytest.mark.skipif(native.compiler() is None, reason="nothing is generated")


@needs_compiler
@pytest.mark.parametrize(("devices", "n_begun"), [("cpu", 1), ("null", 0)])
def test_what_is_generated_is_compiled_when_the_program_first_starts(
    devices: str, n_begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(start, "begin", begun.append)
    with strict(devices, 0, compile="always"):
        x: Any = it.sqrt(it.ones((300, 200)) * 3 + 1) - 2
        assert it.plan(x).n_tasks
        assert begun == [], "a plan compiles nothing"
        it.compute(x)
        assert len(begun) == n_begun

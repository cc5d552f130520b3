"""Kernels that are compiled beside what computes the same: started once they are."""

from __future__ import annotations

import threading

import pytest

from infinitensor.events import lane
from infinitensor.jit import Launch
from infinitensor.ops.backend.compile_beside import can_start

torch = pytest.importorskip("torch")


def test_what_is_recorded_is_noted_until_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Launch("source", 5, [100])
    launch._compiled = threading.Event()
    tiles = (torch.zeros(4),)
    assert not can_start(launch, tiles)
    monkeypatch.setattr(lane, "noted", [])
    assert not can_start(launch, tiles)
    assert lane.noted is not None
    ((left, work),) = lane.noted
    assert not left.is_done()
    launch._compiled.set()
    left.spend(work)
    assert left.is_done()
    assert not can_start(launch, tiles), "nothing is loaded while kernels are recorded"
    monkeypatch.setattr(lane, "noted", None)
    assert can_start(launch, tiles)

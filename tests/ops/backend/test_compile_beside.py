"""Kernels that are compiled beside what computes the same: started once they are."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import pytest

import infinitensor
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


def test_what_runs_for_the_first_time_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    launch, tiles = Launch("source", 5, [100]), (torch.zeros(4),)
    asked: list[object] = []

    def ask(*given: object) -> bool:
        asked.append(given)
        return True

    monkeypatch.setattr(Launch, "ask", ask)
    monkeypatch.setattr(lane, "is_first", True)
    assert not can_start(launch, tiles)
    assert asked == []
    monkeypatch.setattr(lane, "is_first", False)
    assert can_start(launch, tiles)
    assert len(asked) == 1


# --- who may wait for a compiler ----------------------------------------------------------------

ASKING = {"can_start", "has_started", "_have_started", "_finished"}
"""By these it is asked whether a launch would wait."""
GIVING = {"_counting"}
"""Functions that start nothing: they give launches to one that asks."""
WAITING = {
    "bisect_triton.py": {"_launch_of", "part_in_two"},
    "centres_triton.py": {
        "nearest",
        "_launch_near",
        "nearest_moved",
        "label_inertia",
        "label_sums",
        "closer",
    },
    "distances_triton.py": {"sums_by_label"},
    "lloyd_triton.py": {"iterate"},
    "pairs_triton.py": {"launch_pairs", "launch_apart", "launch_merge"},
    "seeds_triton.py": {"seeds"},
}
"""Functions whose first call waits: passes over points, whose other way is on the host. (Beside
these only running sums of floats, and generated sums of floats: torch adds in another order.)"""


def starting(text: str) -> set[str]:
    """Functions that look a launch up and never ask whether it would wait."""
    found = set()
    for function in ast.parse(text).body:
        if isinstance(function, ast.FunctionDef):
            calls = [n.func for n in ast.walk(function) if isinstance(n, ast.Call)]
            looks_up = any(isinstance(f, ast.Attribute) and f.attr == "get" for f in calls)
            asks = any(isinstance(f, ast.Name) and f.id in ASKING for f in calls)
            if looks_up and not asks and function.name not in GIVING:
                found.add(function.name)
    return found


def test_no_other_kernel_of_ours_makes_a_first_call_wait() -> None:
    folder = Path(infinitensor.__file__).parent / "ops"
    files = sorted(folder.glob("**/*_triton.py"))
    assert len(files) > 10
    found = {file.name: starting(file.read_text()) for file in files}
    assert {name: names for name, names in found.items() if names} == WAITING

"""Budgets on a GPU, measured from outside: what torch reserves, within the plan and the budget.

`python -m benchmarks.bench_budgets --device cuda` is the same in large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.bench_budgets import ROOM, SEGMENT_BYTES, make, on_gpu
from benchmarks.budget_programs import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_torch_reserves_no_more_than_the_plan_and_some_segments(name: str, tmp_path: Path) -> None:
    make(name, 0.1, tmp_path)
    roomy = on_gpu(name, tmp_path, ROOM)
    for share in (1, 0.75, 0.5, 0.25, 0.1):
        budget = int(share * roomy["plan"])
        found = on_gpu(name, tmp_path, budget)
        # (what one plan leaves is there while the next runs, and no part of that one)
        taken = max(found["ledger"], found["plan"])
        assert taken <= budget
        assert found["outside"] - found["before"] <= taken + SEGMENT_BYTES
        assert found["bits"] == roomy["bits"] or found["smaller"]

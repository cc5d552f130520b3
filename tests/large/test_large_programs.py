"""A sample of random programs on large arrays gives NumPy's values; other programs every day.

The seed is in the test's name: `INFINITENSOR_TEST_SEED` takes that one again, and
`python -m tools.random_programs` runs thousands.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from .kinds import program_of
from .program import Program, reproduction
from .replay import MOST_ELEMENTS, Outcome, opening, played, reduced, without_disturbance

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = int(time.time()) // 86400
SEED = int(os.environ.get("INFINITENSOR_TEST_SEED") or DAY * 1000)
RUNS_ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"
N_PROGRAMS = 300 if RUNS_ALL else 20
SAMPLE_ELEMENTS = 400_000
"""Of a sample, which is to be quick."""


def fails_like(outcome: Outcome, setting: str) -> Callable[[Program], bool]:
    """Whether a program ends in the same way."""
    return lambda program: played(program, setting).kind == outcome.kind


@pytest.mark.local
@pytest.mark.timeout(3600 if RUNS_ALL else 300)
@pytest.mark.parametrize(
    "setting",
    ["default", "three", "8MiB", "three-16MiB"]
    + [f"{name}+{kind}" for name in ("default", "24MiB") for kind in ("faults", "interrupts")],
)
@pytest.mark.parametrize("first", [SEED], ids=[f"seed={SEED}"])
def test_large_programs_give_what_numpy_gives(first: int, setting: str) -> None:
    most = min(MOST_ELEMENTS.get(without_disturbance(setting), SAMPLE_ELEMENTS), SAMPLE_ELEMENTS)
    for seed in range(first, first + N_PROGRAMS):
        program = program_of(seed, most, scalars=True)
        outcome = played(program, setting)
        if outcome.fails:
            small = reduced(program, fails_like(outcome, setting), most_s=60)
            pytest.fail(
                reproduction(small, setting, opening(setting), f"seed {seed}: {outcome.said}")
            )

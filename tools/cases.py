"""A plugin of pytest: a few cases of every test, drawn by a seed: `-p tools.cases --cases 6`.

Where a process takes many times as long as it does otherwise, each test still runs, with some of
its parameters. Tests that draw their own examples (hypothesis) draw fewer.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

Case = TypeVar("Case")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many, and which."""
    parser.addoption("--cases", type=int, default=0, help="cases of each test; 0: all")
    parser.addoption("--cases-seed", type=int, default=0, help="which of them")


def pytest_configure(config: pytest.Config) -> None:
    """Examples that a test does not count itself are as few as it has cases, or some more."""
    n_cases = config.getoption("--cases")
    if n_cases:
        settings.register_profile("cases", max_examples=2 * n_cases, deadline=None)
        settings.load_profile("cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not drawn."""
    n_cases = config.getoption("--cases")
    if not n_cases:
        return
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    seed = config.getoption("--cases-seed")
    kept = {
        item for name, cases in tests.items() for item in drawn(cases, n_cases, f"{seed} {name}")
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def drawn(cases: Sequence[Case], n_cases: int, seed: str) -> list[Case]:
    """Some cases of one test, the same for the same seed."""
    return random.Random(seed).sample(list(cases), min(n_cases, len(cases)))

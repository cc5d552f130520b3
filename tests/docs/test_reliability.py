"""Every test that the page of bars names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BARS = (
    *("F10", "F11", "F12", "F13", "F16", "L4", "L5", "L6", "L7", "L10", "L8", "L9"),
    *("S1", "S2", "S5", "S6"),
)


def test_every_bar_is_held_by_tests_that_exist() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "::" in line]
    assert [row.split()[1] for row in rows] == list(BARS)
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named
        for file, name in named:
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert f"def {name}(" in text, f"{file} has no {name}"

"""The tool that runs the conformance suite counts every id once, and exceptions have reasons."""

from __future__ import annotations

import re
from types import SimpleNamespace

from tools.array_api import XFAILS, Tally


def report(tally: Tally, name: str, when: str, outcome: str, **more: str) -> None:
    skipped = outcome == "skipped"
    found = SimpleNamespace(nodeid=name, when=when, outcome=outcome, skipped=skipped, **more)
    tally.pytest_runtest_logreport(found)


def test_an_id_has_the_worst_outcome_of_its_three_steps() -> None:
    tally = Tally()
    for name, outcome in (("a", "passed"), ("b", "failed"), ("c", "passed"), ("d", "passed")):
        report(tally, name, "setup", "passed")
        report(tally, name, "call", outcome)
        report(tally, name, "teardown", "failed" if name == "c" else "passed")
    report(tally, "e", "setup", "skipped")
    report(tally, "f", "call", "skipped", wasxfail="a reason")
    report(tally, "g", "call", "passed", wasxfail="a reason")
    assert str(tally) == (
        "FAILED b\nFAILED c\n7 ids: 3 passed (42.86 %), 2 failed, 1 xfailed, 1 skipped"
    )


def test_every_exception_has_a_reason_above_it() -> None:
    blocks = re.split(r"\n\s*\n", XFAILS.read_text(encoding="utf-8").strip())
    for block in blocks:
        reason, *names = re.split(r"\n(?!#)", block)
        assert reason.startswith("# ")
        assert "not done" not in reason
        assert all(name.startswith("array_api_tests/") for name in names)

"""Lists of expected failures, and the verdict on a run's results."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LISTS = Path(__file__).parent / "expected"


@dataclass(frozen=True, slots=True)
class Expected:
    """A pattern of tests that fail, and why: `id` or `id: error`; `*` stands for any text."""

    pattern: str
    reason: str

    def fits(self, name: str, why: str) -> bool:
        """Whether the failure is one of them."""
        text = f"{name}: {why}" if ": " in self.pattern else name
        return re.fullmatch(".*".join(map(re.escape, self.pattern.split("*"))), text) is not None


def read(text: str) -> list[Expected]:
    """Paragraphs: a reason in lines that begin with '#', then a pattern a line."""
    found: list[Expected] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        reason = " ".join(line[1:].strip() for line in lines if line.startswith("#"))
        patterns = [line for line in lines if not line.startswith("#")]
        if patterns and not reason:
            raise ValueError(f"no reason is given for {patterns[0]}")
        found += [Expected(pattern, reason) for pattern in patterns]
    return found


def of_suite(suite: str) -> list[Expected]:
    """The list of a suite, empty where it has none."""
    path = LISTS / f"{suite}.txt"
    return read(path.read_text(encoding="utf-8")) if path.exists() else []


@dataclass(slots=True)
class Verdict:
    """Of one suite: what passed, what failed as listed and otherwise, what is listed in vain."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    """Unexpected: the error of each id."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Expected failures by reason."""
    stale: list[str] = field(default_factory=list)
    """Patterns that fit no test, or only tests that pass."""

    @property
    def percent(self) -> float:
        """Passed, of what is in scope."""
        in_scope = self.counts["passed"] + self.counts["failed"]
        return 100 * self.counts["passed"] / max(in_scope, 1)


def judge(results: Mapping[str, tuple[str, str]], listed: Iterable[Expected]) -> Verdict:
    """Compare outcomes (outcome and error of each id) with the list."""
    listed, verdict = list(listed), Verdict()
    used: set[Expected] = set()
    for name, (outcome, why) in results.items():
        if outcome == "reference":
            verdict.counts["expected"] += 1
            verdict.reasons["NumPy in the place of this library fails it too."] += 1
            continue
        fitting = next((each for each in listed if each.fits(name, why)), None)
        if outcome == "failed" and fitting is not None:
            used.add(fitting)
            verdict.reasons[fitting.reason] += 1
            verdict.counts["expected"] += 1
        else:
            verdict.counts[outcome] += 1
            if outcome == "failed":
                verdict.failed[name] = why
    verdict.stale = [each.pattern for each in listed if each not in used]
    return verdict

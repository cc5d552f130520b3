"""Run the Array API conformance suite (data-apis/array-api-tests) on a checkout given by path.

    python tools/array_api.py PATH [--strict] [-k EXPRESSION] [--max-examples N]

The suite is not part of this repository; it needs ndindex, hypothesis and pytest-json-report. What
is expected to fail stands in tests/array_api/xfails.txt, each with its reason. Percentages are of
all ids that ran: an expected failure and a skip count as not passed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

XFAILS = Path(__file__).parents[1] / "tests" / "array_api" / "xfails.txt"
STRICT = {
    "INFINITENSOR_SMALL_ELEMENTS": "0",
    "INFINITENSOR_TILE_ELEMENTS": "7",
    "INFINITENSOR_DEVICES": "cpu*3",
}


class Tally:
    """Counts the outcome of every id, and keeps the ids that failed."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """The worst of set-up, call and tear-down is the outcome of the id."""
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "passed"
        if report.when == "call" or outcome != "passed":
            self.outcomes[report.nodeid] = outcome

    def __str__(self) -> str:
        counts = Counter(self.outcomes.values())
        n_ids = len(self.outcomes)
        failed = sorted(name for name, outcome in self.outcomes.items() if outcome == "failed")
        percent = 100 * counts["passed"] / max(n_ids, 1)
        listed = "".join(f"FAILED {name}\n" for name in failed)
        rest = ", ".join(f"{counts[kind]} {kind}" for kind in ("failed", "xfailed", "skipped"))
        return f"{listed}{n_ids} ids: {counts['passed']} passed ({percent:.2f} %), {rest}"


def main(arguments: list[str] | None = None) -> int:
    """Run the suite; the exit status is pytest's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="a checkout of array-api-tests, with its submodule")
    parser.add_argument("--strict", action="store_true", help="tiles of 7 elements on 3 devices")
    parser.add_argument("--max-examples", type=int, default=100, help="examples for each id")
    given, rest = parser.parse_known_args(arguments)
    os.environ["ARRAY_API_TESTS_MODULE"] = "infinitensor"
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()
    os.environ.update(STRICT if given.strict else {})
    os.chdir(given.path)
    sys.path.insert(0, str(Path.cwd()))
    sys.dont_write_bytecode = True
    tally = Tally()
    status = pytest.main(
        [
            "array_api_tests",
            f"--max-examples={given.max_examples}",
            f"--xfails-file={XFAILS}",
            "--disable-deadline",
            "-q",
            "--disable-warnings",
            "-p",
            "no:cacheprovider",
            *rest,
        ],
        plugins=[tally],
    )
    print(tally)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

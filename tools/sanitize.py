"""Run random programs and tests with all C of ours under the compiler's checks: `make sanitize`.

Addresses and what C does not define; threads; and warnings, which are errors. Under each of them:
random programs of every setting, the same with signals and with tasks that raise, and tests of what
is written in C or generated. A sample of both, drawn by `--seed`: `--count` programs, and `--cases`
of a test that has more parameters, for each may have C of its own, which takes a second to compile.
`--cases 0` runs all of them, for hours; the sample takes half an hour on two cores.

Every tile has memory of its own, everything that can be is compiled, and plans run on several
workers however small they are. A report of a check ends its process and is printed; where a random
program died of it, it is made small. Ends with 1 if there was one, or if a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.large.disturbing import DISTURBANCES

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/test_tiny.py",
    "tests/test_native.py",
    "tests/test_threads.py",
    "tests/tasking",
    "tests/runtime/native/test_c_program.py",
    "tests/api/small/test_small_calls.py",
    "tests/api/eager/test_numpy_loops.py",
    "tests/api/access/test_small_items.py",
    "tests/api/session/test_lock.py",
    "tests/api/small/test_host_values.py",
    "tests/api/test_numbers.py",
    "tests/api/known/test_known_calls.py",
    "tests/api/eager/test_row_parts.py",
    "tests/api/evaluate/test_waiting.py",
    "tests/ops/backend/test_blas.py",
    "tests/cluster/test_bisect_rows.py",
    "tests/ops/move/test_take.py",
    "tests/ops/sorting/test_external_sort.py",
    "tests/ops/backend/test_c_loops.py",
    "tests/ops/move/test_mask.py",
    "tests/ops/test_nearest_loops.py",
    "tests/ops/sorting/test_sort.py",
    "tests/ops/points/test_pairs.py",
    "tests/ops/random/test_counter_rng.py",
    "tests/ops/linalg/test_tall_qr.py",
    "tests/ops/reduce/test_scan.py",
    "tests/storage",
)
"""Tests of what is written in C, and of what is generated."""
LIMIT_S = 3600
"""Of one line: a process that hangs is a report too."""
FILES_EACH = 5
"""Files of tests in a process: to begin one takes seconds, and a report ends it."""
REPORT = re.compile(r"(ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error): .*")


SUPPRESSED = Path(__file__).with_name("threads.supp")


class NotHereError(Exception):
    """The compiler has no such check."""


@dataclass(frozen=True)
class Check:
    """A check: what is compiled in, the libraries that go with it, and the variables they read."""

    compiled: str
    libraries: tuple[str, ...]
    options: dict[str, str]

    def environment(self) -> dict[str, str]:
        """The variables of a process whose C is checked."""
        return os.environ | self.options | {
            "INFINITENSOR_SANITIZE": self.compiled,
            "INFINITENSOR_COMPILE": "always",
            "INFINITENSOR_INLINE_ELEMENTS": "0",
            "INFINITENSOR_WORKERS": "4",
            "LD_PRELOAD": " ".join(map(library, self.libraries)),
            "PYTHONPATH": os.pathsep.join(
                [str(REPOSITORY / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }  # fmt: skip


CHECKS = {
    "address": Check(
        "address,undefined",
        ("libasan.so", "libubsan.so"),
        {
            # Python leaks at its end; tests ask for more memory than there is
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc",
        },
    ),
    "thread": Check(
        "thread",
        ("libtsan.so",),
        # programs and tests fork while other libraries have threads
        {"TSAN_OPTIONS": f"halt_on_error=1:die_after_fork=0:suppressions={SUPPRESSED}"},
    ),
    "warnings": Check("warnings", (), {}),
}


def library(name: str) -> str:
    """Where the compiler has a library; `NotHereError` if it has none."""
    line = [os.environ.get("CC", "cc"), f"-print-file-name={name}"]
    try:
        found = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHereError(f"no compiler that has {name}: {error}") from error
    if not os.path.isabs(found):  # a name that it does not know is given back
        raise NotHereError(f"the compiler has no {name}")
    return found


def run(check: Check, line: Sequence[str]) -> tuple[bool, str]:
    """Run Python with a line of arguments under a check: whether all went well, what was said."""
    try:
        done = subprocess.run(
            [sys.executable, *line],
            cwd=REPOSITORY,
            env=check.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as late:
        return False, f"{late.stdout!r}: has not ended after {LIMIT_S} s"
    return done.returncode == 0 and not REPORT.search(done.stdout), done.stdout


def programs(setting: str, count: int, seed: int, *disturbances: str) -> list[str]:
    """The line that runs random programs of a setting."""
    line = ["-m", "tools.random_programs", "--slow", "1e9", "--limit", "300", "--scalars"]
    line += [f"--{name}" for name in disturbances]
    return [*line, "--seed", str(seed), "--count", str(count), "--setting", setting]


def tests(some: Sequence[str], n_cases: int, seed: int) -> list[str]:
    """The line that runs the tests of files, or a few cases of each."""
    line = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    line += ["--timeout=900", "-o", "faulthandler_timeout=960"]
    line += ["--capture=sys"]  # reports are not written by Python
    line += ["-m", "not slow and not gpu and not remote"]
    line += ["-p", "tools.cases", "--cases", str(n_cases), "--cases-seed", str(seed)]
    return [*line, *some]


def files(names: Sequence[str]) -> list[str]:
    """Files of tests; a folder is all that are in it."""
    found = []
    for name in names:
        folder = REPOSITORY / name
        inside = sorted(folder.rglob("test_*.py")) if folder.is_dir() else []
        found += [str(file.relative_to(REPOSITORY)) for file in inside] or [name]
    return found


def lines_of(args: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """What is run, each with its check: what takes longest first, so that cores end together."""
    names = [name for name in CHECKS if args.check in (name, "all")]
    found = []
    for name in names if args.count else ():
        found.append((name, programs(args.setting, args.count, args.seed)))
        if CHECKS[name].libraries:  # what is raised changes nothing that is compiled
            some = max(1, args.count // 2)
            found.append((name, programs(args.setting, some, args.seed, *DISTURBANCES)))
    found_files = files(args.tests)
    for name in names:
        for k in range(0, len(found_files), FILES_EACH):
            found.append((name, tests(found_files[k : k + FILES_EACH], args.cases, args.seed)))
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Run what was asked for; print what each run said last, and all reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", default=list(TESTS))
    parser.add_argument("--check", choices=[*CHECKS, "all"], default="all")
    parser.add_argument("--count", type=int, default=10, help="programs of each setting")
    parser.add_argument("--cases", type=int, default=4, help="cases of each test; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the first program, and of cases")
    parser.add_argument("--setting", default="all", help="of random programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    args = parser.parse_args(given)
    with ThreadPoolExecutor(args.jobs) as threads:
        return 0 if all([*threads.map(_run_and_print, lines_of(args))]) else 1


def _run_and_print(both: tuple[str, list[str]]) -> bool:
    name, line = both
    begin = time.monotonic()
    went_well, said = run(CHECKS[name], line)
    is_short = went_well and "pytest" in line
    shown = said.splitlines()[-1] if is_short else said.strip()
    what = " ".join(word for word in line if word.startswith("tests/")) or line[-1]
    print(f"{name}, {what}, {time.monotonic() - begin:.0f} s: {shown}", flush=True)
    return went_well


if __name__ == "__main__":
    raise SystemExit(main())

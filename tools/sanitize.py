"""Run random programs and tests with all C of ours under the compiler's checks: `make sanitize`.

Addresses and what C does not define; threads; and warnings, which are errors.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/test_tiny.py",
    "tests/test_native.py",
    "tests/tasking",
    "tests/api/test_at_once.py",
    "tests/api/test_cores.py",
    "tests/api/test_indices.py",
    "tests/api/test_lock.py",
    "tests/api/test_near.py",
    "tests/api/test_numbers.py",
    "tests/api/test_quick.py",
    "tests/api/test_shared.py",
    "tests/api/test_walk.py",
    "tests/ops/test_blas.py",
    "tests/ops/test_halves_loops.py",
    "tests/ops/test_index.py",
    "tests/ops/test_longsort.py",
    "tests/ops/test_loops.py",
    "tests/ops/test_mask.py",
    "tests/ops/test_nearest_loops.py",
    "tests/ops/test_order.py",
    "tests/ops/test_pairs.py",
    "tests/ops/test_random.py",
    "tests/ops/test_reflectors.py",
    "tests/ops/test_scan.py",
    "tests/storage",
)
"""Tests of what is written in C, and of what is generated."""
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
    done = subprocess.run(
        [sys.executable, *line],
        cwd=REPOSITORY,
        env=check.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode == 0 and not REPORT.search(done.stdout), done.stdout


def main(given: Sequence[str] | None = None) -> int:
    """Run what was asked for; print what each run said last, and all reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=list(TESTS))
    parser.add_argument("--check", choices=[*CHECKS, "all"], default="all")
    parser.add_argument("--count", type=int, default=30, help="programs of each setting")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--setting", default="all", help="of random programs")
    args = parser.parse_args(given)
    programs = ["-m", "tools.random_programs", "--slow", "1e9", "--limit", "600"]
    programs += ["--count", str(args.count), "--seed", str(args.seed), "--setting", args.setting]
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--timeout=1800"]
    tests += ["--capture=sys"]  # reports are not written by Python
    tests += ["-m", "not slow and not gpu and not remote"]
    lines = [programs] if args.count else []
    lines += [[*tests, name] for name in args.tests]
    is_good = True
    for name in CHECKS if args.check == "all" else [args.check]:
        for line in lines:
            begin = time.monotonic()
            went_well, said = run(CHECKS[name], line)
            is_good &= went_well
            shown = said.strip() if line is programs or not went_well else said.splitlines()[-1]
            print(f"{name}, {line[-1]}, {time.monotonic() - begin:.0f} s: {shown}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())

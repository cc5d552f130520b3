"""Run other projects' tests on this library and print what passed, by suite.

    python -m tests.suites [SUITE ...] [--only TEXT] [--results FOLDER] [--strict] [--failed]

Nothing is fetched: README.md in this folder says where the suites come from.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.suites.expected import Verdict, judge, of_suite
from tests.suites.places import SUITES, Suite

REPOSITORY = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 24 << 30
"""Address space of a subprocess: torch alone maps several GiB."""
TEST_S, MODULE_S = 60, 1200
STRICT = {
    "INFINITENSOR_SMALL_ELEMENTS": "0",
    "INFINITENSOR_TILE_ELEMENTS": "7",
    "INFINITENSOR_DEVICES": "cpu*3",
}

Results = dict[str, tuple[str, str]]


def limited() -> None:
    """In the subprocess: memory is bounded, and others on the machine come first."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.nice(10)


def run_module(suite: Suite, root: Path, module: Path, into: Path, strict: bool) -> Results:
    """The outcome of each test of one module, run in a process of its own."""
    into.unlink(missing_ok=True)
    environment = {
        **os.environ,
        **(STRICT if strict else {}),
        **suite.environment,
        "INFINITENSOR_SUITE": suite.name,
        "INFINITENSOR_SUITE_ROOT": str(root),
        "INFINITENSOR_SUITE_RESULTS": str(into),
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    line = [sys.executable, "-m", "pytest", "-p", "tests.suites.plugin", "-q", "--no-header"]
    line += ["-c", os.devnull, f"--rootdir={root}", "-p", "no:cacheprovider", "-W", "ignore"]
    line += [f"--timeout={TEST_S}", "--tb=line", "--color=no", *suite.options, str(module)]
    with tempfile.TemporaryDirectory() as folder, into.with_suffix(".log").open("w") as log:
        try:
            status: int | str = subprocess.run(
                line,
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=MODULE_S,
                preexec_fn=limited,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = f"more than {MODULE_S} s"
    name = module.relative_to(root).as_posix()
    return outcomes(into, name, status)


def outcomes(file: Path, module: str, status: int | str) -> Results:
    """What a module's lines say; a test that was begun and never ended has died."""
    results: Results = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        name, outcome, why = json.loads(line)
        results[name] = (outcome, why)
    for name, (outcome, _) in results.items():
        if outcome == "begun":
            results[name] = ("failed", f"died: exit status {status}")
    # 0 passed, 1 some failed, 2 collection failed, 5 nothing collected
    if status not in {0, 1, 2, 5} and not any("died" in why for _, why in results.values()):
        results[f"{module}::"] = ("failed", f"died: exit status {status}")
    return {name: (outcome, why) for name, (outcome, why) in results.items()}


def run_suite(suite: Suite, root: Path, only: str, folder: Path, strict: bool) -> Results:
    """All modules of a suite, one at a time."""
    results: Results = {}
    for module in suite.modules(root):
        name = module.relative_to(root).as_posix()
        if only in name:
            file = folder / f"{suite.name}-{name.replace('/', '.')}.jsonl"
            found = run_module(suite, root, module, file, strict)
            results.update(found)
            counts = Counter(outcome for outcome, _ in found.values())
            print(f"  {name}: {dict(counts)}", flush=True)
    return results


def report(suite: str, verdict: Verdict, failed: bool, whole: bool) -> None:
    """What is expected by reason, stale patterns of a whole run, and failures where asked for."""
    for reason, n in verdict.reasons.most_common():
        print(f"  {n:6} expected: {reason}")
    for pattern in verdict.stale if whole else ():
        print(f"  stale: {pattern} fits no failure")
    for name, why in verdict.failed.items() if failed else ():
        print(f"  FAILED {name}: {why}")


def main(arguments: list[str] | None = None) -> int:
    """Run the suites that are there; the exit status is 1 where one is below its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all unless named")
    parser.add_argument("--only", default="", help="modules whose path has this text")
    parser.add_argument("--results", type=Path, help="a folder that keeps results and logs")
    parser.add_argument("--strict", action="store_true", help="tiles of 7 elements on 3 devices")
    parser.add_argument("--failed", action="store_true", help="print every failure")
    args = parser.parse_args(arguments)
    verdicts: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.results or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for suite in (SUITES[name] for name in args.suites or SUITES):
            if (root := suite.root()) is None:
                print(f"{suite.name}: skipped, {suite.missing}")
                continue
            print(f"{suite.name}: {root}", flush=True)
            results = run_suite(suite, root, args.only, folder, args.strict)
            verdicts[suite.name] = judge(results, of_suite(suite.name))
    for name, verdict in verdicts.items():
        print(f"\n{name}")
        report(name, verdict, args.failed, not args.only)
    print(f"\n{'suite':12} {'passed':>7} {'failed':>7} {'expected':>9} {'skipped':>8}   in scope")
    for name, verdict in verdicts.items():
        c = verdict.counts
        numbers = f"{c['passed']:7} {c['failed']:7} {c['expected']:9} {c['skipped']:8}"
        print(f"{name:12} {numbers}   {verdict.percent:.2f} % passed")
    return int(any(verdict.percent < 97 for verdict in verdicts.values()))


if __name__ == "__main__":
    raise SystemExit(main())

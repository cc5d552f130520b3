"""Run other projects' tests on this library and print what passed, by suite.

    python -m tests.suites [SUITE ...] [--only TEXT] [--sample N] [--results FOLDER]
                           [--strict] [--failed] [--jobs N]

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
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

from tests.suites.expected import Verdict, judge, of_suite
from tests.suites.places import SUITES, Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 12 << 30
"""Address space of a subprocess: torch alone maps several GiB."""
TEST_S, MODULE_S = 180, 1200
N_MODULES = 8
"""So many run in one process, one after the other; alone where that process dies."""
STRICT = {
    "INFINITENSOR_SMALL_ELEMENTS": "0",
    "INFINITENSOR_TILE_ELEMENTS": "7",
    "INFINITENSOR_DEVICES": "cpu*3",
}

Results = dict[str, tuple[str, str]]


def limited() -> None:
    """In the subprocess: memory is bounded, and others on the machine come first."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.nice(int(os.environ.get("INFINITENSOR_SUITE_NICE", "10")))


def run_modules(suite: Suite, root: Path, modules: list[Path], into: Path, strict: bool) -> Results:
    """The outcome of each test of some modules of one folder, run in a process of their own."""
    into.unlink(missing_ok=True)
    status = run_pytest(suite, root, modules, into, STRICT if strict else {})
    if died(status) and len(modules) > 1:
        alone = [(module, into.with_name(f"{into.stem}.{module.stem}.jsonl")) for module in modules]
        each = [run_modules(suite, root, [module], file, strict) for module, file in alone]
        return {name: result for results in each for name, result in results.items()}
    results = outcomes(into, modules[0].relative_to(root).as_posix(), status)
    failed = [name for name, (outcome, _) in results.items() if outcome == "failed"]
    if failed and suite.reference:
        for name in numpys_failures(suite, root, modules, into, failed):
            results[name] = ("reference", results[name][1])
    return results


def numpys_failures(
    suite: Suite, root: Path, modules: list[Path], into: Path, names: list[str]
) -> list[str]:
    """Those of the tests that NumPy fails too, in the place of this library."""
    chosen, into = into.with_suffix(".ids"), into.with_suffix(".numpy")
    chosen.write_text(json.dumps(names), encoding="utf-8")
    into.unlink(missing_ok=True)
    more = {"INFINITENSOR_SUITE_REFERENCE": "1", "INFINITENSOR_SUITE_IDS": str(chosen)}
    status = run_pytest(suite, root, modules, into, more)
    results = outcomes(into, "", status)
    return [name for name in names if results.get(name, ("", ""))[0] in {"failed", "skipped"}]


def run_pytest(
    suite: Suite, root: Path, modules: list[Path], into: Path, more: dict[str, str]
) -> int | str:
    """The exit status; one line a test is written to `into`."""
    environment = {
        **os.environ,
        **suite.environment,
        "INFINITENSOR_SUITE": suite.name,
        "INFINITENSOR_SUITE_ROOT": str(root),
        "INFINITENSOR_SUITE_RESULTS": str(into),
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY))),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }
    line = [sys.executable, "-m", "pytest", "-p", "tests.suites.plugin", "-q", "--no-header"]
    line += ["-c", os.devnull, f"--rootdir={root}", "-p", "no:cacheprovider", "-W", "ignore"]
    line += [f"--timeout={TEST_S}", "--tb=line", "--color=no", *suite.options]
    line += ["--continue-on-collection-errors", *map(str, modules)]
    limit_s = MODULE_S * len(modules)
    with tempfile.TemporaryDirectory() as folder, into.with_suffix(".log").open("w") as log:
        try:
            return subprocess.run(
                line,
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                preexec_fn=limited,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return f"more than {limit_s} s"


def died(status: int | str) -> bool:
    """Not one of: all passed, some failed, a module could not be imported, nothing collected."""
    return status not in {0, 1, 2, 5}


def outcomes(file: Path, module: str, status: int | str) -> Results:
    """What the lines of a run say; a test that was begun and never ended has died."""
    results: Results = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        name, outcome, why = json.loads(line)
        results[name] = (outcome, why)
    for name, (outcome, _) in results.items():
        if outcome == "begun":
            results[name] = ("failed", f"died: exit status {status}")
    if died(status) and not any("died" in why for _, why in results.values()):
        results[f"{module}::"] = ("failed", f"died: exit status {status}")
    return results


def batches(modules: list[Path]) -> Iterator[list[Path]]:
    """Some modules of one folder at a time: names of modules in one process differ."""
    for _, group in groupby(modules, key=lambda module: module.parent):
        while some := list(islice(group, N_MODULES)):
            yield some


def run_suite(
    suite: Suite, root: Path, only: str, folder: Path, strict: bool, n_jobs: int
) -> Results:
    """All modules of a suite, some in a process, `n_jobs` processes at a time."""

    def run(modules: list[Path]) -> Results:
        name = modules[0].relative_to(root).as_posix()
        file = folder / f"{suite.name}-{name.replace('/', '.')}.jsonl"
        found = run_modules(suite, root, modules, file, strict)
        counts = Counter(outcome for outcome, _ in found.values())
        more = f" and {len(modules) - 1} more" if len(modules) > 1 else ""
        print(f"  {name}{more}: {dict(counts)}", flush=True)
        return found

    chosen = [path for path in suite.modules(root) if only in path.relative_to(root).as_posix()]
    with ThreadPoolExecutor(n_jobs) as pool:
        each = list(pool.map(run, batches(chosen)))
    return {name: result for results in each for name, result in results.items()}


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
    parser.add_argument("--sample", type=int, default=0, help="so many tests of each function")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes at a time")
    args = parser.parse_args(arguments)
    os.environ["INFINITENSOR_SUITE_SAMPLE"] = str(args.sample)
    verdicts: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.results or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for suite in (SUITES[name] for name in args.suites or SUITES):
            if (root := suite.root()) is None:
                print(f"{suite.name}: skipped, {suite.missing}")
                continue
            print(f"{suite.name}: {root}", flush=True)
            results = run_suite(suite, root, args.only, folder, args.strict, args.jobs)
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

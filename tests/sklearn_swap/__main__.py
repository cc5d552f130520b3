"""Run scikit-learn's own tests on ours, outside this repository's pytest configuration.

python -m tests.sklearn_swap --poison --names KMeans,k_means sklearn.cluster -- -x -k inertia
python -m tests.sklearn_swap --poison --runs cut checks          # the estimator checks
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PLACES = (
    "sklearn.cluster",
    "sklearn.metrics.cluster",
    "sklearn.neighbors.tests.test_neighbors",
    "sklearn.metrics.tests.test_pairwise",
)
"""Whose tests are run where none are named."""


def command(args: argparse.Namespace) -> list[str]:
    places = args.places or PLACES
    checks = str(Path(__file__).with_name("checks.py"))
    line = [sys.executable, "-m", "pytest", "-p", "tests.sklearn_swap.plugin", "-q"]
    line += [
        "-p",
        "no:benchmark",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        f"--swap-runs={args.runs}",
    ]
    line += ["--swap-poison"] if args.poison else []
    for option in ("names", "sample", "seed", "report", "substitute"):
        if (value := getattr(args, option)) is not None:
            line.append(f"--swap-{option}={value}")
    line += ["--pyargs", *(checks if place == "checks" else place for place in places)]
    return [*line, *args.rest]


def run(args: argparse.Namespace, **options: object) -> subprocess.CompletedProcess[str]:
    """In an empty folder: scikit-learn's conftest is the only one."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY))),
        "SKLEARN_RUN_FLOAT32_TESTS": "1",
        "SWAP_CHECK_NAMES": args.names or "",
    }
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            [*command(args), f"--rootdir={folder}"],
            cwd=folder,
            env=environment,
            text=True,
            **options,
        )


def parsed(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("places", nargs="*", help="modules with tests of scikit-learn, or 'checks'")
    parser.add_argument("--names", help="swap only these names, comma-separated; default: built")
    parser.add_argument(
        "--poison", action="store_true", help="heavy routines raise when ours use them"
    )
    parser.add_argument("--runs", default="default", choices=["default", "cut", "either"])
    parser.add_argument("--sample", type=int, help="only so many tests")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--report", help="a JSON file: one record a test")
    parser.add_argument("--substitute", help="a module to take the names from")
    argv = sys.argv[1:] if argv is None else argv
    at = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:at])
    args.rest = argv[at + 1 :]
    return args


if __name__ == "__main__":
    raise SystemExit(run(parsed(), check=False).returncode)

"""Run tests over the machines that programs meet: NumPys, numbers of workers, what is missing.

`make matrix`. Each combination is a folder of packages put before those of this environment (torch
is never installed anew), or an environment variable; what cannot be had here is said. A line a
combination: passed, failed, or why it was not tried. Ends with 1 if one failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reliability.child import fresh_source

REPOSITORY = Path(__file__).resolve().parents[1]
SAMPLE = (
    "tests/test_tiny.py",
    "tests/api/functions/test_ufunc.py",
    "tests/ops/backend/test_blas.py",
    "tests/ops/reduce/test_ufunc_reduce.py",
    "tests/memory/test_at_once.py",
    "tests/memory/test_residency.py",
)
"""What is run where no tests are named: what machines have made fail before."""
NUMPYS = ("2.1", "2.3", "2.4", "2.5")
WORKERS = (1, 2, 3, 16, 64)
WITHOUT = ("zarr", "numba")
PYTHONS = ("3.11", "3.12", "3.13")


class Case(NamedTuple):
    """One combination: its name, and what is put before the environment."""

    name: str
    variables: dict[str, str]


def installed(version: str, folder: Path) -> str:
    """Why a NumPy cannot be had, or ""."""
    line = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder)]
    done = subprocess.run(
        [*line, "--no-deps", "--only-binary", ":all:", f"numpy=={version}.*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["pip failed"])[-1]


def without(package: str, folder: Path) -> Case:
    """As if a package were not installed."""
    folder.mkdir(parents=True)
    text = f'raise ModuleNotFoundError("No module named {package!r}", name={package!r})\n'
    (folder / f"{package}.py").write_text(text, "utf-8")
    options = f"-p no:{package}"  # zarr brings a plugin for pytest
    return Case(f"without {package}", {"PYTHONPATH": str(folder), "PYTEST_ADDOPTS": options})


def cases(folder: Path, kinds: set[str]) -> list[Case | str]:
    """All combinations; a text for one that cannot be had here."""
    found: list[Case | str] = []
    if "workers" in kinds:
        found += [Case(f"{n} workers", {"INFINITENSOR_WORKERS": str(n)}) for n in WORKERS]
    if "numpy" in kinds:
        for version in NUMPYS:
            place = folder / f"numpy-{version}"
            why = installed(version, place)
            case = Case(f"NumPy {version}", {"PYTHONPATH": str(place)})
            found.append(f"NumPy {version}: not tried: {why}" if why else case)
    if "without" in kinds:
        none = folder / "no-compiler"
        none.mkdir()
        empty = {"XDG_CACHE_HOME": str(folder / "empty"), "PYTHONPATH": str(fresh_source(none))}
        found.append(Case("without a compiler", {"CC": "none", "PATH": str(none), **empty}))
        found += [without(package, folder / f"no-{package}") for package in WITHOUT]
    if "python" in kinds:
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        for version in PYTHONS:
            if version != here:
                found.append(f"Python {version}: not tried: {_other_python(version)}")
    return found


def _other_python(version: str) -> str:
    path = shutil.which(f"python{version}")
    return f"make test PYTHON={path} VENV=.venv-{version}" if path else "not found here"


def run(case: Case, tests: list[str]) -> tuple[bool, str]:
    """Whether all tests passed, and what pytest said last."""
    given = dict(case.variables)
    paths = [given.pop("PYTHONPATH", ""), str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, **given, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line"]
    done = subprocess.run(
        [*line, "-m", "not slow and not gpu and not remote", *tests],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
    failed = [one for one in lines if one.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, "\n".join([*failed, lines[-1]])


def main() -> int:
    """Run what was asked for; print a line for each combination."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=list(SAMPLE))
    parser.add_argument("--kinds", default="workers,numpy,without,python")
    args = parser.parse_args()
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), set(args.kinds.split(","))):
            if isinstance(case, str):
                print(case, flush=True)
                continue
            passed, said = run(case, args.tests)
            is_good &= passed
            print(f"{case.name}: {said}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Check wheels: python -m tools.check_wheel dist/infinitensor-….whl, or `make wheel`.

It holds all C that is the same for every program, built of its own sources, and nothing else that
is built. Then it is installed into a fresh environment, which takes the other packages from this
one, and imported there without a compiler: nothing is compiled, nothing is missing. A wheel for
another kind of machine is only looked into. `--installed` checks the package that this Python has,
as `cibuildwheel` installs it.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

SCRIPT = """
import sys, infinitensor as it
assert it.__file__.startswith(sys.prefix), it.__file__
x = it.arange(40_000.0)
assert float((x[1:] + 1)[2]) == 4.0
found = {name: it.stats()[name] for name in ("not_prebuilt", "not_compiled")}
assert not any(found.values()), found
"""


class WheelError(Exception):
    """A wheel is not as it should be; the text says how."""


def check_contents(wheel: Path) -> list[str]:
    """The built files of a wheel; `WheelError` if some are missing, or of other sources."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extractall(folder)
        fixed_c = runpy.run_path(f"{folder}/infinitensor/fixed_c.py")
        files = [*fixed_c["MODULES"], *fixed_c["LIBRARIES"], *fixed_c["LOOPS"]]
        found = [name for name in archive.namelist() if name.endswith(".so")]
        for file in files:
            digest = fixed_c["digest_of"](file, machine_of(wheel))
            if digest.encode() not in archive.read(_name_built_of(file, found)):
                raise WheelError(f"{wheel.name}: {file}.c was built from other sources")
    if len(found) != len(files):
        raise WheelError(f"{wheel.name}: of {len(files)} C files {len(found)} are built: {found}")
    return found


def machine_of(wheel: Path) -> str:
    """The kind of machine that a wheel is for, as its name says.

    >>> machine_of(Path("infinitensor-0.1.0-cp311-cp311-manylinux_2_28_aarch64.whl"))
    'aarch64'
    """
    kinds = [kind for kind in ("x86_64", "aarch64") if wheel.stem.endswith(kind)]
    if not kinds:
        raise WheelError(f"{wheel.name}: for no kind of machine that C is built for")
    return kinds[0]


def _name_built_of(file: str, names: list[str]) -> str:
    """The name of what was built of a C file: a module of any Python, or a library."""
    folder, _, stem = f"infinitensor/{file}".rpartition("/")
    starts = (f"{folder}/_{stem}.", f"{folder}/{stem}.c.so")
    for name in names:
        if name.startswith(starts):
            return name
    raise WheelError(f"{file}.c is not built")


def check_import(wheel: Path) -> None:
    """Install a wheel into a fresh environment and import it there; `WheelError` if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        _run([sys.executable, "-m", "venv", "--without-pip", folder])
        python = f"{folder}/bin/python"
        install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        _run([*install, "--no-deps", "--no-index", str(wheel.resolve())])
        names = {"base": folder, "platbase": folder}
        own = Path(sysconfig.get_path("purelib", "venv", names))
        others = sysconfig.get_path("purelib")
        (own / "others.pth").write_text(f"{others}\n")  # an editable install there is not read
        cache = Path(folder, "cache")
        _run([python, "-c", SCRIPT], PATH="", CC="/bin/false", XDG_CACHE_HOME=str(cache))
        if cache.exists():
            raise WheelError(f"{wheel.name}: the import has written {[*cache.rglob('*')]}")


def _run(line: list[str], **environment: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        line,
        cwd=tempfile.gettempdir(),
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise WheelError(f"{' '.join(line[:6])} failed: {done.stdout}{done.stderr}")


def main(given: list[str] | None = None) -> int:
    """Check the wheels that were named; print what they hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", nargs="*", type=Path)
    parser.add_argument("--installed", action="store_true", help="the package of this Python")
    args = parser.parse_args(given)
    try:
        if args.installed:
            _run([sys.executable, "-c", SCRIPT])
        for wheel in args.wheels:
            n_built = len(check_contents(wheel))
            is_ours = machine_of(wheel) == os.uname().machine
            if is_ours:
                check_import(wheel)
            print(f"{wheel.name}: {n_built} files built{', imported' if is_ours else ''}")
    except WheelError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

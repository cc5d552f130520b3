"""C files of ours that were not built with the package: they are compiled at the first import.

Where they cannot be, everything works, and `stats()` says which and why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.reliability import child

import infinitensor as it
from infinitensor.fixed_c import MODULES
from infinitensor.native import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import infinitensor as it
x = it.arange(2000.0)
x[3] = 5.0
assert float((x[1:] + 1)[2]) == 6.0
for file, why in it.stats()["not_compiled"].items():
    print(file, "|", why.splitlines()[0])
"""


def not_compiled(tmp_path: Path, **environment: str) -> dict[str, str]:
    """What a process of its own goes without, with nothing built and an empty cache."""
    source = str(child.fresh_source(tmp_path))
    folders = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": source}
    env = {**os.environ, "INFINITENSOR_COMPILE": "auto", **folders, **environment}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    lines = [line.split(" | ") for line in done.stdout.splitlines()]
    return {file: why for file, why in lines}


def test_nothing_is_missing_here() -> None:
    assert it.stats()["not_compiled"] == {}


def test_all_files_are_compiled_side_by_side_the_first_time(tmp_path: Path) -> None:
    """Each waits, for at most 20 s, until all six have begun."""
    begun = tmp_path / "begun"
    begun.mkdir()
    waiting = tmp_path / "cc"
    waiting.write_text(
        f"#!/bin/sh\ntouch {begun}/$$\n"
        f'for k in $(seq 200); do [ "$(ls {begun} | wc -l)" -ge {len(MODULES)} ] && exec cc "$@"\n'
        "sleep 0.1; done\necho not side by side >&2\nexit 1\n"
    )
    waiting.chmod(0o700)
    assert not_compiled(tmp_path, CC=str(waiting)) == {}


def test_without_a_compiler_every_file_says_so(tmp_path: Path) -> None:
    found = not_compiled(tmp_path, PATH=str(tmp_path), CC="none")
    assert {"small_calls.c", "known_calls.c", "waiting.c", "lock.c"} <= found.keys()
    assert set(found.values()) == {"no C compiler"}


def test_without_a_compiler_it_is_said_once_with_what_to_do(tmp_path: Path) -> None:
    script = """
    import warnings
    import infinitensor as it
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            with it.init("cpu"):
                it.ones(3).sum().item()
    reply(texts=[str(w.message) for w in found if w.category is RuntimeWarning])
    """
    source = str(child.fresh_source(tmp_path))
    (text,) = child.run(script, PATH=str(tmp_path), CC="none", PYTHONPATH=source)["texts"]
    assert "could not compile its C files (no C compiler)" in text
    assert "Install a C compiler" in text


def test_folder_of_a_process_goes_with_it(tmp_path: Path) -> None:
    """Where the user has no folder for the cache, and others have its name among temporary ones."""
    (tmp_path / "home").write_text("no folder")
    name = f"infinitensor-{os.getuid()}"
    (tmp_path / name).write_text("no folder")
    script = "from infinitensor import native; reply(folder=str(native.cache_folder()))"
    where = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path)}
    found = child.run(script, limit_s=250, **where, CC="none", PATH=str(tmp_path))
    assert os.path.dirname(found["folder"]) == str(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["home", name]


def test_a_compiler_that_fails_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no such header >&2\nexit 1\n")
    broken.chmod(0o700)
    found = not_compiled(tmp_path, CC=str(broken))
    assert found["small_calls.c"] == f"{broken} failed: no such header"


def test_a_compiler_that_hangs_does_not_hang_the_import(tmp_path: Path) -> None:
    """Nor does what it started, which still holds its pipes."""
    native = child.fresh_source(tmp_path) / "infinitensor" / "native.py"
    text = native.read_text("utf-8")
    native.write_text(text.replace(f"LIMIT_S = {LIMIT_S}", "LIMIT_S = 0.5"), "utf-8")
    hanging = tmp_path / "cc"
    hanging.write_text("#!/bin/sh\nsleep 600\n")
    hanging.chmod(0o700)
    begin = time.monotonic()
    found = child.run(
        "__import__('warnings').simplefilter('ignore'); reply(**it.stats()['not_compiled'])",
        PYTHONPATH=str(native.parents[1]),
        CC=str(hanging),
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert time.monotonic() - begin < 30
    # that of few kernels needs that of ledgers, that of a GPU's driver a GPU
    assert len(found) == len(MODULES) - 2
    assert set(found.values()) <= {
        f"{hanging} has not ended after 0 s",
        f"{hanging} did not end before",
    }


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    nowhere = str(tmp_path / "home" / "cache")
    assert not_compiled(tmp_path, XDG_CACHE_HOME=nowhere, TMPDIR=str(tmp_path)) == {}
    assert (tmp_path / f"infinitensor-{os.getuid()}").is_dir()


def test_who_asks_for_no_compiler_misses_nothing(tmp_path: Path) -> None:
    assert not_compiled(tmp_path, INFINITENSOR_COMPILE="never") == {}

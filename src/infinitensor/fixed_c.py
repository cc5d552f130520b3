"""C that is the same for every program: `setup.py` builds it when the package is installed.

Only Python's own library is imported here, since `setup.py` runs this file before anything of ours
is installed. What was not built, or from other sources, `native.py` compiles when it is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGE = Path(__file__).parent
MODULES = (
    "api/session/lock",
    "api/session/released",
    "api/eager/numpy_loops",
    "api/evaluate/waiting",
    "api/small/small_calls",
    "api/known/known_calls",
    "ops/table/functions",
)
"""Extension modules of Python, each of the C file of that name in the package."""
LIBRARIES = (
    "threads",
    "runtime/native/c_program",
    "ops/forms/folds",
    "storage/file_io/crc32c",
    "storage/file_io/strided_read",
)
"""Libraries of functions that Python calls by their addresses: their C files."""
INSTRUCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "storage/file_io/crc32c": {"x86_64": ("-msse4.2",), "aarch64": ("-march=armv8-a+crc",)},
    "ops/table/functions": {"x86_64": ("-mavx2", "-mfma")},
}
"""Those that a file needs beside the ones of every machine of a kind; it looks for them itself."""
AT_IMPORT = (*MODULES, "threads")
"""What an import loads."""
PORTABLE_FLAGS = (
    "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
    "-fno-strict-aliasing",
)  # fmt: skip
"""No -ffast-math: it breaks NaN and flushes subnormals of the whole process. Floats are looked at
as the integers that have their bits. No -march: a wheel is for every machine of its kind."""
HERE = os.uname().machine
"""The kind of this machine: x86_64, aarch64."""
_INCLUDED = re.compile(r'^#include "(.+)"\n', re.MULTILINE)


class NotBuiltError(Exception):
    """A file built with the package cannot be used; the text says why."""


def included(file: str) -> list[str]:
    """The headers of ours that a C file names, as paths in the package."""
    return _INCLUDED.findall((PACKAGE / f"{file}.c").read_text("utf-8"))


def source_of(file: str) -> str:
    """A C file with its headers in their places."""

    def text_of(found: re.Match[str]) -> str:
        return (PACKAGE / found[1]).read_text("utf-8")

    return _INCLUDED.sub(text_of, (PACKAGE / f"{file}.c").read_text("utf-8"))


@cache
def digest_of(file: str, machine: str = HERE) -> str:
    """A digest of a C file's sources and flags, which a file built of them contains."""
    given = "\n".join((source_of(file), *flags_of(file, machine)))
    return hashlib.sha256(given.encode()).hexdigest()


def flags_of(file: str, machine: str = HERE) -> tuple[str, ...]:
    """The flags that a C file is built with for a kind of machine."""
    return (*PORTABLE_FLAGS, *INSTRUCTIONS.get(file, {}).get(machine, ()))


def name_of(file: str) -> str:
    """The module of a C file, and what setuptools calls a library.

    >>> name_of("api/session/lock")
    'infinitensor.api.session._lock'
    """
    *folders, stem = file.split("/")
    return ".".join(("infinitensor", *folders, f"_{stem}"))


def built_name(file: str) -> str:
    """The name of the file built of a C file.

    Python's version is in that of a module. A library has nothing of Python's, and a name that no
    import finds.

    >>> built_name("storage/file_io/crc32c")
    'crc32c.c.so'
    """
    stem = file.rpartition("/")[2]
    return f"{stem}.c.so" if file in LIBRARIES else f"_{stem}{EXTENSION_SUFFIXES[0]}"


@cache
def find_built(file: str) -> Path:
    """The file built of a C file; `NotBuiltError` if there is none, or one of other sources.

    NumPy's version a module compares itself when it is loaded.
    """
    path = (PACKAGE / file).with_name(built_name(file))
    try:
        held = path.read_bytes()
    except OSError:
        raise NotBuiltError("not built when the package was installed") from None
    if digest_of(file).encode() not in held:
        raise NotBuiltError("built from other sources: install the package again")
    return path

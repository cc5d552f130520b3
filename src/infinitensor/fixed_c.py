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
    "interrupts",
    "devices/gpu_driver",
    "devices/ledger",
    "api/session/lock",
    "api/session/released",
    "api/eager/numpy_loops",
    "api/evaluate/waiting",
    "api/small/small_calls",
    "api/known/known_calls",
    "ops/table/functions",
    "ops/move/moved_rows",
    "ops/sorting/sorted_lines",
    "runtime/native/c_job",
    "runtime/replay/few_kernels",
)
"""Extension modules of Python, each of the C file of that name in the package."""
LIBRARIES = (
    "threads",
    "runtime/native/c_program",
    "ops/backend/narrow_products",
    "ops/forms/folds",
    "ops/signal/fft_lines",
    "storage/file_io/crc32c",
    "storage/file_io/strided_read",
)
"""Libraries of functions that Python calls by their addresses: their C files."""
_INTEGERS = (("i", "int"), ("u", "uint"))
_USUAL = ("f4", "f8", "i4", "i8")
LOOPS = {
    f"{file}_{code}": (file, code)
    for file, codes in {
        "ops/sorting/sort": _USUAL,
        "ops/sorting/select": _USUAL,
        "ops/sorting/searchsorted": _USUAL,
        "ops/move/take": (*_USUAL, "u1"),
        "ops/reduce/histogram": _USUAL,
        "ops/reduce/scan": _USUAL,
        "ops/reduce/argminmax_topk": _USUAL,
        "ops/random/counter_rng": ("f4", "f8", "i8"),
        "ops/backend/blas": ("i4", "i8"),
    }.items()
    for code in codes
}
"""Libraries of loops of ops: a C file, for elements of a dtype, `blas` for the integers that a BLAS
counts with. A first call has them at once; those for this very machine are compiled beside, but
for `blas` (`c_loops.py`)."""
C_TYPES = {"f4": "float", "f8": "double", "b1": "uint8_t"}
C_TYPES |= {f"{kind}{n}": f"{name}{8 * n}_t" for n in (1, 2, 4, 8) for kind, name in _INTEGERS}
C_TYPES["V16"] = "__attribute__((aligned(8))) unsigned __int128"  # aligned as complex numbers
"""What C calls the elements that loops of ops are compiled for, by their dtypes."""
INSTRUCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "storage/file_io/crc32c": {"x86_64": ("-msse4.2",), "aarch64": ("-march=armv8-a+crc",)},
    "ops/table/functions": {"x86_64": ("-mavx2", "-mfma", "-mf16c")},
    "ops/backend/blas_i4": {"x86_64": ("-mavx2", "-mf16c")},
    "ops/backend/blas_i8": {"x86_64": ("-mavx2", "-mf16c")},
    "ops/backend/narrow_products": {"x86_64": ("-mavx2", "-mfma", "-mf16c")},
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


_PART = re.compile(r'^#include "(\w+\.c)"$', re.MULTILINE)
"""Files that loops of ops include, `keys.c`, `apart.c`, `products.c`, `look.c`: put in before
compiling."""


class NotBuiltError(Exception):
    """A file built with the package cannot be used; the text says why."""


def included(file: str) -> list[str]:
    """The headers of ours that a C file names, as paths in the package; of a loop its files."""
    if file in LOOPS:
        path = LOOPS[file][0]
        text = (PACKAGE / f"{path}.c").read_text("utf-8")
        parts = [_of_ops()[part].relative_to(PACKAGE).as_posix() for part in _PART.findall(text)]
        return [f"{path}.c", *parts, *_headers(text)]
    return _INCLUDED.findall((PACKAGE / f"{file}.c").read_text("utf-8"))


def _headers(text: str) -> list[str]:
    return [name for name in _INCLUDED.findall(text) if name.endswith(".h")]


@cache
def _of_ops() -> dict[str, Path]:
    """The C files of ops, each of which has its name alone."""
    folders = (entry.path for entry in os.scandir(PACKAGE / "ops") if entry.is_dir())
    files = ((folder, name) for folder in folders for name in os.listdir(folder))
    return {name: Path(folder, name) for folder, name in files if name.endswith(".c")}


def op_source(name: str) -> str:
    """A C file of ops with what it includes.

    >>> "int64_t" in op_source("keys.c")
    True
    """
    text = _of_ops()[name].read_text("utf-8")
    return _PART.sub(lambda found: op_source(found[1]), text)


@cache
def loop_source(stem: str, code: str) -> str:
    """A C file of ops for elements of a dtype, with what it includes."""
    head = f"#include <stdint.h>\ntypedef {C_TYPES[code]} T;\n"
    head += f"#define IS_FLOAT {int(code[0] == 'f')}\n#define IS_SIGNED {int(code[0] == 'i')}\n"
    head += f"#define BITS {8 * int(code[1:])}\n"
    return head + _with_headers(op_source(f"{stem}.c"))


def source_of(file: str) -> str:
    """A C file with its headers in their places."""
    if file in LOOPS:
        path, code = LOOPS[file]
        return loop_source(path.rpartition("/")[2], code)
    return _with_headers((PACKAGE / f"{file}.c").read_text("utf-8"))


def _with_headers(text: str) -> str:
    """A text with the files of ours that it names in their places."""
    return _INCLUDED.sub(lambda found: (PACKAGE / found[1]).read_text("utf-8"), text)


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
    return (
        f"{stem}.c.so" if file in LIBRARIES or file in LOOPS else f"_{stem}{EXTENSION_SUFFIXES[0]}"
    )


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

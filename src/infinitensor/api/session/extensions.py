"""The C form of files of the api."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infinitensor.config import config
from infinitensor.native import begin_extensions, extension

API = Path(__file__).parents[1]
HEADERS = {
    "session/lock": (),
    "session/released": (),
    "eager/numpy_loops": (),
    "evaluate/waiting": (),
    "small/small_calls": ("small/numbers.h", "small/host_values.h", "access/small_items.h"),
    "known/known_calls": ("known/known_calls.h",),
}
"""By the path of a file in the api: parts of it that are in other files."""


def _files(file: str) -> tuple[Path, ...]:
    """Its C file, and in front of it what that includes."""
    names = ("session/slots.h", *HEADERS[file], f"{file}.c")
    return tuple(API / name for name in names)


def compiled(file: str) -> Any:
    """The module of the C file beside one of Python.

    None without a compiler or the headers of Python and NumPy, and with `compile="never"`.
    """
    if config.compile == "never":
        return None
    return extension(*_files(Path(file).relative_to(API).with_suffix("").as_posix()))


if config.compile != "never":
    begin_extensions([_files(file) for file in HEADERS])

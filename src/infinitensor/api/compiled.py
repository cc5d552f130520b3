"""The C form of files of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infinitensor.config import config
from infinitensor.native import begin_extensions, extension

HEADERS = {
    "lock": (),
    "gone": (),
    "cores": (),
    "walk": (),
    "at_once": ("numbers.h", "near.h", "indices.h"),
    "quick": ("quick.h",),
}
"""By the name of a file: parts of it that lie in other files."""


def _files(stem: str) -> tuple[Path, ...]:
    """Its C file, and in front of it what that includes."""
    names = ("slots.h", *HEADERS[stem], f"{stem}.c")
    return tuple(Path(__file__).with_name(name) for name in names)


def compiled(file: str) -> Any:
    """The module of the C file beside one of Python.

    None without a compiler or the headers of Python and NumPy, and with `compile="never"`.
    """
    return None if config.compile == "never" else extension(*_files(Path(file).stem))


if config.compile != "never":
    begin_extensions([_files(stem) for stem in HEADERS])

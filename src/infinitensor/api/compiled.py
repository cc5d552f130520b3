"""The C form of a file of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infinitensor.config import config
from infinitensor.native import extension


def compiled(file: str) -> Any:
    """The module of the C file beside one of Python.

    None without a compiler or the headers of Python and NumPy, and with `compile="never"`.
    """
    if config.compile == "never":
        return None
    path = Path(file)
    return extension(path.with_suffix(".c"), path.with_name("slots.h"))

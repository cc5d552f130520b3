"""The C form of a file of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infinitensor.config import config
from infinitensor.native import extension


def compiled(file: str, *parts: str) -> Any:
    """The module of the C file beside one of Python, with parts of it that lie in other files.

    None without a compiler or the headers of Python and NumPy, and with `compile="never"`.
    """
    if config.compile == "never":
        return None
    path = Path(file)
    headers = [path.with_name(name) for name in ("slots.h", *parts)]
    return extension(path.with_suffix(".c"), *headers)

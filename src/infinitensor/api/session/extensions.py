"""The C form of files of the api."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infinitensor.config import config
from infinitensor.fixed_c import PACKAGE
from infinitensor.interrupts import look_in_c
from infinitensor.native import begin_extensions, extension


def load_beside(file: str) -> Any:
    """The module of the C file beside one of Python.

    None with `compile="never"`, and where it was not built with the package and there is no
    compiler, or no headers of Python and NumPy.
    """
    if config.compile == "never":
        return None
    return extension(Path(file).relative_to(PACKAGE).with_suffix("").as_posix())


if config.compile != "never":
    begin_extensions()
    if (_interrupts := extension("interrupts")) is not None:
        look_in_c(_interrupts)

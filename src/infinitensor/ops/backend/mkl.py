"""MKL, which torch's files for x86 have within them: its functions are called without torch.

To load the file takes 0.2 to 0.4 s, seconds where the system has not read it before, once in a
process, and 105 MB: a fifth of what an import of torch takes.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from infinitensor.ops.backend.torch_loading import wait_for_torch


def find_mkl(*, waits: bool = False) -> ctypes.CDLL | None:
    """The file with MKL's functions, if torch has one here.

    It needs others, which torch knows to find where they are in no usual place: None then, unless
    the caller `waits` for an import of torch. `OSError` if it cannot be loaded even so.
    """
    path = mkl_file()
    if path is None:
        return None
    try:
        return _load(path)
    except OSError:
        if not waits:
            return None
        wait_for_torch()
        return _load(path)


def is_of_intel() -> bool:
    """Whether this processor is one that MKL has its fastest loops for."""
    try:
        with open("/proc/cpuinfo") as file:
            return any("GenuineIntel" in line for line in file if line.startswith("vendor_id"))
    except OSError:
        return False


@cache
def mkl_file() -> Path | None:
    """The file that may have it; None where torch has none."""
    spec = find_spec("torch") if os.uname().machine == "x86_64" else None
    path = Path((spec and spec.origin) or "").parent / "lib" / "libtorch_cpu.so"
    return path if path.exists() else None


@cache
def _load(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))

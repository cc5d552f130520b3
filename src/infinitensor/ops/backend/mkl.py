"""MKL, which torch's files for x86 have within them: its functions are called without torch.

To load the file takes 0.2 to 0.4 s, seconds where the system has not read it before, once in a
process, and 105 MB: a fifth of what an import of torch takes.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from infinitensor.interrupts import without_interrupts
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
    load = ctypes.CDLL(None).dlopen  # without Python's lock, which `CDLL` keeps meanwhile
    load.restype = ctypes.c_void_p
    load(bytes(path), ctypes.c_int(os.RTLD_NOW))
    return ctypes.CDLL(str(path))


_lock = threading.Lock()
_loading: list[threading.Thread] = []


def begin_loading() -> None:
    """Start to load the file, unless that was done. A process that ends or forks waits for it."""
    if _loading:
        return
    with without_interrupts(), _lock:
        if not _loading:
            thread = threading.Thread(target=_load_beside, name="infinitensor-mkl")
            thread.start()
            _loading.append(thread)


def _load_beside() -> None:
    with suppress(OSError, AttributeError):  # whoever needs it gets the error
        find_mkl(waits=True)


def _wait() -> None:
    for thread in _loading:
        thread.join()


os.register_at_fork(before=_wait)  # a child would wait for the loader's lock

"""torch, which takes seconds to import, loaded by a thread: while files are read, or when a kernel
turns out to need it.

A Ctrl-C within its import aborts a process; it comes to the main thread, so in this one none does.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from infinitensor.events import lane
from infinitensor.interrupts import without_interrupts

_lock = threading.Lock()
_loading: list[threading.Thread] = []
n_user_threads: list[int] = []
"""The threads of each op, as torch found them: before our workers take one each."""


def begin_loading() -> None:
    """Start to import torch, unless that was done."""
    if "torch" in sys.modules or _loading:
        return
    with without_interrupts(), _lock:
        if not _loading:
            thread = threading.Thread(target=_load, name="infinitensor-torch")
            thread.start()
            _loading.append(thread)  # not before: others wait for what is in the list


def is_loading() -> bool:
    """Whether somebody else sees to it that torch is there."""
    return bool(_loading) and _loading[0].is_alive()


def is_of_user() -> bool:
    """Whether torch is there, and not since somebody here asked for it."""
    return "torch" in sys.modules and not _loading


def _load() -> None:
    try:
        import torch

        n_user_threads.append(torch.get_num_threads())
    except Exception:  # whoever needs it gets the error, where he needs it
        sys.modules.pop("torch", None)


class Calm(threading.local):
    """Whether a library knows that this thread, a worker of ours, has one core."""

    is_set = False


_calm = Calm()
n_calmed = [0]
"""Workers whose number of threads was set in torch, in this process: setting it may change the
user's number too."""


def calm(torch: Any) -> None:
    """Set torch's number of threads to one, once for each worker."""
    if not _calm.is_set:
        torch.get_num_threads()  # torch sets a thread up at its first question
        torch.set_num_threads(1)
        _calm.is_set = True
        n_calmed[0] += 1


def wait_for_torch() -> Any:
    """torch, once it is there."""
    begin_loading()
    if _loading:
        _loading[0].join()
    import torch

    if lane.is_worker:
        calm(torch)
    return torch

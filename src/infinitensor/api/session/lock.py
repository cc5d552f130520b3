"""The lock of a session: `threading.RLock`, or one in C (`lock.c`) that costs nothing to take.

Every recorded call takes it. While Python runs under a lock of its own, a free lock is taken by
writing down who has it; that is done where C can be compiled.
"""

from __future__ import annotations

import threading
from typing import Any

from infinitensor.api.session.extensions import load_beside

Lock: Any = threading.RLock
locking: Any = None
"""A pointer to what takes and releases it, for other C files; None without C."""


def _in_c() -> None:
    global Lock, locking
    module = load_beside(__file__)
    if module is not None:
        Lock, locking = module.Lock, module.locking


_in_c()

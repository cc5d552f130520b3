"""What several processes of one run of the tests need: the first that asks makes it for all."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder of this run that `make` has filled; the others wait for it, and change nothing."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, is_made = base / name, base / f"{name} is made"
    with (base / f"{name} lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made.exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            is_made.touch()
    return folder

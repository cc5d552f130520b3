"""Importing the library costs little, and imports nothing that it does not need yet."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.reliability.conftest import HoldsBar

BESIDE_NUMPY = """\
import time
import numpy
start = time.process_time()  # machines are shared: seconds of this process, not of the clock
import infinitensor
print(time.process_time() - start)
"""

ALONE = """\
import sys, infinitensor
heavy = {"torch", "scipy", "sklearn", "numba", "pandas", "pyarrow", "polars", "einops", "xarray"}
print(sorted(heavy & sys.modules.keys()))
"""


def printed_by(program: str) -> str:
    """What a program prints in a fresh interpreter."""
    command = [sys.executable, "-W", "error", "-c", program]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_import_brings_in_no_heavy_library() -> None:
    assert printed_by(ALONE) == "[]"


@pytest.mark.local
def test_import_takes_little_more_than_torchs(holds_bar: HoldsBar) -> None:
    """Torch imports NumPy too: what we add to NumPy's time is no less than what we add to its."""
    printed_by(BESIDE_NUMPY)  # writes byte code, as an installation does
    added = statistics.median(float(printed_by(BESIDE_NUMPY)) for _ in range(5))
    holds_bar("import infinitensor, beyond import numpy", added, 0.3)

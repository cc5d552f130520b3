"""SciPy and scikit-learn compute with tensors by the array-API standard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
STRICT = {
    "INFINITENSOR_SMALL_ELEMENTS": "0",
    "INFINITENSOR_TILE_ELEMENTS": "7",
    "INFINITENSOR_DEVICES": "cpu*3",
}


@pytest.mark.local
@pytest.mark.parametrize(
    "settings",
    [pytest.param(STRICT, id="strict"), pytest.param({}, id="default", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_a_library_gives_what_it_gives_on_arrays(library: str, settings: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.dispatched", library],
        cwd=REPOSITORY,
        env={**os.environ, "SCIPY_ARRAY_API": "1", **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}

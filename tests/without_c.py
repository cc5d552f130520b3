"""A file of tests again, in a process that compiles and loads no C."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def assert_passes_without_c(file: str) -> None:
    """Run a file of tests with `compile="never"`; skipped where this is that run."""
    if os.environ.get("INFINITENSOR_COMPILE") == "never":
        pytest.skip("this is that run")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
        env={**os.environ, "INFINITENSOR_COMPILE": "never"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout

"""`tools/npbench.py` on a checkout with two kernels: one that is right, one that nobody can run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.local

TOOL = Path(__file__).parents[2] / "tools" / "npbench.py"


def checkout(root: Path, name: str, body: str) -> None:
    folder = root / "npbench" / "benchmarks" / name
    folder.mkdir(parents=True)
    (root / "bench_info").mkdir(exist_ok=True)
    init = {"func_name": "initialize", "input_args": ["N"], "output_args": ["x"]}
    info = {
        "relative_path": name,
        "module_name": name,
        "func_name": "kernel",
        "parameters": {"S": {"N": 40}},
        "init": init,
        "input_args": ["N", "x"],
    }
    (root / "bench_info" / f"{name}.json").write_text(json.dumps({"benchmark": info}))
    head = "import numpy as np\n"
    (folder / f"{name}.py").write_text(f"{head}def initialize(N):\n    return np.arange(N) / N\n")
    (folder / f"{name}_numpy.py").write_text(f"{head}def kernel(N, x):\n    {body}\n")


def test_kernels_run_unchanged_and_failures_are_named(tmp_path: Path) -> None:
    checkout(tmp_path, "smooth", "x[1:-1] = (x[2:] + x[:-2]) / 2; return np.sum(x)")
    checkout(tmp_path, "words", "return np.char.upper('a') and np.busday_count")
    done = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path)], capture_output=True, text=True, check=True
    )
    smooth = [line.split() for line in done.stdout.splitlines() if line.startswith("smooth")]
    words = [line for line in done.stdout.splitlines() if line.startswith("words")]
    assert [line[1:3] for line in smooth] == [["default", "ok"], ["strict", "ok"]]
    assert smooth[0][5:] == ["0", smooth[0][6]]
    assert int(smooth[1][5]) > 0
    assert int(smooth[1][6]) == 0
    assert all("line 3: AttributeError: infinitensor has no" in line for line in words)
    assert "strict: 1 of 2" in done.stdout


def test_first_calls_of_a_session_are_added_up(tmp_path: Path) -> None:
    checkout(tmp_path, "smooth", "x[1:-1] = (x[2:] + x[:-2]) / 2; return np.sum(x)")
    checkout(tmp_path, "words", "return np.char.upper('a') and np.busday_count")
    asked = [sys.executable, str(TOOL), str(tmp_path), "--session", "cpu"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    empty, error, filled, again = done.stdout.splitlines()
    assert empty.startswith("2 kernels, an empty cache: ")
    assert filled.startswith("2 kernels, a filled cache: ")
    assert "most: " in empty
    assert error == again
    assert error.startswith("  words: AttributeError: infinitensor has no")

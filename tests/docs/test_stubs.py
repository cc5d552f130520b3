"""The stubs say what the table makes: current, accepted by mypy, and strict enough to help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.stubs import stubs

REPOSITORY = Path(__file__).resolve().parents[2]

RIGHT = """\
import numpy as np
from typing import assert_type
import infinitensor as it
from infinitensor import linalg

x = it.asarray([[1.0, 2.0], [3.0, 4.0]])
assert_type(x, it.Tensor)
assert_type(it.sum(x, axis=(0, 1), keepdims=True), it.Tensor)
assert_type(x.mean(0) + np.ones(2), it.Tensor)
assert_type(it.linalg.norm(x, axis=1), it.Tensor)
assert_type(linalg.solve(x, np.ones(2)), it.Tensor)
assert_type(it.add(x, 1, out=x, where=[True, False]), it.Tensor)
assert_type(it.modf(x), tuple[it.Tensor, it.Tensor])
assert_type(it.concatenate([x, [[1, 2]]]), it.Tensor)
assert_type(it.nonzero(x), tuple[it.Tensor, ...])
assert_type(it.fft.fft(x, n=4), it.Tensor)
with it.init("cpu*2", memory="1GiB"):
    float(it.exp(x).sum())
"""

WRONG = {
    "it.summ(x)": 'Module has no attribute "summ"',
    "it.sum(x, axes=0)": 'Unexpected keyword argument "axes" for "sum"',
    "it.sum(x, keepdims='no')": 'Argument "keepdims" to "sum" has incompatible type "str"',
    "it.add(x)": 'Too few arguments for "__call__"',
    "it.linalg.inv()": 'Missing positional argument "a"',
    "x.summ()": '"Tensor" has no attribute "summ"',
    "x.mean(axis='rows')": 'Argument "axis" to "mean"',
    "n: int = it.argmax(x)": "Incompatible types in assignment",
    "it.init(8)": 'Argument 1 to "init" has incompatible type "int"',
}


def mypy(program: str, folder: Path) -> list[str]:
    """What strict mypy says of a user's program that imports the library."""
    pytest.importorskip("mypy")
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--show-traceback"),
            *("--config-file", str(REPOSITORY / "pyproject.toml")),
            *("--cache-dir", str(REPOSITORY / ".mypy_cache"), str(file)),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    return (done.stdout + done.stderr).splitlines()


def test_the_committed_stubs_are_current() -> None:
    stale = [
        path.name
        for path, text in stubs().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run python tools/reference.py and commit what it writes"


def test_a_users_program_is_accepted_and_its_types_are_known(tmp_path: Path) -> None:
    assert mypy(RIGHT, tmp_path) == []


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    head = "import infinitensor as it\nx = it.ones(3)\n"
    found = mypy(head + "\n".join(WRONG) + "\n", tmp_path)
    for number, (line, message) in enumerate(WRONG.items(), start=3):
        said = [text for text in found if f"program.py:{number}:" in text]
        assert any(message in text for text in said), f"{line}: {said or found}"


@pytest.mark.parametrize("name", ["__init__", "linalg", "fft", "random"])
def test_the_stubs_are_part_of_the_package(name: str) -> None:
    assert (REPOSITORY / "src" / "infinitensor" / f"{name}.pyi").exists()
    assert (REPOSITORY / "src" / "infinitensor" / "py.typed").exists()

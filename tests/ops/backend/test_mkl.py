"""MKL in torch's file: found without torch, or not at all; what multiplies without it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from infinitensor.ops.backend import mkl

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_loaded_without_torch() -> None:
    text = "import sys; from infinitensor.ops.backend.mkl import find_mkl as f"
    text += "\nprint(f() is None, 'torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    is_missing, has_torch = said.stdout.split()
    assert is_missing in ("True", "False")
    assert has_torch == "False"


def test_a_file_that_cannot_be_loaded_is_none_unless_somebody_waits_for_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "libtorch_cpu.so"
    broken.write_bytes(b"nothing")
    waited = []
    monkeypatch.setattr(mkl, "_file", lambda: broken)
    monkeypatch.setattr(mkl, "wait_for_torch", lambda: waited.append(1))
    assert mkl.find_mkl() is None
    assert not waited
    with pytest.raises(OSError, match=r"libtorch_cpu\.so"):
        mkl.find_mkl(waits=True)
    assert waited
    monkeypatch.setattr(mkl, "_file", lambda: None)
    assert mkl.find_mkl(waits=True) is None


MULTIPLIED = """
import numpy as np
from infinitensor.ops.backend import blas, mkl
if {without}:
    blas.find_mkl = lambda: None
for dtype in "fdFD":
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((70, 333), (333, 90)))
    for x in (a, np.asfortranarray(a), np.pad(a, 2)[2:-2, 2:-2]):
        for y in (b, np.asfortranarray(b)):
            out = np.empty((70, 93), dtype)[:, :90]
            assert blas.multiply(x, y, out)
            np.testing.assert_allclose(out, x @ y, 1e-3, 1e-3)
print(blas.find_library() is not None)
"""


@pytest.mark.skipif(mkl.find_mkl() is None, reason="torch has no MKL here")
@pytest.mark.parametrize("without", [False, True])
def test_products_are_numpys_with_it_and_without(without: Any) -> None:
    text = MULTIPLIED.format(without=without)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        env={**os.environ, "INFINITENSOR_WORKERS": "3"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr

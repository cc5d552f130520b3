"""MKL in torch's file: found without torch, or not at all; what multiplies without it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

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
    monkeypatch.setattr(mkl, "mkl_file", lambda: broken)
    monkeypatch.setattr(mkl, "wait_for_torch", lambda: waited.append(1))
    assert mkl.find_mkl() is None
    assert not waited
    with pytest.raises(OSError, match=r"libtorch_cpu\.so"):
        mkl.find_mkl(waits=True)
    assert waited
    monkeypatch.setattr(mkl, "mkl_file", lambda: None)
    assert mkl.find_mkl(waits=True) is None


MULTIPLIED = """
import numpy as np
import time
from infinitensor.ops.backend import blas

ours = blas.find_library()

def made(x, y):
    out = np.full((len(x), y.shape[1] + 3), np.nan, x.dtype)[:, :-3]
    assert blas.multiply(x, y, out)
    return out

def operands(dtype, shape):
    rng = np.random.default_rng(0)
    m, k, n = shape
    x, y = (rng.standard_normal(of) + 1j * rng.standard_normal(of) for of in ((m, k), (k, n)))
    x, y = (a.astype(dtype) if dtype in "FD" else a.real.astype(dtype) for a in (x, y))
    yield x, y
    yield np.asfortranarray(x), np.pad(y, 2)[2:-2, 2:-2]
    yield x, x.T

shapes = ((256, 192, 256), (4096, 16, 32), (100, 99, 98), (70, 500, 90), (9, 700, 8))
given = [pair for dtype in "fdFD" for shape in shapes for pair in operands(dtype, shape)]
wanted = [made(*pair) for pair in given]
x, y = given[0]
until = time.monotonic() + 40
while not ours.made_by_mkl() and time.monotonic() < until:
    for _ in range(100):
        made(x, y)
before = ours.made_by_mkl()
for (x, y), out in zip(given, wanted):
    n_times = (1 << 28) // (x.shape[0] * x.shape[1] * y.shape[1]) + 1
    for _ in range(n_times if x.dtype == "f4" and len(x) < 5000 else 1):
        now = made(x, y)
    assert now.tobytes() == out.tobytes()
    np.testing.assert_allclose(now, x @ y, 1e-3, 1e-3)
time.sleep(0.5)
for (x, y), out in zip(given, wanted):
    for _ in range(3):
        assert made(x, y).tobytes() == out.tobytes()
import sys
print(before > 0, ours.made_by_mkl() > before, "torch" in sys.modules)
"""


def run(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        env={**os.environ, "INFINITENSOR_WORKERS": "3"},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(mkl.find_mkl() is None, reason="torch has no MKL here")
@pytest.mark.skipif(not mkl.is_of_intel(), reason="not used on this processor")
def test_products_have_the_same_bits_before_and_after_mkl_makes_them() -> None:
    done = run(MULTIPLIED)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True", "False"]), done.stderr


ENDED = """
import numpy as np
from infinitensor.ops.backend import blas

x = np.ones((512, 512), "f4")
out = np.empty_like(x)
for _ in range(140):
    assert blas.multiply(x, x, out)
"""


def test_a_process_ends_while_shapes_are_tried() -> None:
    for n in range(2):
        done = run(f"{ENDED}\nimport time; time.sleep({0.2 * n})")
        assert (done.returncode, done.stderr) == (0, "")


FORKED = """
import os, sys
for _ in range(3):
    child = os.fork()
    if not child:
        assert blas.multiply(x, x, out) and (out == 512).all()
        sys.exit(0)
    assert not os.waitpid(child, 0)[1]
"""


def test_a_fork_of_a_process_that_tries_shapes_multiplies() -> None:
    done = run(ENDED + FORKED)
    assert (done.returncode, done.stderr) == (0, "")


FIRST = """
import numpy as np
import infinitensor as it

a = np.random.default_rng(0).random((300, 300))
with it.init("cpu"):
    for dtype in ("f4", "f8", "c8", "f2"):
        x = it.asarray(a.astype(dtype))
        it.compute(x @ x.T, it.einsum("ij,jk->ki", x, x), it.fft.fft(x.reshape(-1)[:4096]))
    found = it.fft.rfft(it.asarray(a.reshape(-1)[:4096]))
    np.testing.assert_array_equal(found.numpy(), np.fft.rfft(a.reshape(-1)[:4096]))
with open("/proc/self/maps") as maps:
    print("libtorch_cpu" in maps.read())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="cannot see what is loaded")
def test_first_products_and_transforms_of_a_short_line_load_nothing_of_torch() -> None:
    done = run(FIRST)
    assert (done.returncode, done.stdout.split()) == (0, ["False"]), done.stderr

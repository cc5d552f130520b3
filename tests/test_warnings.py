"""No C of ours makes a compiler warn: files for every dtype, and generated code of every kind.

Here files are only read by the compiler; `python -m tools.sanitize --check warnings` compiles what
tests and random programs need with optimisation, which finds more.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tools.sanitize import CHECKS, run

import infinitensor
from infinitensor import native
from infinitensor.fixed_c import LIBRARIES, MODULES, source_of
from infinitensor.ops.backend import c_loops

SOURCE = Path(infinitensor.__file__).parent
PARTS = {"keys", "apart", "products", "look"}
"""Files that others include."""
FLOATS = {"tall_qr", "fft"}
IN_OPS = {path.relative_to(SOURCE).as_posix() for path in (SOURCE / "ops").rglob("*.c")}
FIXED = {f"{file}.c" for file in (*MODULES, *LIBRARIES)}
OF_OPS = {Path(file).stem for file in IN_OPS - FIXED}
"""Files of loops over tiles, by their names."""
OTHERS = [*(f"{file}.c" for file in LIBRARIES), "tasking/c/block_kernel.c"]

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")


def loop_files() -> list[tuple[str, str]]:
    return [
        (stem, dtype)
        for stem in sorted(OF_OPS - PARTS - {"blas"})
        for dtype in (["f4", "f8"] if stem in FLOATS else ["f4", "f8", "i8", "u1"])
    ]


def assert_no_warning(source: str, flags: tuple[str, ...]) -> None:
    cc = native.compiler()
    assert cc is not None
    line = [cc, *flags, *native.SANITIZERS["warnings"], "-fsyntax-only", "-x", "c", "-"]
    made = subprocess.run(line, input=source, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def test_every_file_is_looked_at() -> None:
    loops = {*PARTS, "blas"}.union(stem for stem, _ in loop_files())
    assert loops == OF_OPS
    others = {f"{file}.c" for file in MODULES}.union(OTHERS)
    files = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.c")}
    assert others == {file for file in files if Path(file).stem not in OF_OPS}


def test_c_files_of_ops_are_found_by_their_names() -> None:
    names = [path.name for path in (SOURCE / "ops").rglob("*.c")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("stem", "dtype"), loop_files())
def test_loops_of_ops_compile_without_a_warning(stem: str, dtype: str) -> None:
    assert_no_warning(c_loops.source_for(stem, np.dtype(dtype)), native.FLAGS)


@pytest.mark.parametrize("whole", ["i4", "i8"])
def test_products_compile_without_a_warning(whole: str) -> None:
    assert_no_warning(source_of(f"ops/backend/blas_{whole}"), native.FLAGS)


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_compile_without_a_warning(name: str) -> None:
    assert_no_warning(source_of(name.removesuffix(".c")), native.FLAGS)


@pytest.mark.parametrize("file", MODULES)
def test_modules_in_c_compile_without_a_warning(file: str) -> None:
    if not Path(native._of_module(file)[1][-2][2:], "Python.h").exists():
        pytest.skip("no headers of Python here")
    assert_no_warning(*native._of_module(file))


GENERATED = {
    "words of real numbers": "it.sqrt(abs(x)) + it.exp(x) * it.sin(y) - it.where(x > y, x, y)",
    "words of integers": "(k * 3 + 1) // 2 % 5 ^ k",
    "words of complex numbers": "(z * 2 + z) * 3 - z",
    "narrow numbers": "(u + 1) * u - u // 3",
    "casts and truth values": "(it.isnan(x) | (x > 1)) & (y > 3)",
    "reductions": "it.stack([((x * y) + 1).sum(), (x - y).max(), (x * x).mean(), (x + y).std()])",
    "rows reduced": "(x * y).sum(axis=1) + it.argmax(x - y, axis=1)",
    "columns reduced": "(x * y + 1).sum(axis=0) + (x * y).max(axis=0)",
    "one pass": "(x - x.mean(axis=0)) / (x.std(axis=0) + 1)",
    "softmax": "it.exp(x - x.max(axis=1, keepdims=True)) / it.exp(x).sum(axis=1, keepdims=True)",
    "short rows": "(s - s.mean(axis=0)) * 2 + s.sum(axis=1, keepdims=True)",
    "across": "x.T * 2 + 1",
    "few by few": "(s * 2 + 1) @ it.ones((3, 4)) + 1",
    "a stencil": "stencil(x * 1)",
    "running sums": "it.cumsum(x * 2 + y, axis=1)",
    "whole numbers reduced": "(k * 2 + 1).sum(axis=1) + it.count_nonzero(k & 1, axis=1)",
    "complex numbers reduced": "(z * 2 + 1).sum()",
    "float32 reduced": "(f * 2 + 1).sum(axis=1) + it.exp(f).min(axis=1)",
}
SCRIPT = f"""
import numpy as np
import infinitensor as it
from infinitensor import native

def stencil(x):
    for _ in range(2):
        x[1:-1] = (x[:-2] + x[2:]) * 0.5
    return x

rng = np.random.default_rng(0)
x, y = (it.asarray(rng.normal(size=(300, 400))) for _ in range(2))
f = it.asarray(rng.normal(size=(300, 400)).astype("f4"))
k = it.asarray(rng.integers(0, 9, (300, 400)))
u = it.asarray(rng.integers(0, 9, (300, 400), "u1"))
z = it.asarray(rng.normal(size=(300, 400)) + 1j)
s = it.asarray(rng.normal(size=(40_000, 3)))
for name, line in {GENERATED!r}.items():
    before = len(native._loaded)
    it.compute(*eval(f"[{{line}}]"))
    print(name, len(native._loaded) - before)
"""


@pytest.mark.timeout(600)
def test_generated_code_of_every_kind_compiles_without_a_warning() -> None:
    went_well, said = run(CHECKS["warnings"], ["-c", SCRIPT])
    assert went_well, said
    n_made = dict(re.findall(r"^(.*) (\d+)$", said, re.MULTILINE))
    assert n_made.keys() == GENERATED.keys()
    idle = [name for name, n in n_made.items() if n == "0"]
    assert not idle, f"nothing is generated for {idle}"

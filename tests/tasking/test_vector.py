"""Functions of generated code: within two units in the last place, everywhere."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor import native
from infinitensor.ops.table.functions import has_functions
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import EAGER, WORDS
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.c.loops import header
from infinitensor.tasking.kernels.c_kernel import compiled_kernel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
WORDS_AND_RANGES = {
    "exp": (-750, 715), "exp2": (-1080, 1030), "expm1": (-60, 715), "log": (0, 10),
    "log2": (0, 10), "log10": (0, 10), "log1p": (-1, 10), "sin": (-1e6, 1e6), "cos": (-1e6, 1e6),
    "tan": (-1e6, 1e6), "sinh": (-715, 715), "cosh": (-715, 715), "tanh": (-25, 25),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-10, 10),
}  # fmt: skip
N = 10_000


def samples(dtype: np.dtype[Any], low: float, high: float) -> np.ndarray:
    """All over the range, near 0 and 1, near multiples of pi / 2, of every magnitude, and ends."""
    rng = np.random.default_rng(1)
    info = np.finfo(dtype)
    low, high = max(low, -1e4), min(high, 1e4)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp - 1, N)
    ends = [0.0, 0.5, 1.0, 2.0, float(info.tiny), float(info.smallest_subnormal), float(info.max)]
    ends += [np.inf, np.nan, 709.78, 710.5, 88.72, 88.8, 103.9, 745.1]
    with np.errstate(over="ignore", under="ignore"):
        found = [
            rng.uniform(low, high, N),
            rng.uniform(-2, 2, N),
            1 + rng.normal(size=N) * 1e-4,
            np.rint(rng.uniform(-1e4, 1e4, N)) * (np.pi / 2),
            np.ldexp(rng.uniform(1, 2, N), exponents) * rng.choice([-1, 1], N),
            np.array(ends),
            -np.array(ends),
        ]
        return np.concatenate(found).astype(dtype)


def applied(words: list[str], dtype: np.dtype[Any], ins: list[np.ndarray]) -> list[np.ndarray]:
    n = len(ins)
    sources = tuple(("in", i) for i in range(n))
    parts = [
        GroupStep(Term(word, tuple(Arg(i) for i in range(n))), (dtype,) * n, sources, dtype, k)
        for k, word in enumerate(words)
    ]
    run = compiled_kernel(tuple(parts), (Input(dtype, False, False),) * n, len(words))
    outs = [np.empty_like(ins[0]) for _ in words]
    run(ins, outs, ins[0].shape)
    return outs


def ulps(got: np.ndarray, true: np.ndarray) -> np.ndarray:
    """How far values are from the true ones; infinite where one is not finite and the other is, or
    a zero has the wrong sign."""
    with np.errstate(all="ignore"):
        rounded = true.astype(got.dtype)
        unit = np.spacing(np.abs(rounded)).astype(true.dtype)
        away = np.abs(got.astype(true.dtype) - true) / unit
    away[(got == rounded) | (np.isnan(got) & np.isnan(rounded))] = 0
    away[(got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))] = np.inf
    away[np.isnan(got) != np.isnan(rounded)] = np.inf
    return np.asarray(away)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_functions_are_within_two_units_in_the_last_place(name: str) -> None:
    dtype = np.dtype(name)
    wide = np.dtype(np.longdouble if dtype == np.float64 else np.float64)
    if wide.itemsize == dtype.itemsize:
        pytest.skip("nothing here is more precise than float64")
    words = list(WORDS_AND_RANGES)
    x = np.concatenate([samples(dtype, *ends) for ends in set(WORDS_AND_RANGES.values())])
    for word, got in zip(words, applied(words, dtype, [x]), strict=True):
        with np.errstate(all="ignore"):
            true = WORDS[word].numpy(x.astype(wide))
        away = ulps(got, true)
        worst = int(np.argmax(away))
        assert away[worst] <= 2, (word, float(x[worst]), float(got[worst]), float(true[worst]))


@pytest.mark.skipif(not has_functions(), reason="eager functions are NumPy's here")
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_generated_code_has_the_bits_of_eager_functions(name: str) -> None:
    dtype = np.dtype(name)
    words = list(WORDS_AND_RANGES)
    x = np.concatenate([samples(dtype, *ends) for ends in set(WORDS_AND_RANGES.values())])
    for word, got in zip(words, applied(words, dtype, [x]), strict=True):
        with np.errstate(all="ignore"):
            assert np.array_equal(got, EAGER["cpu"][word](x), equal_nan=True), word
    y = np.random.default_rng(5).permutation(x)
    for word in ("power", "hypot", "arctan2"):
        (got,) = applied([word], dtype, [x, y])
        with np.errstate(all="ignore"):
            assert np.array_equal(got, EAGER["cpu"][word](x, y), equal_nan=True), word


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_powers_of_all_kinds_of_numbers_are_the_c_librarys(name: str) -> None:
    dtype = np.dtype(name)
    rng = np.random.default_rng(2)
    odd = np.array([0, -0.0, 1, -1, 2, -3, 0.5, np.inf, -np.inf, np.nan, 1e-40, -2.5], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(odd, odd))
    x = np.concatenate([x, np.exp(rng.normal(size=N) * 5).astype(dtype)])
    y = np.concatenate([y, (rng.normal(size=N) * 5).astype(dtype)])
    (got,) = applied(["power"], dtype, [x, y])
    with np.errstate(all="ignore"):
        away = ulps(got, np.power(x.astype(np.longdouble), y.astype(np.longdouble)))
    assert float(np.max(away)) <= 2


def test_functions_compile_for_processors_without_fused_multiply_adds(tmp_path: Path) -> None:
    """There all of them are calls of the C library."""
    called = (
        "void run(const float *a, float *r) { block_exp_f32(a, r, 4); block_tan_f32(a, r, 4); }"
    )
    includes = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
    source = tmp_path / "without.c"
    functions = [header(name) for name in ("polynomials.h", "vector.h", "blocks.h")]
    source.write_text("".join([includes, *functions, called]))
    command = [str(native.compiler()), "-U__FP_FAST_FMA", "-Wall", "-Wextra", "-Werror", "-c"]
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "without.o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

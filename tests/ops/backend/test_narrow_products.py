"""Products with a short side: all shapes, strides and dtypes, by every kind of vectors."""

from __future__ import annotations

import ctypes
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor import fixed_c, native, threads
from infinitensor.dtypes import bfloat16
from infinitensor.events import lane
from infinitensor.ops.backend import blas

if TYPE_CHECKING:
    from pathlib import Path

FILE = "ops/backend/narrow_products"
HALVES = {np.dtype(np.float16): 1, bfloat16: 2}
EPSILON = {8: 2.3e-16, 4: 1.2e-7}
needs_built = pytest.mark.skipif(
    native.built_library(FILE) is None, reason="not built with the package here"
)


def multiply(library: Any, kind: int, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """out = x @ y by a library's vectors of one kind."""
    (rows, k), columns = x.shape, y.shape[1]
    halves = [HALVES.get(a.dtype, 0) for a in (x, y, out)]
    given = [rows, columns, k, *(a.ctypes.data for a in (x, y, out))]
    given += [step for a in (x, y, out) for step in a.strides] + halves
    held = (ctypes.c_int64 * len(given))(*given)
    library.multiply_narrow(
        ctypes.c_int64(kind), ctypes.c_int64(out.dtype == np.float64), ctypes.byref(held)
    )


def stored(rng: np.random.Generator, rows: int, columns: int, dtype: Any) -> np.ndarray:
    """Random numbers, stored by rows, by columns, in wider rows, or apart."""
    places = [
        np.zeros((rows, columns), dtype),
        np.zeros((columns, rows), dtype).T,
        np.zeros((rows, columns + 3), dtype)[:, :columns],
        np.zeros((2 * rows, 2 * columns), dtype)[::2, ::2],
    ]
    made = places[rng.integers(len(places))]
    made[...] = rng.standard_normal((rows, columns)).astype(dtype)
    return made


def check(libraries: list[tuple[Any, int]], seed: int, most: int = 2_000_000) -> None:
    """A random product is right by all of them, writes nothing else, and has the same bits."""
    rng = np.random.default_rng(seed)
    rows, k, columns = (int(np.exp(rng.uniform(0, np.log(n)))) for n in rng.choice((9, 90, 900), 3))
    k = max(1, min(k, most // (rows * columns)))
    x_dtype, y_dtype, dtype = (np.dtype(rng.choice(["f4", "f8"])),) * 3
    if rng.random() < 0.4:
        halves = [np.dtype("f4"), np.dtype("f2"), bfloat16]
        x_dtype, y_dtype, dtype = (halves[i] for i in rng.integers(0, 3, 3))
    x, y = stored(rng, rows, k, x_dtype), stored(rng, k, columns, y_dtype)
    exact, sizes = (f(x.astype("f8")) @ f(y.astype("f8")) for f in (np.array, np.abs))
    digits = 8e-3 if dtype == bfloat16 else 1e-3 if dtype == np.float16 else 0
    near = EPSILON.get(dtype.itemsize, 1.2e-7) * (min(k, 256) + k / 256 + 2) * sizes + 1e-7 * digits
    made = []
    for library, kind in libraries:
        whole = np.full((rows + 2, columns + 5), 7, dtype)
        out = whole[1:-1, 2:-3]
        multiply(library, kind, x, y, out)
        assert (np.abs(out.astype("f8") - exact) <= near + digits * np.abs(exact)).all()
        made.append(out.tobytes())
        out[...] = 7
        assert (whole.astype("f4") == 7).all()
    assert len(set(made)) == 1


@needs_built
@pytest.mark.parametrize("seed", range(150))
def test_a_product_is_right_and_has_the_same_bits_by_all_vectors(seed: int) -> None:
    library = native.built_library(FILE)
    assert library is not None
    check([(library, kind) for kind in range(library.most_vectors() + 1)], seed)


def test_a_product_is_right_where_there_are_vectors_of_16_bytes_alone(tmp_path: Path) -> None:
    compiler = native.compiler()
    if compiler is None:
        pytest.skip("no C compiler here")
    source, built = tmp_path / "narrow.c", tmp_path / "narrow.so"
    source.write_text(fixed_c.source_of(FILE))
    flags = ("-O1", *fixed_c.PORTABLE_FLAGS[1:], "-fPIC", "-shared", "-o", str(built))
    subprocess.run([compiler, *flags, str(source), "-lm"], check=True)
    for seed in range(60):
        check([(ctypes.CDLL(str(built)), 0)], seed)


@needs_built
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", bfloat16])
@pytest.mark.parametrize(
    ("rows", "k", "columns"),
    [(2, 3, 70), (5000, 8, 8), (8, 700, 8), (3, 2, 5000), (6, 6, 6), (300, 48, 140)],
)
def test_narrow_products_are_not_left_to_the_library(
    dtype: Any, rows: int, k: int, columns: int
) -> None:
    rng = np.random.default_rng(0)
    x, y = stored(rng, rows, k, dtype), stored(rng, k, columns, dtype)
    out = np.empty((rows, columns), dtype)
    ours = blas.find_library()
    before = ours.made(), ours.made_by_mkl()
    assert blas.multiply(x, y, out)
    assert before == (ours.made(), ours.made_by_mkl())


@needs_built
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_a_narrow_product_cut_for_several_threads_has_the_bits_of_one(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads._n_threads, "value", 3)
    rng = np.random.default_rng(1)
    for rows, k, columns in ((40_000, 12, 7), (9, 300, 3000), (700, 8, 700)):
        x, y = stored(rng, rows, k, dtype), stored(rng, k, columns, dtype)
        cut, whole = np.empty((rows, columns), dtype), np.empty((rows, columns), dtype)
        assert blas.multiply(x, y, cut)
        with monkeypatch.context() as alone:
            alone.setattr(lane, "is_worker", True)
            assert blas.multiply(x, y, whole)
        np.testing.assert_array_equal(cut, whole)


@needs_built
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("is_row", [False, True])
def test_vectors_and_matrices_of_stacks_are_not_left_to_the_library(
    dtype: str, is_row: bool
) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((50, 1, 40)).astype(dtype)
    matrices = rng.standard_normal((50, 40, 35)).astype(dtype)
    out = np.empty((50, 1, 35), dtype)
    x, y, made = vectors, matrices, out
    if not is_row:
        x, y, made = (a.swapaxes(1, 2) for a in (matrices, vectors, out))
    ours = blas.find_library()
    before = ours.made(), ours.made_by_mkl()
    assert blas.multiply(x, y, made)
    assert before == (ours.made(), ours.made_by_mkl())
    expected = vectors.astype("f8") @ matrices.astype("f8")
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=300 * EPSILON[out.itemsize])


@needs_built
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("k", [2, 16, 48])
def test_a_shallow_matrix_times_itself_is_symmetric_to_the_bit(dtype: str, k: int) -> None:
    x = np.random.default_rng(k).standard_normal((k, 300)).astype(dtype)
    out = np.empty((300, 300), dtype)
    assert blas.multiply(x.T, x, out)
    np.testing.assert_array_equal(out, out.T)
    np.testing.assert_allclose(out, x.T @ x, rtol=1e-4, atol=1e-5)


@needs_built
def test_what_is_not_finite_is_where_numpy_has_it() -> None:
    x = np.ones((40, 20), "f4")
    x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
    y = np.ones((20, 9), "f4")
    y[8, 2] = 0
    with np.errstate(invalid="ignore"):
        expected = x @ y
    out = np.empty((40, 9), "f4")
    assert blas.multiply(x, y, out)
    np.testing.assert_array_equal(out, expected)

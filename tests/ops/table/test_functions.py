"""Functions have the bits of generated code, for every layout; all else is NumPy's."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.dtypes import bfloat16
from infinitensor.ops.table.functions import as_generated, has_functions, with_our_loops
from infinitensor.ops.table.words import EAGER, OF_HALVES, WORDS, Block

FUNCTIONS = sorted(name for name, word in WORDS.items() if isinstance(word.c.get("f"), Block))
ONE = [name for name in FUNCTIONS if WORDS[name].n_args == 1]
TWO = [name for name in FUNCTIONS if WORDS[name].n_args == 2]
pytestmark = pytest.mark.skipif(not has_functions(), reason="functions are NumPy's here")


def apply(name: str, *args: Any, **options: Any) -> Any:
    with np.errstate(all="ignore"):
        return EAGER["cpu"][name](*args, **options)


def samples(n_args: int, dtype: Any, n: int = 5000) -> list[Any]:
    rng = np.random.default_rng(n_args)
    odd = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30]
    return [np.concatenate([odd, rng.standard_normal(n)]).astype(dtype) for _ in range(n_args)]


def same(a: Any, b: Any) -> bool:
    """Bit for bit, but for the signs of NaN."""
    if a.dtype != b.dtype or a.dtype.kind == "c":
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    x, y = (np.asarray(each, np.float64) for each in (a, b))
    has_signs = np.signbit(x) == np.signbit(y)
    return np.array_equal(x, y, equal_nan=True) and bool(np.all(has_signs | np.isnan(x)))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_are_near_numpys(name: str, dtype: str) -> None:
    x = samples(WORDS[name].n_args, dtype)
    with np.errstate(all="ignore"):
        expected = WORDS[name].numpy(*x)
    got = apply(name, *x)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=8 * np.finfo(got.dtype).eps)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", bfloat16])
def test_layouts_do_not_change_a_bit(name: str, dtype: Any) -> None:
    x = samples(WORDS[name].n_args, dtype)
    expected = apply(name, *x)
    apart = [np.repeat(v, 3)[::3] for v in x]
    assert same(apply(name, *apart), expected)
    assert same(apply(name, *(v[::-1] for v in x)), expected[::-1])
    spread = np.zeros((len(x[0]), 2), expected.dtype)
    apply(name, *x, out=spread[:, 1])
    assert same(spread[:, 1], expected)
    if expected.dtype == x[0].dtype:
        changed = x[0].copy()
        apply(name, changed, *x[1:], out=changed)
        assert same(changed, expected)
    assert apply(name, *(v[:0] for v in x)).shape == (0,)


@pytest.mark.parametrize("name", TWO)
def test_one_number_for_all(name: str) -> None:
    x, y = samples(2, "float32")
    expected = apply(name, x, np.full_like(x, 2))
    assert same(apply(name, x, np.float32(2)), expected)
    assert same(apply(name, np.float32(2), y), apply(name, np.full_like(y, 2), y))


@pytest.mark.parametrize("name", ["exp", "tanh", "log2"])
@pytest.mark.parametrize("dtype", [np.dtype("float16"), bfloat16])
def test_every_half_is_computed_in_float32_and_rounded_once(name: str, dtype: Any) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        expected = apply(name, halves.astype(np.float32)).astype(dtype)
    assert same(apply(name, halves), expected)


def test_float16_rounds_to_even_and_into_subnormal_numbers() -> None:
    """exp2 and log2 reach all of its range, with ties among them."""
    x = np.arange(-26, 17, 1 / 256).astype(np.float16)
    with np.errstate(all="ignore"):
        expected = apply("exp2", x.astype(np.float32)).astype(np.float16)
    assert same(apply("exp2", x), expected)
    rng = np.random.default_rng(3)
    pairs = (2.0 ** rng.uniform(-24, 15, (2, 100_000))).astype(np.float16)
    expected = apply("hypot", *pairs.astype(np.float32)).astype(np.float16)
    assert same(apply("hypot", *pairs), expected)


ARITHMETIC = sorted(name for name, each in OF_HALVES.items() if each is not EAGER["cpu"][name])


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("dtype", [np.dtype("float16"), bfloat16])
def test_arithmetic_of_halves_has_numpys_bits(name: str, dtype: Any) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    given = [x, np.random.default_rng(5).permutation(x)][: WORDS[name].n_args]
    word, numpys = OF_HALVES[name], EAGER["cpu"][name]
    assert isinstance(word, np.ufunc)
    with np.errstate(all="ignore"):
        expected = numpys(*given)
        assert same(word(*given), expected)
        assert same(word(*given, out=np.empty_like(expected)), expected)
        assert same(word(*(v[::-3] for v in given)), expected[::-3])
        assert same(word(*(v[:5] for v in given)), expected[:5])
        assert word(*(v[:0] for v in given)).dtype == expected.dtype


def test_words_of_halves_leave_other_dtypes_to_numpy() -> None:
    assert {"add", "multiply", "divide", "less"} <= set(ARITHMETIC)
    add = OF_HALVES["add"]
    x = np.linspace(-3, 3, 101)
    for dtype in ("float32", "float64", "int64", "complex64"):
        np.testing.assert_array_equal(add(x.astype(dtype), x.astype(dtype)), (x.astype(dtype) * 2))


@pytest.mark.parametrize("dtype", ["int8", "int64", "bool", "complex64", "complex128"])
def test_other_dtypes_have_numpys_rules_and_complex_numbers_its_values(dtype: str) -> None:
    x = np.arange(6).astype(dtype)
    expected = np.log(x + 1)
    got = apply("log", x + 1)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-3)
    if expected.dtype.kind == "c":
        assert same(got, expected)
    assert np.array_equal(apply("power", np.arange(5), 3), np.arange(5) ** 3)
    with pytest.raises(ValueError, match="negative integer powers"):
        apply("power", np.arange(1, 3), np.array([-1, -1]))


def plane(dtype: Any) -> Any:
    """Complex numbers with all pairs of odd parts, and plain ones."""
    odd = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 1e30, -1e30, 100.0, -100.0, 3e38]
    pairs = np.array([complex(x, y) for x in odd for y in odd])
    rng = np.random.default_rng(5)
    plain = rng.standard_normal(3000) * 4 + 4j * rng.standard_normal(3000)
    return np.concatenate([pairs, plain]).astype(dtype)


def near(got: Any, expected: Any) -> bool:
    """Parts of real numbers within 4 units in the last place; signs, infinities and NaN alike."""
    known = ~np.isnan(expected)
    with np.errstate(all="ignore"):
        is_far = abs(got - expected) > 4 * abs(np.spacing(expected))
    is_far &= np.isfinite(expected)
    other = (got != expected) & ~np.isfinite(expected) & known
    signs = (np.signbit(got) != np.signbit(expected)) & known
    return not (is_far | other | signs | (np.isnan(got) & known)).any()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_exponentials_and_sizes_are_numpys_within_four_units(dtype: Any) -> None:
    x = plane(dtype)
    with np.errstate(all="ignore"):
        exp, size = np.exp(x), np.abs(x)
    got = apply("exp", x)
    assert got.dtype == dtype
    assert near(got.real, exp.real)
    assert near(got.imag, exp.imag)
    assert apply("absolute", x).dtype == size.dtype
    assert near(apply("absolute", x), size)


@pytest.mark.parametrize("name", ["exp", "absolute"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_layouts_do_not_change_a_bit_of_complex_functions(name: str, dtype: Any) -> None:
    x = plane(dtype)
    expected = apply(name, x)
    assert same(apply(name, np.repeat(x, 3)[::3]), expected)
    assert same(apply(name, x[::-1]), expected[::-1])
    spread = np.zeros((len(x), 2), expected.dtype)
    apply(name, x, out=spread[:, 1])
    assert same(spread[:, 1], expected)
    changed = x.copy()
    into = changed if name == "exp" else changed.view(expected.dtype)[: len(x)]
    assert same(apply(name, changed, out=into), expected)


@pytest.mark.parametrize("dtype", ["?", "b", "B", "i4", "u8", "f2", "f4", "f8", bfloat16])
def test_sizes_of_real_numbers_are_numpys(dtype: Any) -> None:
    x = np.array([0, 1, 5, 100]).astype(dtype)
    assert apply("absolute", x).dtype == np.abs(x).dtype
    assert same(apply("absolute", -x if x.dtype.kind == "f" else x), np.abs(x))


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(ValueError, match="no function over blocks nothing"):
        as_generated(np.sqrt, "nothing")
    assert with_our_loops(np.add) is np.add
    assert with_our_loops(np.exp) is EAGER["cpu"]["exp"] is not np.exp


@pytest.mark.parametrize("n", [70_000, 1 << 20])
def test_a_program_has_the_same_bits_however_often_it_ran(n: int) -> None:
    """At once, planned, and compiled beside."""
    given = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    with it.init("cpu"):
        made = []
        for _ in range(60):
            x = it.asarray(given)
            made.append((it.tanh(it.exp(-abs(x)) * 2 + 1) - it.log1p(abs(x))).numpy())
        until = time.monotonic() + 60
        while it.stats()["kernels_compiling"] and time.monotonic() < until:
            time.sleep(0.01)
        x = it.asarray(given)
        made.append((it.tanh(it.exp(-abs(x)) * 2 + 1) - it.log1p(abs(x))).numpy())
    assert all(np.array_equal(made[0], each) for each in made)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_a_complex_program_has_the_same_bits_however_often_it_ran(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((2, 90_000)) + 1j * rng.standard_normal((2, 90_000))).astype(dtype)

    def program() -> Any:
        x, y = it.asarray(a), it.asarray(b)
        made = it.conj(it.exp(x * y * 0.1 - y)) * x - y * y
        return np.concatenate([made.numpy(), abs(made + x).numpy()])

    with it.init("cpu"):
        made = [program() for _ in range(60)]
        until = time.monotonic() + 60
        while it.stats()["kernels_compiling"] and time.monotonic() < until:
            time.sleep(0.01)
        made += [program() for _ in range(3)]
    assert all(np.array_equal(made[0], each) for each in made)


SPECIAL = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-310, 5e-324, 1e308, -1e308, 3e38, 2, -0.5]


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_angles_in_all_quadrants_are_the_c_librarys(kind: str) -> None:
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(kind)
        wide = rng.standard_normal(20_000) * 10.0 ** rng.integers(-30, 30, 20_000)
        y, x = (v.ravel() for v in np.meshgrid(special, special))
        y, x = np.concatenate([y, wide.astype(kind)]), np.concatenate([x, wide[::-1].astype(kind)])
        wanted = np.arctan2(y, x)
        made = it.arctan2(it.asarray(y), it.asarray(x)).numpy()
    np.testing.assert_array_equal(np.signbit(made), np.signbit(wanted))
    np.testing.assert_array_max_ulp(made, wanted, 4)


def test_cube_roots_are_rounded_once() -> None:
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(np.float32)
    x = np.concatenate([special, np.linspace(-50, 50, 9_000).astype(np.float32)])
    wanted = np.cbrt(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_max_ulp(it.cbrt(it.asarray(x)).numpy(), wanted, 1)
    assert it.cbrt(it.asarray(np.array([8, -27, 1000], np.float32))).tolist() == [2, -3, 10]

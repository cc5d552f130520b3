"""Generated C computes what NumPy computes, in every dtype, layout and order of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tasking.words import operands

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import HALVES, finfo
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported, expression
from infinitensor.tasking.c.loops import source_of
from infinitensor.tasking.kernels.c_kernel import Compiled, compiled_kernel

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]


def test_plain_arithmetic_has_numpys_bits() -> None:
    dtype = np.dtype(np.float32)
    x, y, _ = operands(dtype)
    tree = Term("add", (Term("multiply", (Arg(0), Arg(1))), Arg(1)))
    run = compiled_kernel(
        (GroupStep(tree, (dtype, dtype), (("in", 0), ("in", 1)), dtype, 0),),
        (Input(dtype, False, False),) * 2,
        1,
    )
    out = np.empty(64, dtype)
    run([x, y], [out], (64,))
    with np.errstate(all="ignore"):
        assert out.tobytes() == (x * y + y).tobytes()  # no fused multiply-add


def test_what_c_does_otherwise_than_numpy_is_refused() -> None:
    with pytest.raises(Unsupported, match="cast from float64 to uint8"):
        source_of(
            [
                GroupStep(
                    Term("cast", (Arg(0),)), (np.dtype(float),), (("in", 0),), np.dtype(np.uint8), 0
                )
            ],
            [Input(np.dtype(float), False, False)],
            1,
        )
    with pytest.raises(Unsupported, match="gcd of int64"):
        expression(Term("gcd", (Arg(0), Arg(0))), [("x", np.dtype(np.int64))])
    with pytest.raises(Unsupported, match="maximum of complex128"):
        expression(Term("maximum", (Arg(0), Arg(0))), [("x", np.dtype(complex))])


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u4", "u8"])
def test_integers_that_c_leaves_undefined_are_numpys(kind: str, always: None) -> None:
    ends = np.iinfo(kind)
    bits = 8 * np.dtype(kind).itemsize
    some = [ends.min, ends.max, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1]
    if ends.min:
        some += [-1, -2, -7, ends.min + 1]
    a = np.repeat(np.array(some, kind), len(some))
    b = np.tile(np.array(some, kind), len(some))
    with it.init("cpu"), np.errstate(all="ignore"):
        x, y = it.asarray(a), it.asarray(b)
        for mine, wanted in (
            (x // y + 1, a // b + 1),
            (x % y + 1, a % b + 1),
            ((x << y) + 1, (a << b) + 1),
            ((x >> y) + 1, (a >> b) + 1),
            (~x + 1, ~a + 1),
            (x.clip(2, 7) * 3, a.clip(2, 7) * 3),
        ):
            np.testing.assert_array_equal(mine.numpy(), wanted, strict=True)
        assert it.stats()["eager_fallbacks"] == 0


@pytest.mark.parametrize("word", ["floor_divide", "remainder"])
@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_a_divisor_of_all_is_inverted_exactly(kind: str, word: str) -> None:
    dtype, ends = np.dtype(kind), np.iinfo(kind)
    step = GroupStep(Term(word, (Arg(0), Arg(1))), (dtype,) * 2, (("in", 0), ("in", 1)), dtype, 0)
    run = compiled_kernel((step,), (Input(dtype, False, False), Input(dtype, True, False)), 1)
    rng = np.random.default_rng(5)
    powers = [2**k + more for k in range(dtype.itemsize * 8) for more in (-1, 0, 1)]
    signs = (1, -1) if ends.min else (1,)
    edges = [s * p for s in signs for p in powers if ends.min <= s * p <= ends.max]
    some = [0, 3, 5, 7, 10, 100, ends.min, ends.max, *edges]
    some += rng.integers(ends.min, ends.max, 40, dtype, endpoint=True).tolist()
    divisors = range(ends.min, ends.max + 1) if dtype.itemsize == 1 else some
    multiples = [q * d + more for d in some for q in (1, 2, 11) for more in (-1, 0)]
    numbers = [n for n in (*some, *multiples) if ends.min <= n <= ends.max]
    every = np.array([*divisors, *numbers] if dtype.itemsize == 1 else numbers, dtype)
    near = [n for n in numbers if -(1 << 49) <= n < 1 << 49]
    for x in (every, np.array(near, dtype)) if dtype.itemsize == 8 else (every,):
        out = np.empty_like(x)
        for y in np.array(divisors, dtype):
            run([x, y], [out], x.shape)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(out, getattr(np, word)(x, y), f"by {y}")


def test_a_divisor_of_a_row_is_inverted(always: None) -> None:
    a = np.arange(-6000, 6000, dtype=np.int32).reshape(40, 300)
    b = np.arange(-20, 20, dtype=np.int32).reshape(40, 1)
    with it.init("cpu"), np.errstate(all="ignore"):
        x, y = it.asarray(a), it.asarray(b)
        np.testing.assert_array_equal((x // y + x % y).numpy(), a // b + a % b)
        assert it.stats()["eager_fallbacks"] == 0


HALF_WORDS = (
    "add subtract multiply divide maximum minimum negative absolute sign square sqrt reciprocal "
    "floor ceil trunc rint copysign less greater_equal equal isnan isfinite"
)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("define", ["", "#define HALVES_AS_FLOATS\n"], ids=["", "as floats"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("word", HALF_WORDS.split())
def test_halves_have_the_bits_of_their_eager_words(
    word: str, dtype: np.dtype[Any], define: str
) -> None:
    like = getattr(np, word)
    every = np.arange(1 << 16, dtype=np.uint16)
    x = np.repeat(every, 4).view(dtype)
    y = np.random.default_rng(1).permutation(np.repeat(every, 4)).view(dtype)
    y[::5] = x[::5]
    given = [x, y][: like.nin]
    with np.errstate(all="ignore"):
        want = like(*given)
    tree = Term(word, tuple(map(Arg, range(like.nin))))
    sources = tuple(("in", i) for i in range(like.nin))
    step = GroupStep(tree, (dtype,) * like.nin, sources, want.dtype, 0)
    run = Compiled((step,), (Input(dtype, False, False),) * like.nin, 1, (), (), (-1,), False)
    run.source = define + run.source
    out = np.empty(x.shape, want.dtype)
    run(given, [out], x.shape)
    bits = f"u{out.itemsize}"
    is_same = out.view(bits) == want.view(bits)
    with np.errstate(all="ignore"):  # which NaN it is depends on the processor
        are_nan = np.isnan(out.astype(float)) & np.isnan(want.astype(float))
    assert (is_same | are_nan).all()


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("other", ["f4", "i1", "u2", "?"])
def test_casts_to_and_from_halves_are_numpys(half: np.dtype[Any], other: str) -> None:
    rng = np.random.default_rng(2)
    wide = np.dtype(other)
    some = rng.integers(0, 256, 1 << 18, np.uint8).view("u1")
    values = some[: 1 << 17].view(wide) if wide.kind != "b" else some > 99
    if wide.kind == "f":
        scales = np.exp2(rng.integers(-30, 20, 1 << 17))
        near = rng.integers(0, 1 << 12, 1 << 17) * scales  # many halfway between two halves
        values = np.concatenate([values, near.astype(wide)])
    every = np.arange(1 << 16, dtype=np.uint16).view(half)
    pairs = [(values, half)] + ([(every, wide)] if wide.kind in "fb" else [])
    for given, target in pairs:
        step = GroupStep(Term("cast", (Arg(0),)), (given.dtype,), (("in", 0),), target, 0)
        run = compiled_kernel((step,), (Input(given.dtype, False, False),), 1)
        out = np.empty(given.shape, target)
        run([given], [out], given.shape)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out.astype(float), given.astype(target).astype(float))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("shape", [(0,), (3000,), (40, 3), (7, 300), (5, 6, 70)], ids=str)
def test_programs_of_halves_are_generated(
    dtype: np.dtype[Any], shape: tuple[int, ...], always: None
) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    row = rng.normal(size=(*shape[:-1], 1)).astype(dtype)

    def program(xp: Any, a: Any, b: Any, row: Any) -> list[Any]:
        c = (a * 2 + b) / (xp.abs(b) + 1) - row
        return [c, xp.where(c > b, c, a * row), xp.maximum(c, a[..., ::-1]).T, c.astype("f4") * 3]

    with it.init("cpu"):
        found = program(it, *map(it.asarray, (a, b, row)))
        for mine, wanted in zip(found, program(np, a, b, row), strict=True):
            assert mine.dtype == wanted.dtype
            np.testing.assert_array_equal(mine.numpy().astype(float), wanted.astype(float))
        assert it.stats()["eager_fallbacks"] == 0


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_functions_of_halves_are_rounded_once(dtype: np.dtype[Any], always: None) -> None:
    a = np.random.default_rng(6).normal(size=4000).astype(dtype)
    wide = a.astype(float)
    with it.init("cpu"):
        x = it.asarray(a)
        found = (it.tanh(x) * it.exp(-it.abs(x))).numpy().astype(float)
    step = float(finfo(dtype).eps)
    np.testing.assert_allclose(found, np.tanh(wide) * np.exp(-np.abs(wide)), 2 * step, step / 8)

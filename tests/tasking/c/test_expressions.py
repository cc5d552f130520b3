"""Generated C computes what NumPy computes, in every dtype, layout and order of memory."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tasking.words import operands

import infinitensor as it
from infinitensor import native
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported, expression
from infinitensor.tasking.c.loops import source_of
from infinitensor.tasking.kernels.c_kernel import compiled_kernel

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]
as_it_is_used = pytest.mark.skipif(
    bool(native.sanitizers()), reason="under checks all is compiled, and what does not is an error"
)
DOUBLE = np.dtype(np.float64)
ULPS = 8
"""How far two values of a function may be apart: NumPy's vector functions promise 4 units in the
last place (on x86 they use them all), the functions of C libraries 3."""


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
    x = np.array([*divisors, *numbers] if dtype.itemsize == 1 else numbers, dtype)
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

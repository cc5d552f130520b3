"""Quotients and roots of float32 in Triton: exact with each one checked, exact with one check for
all of them, or approximate.

Triton's own division of float32 is approximate. The exact one is a short way, right for ordinary
operands, and a branch for others, whose checks take as long as the way itself. So groups with
several divisions go the short way without a check, keep the smallest of all sizes that show whether
it was right, and look at that once in the end (`LATE`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import WORDS

if TYPE_CHECKING:
    from infinitensor.ops.table.words import Word

ONE = "1.0"
DIVIDE = Term("divide", (Arg(0), Arg(1)))
DIVISIONS = frozenset(name for name, word in WORDS.items() if word.float32.late)
"""The words that are quotients and roots: they have a short way."""


class Division(Enum):
    """How float32 is divided and roots are taken."""

    EXACT = "exact"
    """As NumPy does; each operand is checked."""
    LATE = "late"
    """The short way; where `sizes_to_check` values are not all right, everything is computed
    again."""
    FUSED = "fused"
    """Off by up to two units in the last place."""


LEAST_CHECKED_SIZE = 2.0**-50
"""Where no `sizes_to_check` value is smaller in size, nor NaN, the short way is exact.

It is what the driver's compiler does with ordinary operands: an approximate reciprocal, corrected
by what it leaves of 1, and a result, corrected by what it leaves. If operands are multiplied by
powers of two so is every step, unless it underflows or overflows; so what is exact for some
exponents is exact for all. What a quotient leaves of 2**-50 or more has its last bit at 2**-97 at
least, what a root of 2**-50 leaves has it at 2**-147: both are float32. A denominator without a
reciprocal (0, infinite, NaN, subnormal or above 2**126) makes the quotient 0 or NaN, a quotient
that overflows on the way is NaN, and so is the root of anything but positive numbers.
"""

_LEAST_WORD, _INFINITE_WORD = (
    np.array([LEAST_CHECKED_SIZE, np.inf], np.float32).view(np.uint32).tolist()
)

_SHORT = {
    "quotient(a, b)": (
        "neg.f32 n, $2;",
        "rcp.approx.ftz.f32 r, $2;",
        "fma.rn.f32 e, n, r, 0f3F800000;",
        "fma.rn.f32 r, r, e, r;",
        "mul.rn.f32 q, $1, r;",
        "fma.rn.f32 e, n, q, $1;",
        "fma.rn.f32 $0, r, e, q;",
    ),
    "inverse(b)": (
        "neg.f32 n, $1;",
        "rcp.approx.ftz.f32 r, $1;",
        "fma.rn.f32 e, n, r, 0f3F800000;",
        "fma.rn.f32 $0, r, e, r;",
    ),
    "root(x)": (
        "rsqrt.approx.ftz.f32 r, $1;",
        "mul.rn.ftz.f32 q, $1, r;",  # a negative subnormal number is no number from here on
        "mul.rn.f32 r, r, 0f3F000000;",
        "neg.f32 n, q;",
        "fma.rn.f32 e, n, q, $1;",
        "fma.rn.f32 $0, e, r, q;",
    ),
}


def functions() -> str:
    """Triton functions that `LATE` needs: the short ways."""
    text = ""
    for head, lines in _SHORT.items():
        given = head[head.index("(") + 1 : -1]
        asm = " ".join(["{ .reg .f32 n, r, e, q;", *lines, "}"])
        kinds = ",".join(["=f"] + ["f"] * len(given.split(",")))
        called = f'"{asm}", "{kinds}", [{given}], tl.float32, True, 1'
        text += f"@triton.jit\ndef {head}:\n    return tl.inline_asm_elementwise({called})\n\n\n"
    return text


def form_of(word: Word, names: list[str], how: Division) -> tuple[Word, list[str]]:
    """A word over names of float32: a quotient of 1 is a reciprocal, in fewer instructions."""
    if word.name == DIVIDE.word and names[0] == ONE and how is not Division.FUSED:
        return WORDS["reciprocal"], names[1:]
    return word, names


def text_of(word: Word, how: Division) -> str:
    """The text of a word over float32; empty: that of float64, which Triton computes exactly."""
    text: str = getattr(word.float32, how.value)
    return text


def found_far(least: str) -> list[str]:
    """Lines that say in `is_far` whether the smallest of all `sizes_to_check` sizes of some lane is
    less than `LEAST_CHECKED_SIZE` (one that has to be positive comes with its sign), or no number.

    As a word without a sign, counted from `LEAST_CHECKED_SIZE`, all of these are at the far end,
    and one instruction finds the largest word of a warp; for a comparison in each lane it takes
    three more.
    """
    return [
        f"far = ({least}.to(tl.uint32, bitcast=True) - {_LEAST_WORD}).to(tl.uint32)",
        f"is_far = tl.max(tl.broadcast_to(far, (BLOCK,)), 0) >= {_INFINITE_WORD - _LEAST_WORD}",
    ]


def sizes_to_check(word: Word, names: list[str], made: str) -> list[str]:
    """The names of values that show whether the short way was exact."""
    return [made, names[0]] if word.float32.checks_x else [made]

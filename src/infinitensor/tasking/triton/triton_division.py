"""Quotients and roots of float32 in Triton: exact with each one checked, exact with one check for
all of them, or approximate.

Triton's own division of float32 is approximate. The exact one is a short way, right for ordinary
operands, and a branch for others, whose checks take as long as the way itself. So groups with
several divisions go the short way without a check, keep the smallest of all sizes that tell whether
it was right, and look at that once in the end (`LATE`).
"""

from __future__ import annotations

from enum import Enum

import numpy as np

ONE = "1.0"
WORDS = ("divide", "reciprocal", "sqrt")
LOGARITHMS = ("log", "log2", "log10")
"""What need not look for small numbers where its operand is one that is checked."""


class Division(Enum):
    """How float32 is divided and roots are taken."""

    EXACT = "exact"
    """As NumPy does; each operand is checked."""
    LATE = "late"
    """The short way; where `checked` values are not all right, everything is computed again."""
    FUSED = "fused"
    """Off by up to two units in the last place."""


LEAST = 2.0**-50
"""Where no `checked` value is smaller in size, nor NaN, the short way is exact.

It is what the driver's compiler does with ordinary operands: an approximate reciprocal, corrected
by what it leaves of 1, and a result, corrected by what it leaves. If operands are multiplied by
powers of two so is every step, unless it underflows or overflows; so what is exact for some
exponents is exact for all. What a quotient leaves of 2**-50 or more has its last bit at 2**-97 at
least, what a root of 2**-50 leaves has it at 2**-147: both are float32. A denominator without a
reciprocal (0, infinite, NaN, subnormal or above 2**126) makes the quotient 0 or NaN, a quotient
that overflows on the way is NaN, and so is the root of anything but positive numbers.
"""

_LEAST_WORD, _INFINITE_WORD = np.array([LEAST, np.inf], np.float32).view(np.uint32).tolist()

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


def text_of(word: str, names: list[str], how: Division) -> str:
    """The expression of one of `WORDS` over names of float32."""
    if word == "sqrt":
        name = {Division.EXACT: "tl.sqrt_rn", Division.LATE: "root"}.get(how, "tl.sqrt")
        return f"{name}({names[0]})"
    a, b = (ONE, names[0]) if word == "reciprocal" else names
    if how is Division.FUSED:
        return f"{a} / {b}"
    if a == ONE:  # as exact, in fewer instructions
        return f"{'libdevice.rcp_rn' if how is Division.EXACT else 'inverse'}({b})"
    return f"{'tl.div_rn' if how is Division.EXACT else 'quotient'}({a}, {b})"


def found_far(least: str) -> list[str]:
    """Lines that say in `is_far` whether the smallest of all `checked` sizes of some lane is less
    than `LEAST` (one that has to be positive comes with its sign), or no number.

    As a word without a sign, counted from `LEAST`, all of these are at the far end, and one
    instruction finds the largest word of a warp; for a comparison in each lane it takes three more.
    """
    return [
        f"far = ({least}.to(tl.uint32, bitcast=True) - {_LEAST_WORD}).to(tl.uint32)",
        f"is_far = tl.max(tl.broadcast_to(far, (BLOCK,)), 0) >= {_INFINITE_WORD - _LEAST_WORD}",
    ]


def checked(word: str, names: list[str], made: str) -> list[str]:
    """The names of values that tell whether the short way was exact."""
    return [made] if word != "divide" or names[0] == ONE else [made, names[0]]

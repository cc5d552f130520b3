"""The polynomials of `tasking/c/polynomials.h`: Chebyshev fits, as short as their error allows.

    python tools/polynomials.py        writes the file; needs mpmath

Each macro is a Horner scheme in x (two interleaved ones in x * x where it is long), over fused
multiply-adds, with coefficients rounded to the dtype. The error bound is of the fit, relative to
what the polynomial is a part of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from mpmath import mp, mpf

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = Path(__file__).parents[1] / "src" / "infinitensor" / "tasking" / "c" / "polynomials.h"
mp.prec = 200


def by_series(f: Callable[[Any], Any], series: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`f`, but near 0, where it is a difference of nearly equal numbers, its series."""
    return lambda x: series(x) if abs(x) < mpf(2) ** -60 else f(x)


def in_square(f: Callable[[Any], Any], at_zero: Any) -> Callable[[Any], Any]:
    """`f(x)` as a function of z = x * x."""
    return lambda z: at_zero if abs(z) < mpf(2) ** -60 else f(mp.sqrt(z))


HALF_LN2 = mp.log(2) / 2 * (1 + mpf(2) ** -10)
QUARTER = mp.pi / 4 * (1 + mpf(2) ** -10)
EIGHTH = (mp.sqrt(2) - 1) * (1 + mpf(2) ** -10)
ROOT = (mp.sqrt(mpf(1) / 2) - 1, mp.sqrt(2) - 1)

# name: (function, from, to, weight), where fit error * weight is the error of the whole, relative
FITS: dict[str, tuple[Callable[[Any], Any], Any, Any, float]] = {
    "EXP": (  # exp(x) = 1 + x + x * x * P(x)
        by_series(lambda x: (mp.expm1(x) - x) / x**2, lambda x: mpf(1) / 2 + x / 6),
        -HALF_LN2, HALF_LN2, 0.18,
    ),
    "EXP2": (  # 2**x = 1 + x * P(x)
        by_series(lambda x: mp.expm1(x * mp.log(2)) / x, lambda x: mp.log(2)),
        mpf(-0.501), mpf(0.501), 0.75,
    ),
    "LOG": (  # log((1 + s) / (1 - s)) = 2 * s + s * z * P(z), z = s * s
        in_square(lambda s: (2 * mp.atanh(s) / s - 2) / s**2, mpf(2) / 3),
        mpf(0), mpf("0.0295"), 0.015,
    ),
    "LOG1": (  # log(1 + x) = x - x * x / 2 + x * x * x * P(x)
        by_series(lambda x: (mp.log1p(x) - x + x**2 / 2) / x**3, lambda x: mpf(1) / 3 - x / 4),
        *ROOT, 0.21,
    ),
    "SIN": (  # sin(x) = x + x * z * P(z)
        in_square(lambda x: (mp.sin(x) - x) / x**3, mpf(-1) / 6), mpf(0), QUARTER**2, 0.7,
    ),
    "COS": (  # cos(x) = 1 - z / 2 + z * z * P(z)
        in_square(lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4, mpf(1) / 24),
        mpf(0), QUARTER**2, 0.55,
    ),
    "SINH": (  # sinh(x) = x + x * z * P(z), |x| <= 1
        in_square(lambda x: (mp.sinh(x) - x) / x**3, mpf(1) / 6), mpf(0), mpf("1.001"), 0.85,
    ),
    "TANH": (  # tanh(x) = x + x * z * P(z), |x| <= 0.625
        in_square(lambda x: (mp.tanh(x) - x) / x**3, mpf(-1) / 3), mpf(0), mpf("0.391"), 0.45,
    ),
    "ATAN": (  # atan(x) = x + x * z * P(z), |x| <= tan(pi / 8)
        in_square(lambda x: (mp.atan(x) - x) / x**3, mpf(-1) / 3), mpf(0), EIGHTH**2, 0.18,
    ),
    "ASIN": (  # asin(x) = x + x * z * P(z), |x| <= 1 / 2
        in_square(lambda x: (mp.asin(x) - x) / x**3, mpf(1) / 6), mpf(0), mpf("0.25"), 0.25,
    ),
}  # fmt: skip
BOUNDS = {"f64": mpf(2) ** -57, "f32": mpf(2) ** -28, "short": mpf(2) ** -29}
"""short: for float32 in float64."""
ONLY = {
    "f32": ("EXP", "EXP2", "LOG1", "SIN", "COS", "TANH", "ATAN"),
    "f64": tuple(name for name in FITS if name != "LOG1"),
    "short": ("LOG1", "EXP"),
}


CONSTANTS: dict[str, tuple[Any, dict[str, int]]] = {
    # name: (value, bits of the first of its three parts; the others are whole)
    "LN2": (mp.log(2), {"f64": 53, "f32": 24}),
    "LOG10_2": (mp.log10(2), {"f64": 42, "f32": 24}),
    "LOG2_E": (1 / mp.log(2), {"f64": 53, "f32": 24}),
    "LOG10_E": (1 / mp.log(10), {"f64": 53, "f32": 24}),
    "PI_2": (mp.pi / 2, {"f64": 53, "f32": 24}),
}


def parts_of(name: str, kind: str) -> str:
    """A constant as a sum of three numbers, the largest first."""
    value, bits = CONSTANTS[name]
    number, suffix = (np.float64, "") if kind == "f64" else (np.float32, "f")
    lines = []
    for k in (1, 2, 3):
        if k == 1:
            exponent = bits[kind] - 1 - int(mp.floor(mp.log(value, 2)))
            part = mp.nint(value * mpf(2) ** exponent) / mpf(2) ** exponent
        else:
            part = mpf(float(number(mp.nstr(value, 40))))
        lines.append(f"#define {name}_{kind}_{k} {float(part).hex()}{suffix}\n")
        value -= part
    return "".join(lines)


def fit(name: str, bound: Any) -> tuple[list[Any], Any]:
    """Coefficients, lowest first, of the shortest fit within the bound, and its error."""
    function, low, high, weight = FITS[name]
    for n in range(2, 30):
        found, error = mp.chebyfit(function, [low, high], n, error=True)
        if error * weight < bound:
            return found[::-1], error * weight
    raise ValueError(f"{name}: no fit of 30 terms is within {bound}")


def horner(coefficients: list[str], variable: str, fma: str) -> str:
    text = coefficients[-1]
    for c in coefficients[-2::-1]:
        text = f"{fma}({text}, {variable}, {c})"
    return text


def macro(name: str, kind: str) -> str:
    found, error = fit(name, BOUNDS[kind])
    number = np.float32 if kind == "f32" else np.float64
    fma, suffix = ("fmaf", "f") if kind == "f32" else ("fma", "")
    texts = [float(number(mp.nstr(c, 40))).hex() + suffix for c in found]
    if len(texts) < 5:
        body = horner(texts, "(x)", fma)
    else:
        even, odd = (horner(texts[k::2], "((x) * (x))", fma) for k in (0, 1))
        body = f"{fma}({odd}, (x), {even})"
    bits = float(mp.log(error, 2))
    return f"/* {len(texts)} terms, error 2^{bits:.1f} */\n#define {name}_{kind}(x) {body}\n"


def main() -> None:
    lines = ["/* Written by tools/polynomials.py. */\n"]
    lines += [macro(name, kind) for kind in ONLY for name in FITS if name in ONLY[kind]]
    lines += [parts_of(name, kind) for kind in ("f32", "f64") for name in CONSTANTS]
    TARGET.write_text("\n".join(lines))


if __name__ == "__main__":
    main()

"""The short way of dividing: the text that GPUs run, run here on exact numbers."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from infinitensor.ops.table.words import WORDS
from infinitensor.tasking.triton.triton_division import (
    _SHORT,
    DIVISIONS,
    LEAST_CHECKED_SIZE,
    Division,
    form_of,
    sizes_to_check,
    text_of,
)

F = np.float32
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3e38, 1.2e-38, 8.6e37, 2e-30]


def rounded(value: Fraction) -> F:
    """The float32 nearest to a number, to even where two are."""
    if not value:
        return F(0)
    exponent = abs(value).numerator.bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    nearest = round(value / unit) * unit
    return F(np.inf if nearest > 0 else -np.inf) if abs(nearest) >= 2**128 else F(float(nearest))


def fused(a: F, b: F, c: F) -> F:
    """a * b + c, rounded once."""
    if not np.isfinite([a, b, c]).all():
        return F(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact:
        return rounded(exact)
    return F(np.float64(a) * np.float64(b) + np.float64(c))  # the sign of zero


def flushed(x: F) -> F:
    """Zero for a subnormal number."""
    return np.copysign(F(0), x) if abs(x) < F(2.0**-126) else x


def ran(name: str, *given: F) -> F:
    """What the instructions of a short way make of numbers; its approximations are exact ones."""
    registers = {f"${k + 1}": x for k, x in enumerate(given)}
    registers |= {"0f3F800000": F(1), "0f3F000000": F(0.5)}
    lines = next(lines for head, lines in _SHORT.items() if head.startswith(name))
    for line in lines:
        found = re.fullmatch(r"(\S+) (\S+), (.*);", line)
        assert found is not None, line
        word, target, sources = found.groups()
        args = [registers[source] for source in sources.split(", ")]
        if word == "neg.f32":
            registers[target] = -args[0]
        elif word == "rcp.approx.ftz.f32":
            registers[target] = flushed(F(1) / flushed(args[0]))
        elif word == "rsqrt.approx.ftz.f32":
            x = np.float64(flushed(args[0]))
            registers[target] = flushed(F(1 / np.sqrt(x)))
        elif word == "mul.rn.f32":
            registers[target] = args[0] * args[1]
        elif word == "mul.rn.ftz.f32":
            registers[target] = flushed(flushed(args[0]) * flushed(args[1]))
        else:
            assert word == "fma.rn.f32"
            registers[target] = fused(args[0], args[1], args[2])
    return registers["$0"]


def numbers(n: int) -> list[F]:
    """Of all exponents, more of those near the borders; and what is special."""
    random = np.random.default_rng(0)
    exponents = random.choice([*range(-149, 128), *range(-53, -46), *range(122, 128)] * 2, n)
    values = np.ldexp(random.uniform(1, 2, n), exponents) * random.choice([-1, 1], n)
    return [*values.astype(F), *map(F, SPECIAL)]


def same_bits(found: F, wanted: F) -> bool:
    return bool(found.view(np.uint32) == wanted.view(np.uint32))


@pytest.mark.parametrize("word", sorted(DIVISIONS))
def test_the_short_way_is_exact_where_the_check_says_so(word: str) -> None:
    ones, twos = numbers(3000), numbers(3000)[::-1]
    pairs = list(zip(ones, twos, strict=True))
    if word == "divide":
        pairs += [(F(a), F(b)) for a, b in product(SPECIAL, SPECIAL)]
    n_good = 0
    with np.errstate(all="ignore"):
        for a, b in pairs:
            given = (a, b) if word == "divide" else (b,)
            name = {"divide": "quotient", "reciprocal": "inverse", "sqrt": "root"}[word]
            made = ran(name, *given)
            named = {"made": made, "a": a}
            sizes = sizes_to_check(WORDS[word], ["a", "b"] if word == "divide" else ["b"], "made")
            if all(abs(named[one]) >= LEAST_CHECKED_SIZE for one in sizes):
                n_good += 1
                wanted = {"divide": a / b, "reciprocal": F(1) / b, "sqrt": np.sqrt(b)}[word]
                assert same_bits(made, wanted), (a, b)
    assert n_good > 300


def test_what_is_not_ordinary_is_seen() -> None:
    """Whatever a plain quotient of special values is: the check does not say it was exact."""
    with np.errstate(all="ignore"):
        for b in (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38):
            for a in (1.0, -0.0, np.inf, np.nan, 1e30):
                assert not abs(ran("quotient", F(a), F(b))) >= LEAST_CHECKED_SIZE
            assert not abs(ran("inverse", F(b))) >= LEAST_CHECKED_SIZE
        for x in (0.0, -0.0, np.inf, np.nan, -1.0, 1e-45, 2.0**-102):
            assert not abs(ran("root", F(x))) >= LEAST_CHECKED_SIZE


def test_each_way_has_its_own_words() -> None:
    divide, reciprocal = WORDS["divide"], WORDS["reciprocal"]
    assert text_of(divide, Division.EXACT) == "tl.div_rn({x}, {y})"
    assert form_of(divide, ["1.0", "b"], Division.EXACT) == (reciprocal, ["b"])
    assert form_of(divide, ["1.0", "b"], Division.FUSED) == (divide, ["1.0", "b"])
    assert text_of(reciprocal, Division.EXACT) == "libdevice.rcp_rn({x})"
    assert text_of(reciprocal, Division.LATE) == "inverse({x})"
    assert not text_of(divide, Division.FUSED), "Triton's own"
    assert not text_of(WORDS["sqrt"], Division.FUSED), "Triton's own"

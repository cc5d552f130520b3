"""Programs as lines of Python over `xp`: NumPy, or infinitensor.

A line binds at most one name or writes to one. Lines are text, so a program is reduced by leaving
lines out and a reproduction is the program itself. Sizes stand only where arrays are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

HELPERS = '''\
def data(seed, shape, dtype):
    """Few different values, quarters where the dtype has them: sums and products are exact."""
    dtype = np.dtype(dtype)
    low = 0 if dtype.kind in "bu" else -12
    found = np.random.default_rng(seed).integers(low, 2 if dtype.kind == "b" else 13, shape, "i1")
    if dtype.kind not in "fc":
        return found.astype(dtype)
    made = found.astype(dtype) / dtype.type(4)
    if seed % 7 == 0:
        made[found == 3] = np.nan
    return made + dtype.type(0.5j) * found[::-1] if dtype.kind == "c" else made


def mask(seed, shape, share=0.5):
    return np.random.default_rng(seed).random(shape, "f4") < share


def index(seed, shape, n):
    """Places in an axis of length n, counted from either end; some come twice."""
    return np.random.default_rng(seed).integers(-n, n, shape)
'''
helpers: dict[str, Any] = {"np": np}
exec(HELPERS, helpers)  # one text for those who run programs and for those who read them

ROUNDED = {"f2": (3e-2, 3e-2), "f4": (1e-3, 1e-3), "f8": (1e-8, 1e-8)}
"""(relative, absolute for each 1.0 of the largest value), of values known only to rounding."""


@dataclass(frozen=True)
class Line:
    """One line; the name that it makes, if it makes one."""

    text: str
    makes: str = ""
    compares: bool = False
    """Whether all live values are compared after it."""


@dataclass(frozen=True)
class Program:
    """Lines; names whose values are known only to rounding; how often all of it is run."""

    lines: tuple[Line, ...]
    loose: frozenset[str]
    rounds: int = 1

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)


LOOK = "\n    look(locals())"
"""All live values are looked at before a program goes on: it may fail only then."""


def reproduction(program: Program, setting: str, opening: str, said: str) -> str:
    """A program that stands alone: it prints the names whose values differ."""
    body = "\n    ".join(f"{each.text}{LOOK * each.compares}" for each in program.lines)
    return f"""\
# {setting}: {said}
import numpy as np
import infinitensor as it


{HELPERS}

def look(values):
    for value in values.values():
        np.shape(value) and np.asarray(value)


def program(xp):
    {body}
    return {{k: v for k, v in locals().items() if k != "xp"}}


expected = program(np)
with {opening}:
    for _ in range({program.rounds}):
        for name, value in program(it).items():
            ours = np.asarray(value)
            same = ours.dtype == np.asarray(expected[name]).dtype
            same &= np.array_equal(ours, expected[name], equal_nan=ours.dtype.kind in "fc")
            print(name, "same" if same else "DIFFERS (a few may, by rounding)")
"""

"""Groups of steps, of which tests make kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import WORDS
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.triton.triton_source import Group

SINGLE = np.dtype(np.float32)


def one_word(word: str, dtype: np.dtype[Any], made: np.dtype[Any], stored: int) -> GroupStep:
    n = WORDS[word].n_args
    args = tuple(Arg(i) for i in range(n))
    return GroupStep(Term(word, args), (dtype,) * n, (("in", 0), ("in", 1))[:n], made, stored)


def chain(n_parts: int = 1) -> Group:
    tree = Term("add", (Term("multiply", (Arg(0), Arg(1))), Arg(2)))
    sources = (("in", 0), ("in", 1), ("in", 2))
    part = GroupStep(tree, (SINGLE,) * 3, sources, SINGLE, 0)
    array, scalar = Input(SINGLE, False, False), Input(SINGLE, True, False)
    return Group((part,) * n_parts, (array, array, scalar), 1)


def dividing(n_steps: int) -> Group:
    """Quotients, reciprocals and roots, stored each, and sums that make a group long."""
    words = ["divide", "reciprocal", "sqrt", *["add"] * (n_steps - 3)]
    parts = [one_word(word, SINGLE, SINGLE, min(k, 3)) for k, word in enumerate(words)]
    parts[3:-1] = [replace(part, stored=-1) for part in parts[3:-1]]
    return Group(tuple(parts), (Input(SINGLE, False, False),) * 2, 4)


def logs(n_steps: int) -> Group:
    """Logarithms of a quotient and of a denominator, stored, and sums that make a group long."""
    divided = one_word("divide", SINGLE, SINGLE, -1)
    of = [replace(one_word("log", SINGLE, SINGLE, k), sources=(("in", 1),)) for k in range(2)]
    of[0] = replace(of[0], sources=(("step", 0),))
    # the quotient is divided again: as a numerator it is checked already
    again = replace(divided, sources=(("step", 0), ("in", 1)), stored=2)
    rest = [one_word("add", SINGLE, SINGLE, -1)] * (n_steps - 4)
    return Group((divided, *of, again, *rest), (Input(SINGLE, False, False),) * 2, 3)


def with_numbers(n_steps: int) -> Group:
    """An operand times one number after another."""
    parts = [
        replace(one_word("multiply", SINGLE, SINGLE, -1), sources=((*before,), ("in", k + 1)))
        for k, before in enumerate([("in", 0), *(("step", j) for j in range(n_steps - 1))])
    ]
    parts[-1] = replace(parts[-1], stored=0)
    inputs = (Input(SINGLE, False, False), *[Input(SINGLE, True, False)] * n_steps)
    return Group(tuple(parts), inputs, 1)

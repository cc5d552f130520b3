"""The words of the vocabulary that generated code has, as groups, and operands for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.op import Spec
from infinitensor.ops.table.registry import resolve_loop
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import WORDS
from infinitensor.tasking.c.expressions import GroupStep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ops.table.words import Word

N = 64
"""Elements of an operand."""


def numpys_loop(word: Word, dtype: np.dtype[Any]) -> bool:
    """Whether NumPy computes the word in this dtype, so that a step of it may have it."""
    if word.ufunc is None:
        return True
    try:
        loop = resolve_loop(word.ufunc, [Spec((), dtype)] * word.n_args)
    except TypeError:
        return False
    return all(given == dtype for given in loop[:-1])


def claimed(language: str, dtype: np.dtype[Any]) -> list[Word]:
    """The words that have a text for a dtype."""
    words = [word for word in WORDS.values() if numpys_loop(word, dtype)]
    if language == "numba":
        words = [word for word in words if word.numba]
    texts = "triton" if language == "triton" else "c"
    return [word for word in words if word.loop(dtype)[-1].kind in getattr(word, texts)]


def steps_of(words: Sequence[Word], dtype: np.dtype[Any]) -> tuple[GroupStep, ...]:
    """A step for each word, each with an output."""
    parts = []
    for k, word in enumerate(words):
        args = tuple(Arg(i) for i in range(word.n_args))
        loop = word.loop(dtype) if word.chooses else (dtype,) * word.n_args
        sources = tuple(("in", i) for i in range(word.n_args))
        parts.append(GroupStep(Term(word.name, args), loop, sources, word.result_dtype(dtype), k))
    return tuple(parts)


def operands(dtype: np.dtype[Any]) -> list[np.ndarray]:
    """Three arrays: zeros of both signs, infinities, NaN and subnormal numbers beside others."""
    rng = np.random.default_rng(7)
    if dtype.kind == "f":
        some = [rng.standard_normal(N).astype(dtype) * 3 for _ in range(3)]
        odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2.0**-24], dtype)
        odd[-1] *= np.finfo(dtype).tiny if dtype.itemsize > 2 else 1
        some[0][:8], some[1][8:16] = odd, odd
        return some
    if dtype.kind == "c":
        parts = operands(np.dtype(f"f{dtype.itemsize // 2}"))
        others = [np.roll(part, 11)[::-1] for part in parts]
        return [np.stack(pair, -1).view(dtype)[:, 0] for pair in zip(parts, others, strict=True)]
    if dtype.kind == "b":
        return [rng.integers(0, 2, N).astype(dtype) for _ in range(3)]
    info = np.iinfo(dtype)
    some = [rng.integers(info.min, info.max, N, dtype, endpoint=True) for _ in range(3)]
    some[1][:4] = some[0][4:8] = [0, 1, info.max, info.min]
    return some

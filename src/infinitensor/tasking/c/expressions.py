"""C text of the steps of a group: expressions over the scalar vocabulary, in NumPy's dtypes.

What words are in C is said in `ops/table/words.py`. A word, a dtype or a cast that C does not do as
NumPy does makes the group run eagerly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infinitensor.dtypes import HALVES, bfloat16, kind_of
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import BOOL, WORDS, Block

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ops.table.words import Word

C_TYPES = {
    "bool": "uint8_t",
    **{name: f"{name}_t" for n in (8, 16, 32, 64) for name in (f"int{n}", f"uint{n}")},
    "float32": "float",
    "float64": "double",
    "complex64": "complex64",
    "complex128": "complex128",
}
VALUES = {"float16": "half", "bfloat16": "float"}
"""The C types of values that have another one in memory (`halves.h`)."""
SUFFIXES = {"half": "half", "float": "f"}
"""What the names of functions of a C type end with."""
KEEP_HALVES = frozenset(
    {"maximum", "minimum", "where", "clip", "negative", "positive", "absolute", "fabs", "copysign",
     "sign", "floor", "ceil", "trunc", "rint"}
)  # fmt: skip
"""Words whose result of halves is a half: it need not be rounded."""
Typed: TypeAlias = "tuple[str, np.dtype[Any]]"
"""The text of a value, and its dtype."""
CONSTANT = "constant"
"""The word of a step that is one number everywhere."""


class Unsupported(Exception):
    """The group cannot be generated."""


@dataclass(frozen=True, slots=True)
class GroupStep:
    """One step: its tree, the dtypes of its loop, of what it reads and of its result."""

    tree: Term
    loop: tuple[np.dtype[Any], ...]
    sources: tuple[tuple[str, int], ...]
    dtype: np.dtype[Any]
    stored: int
    """The output it is stored to, or -1."""


@dataclass(frozen=True, slots=True)
class Input:
    """An operand of the group: an array (`row`: one value for all of an inner loop) or a scalar;
    `unread`: steps read an equal one before it."""

    dtype: np.dtype[Any]
    scalar: bool
    row: bool
    unread: bool = False

    @property
    def is_array(self) -> bool:
        """Whether it is an array that is read."""
        return not self.scalar and not self.unread


@lru_cache(maxsize=64)  # a source asks hundreds of times, and NumPy makes names up each time
def c_type(dtype: np.dtype[Any]) -> str:
    """The C type of values of a dtype."""
    return VALUES.get(dtype.name) or stored_type(dtype)


@lru_cache(maxsize=64)
def stored_type(dtype: np.dtype[Any]) -> str:
    """The C type of a dtype in memory."""
    name = dtype.name if dtype in HALVES else C_TYPES.get(dtype.name)
    if name is None:
        raise Unsupported(f"dtype {dtype}")
    return name


def read(text: str, dtype: np.dtype[Any]) -> str:
    """What is in memory as a value."""
    return f"read_{dtype.name}({text})" if dtype in HALVES else text


def store_text(text: str, dtype: np.dtype[Any]) -> str:
    """A value as it is in memory."""
    return f"written_{dtype.name}({text})" if dtype in HALVES else text


def rounded(text: str, dtype: np.dtype[Any]) -> str:
    """A result in the precision of its dtype, where it has another type in C."""
    return f"rounded_{dtype.name}({text})" if dtype in HALVES else text


def refuse_undefined(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """`Unsupported` for casts that C leaves open where a float is out of range, and NumPy does not:
    to unsigned and to short integers."""
    is_short = target.kind in "iu" and (target.kind == "u" or target.itemsize < 4)
    if kind_of(source) == "f" and is_short:
        raise Unsupported(f"cast from {source} to {target}")


def cast(text: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """An expression in another dtype, as NumPy casts."""
    if source == target:
        return text
    if target == BOOL:
        return f"(uint8_t)({text} != 0)"
    if source.kind == "c" and target.kind != "c":
        raise Unsupported(f"cast from {source} to {target}")
    refuse_undefined(source, target)
    if target in HALVES and source.itemsize > (4 if source.kind == "f" else 2):
        raise Unsupported(f"cast from {source} to {target}")  # it would be rounded twice
    return rounded(f"(({c_type(target)}){text})", target)


def number(value: Any, dtype: np.dtype[Any]) -> str:
    """C text of a number in a dtype."""
    made = np.asarray(value).astype(dtype)[()]
    if dtype.kind == "c":
        parts = (number(part, real_of(dtype)) for part in (made.real, made.imag))
        return f"__builtin_complex({', '.join(parts)})"
    if kind_of(dtype) == "f":
        if not np.isfinite(made):
            return "NAN" if np.isnan(made) else ("INFINITY" if made > 0 else "(-INFINITY)")
        return f"(({c_type(dtype)}){float(made).hex()})"
    return f"(({c_type(dtype)}){int(made)})"


def real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a part of complex numbers."""
    return np.dtype(f"f{dtype.itemsize // 2}")


def plain_call(name: str, texts: Sequence[str], dtype: np.dtype[Any]) -> str:
    """A function of the C library, element by element."""
    return f"{name}{SUFFIXES.get(c_type(dtype), '')}({', '.join(texts)})"


def word_of(tree: Term) -> Word:
    """The entry of a term's word."""
    if tree.word not in WORDS:
        raise Unsupported(tree.word)
    return WORDS[tree.word]


def word_and_operands(
    tree: Term, visit: Callable[[Any], Typed], write: Callable[[Any, np.dtype[Any]], str]
) -> tuple[Word, np.dtype[Any], list[Typed]]:
    """The word of a term, the dtype that it computes in, and the texts of its operands: `visit`
    has those of terms, `write` those of numbers, which take that dtype."""
    word = word_of(tree)
    known = [visit(arg) if isinstance(arg, Arg | Term) else None for arg in tree.args]
    dtypes = [found[1] for found in known if found is not None]
    if not dtypes:
        raise Unsupported("a constant")
    if word.compares and {dtype.kind for dtype in dtypes} >= {"i", "u"}:
        raise Unsupported("comparison of signed and unsigned integers")
    together = word.together(dtypes)
    given = [
        (write(arg, together), together) if found is None else found
        for arg, found in zip(tree.args, known, strict=True)
    ]
    return word, together, given


def expression(
    tree: Any,
    args: Sequence[Typed],
    call: Callable[..., str] = plain_call,
    invert: Callable[[str, np.dtype[Any]], str] = lambda text, dtype: "",
) -> Typed:
    """C text and dtype of a tree over named arguments; `call` writes functions over blocks (behind
    blocks and the dtype, what is the same for all elements), and `invert` names the inverse of a
    divisor, or nothing where it is another for each element."""
    if isinstance(tree, Arg):
        return args[tree.index]
    word, together, given = word_and_operands(
        tree, lambda e: expression(e, args, call, invert), number
    )
    loop = word.loop(together)
    texts = [cast(*each, dtype) for each, dtype in zip(given, loop, strict=True)]
    made = word.result_dtype(together)
    form = word.c.get(kind_of(loop[-1]))
    if form is None:
        raise Unsupported(f"{word.name} of {together}")
    if isinstance(form, Block):
        inner = [_fill_text(text, texts, loop[-1]) for text in form.args]
        return rounded(call(form.name, inner or texts, made), made), made
    inverse = invert(texts[-1], loop[-1]) if "{by}" in form else ""
    if inverse:
        texts[-1] = inverse
        if loop[-1].itemsize == 8:  # of which several at a time are divided where all are short
            name = form.partition("{")[0]
            return call(f"{name}_by", texts[:1], made, inverse), made
    text = _fill_text(form, texts, loop[-1], "_by" if inverse else "")
    return text if word.name in KEEP_HALVES else rounded(text, made), made


def _fill_text(form: str, texts: Sequence[str], dtype: np.dtype[Any], by: str = "") -> str:
    """A text of `ops/table/words.py` over operands of a dtype; `by`: "_by" where the last operand
    is the inverse of a number."""
    return form.format(
        **dict(zip("xyz", texts, strict=False)),
        T=c_type(dtype),
        f=SUFFIXES.get(c_type(dtype), ""),
        bits=8 * dtype.itemsize,
        by=by,
        zero="0" if dtype != bfloat16 else texts[0],
    )

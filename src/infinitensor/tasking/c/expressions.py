"""C text of the steps of a group: expressions over the scalar vocabulary, in NumPy's dtypes.

A word, a dtype or a cast that C does not do as NumPy does makes the group run eagerly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import result_type
from infinitensor.ops.table.scalar import Arg, Term

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

C_TYPES = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
    "complex64": "complex64",
    "complex128": "complex128",
}
BOOL = np.dtype(np.bool_)
CONSTANT = "constant"
"""The word of a step that is one number everywhere."""

_INFIX = {"add": "+", "subtract": "-", "multiply": "*"}
_COMPARED = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_LOGICAL = {"logical_and": "&&", "logical_or": "||"}
_INSTRUCTIONS = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "copysign": "copysign", "fabs": "fabs",
}  # fmt: skip
FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "hypot": "hypot", "cbrt": "cbrt", "power": "pow", "float_power": "pow",
}  # fmt: skip
"""Functions over blocks, by their names in `vector.h`: they need not round as NumPy's do."""


class Unsupported(Exception):
    """The group cannot be generated."""


@dataclass(frozen=True, slots=True)
class Part:
    """One step: its tree, the dtypes of its loop, of what it reads and of its result."""

    tree: Term
    loop: tuple[np.dtype[Any], ...]
    sources: tuple[tuple[str, int], ...]
    dtype: np.dtype[Any]
    stored: int
    """The output it is stored to, or -1."""


@dataclass(frozen=True, slots=True)
class Input:
    """An operand of the group: an array (`row`: one value for all of an inner loop) or a scalar."""

    dtype: np.dtype[Any]
    scalar: bool
    row: bool


def c_type(dtype: np.dtype[Any]) -> str:
    """The C type of a dtype."""
    name = C_TYPES.get(dtype.name)
    if name is None:
        raise Unsupported(f"dtype {dtype}")
    return name


def refuse_undefined(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """`Unsupported` for casts that C leaves open where a float is out of range, and NumPy does not:
    to unsigned and to short integers."""
    if source.kind == "f" and target.kind in "iu" and (target.kind == "u" or target.itemsize < 4):
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
    return f"(({c_type(target)}){text})"


def number(value: Any, dtype: np.dtype[Any]) -> str:
    """C text of a number in a dtype."""
    made = np.asarray(value).astype(dtype)[()]
    if dtype.kind == "c":
        parts = (number(part, real_of(dtype)) for part in (made.real, made.imag))
        return f"__builtin_complex({', '.join(parts)})"
    if dtype.kind == "f":
        if not np.isfinite(made):
            return "NAN" if np.isnan(made) else ("INFINITY" if made > 0 else "(-INFINITY)")
        text = float(made).hex()
        return f"({text}{'f' if dtype.itemsize == 4 else ''})"
    return f"(({c_type(dtype)}){int(made)})"


def real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a part of complex numbers."""
    return np.dtype(f"f{dtype.itemsize // 2}")


def plain_call(name: str, texts: Sequence[str], dtype: np.dtype[Any]) -> str:
    """A function of the C library, element by element."""
    return f"{name}{'f' if dtype == np.float32 else ''}({', '.join(texts)})"


def expression(
    tree: Any,
    args: Sequence[tuple[str, np.dtype[Any]]],
    call: Callable[[str, Sequence[str], np.dtype[Any]], str] = plain_call,
) -> tuple[str, np.dtype[Any]]:
    """C text and dtype of a tree over named arguments; `call` writes functions over blocks."""
    if isinstance(tree, Arg):
        return args[tree.index]
    known = [
        expression(arg, args, call) if isinstance(arg, Arg | Term) else None for arg in tree.args
    ]
    kinds = [found[1] for found in known if found is not None]
    if not kinds:
        raise Unsupported("a constant")
    word = tree.word
    if word == "where":
        kinds = kinds[1:] or kinds
    together = result_type(*kinds)
    texts = [
        number(arg, together) if found is None else found[0]
        for arg, found in zip(tree.args, known, strict=True)
    ]
    own = [together if found is None else found[1] for found in known]
    if word == "where":
        chosen = [cast(t, d, together) for t, d in zip(texts[1:], own[1:], strict=True)]
        return f"({cast(texts[0], own[0], BOOL)} ? {chosen[0]} : {chosen[1]})", together
    if word in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        if {kind.kind for kind in kinds} >= {"i", "u"}:
            raise Unsupported("comparison of signed and unsigned integers")
        if together.kind == "c" and "equal" not in (word, word.removeprefix("not_")):
            raise Unsupported("order of complex numbers")
        a, b = (cast(t, d, together) for t, d in zip(texts, own, strict=True))
        return f"(uint8_t)({a} {_COMPARED[word]} {b})", BOOL
    if word in ("logical_and", "logical_or", "logical_xor", "logical_not"):
        truths = [cast(t, d, BOOL) for t, d in zip(texts, own, strict=True)]
        if word == "logical_not":
            return f"(uint8_t)(!{truths[0]})", BOOL
        mark = _LOGICAL.get(word, "!=")
        return f"(uint8_t)({truths[0]} {mark} {truths[1]})", BOOL
    if word in ("isnan", "isinf", "isfinite"):
        if together.kind != "f":
            raise Unsupported(f"{word} of {together}")
        return f"(uint8_t)({word}({texts[0]}) != 0)", BOOL
    texts = [cast(t, d, together) for t, d in zip(texts, own, strict=True)]
    if together.kind == "c":
        return _complex(word, texts, together, call)
    if word in FUNCTIONS and together.kind == "f":
        return call(FUNCTIONS[word], texts, together), together
    return _arithmetic(word, texts, together), together


def _complex(
    word: str,
    texts: list[str],
    dtype: np.dtype[Any],
    call: Callable[[str, Sequence[str], np.dtype[Any]], str],
) -> tuple[str, np.dtype[Any]]:
    name, real = c_type(dtype), real_of(dtype)
    if word in ("add", "subtract"):
        return f"({texts[0]} {_INFIX[word]} {texts[1]})", dtype
    if word in ("multiply", "square"):
        return f"mul_{name}({texts[0]}, {texts[-1]})", dtype
    if word == "divide":
        return f"div_{name}({texts[0]}, {texts[1]})", dtype
    if word == "positive":
        return texts[0], dtype
    if word in ("negative", "conjugate"):
        return f"({'-' if word == 'negative' else '~'}{texts[0]})", dtype
    if word in ("real", "imag"):
        return f"(__{word}__ {texts[0]})", real
    if word == "absolute":
        return call("hypot", [f"(__real__ {texts[0]})", f"(__imag__ {texts[0]})"], real), real
    raise Unsupported(f"{word} of {dtype}")


def _arithmetic(word: str, texts: list[str], dtype: np.dtype[Any]) -> str:
    name, kind = c_type(dtype), dtype.kind
    suffix = "f" if dtype == np.float32 else ""
    if word in _BITWISE and kind in "biu":
        return f"({name})({texts[0]} {_BITWISE[word]} {texts[1]})"
    if kind == "b":
        raise Unsupported(f"{word} of booleans")
    if word in _INFIX:
        return f"({name})({texts[0]} {_INFIX[word]} {texts[1]})"
    if word == "negative":
        return f"({name})(-{texts[0]})"
    if word == "positive":
        return texts[0]
    if word == "square":
        return f"({name})({texts[0]} * {texts[0]})"
    if word in ("maximum", "minimum"):
        sign = ">=" if word == "maximum" else "<="
        a, b = texts
        unknown = f" || {a} != {a}" if kind == "f" else ""
        return f"(({a} {sign} {b}{unknown}) ? {a} : {b})"
    if word == "absolute":
        if kind == "f":
            return f"fabs{suffix}({texts[0]})"
        return texts[0] if kind == "u" else f"({name})({texts[0]} < 0 ? -{texts[0]} : {texts[0]})"
    if word == "clip":
        x, low, high = texts
        inner = _arithmetic("maximum", [x, low], dtype)
        return _arithmetic("minimum", [inner, high], dtype)
    if kind != "f":
        return _integer(word, texts, dtype)
    if word == "divide":
        return f"({texts[0]} / {texts[1]})"
    if word == "reciprocal":
        return f"(1 / {texts[0]})"
    if word == "sign":
        x = texts[0]
        return f"({x} > 0 ? 1 : ({x} < 0 ? -1 : ({x} == 0 ? 0 : {x})))"
    if word in _INSTRUCTIONS:
        return plain_call(_INSTRUCTIONS[word], texts, dtype)
    raise Unsupported(word)


INTEGER_WORDS = frozenset(("invert", "left_shift", "right_shift", "floor_divide", "remainder"))
"""Words that C leaves undefined for some integers, where NumPy says what they are."""


def _integer(word: str, texts: list[str], dtype: np.dtype[Any]) -> str:
    if word not in INTEGER_WORDS:
        raise Unsupported(f"{word} of {dtype}")
    name, is_signed = c_type(dtype), dtype.kind == "i"
    if word == "invert":
        return f"({name})(~{texts[0]})"
    a, b = texts
    if word in ("left_shift", "right_shift"):  # by more bits than there are, everything is gone
        bits = 8 * dtype.itemsize
        mark = "<<" if word == "left_shift" else ">>"
        gone = f"({a} < 0 ? -1 : 0)" if is_signed and mark == ">>" else "0"
        return f"({name})((uint64_t){b} < {bits} ? {a} {mark} {b} : {gone})"
    if not is_signed:
        mark = "/" if word == "floor_divide" else "%"
        return f"({name})({b} == 0 ? 0 : {a} {mark} {b})"
    # the least by -1 stops a processor; towards zero is not down
    if word == "floor_divide":
        down = f"({a} % {b} != 0 && ({a} < 0) != ({b} < 0))"
        return f"({name})({b} == 0 ? 0 : {b} == -1 ? -{a} : {a} / {b} - {down})"
    rest = f"({a} % {b})"
    up = f"({rest} != 0 && ({a} < 0) != ({b} < 0) ? {b} : 0)"
    return f"({name})({b} == 0 || {b} == -1 ? 0 : {rest} + {up})"

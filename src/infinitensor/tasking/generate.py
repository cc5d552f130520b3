"""C source of a fused group: one pass over a tile, temporaries in registers.

Each step is an expression over the scalar vocabulary, computed in the dtypes that NumPy's loops
use. A word, a dtype or a cast that C does not do exactly as NumPy does makes the group run eagerly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ops.scalar import Arg, Term

if TYPE_CHECKING:
    from collections.abc import Sequence

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
}
BOOL = np.dtype(np.bool_)

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
_LIBM = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "hypot": "hypot", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "copysign": "copysign", "cbrt": "cbrt", "fabs": "fabs",
}  # fmt: skip


VECTORISED = frozenset(("sqrt", "floor", "ceil", "trunc", "rint", "copysign", "fabs"))
"""Functions that are instructions."""


def calls_libm(tree: Any) -> bool:
    """Whether an expression calls a function that stays a call."""
    if not isinstance(tree, Term):
        return False
    return (tree.word in _LIBM and tree.word not in VECTORISED) or any(
        calls_libm(arg) for arg in tree.args
    )


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
    """An operand of the group: an array (`row`: one value for all of the last axis) or a scalar."""

    dtype: np.dtype[Any]
    scalar: bool
    row: bool


def c_type(dtype: np.dtype[Any]) -> str:
    """The C type of a dtype."""
    name = C_TYPES.get(dtype.name)
    if name is None:
        raise Unsupported(f"dtype {dtype}")
    return name


def cast(text: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """An expression in another dtype, as NumPy casts."""
    if source == target:
        return text
    if target == BOOL:
        return f"(uint8_t)({text} != 0)"
    if source.kind == "f" and target.kind in "iu" and (target.kind == "u" or target.itemsize < 4):
        raise Unsupported(f"cast from {source} to {target}")
    return f"(({c_type(target)}){text})"


def _number(value: Any, dtype: np.dtype[Any]) -> str:
    made = np.asarray(value).astype(dtype)[()]
    if dtype.kind == "f":
        if not np.isfinite(made):
            return "NAN" if np.isnan(made) else ("INFINITY" if made > 0 else "(-INFINITY)")
        text = float(made).hex()
        return f"({text}{'f' if dtype.itemsize == 4 else ''})"
    return f"(({c_type(dtype)}){int(made)})"


def expression(tree: Any, args: Sequence[tuple[str, np.dtype[Any]]]) -> tuple[str, np.dtype[Any]]:
    """C text and dtype of a tree over named arguments."""
    if isinstance(tree, Arg):
        return args[tree.index]
    known = [expression(arg, args) if isinstance(arg, Arg | Term) else None for arg in tree.args]
    kinds = [found[1] for found in known if found is not None]
    if not kinds:
        raise Unsupported("a constant")
    word = tree.word
    if word == "where":
        kinds = kinds[1:] or kinds
    together = np.result_type(*kinds)
    texts = [
        _number(arg, together) if found is None else found[0]
        for arg, found in zip(tree.args, known, strict=True)
    ]
    own = [together if found is None else found[1] for found in known]
    if word == "where":
        chosen = [cast(t, d, together) for t, d in zip(texts[1:], own[1:], strict=True)]
        return f"({cast(texts[0], own[0], BOOL)} ? {chosen[0]} : {chosen[1]})", together
    if word in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        if {kind.kind for kind in kinds} >= {"i", "u"}:
            raise Unsupported("comparison of signed and unsigned integers")
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
    return _arithmetic(word, texts, together), together


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
    if kind != "f":
        raise Unsupported(f"{word} of {dtype}")
    if word == "divide":
        return f"({texts[0]} / {texts[1]})"
    if word == "reciprocal":
        return f"(1 / {texts[0]})"
    if word == "clip":
        x, low, high = texts
        inner = _arithmetic("maximum", [x, low], dtype)
        return _arithmetic("minimum", [inner, high], dtype)
    if word == "sign":
        x = texts[0]
        return f"({x} > 0 ? 1 : ({x} < 0 ? -1 : ({x} == 0 ? 0 : {x})))"
    if word in _LIBM:
        return f"{_LIBM[word]}{suffix}({', '.join(texts)})"
    raise Unsupported(word)


def source_of(parts: Sequence[Part], inputs: Sequence[Input], n_outs: int) -> str:
    """The C function of a group: rows over the outer axes, one loop over the last."""
    body: list[str] = []
    for k, part in enumerate(parts):
        args = []
        for (where, at), loop in zip(part.sources, part.loop, strict=True):
            dtype = inputs[at].dtype if where == "in" else parts[at].dtype
            args.append((cast(f"{'x' if where == 'in' else 's'}{at}", dtype, loop), loop))
        if part.tree.word == "cast":
            text, dtype = args[0]
        else:
            text, dtype = expression(part.tree, args)
        body.append(f"const {c_type(part.dtype)} s{k} = {cast(text, dtype, part.dtype)};")
    stored = {part.stored: k for k, part in enumerate(parts) if part.stored >= 0}
    outs = [(j, stored[j], c_type(parts[stored[j]].dtype)) for j in range(n_outs)]
    arrays = [(k, c_type(i.dtype)) for k, i in enumerate(inputs) if not i.scalar]
    moving = [(k, name) for k, name in arrays if not inputs[k].row]
    rows = [(k, name) for k, name in arrays if inputs[k].row]
    place = {k: at for at, (k, _) in enumerate(arrays)}
    place_out = {j: len(arrays) + at for at, (j, _, _) in enumerate(outs)}
    lines = ["#include <math.h>", "#include <stdint.h>", ""]
    lines.append("void run(int64_t n_rows, int64_t n, int64_t n_outer, const int64_t *shape,")
    lines.append("         char **p, const int64_t *steps, const char *scalars) {")
    lines.append(f"  const int n_arrays = {len(arrays) + len(outs)};")
    for at, k in enumerate(k for k, i in enumerate(inputs) if i.scalar):
        name = c_type(inputs[k].dtype)
        wide = "double" if inputs[k].dtype.kind == "f" else "int64_t"
        lines.append(f"  const {name} x{k} = ({name})*(const {wide} *)(scalars + {8 * at});")
    lines.append("  const int64_t *inner = steps + n_outer * n_arrays;")
    lines.append("  for (int64_t row = 0; row < n_rows; ++row) {")
    lines.append(f"    char *q[{len(arrays) + len(outs)}];")
    lines.append("    for (int a = 0; a < n_arrays; ++a) q[a] = p[a];")
    lines.append("    int64_t rest = row;")
    lines.append("    for (int64_t axis = n_outer - 1; axis >= 0; --axis) {")
    lines.append("      const int64_t at = rest % shape[axis];")
    lines.append("      rest /= shape[axis];")
    lines.append("      const int64_t *step = steps + axis * n_arrays;")
    lines.append("      for (int a = 0; a < n_arrays; ++a) q[a] += at * step[a];")
    lines.append("    }")
    for k, name in rows:
        lines.append(f"    const {name} x{k} = *(const {name} *)q[{place[k]}];")
    tests = [f"inner[{place[k]}] == sizeof({name})" for k, name in moving]
    tests += [f"inner[{place_out[j]}] == sizeof({name})" for j, _, name in outs]
    lines.append(f"    if ({' && '.join(tests)}) {{")
    for k, name in moving:
        lines.append(f"      const {name} *v{k} = (const {name} *)q[{place[k]}];")
    for j, _, name in outs:
        lines.append(f"      {name} *o{j} = ({name} *)q[{place_out[j]}];")
    # an output may be one of the inputs, element for element: no step reads what another writes
    lines.append("#pragma GCC ivdep")
    lines.append("      for (int64_t i = 0; i < n; ++i) {")
    lines += [f"        const {name} x{k} = v{k}[i];" for k, name in moving]
    lines += [f"        {text}" for text in body]
    lines += [f"        o{j}[i] = s{k};" for j, k, _ in outs]
    lines += ["      }", "    } else {", "      for (int64_t i = 0; i < n; ++i) {"]
    lines += [
        f"        const {name} x{k} = *(const {name} *)(q[{place[k]}] + i * inner[{place[k]}]);"
        for k, name in moving
    ]
    lines += [f"        {text}" for text in body]
    lines += [
        f"        *({name} *)(q[{place_out[j]}] + i * inner[{place_out[j]}]) = s{k};"
        for j, k, name in outs
    ]
    lines += ["      }", "    }", "  }", "}", ""]
    return "\n".join(lines)

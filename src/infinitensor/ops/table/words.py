"""The scalar vocabulary: each word is one entry here, for eager and for generated kernels.

An entry says what the word is in NumPy and in torch, its text in generated C, Triton and Numba, and
the public elementwise op that is this word alone (`ops/elementwise/elementwise.py` makes it).

In texts `{x}`, `{y}` and `{z}` stand for the operands, cast to the dtype that NumPy computes in; in
C and Triton `{bits}` is the width of that dtype. In C `{T}` is its type, `{f}` is `f` for float32,
else nothing, and `{by}` is `_by` where the last operand, `{y}`, is the inverse of one number for
all elements; `{zero}` is 0, which in bfloat16 keeps its sign.
Texts are given by the kind of that dtype, as `np.dtype.kind` has it: "iu" is for all integers. For
a kind without a text, groups with this word run step by step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from infinitensor.dtypes import result_type
from infinitensor.ops.table import torch_words as on_torch
from infinitensor.ops.table.functions import as_generated, with_half_loops

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infinitensor.ops.table.torch_words import Eager

BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, slots=True)
class Block:
    """A function of `tasking/c/vector.h` over blocks.

    `args` are the texts of its arguments; empty: the operands.
    """

    name: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Float32:
    """Triton text of float32, where it depends on how a group divides (`triton_division.py`).

    An empty text is the one of float64.
    """

    exact: str = ""
    late: str = ""
    """Exact where the result is not small; a group with such words is checked in the end."""
    fused: str = ""
    checks_x: bool = False
    """The short way is exact only where the first operand is not small either."""
    positive: bool = False
    """Need not look for small numbers where its operand is one that is checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word. What an entry leaves out is as for most words."""

    name: str
    n_args: int
    doc: str = ""
    """Of the public op that is this word alone; empty: there is none."""
    names: tuple[str, ...] = ()
    """Of that op: NumPy's and the Array API's."""
    ufunc: np.ufunc | None = None
    """NumPy's, whose dtype rules hold for the op."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the op's entry in the table, such as its scratch."""

    numpy: Eager
    """`numpy(*arrays, out=None)`; functions over blocks have other loops (`functions.py`)"""
    torch: Eager
    """`torch(*tensors, out=None)`"""
    one_call: bool = False
    """Whether it is one torch function with `out` for real floats."""
    may_raise: bool = False
    """Whether it raises for some values."""

    c: Mapping[str, str | Block] = field(default_factory=dict)
    triton: Mapping[str, str] = field(default_factory=dict)
    float32: Float32 = Float32()
    exact: bool = True
    """Whether generated C has the bits of its function on CPUs."""
    exact_complex: bool = True
    """The same of complex numbers."""
    as_torch: bool = True
    """Whether Triton has the bits of torch's function on a GPU: both call CUDA's library, but what
    that leaves to the compiler to contract is contracted only in torch."""
    in_half: bool = False
    """Triton computes it in float16; most words in float32, and the result is rounded."""
    numba: str = ""
    """Python text; empty: Numba does otherwise than NumPy. Dtypes are those of C."""

    gives: Literal["same", "truth", "real"] = "same"
    """Its result: in the dtype it computes in, a truth value, or a real number of complex ones."""
    of_truth: bool = False
    """Whether it takes its operands as truth values."""
    chooses: bool = False
    """Whether the first operand is a condition, which has no say in the dtype."""

    @property
    def compares(self) -> bool:
        """Whether it compares two values."""
        return self.gives == "truth" and self.n_args == 2 and not self.of_truth

    def together(self, dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
        """The dtype that operands of these have in common."""
        return result_type(*(dtypes[1:] or dtypes if self.chooses else dtypes))

    def loop(self, together: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        """The dtypes that operands are cast to."""
        if self.of_truth:
            return (BOOL,) * self.n_args
        return (BOOL if self.chooses else together, *(together,) * (self.n_args - 1))

    def result_dtype(self, together: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of its result."""
        if self.gives == "truth":
            return BOOL
        is_part = self.gives == "real" and together.kind == "c"
        return np.dtype(f"f{together.itemsize // 2}") if is_part else together

    def calls_block(self, kind: str) -> bool:
        """Whether generated C calls a function over blocks for this kind of dtype."""
        return isinstance(self.c.get(kind), Block)


WORDS: dict[str, Word] = {}


def word(name: str, doc: str = "", **entry: Any) -> Word:
    """Enter a word; what is left out is NumPy's and torch's function of that name."""
    like = getattr(np, name, None)
    ufunc = entry.setdefault("ufunc", like if isinstance(like, np.ufunc) else None)
    entry.setdefault("n_args", ufunc.nin if ufunc is not None else 1)
    entry.setdefault("numpy", like)
    entry.setdefault("one_call", "torch" not in entry)
    entry.setdefault("torch", on_torch.native(name))
    entry["names"] = tuple(entry.get("names", name if doc else "").split())
    if "c" in entry:
        entry.setdefault("numba", f"np.{name}({', '.join(_OPERANDS[: entry['n_args']])})")
    for language in ("c", "triton"):
        entry[language] = _by_kind(entry.get(language, {}))
    made = Word(name=name, doc=doc, **entry)
    assert name not in WORDS, f"{name} has two entries"
    WORDS[name] = made
    return made


_OPERANDS = ("{x}", "{y}", "{z}")


def _by_kind(texts: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: text for kinds, text in texts.items() for kind in kinds}


# --- what several entries have in common ------------------------------------------------------


def _c_infix(mark: str) -> str:
    return f"({{T}})({{x}} {mark} {{y}})"


def _larger_c(a: str, b: str, mark: str, kinds: str) -> str:
    """C text of the larger (">=") or smaller ("<=") of two; NaN if either is."""
    if kinds == "f":
        return f"{'larger' if mark == '>=' else 'smaller'}_{{T}}({a}, {b})"
    return f"(({a} {mark} {b}) ? {a} : {b})"


def _larger_triton(a: str, b: str, mark: str, kinds: str) -> str:
    unknown = f" | ({a} != {a})" if kinds == "f" else ""
    return f"tl.where(({a} {mark} {b}){unknown}, {a}, {b})"


def _extreme(mark: str) -> dict[str, Any]:
    """maximum and minimum."""
    return {
        "c": {kinds: _larger_c("{x}", "{y}", mark, kinds) for kinds in ("iu", "f")},
        "triton": {kinds: _larger_triton("{x}", "{y}", mark, kinds) for kinds in ("iu", "f")},
    }


def _number_first(mark: str) -> dict[str, str]:
    """Triton text of fmax and fmin."""
    both = f"tl.where({{x}} {mark} {{y}}, {{x}}, {{y}})"
    return {"f": f"tl.where({{x}} != {{x}}, {{y}}, tl.where({{y}} != {{y}}, {{x}}, {both}))"}


def _clip_c(kinds: str) -> str:
    return _larger_c(_larger_c("{x}", "{y}", ">=", kinds), "{z}", "<=", kinds)


def _clip_triton(kinds: str) -> str:
    return _larger_triton(f"({_larger_triton('{x}', '{y}', '>=', kinds)})", "{z}", "<=", kinds)


def _function(
    name: str, n_args: int = 1, as_torch: bool = True, of_complex: bool = False
) -> dict[str, Any]:
    """A function over blocks in C, and of CUDA's own library in Triton, both of this name."""
    return {
        "c": {"fc" if of_complex else "f": Block(name)},
        "triton": _libdevice(name, n_args),
        "as_torch": as_torch,
    }


def _libdevice(name: str, n_args: int = 1) -> dict[str, str]:
    return {"f": f"libdevice.{name}({', '.join(_OPERANDS[:n_args])})"}


def _unsigned(mark: str) -> str:
    """Triton text of a quotient or remainder of what has no sign: 0 by 0."""
    return f"tl.where({{y}} == 0, 0, {{x}} {mark} tl.where({{y}} == 0, 1, {{y}}))"


# --- arithmetic -------------------------------------------------------------------------------

word(
    "add",
    "x1 + x2.",
    torch=on_torch.summing("add"),
    one_call=True,
    c={"iuf": _c_infix("+"), "c": "({x} + {y})"},
    triton={"iuf": "{x} + {y}"},
)
word(
    "subtract",
    "x1 - x2.",
    torch=on_torch.summing("subtract"),
    one_call=True,
    c={"iuf": _c_infix("-"), "c": "({x} - {y})"},
    triton={"iuf": "{x} - {y}"},
)
word(
    "multiply",
    "x1 * x2.",
    torch=on_torch.wrapping("multiply"),
    one_call=True,
    c={"iuf": _c_infix("*"), "c": "mul_{T}({x}, {y})"},
    triton={"iuf": "{x} * {y}"},
)
word(
    "divide",
    "x1 / x2, in floating point.",
    names="divide true_divide",
    one_call=True,
    c={"f": "({x} / {y})", "c": "div_{T}({x}, {y})"},
    exact_complex=False,  # where NumPy was compiled to contract sums of products, its bits differ
    triton={"f": "{x} / {y}"},
    float32=Float32("tl.div_rn({x}, {y})", "quotient({x}, {y})", checks_x=True),
)
word(
    "floor_divide",
    "The largest integer not above x1 / x2; integers: x // 0 is 0.",
    torch=on_torch.floor_divide,
    c={"iu": "floor_divide{by}_{T}({x}, {y})"},
    triton={"i": "floor_divide({x}, {y})", "u": _unsigned("//")},
    numba="",
)
word(
    "remainder",
    "x1 - floor(x1 / x2) * x2: has the sign of x2.",
    names="remainder mod",
    torch=on_torch.remainder,
    c={"iu": "floor_remainder{by}_{T}({x}, {y})"},
    triton={"i": "floor_remainder({x}, {y})", "u": _unsigned("%")},
    numba="",
)
word(
    "fmod",
    "The remainder with the sign of x1, as in C.",
    torch=on_torch.fmod,
    triton=_libdevice("fmod", 2),
)
word(
    "power",
    "x1 ** x2; integers to negative powers raise ValueError.",
    names="power pow",
    torch=on_torch.power,
    may_raise=True,
    **_function("pow", 2, as_torch=False),
)
word(
    "float_power",
    "x1 ** x2, in float64 or complex128.",
    torch=on_torch.power,
    **_function("pow", 2, as_torch=False),
    numba="np.power({x}, {y})",
)
word(
    "hypot",
    "sqrt(x1*x1 + x2*x2) without overflow on the way.",
    one_call=True,
    torch=on_torch.in_float32("hypot"),
    **_function("hypot", 2, as_torch=False),
)
word(
    "arctan2",
    "The angle of the point (x2, x1), between -pi and pi.",
    names="arctan2 atan2",
    one_call=True,
    torch=on_torch.in_float32("arctan2"),
    **_function("atan2", 2, as_torch=False),
)
word(
    "logaddexp",
    "log(exp(x1) + exp(x2)) without overflow on the way.",
    torch=on_torch.in_float32("logaddexp"),
)
word(
    "logaddexp2",
    "log2(2**x1 + 2**x2) without overflow on the way.",
    torch=on_torch.in_float32("logaddexp2"),
)
word(
    "copysign",
    "The size of x1 with the sign of x2.",
    torch=on_torch.in_float32("copysign"),
    c={"f": "copysign{f}({x}, {y})"},
    triton=_libdevice("copysign", 2),
)
word("nextafter", "The next floating-point number after x1 towards x2.", torch=on_torch.nextafter)
word("ldexp", "x1 * 2**x2, for integers x2.", torch=on_torch.ldexp)
word(
    "heaviside",
    "0 where x1 < 0, x2 where x1 is 0, 1 above.",
    torch=on_torch.heaviside,
    triton={
        "f": "tl.where({x} > 0, 1.0, tl.where({x} < 0, 0.0, tl.where({x} == 0, {y}, {x})))",
    },
)
word("gcd", "The greatest common divisor of |x1| and |x2|.", torch=on_torch.gcd)
word(
    "lcm",
    "The lowest common multiple of |x1| and |x2|.",
    torch=on_torch.lcm,
    # torch: one array more
    entry={"scratch_bytes": lambda ins, outs, params: 8 * outs[0].n_elements},
)
word(
    "maximum",
    "The larger of the two; NaN where either is NaN.",
    torch=on_torch.maximum,
    one_call=True,
    **_extreme(">="),
)
word(
    "minimum",
    "The smaller of the two; NaN where either is NaN.",
    torch=on_torch.minimum,
    one_call=True,
    **_extreme("<="),
)
word(
    "fmax",
    "The larger of the two; a NaN gives way to a number.",
    torch=on_torch.extreme("fmax", largest=True, skip_nan=True),
    triton=_number_first(">="),
)
word(
    "fmin",
    "The smaller of the two; a NaN gives way to a number.",
    torch=on_torch.extreme("fmin", largest=False, skip_nan=True),
    triton=_number_first("<="),
)
word(
    "negative",
    "-x.",
    torch=on_torch.wrapping("negative"),
    one_call=True,
    c={"iuf": "({T})(-{x})", "c": "(-{x})"},
    triton={"iu": "-{x}", "f": "{x} * -1.0"},  # 0 - x would lose the sign of zero
)
word(
    "positive",
    "+x.",
    torch=on_torch.positive,
    c={"iufc": "{x}"},
    triton={"iuf": "{x}"},
)
word(
    "absolute",
    "|x|; real for complex x.",
    names="absolute abs",
    torch=on_torch.absolute,
    c={
        "i": "({T})({x} < 0 ? -{x} : {x})",
        "u": "{x}",
        "f": "fabs{f}({x})",
        "c": Block("size", ("(__real__ {x})", "(__imag__ {x})")),
    },
    triton={"iuf": "tl.abs({x})"},
    gives="real",
)
word(
    "fabs",
    "|x|, in floating point.",
    torch=on_torch.native("abs"),
    c={"f": "fabs{f}({x})"},
    triton={"f": "tl.abs({x})"},
)
word(
    "sign",
    "-1, 0 or 1 (complex: x / |x|); NaN for NaN.",
    torch=on_torch.sign,
    c={"f": "({x} > 0 ? 1 : ({x} < 0 ? -1 : ({x} == 0 ? {zero} : {x})))"},
    triton={
        "f": "tl.where({x} > 0, 1.0, tl.where({x} < 0, -1.0, tl.where({x} == 0, 0.0, {x})))",
    },
)
word(
    "square",
    "x * x.",
    torch=on_torch.wrapping("square"),
    one_call=True,
    c={"iuf": "({T})({x} * {x})", "c": "mul_{T}({x}, {x})"},
    triton={"iuf": "{x} * {x}"},
)
word(
    "sqrt",
    "The square root; NaN for negative reals.",
    one_call=True,
    c={"f": "sqrt{f}({x})"},
    triton={"f": "tl.sqrt({x})"},
    float32=Float32("tl.sqrt_rn({x})", "root({x})"),
)
word("cbrt", "The cube root.", torch=on_torch.cbrt, **_function("cbrt", as_torch=False))
word("spacing", "The distance to the next number away from zero.", torch=on_torch.spacing)
word(
    "reciprocal",
    "1 / x, in the dtype of x.",
    torch=on_torch.reciprocal,
    c={"f": "(1 / {x})"},
    triton={"f": "1.0 / {x}"},
    float32=Float32("libdevice.rcp_rn({x})", "inverse({x})"),
)

# --- rounding ---------------------------------------------------------------------------------

for _name, _doc in (
    ("floor", "The largest integer not above x."),
    ("ceil", "The smallest integer not below x."),
    ("trunc", "x without its fraction."),
    ("rint", "The nearest integer, halves to even."),
):
    word(
        _name,
        _doc,
        torch=on_torch.rint if _name == "rint" else on_torch.rounding(_name),
        c={"f": f"{_name}{{f}}({{x}})"},
        triton=_libdevice(_name),
    )

# --- exponentials and logarithms --------------------------------------------------------------


def _expm1(x: Any, out: Any = None) -> Any:
    """NumPy's, but exp(x) - 1 for complex numbers where the standard has other limits.

    Where x is not finite NumPy's formula multiplies inf by 0, and at -0 + 0j it gives -0.
    """
    if not np.iscomplexobj(x):
        return as_generated(np.expm1, "expm1")(x, out=out)
    x = np.asarray(x)
    odd = ~np.isfinite(x) | (x == 0)
    limits = np.exp(x[odd]) - 1  # first: `out` may be x
    made = np.asarray(np.expm1(x, out=out))
    made[odd] = limits
    return made


word(
    "exp",
    "e ** x.",
    one_call=True,
    **_function("exp", of_complex=True),
    float32=Float32(fused="tl.exp({x})"),  # 2 to the power of a product that was rounded
)
word("exp2", "2 ** x.", **_function("exp2"))
word(
    "expm1",
    "exp(x) - 1, exact for small x.",
    numpy=_expm1,
    torch=on_torch.expm1,
    entry={
        "scratch_bytes": lambda ins, outs, params: (
            3 * outs[0].n_elements + 4 * outs[0].n_bytes if outs[0].dtype.kind == "c" else 0
        )
    },
    **_function("expm1"),
)
word("log", "The natural logarithm.", **_function("log"), float32=Float32(positive=True))
word(
    "log2",
    "The logarithm to base 2.",
    torch=on_torch.log2,
    **_function("log2"),
    float32=Float32(positive=True),
)
word("log10", "The logarithm to base 10.", **_function("log10"), float32=Float32(positive=True))
word("log1p", "log(1 + x), exact for small x.", **_function("log1p"))

# --- trigonometry -----------------------------------------------------------------------------

word("sin", "The sine of x in radians.", **_function("sin"))
word("cos", "The cosine of x in radians.", **_function("cos"))
word("tan", "The tangent of x in radians.", **_function("tan"))
word(
    "arcsin", "The angle whose sine is x.", names="arcsin asin", **_function("asin", as_torch=False)
)
word(
    "arccos",
    "The angle whose cosine is x.",
    names="arccos acos",
    **_function("acos", as_torch=False),
)
word(
    "arctan",
    "The angle whose tangent is x.",
    names="arctan atan",
    **_function("atan", as_torch=False),
)
word("sinh", "The hyperbolic sine.", **_function("sinh"))
word("cosh", "The hyperbolic cosine.", **_function("cosh"))
word("tanh", "The hyperbolic tangent.", one_call=True, **_function("tanh"))
word(
    "arcsinh",
    "The inverse hyperbolic sine.",
    names="arcsinh asinh",
    **_function("asinh", as_torch=False),
)
word(
    "arccosh",
    "The inverse hyperbolic cosine.",
    names="arccosh acosh",
    **_function("acosh", as_torch=False),
)
word(
    "arctanh",
    "The inverse hyperbolic tangent.",
    names="arctanh atanh",
    **_function("atanh", as_torch=False),
)
word("deg2rad", "Degrees to radians.", names="deg2rad radians")
word("rad2deg", "Radians to degrees.", names="rad2deg degrees")

# --- comparison -------------------------------------------------------------------------------

for _name, _mark, _torch_word in (
    ("equal", "==", on_torch.equal),
    ("not_equal", "!=", on_torch.not_equal),
    ("less", "<", on_torch.comparison("lt", swap=False, or_equal=False)),
    ("less_equal", "<=", on_torch.comparison("le", swap=False, or_equal=True)),
    ("greater", ">", on_torch.comparison("gt", swap=True, or_equal=False)),
    ("greater_equal", ">=", on_torch.comparison("ge", swap=True, or_equal=True)),
):
    word(
        _name,
        f"x1 {_mark} x2.",
        torch=_torch_word,
        c={"biufc" if _mark in ("==", "!=") else "biuf": f"(uint8_t)({{x}} {_mark} {{y}})"},
        triton={"biuf": f"{{x}} {_mark} {{y}}"},
        in_half=True,
        gives="truth",
    )
for _name, _doc, _text in (
    ("isnan", "True where x is not a number.", "{x} != {x}"),
    ("isinf", "True where x is infinite.", 'tl.abs({x}) == float("inf")'),
    ("isfinite", "True where x is neither infinite nor NaN.", 'tl.abs({x}) < float("inf")'),
):
    word(
        _name,
        _doc,
        torch=on_torch.without_out(_name),
        c={"f": f"(uint8_t)({_name}({{x}}) != 0)"},
        triton={"f": _text},
        gives="truth",
    )
word("signbit", "True where the sign bit is set, also for -0.0.")

# --- logic and bits ---------------------------------------------------------------------------

for _name, _doc, _c, _text in (
    ("logical_and", "True where both are not zero.", "{x} && {y}", "{x} & {y}"),
    ("logical_or", "True where one is not zero.", "{x} || {y}", "{x} | {y}"),
    ("logical_xor", "True where exactly one is not zero.", "{x} != {y}", "{x} ^ {y}"),
    ("logical_not", "True where x is zero.", "!{x}", "{x} == 0"),
):
    word(
        _name,
        _doc,
        torch=on_torch.logical(_name),
        c={"b": f"(uint8_t)({_c})"},
        triton={"b": _text},
        in_half=True,
        gives="truth",
        of_truth=True,
    )
for _name, _doc, _mark in (
    ("bitwise_and", "The bits that both have.", "&"),
    ("bitwise_or", "The bits that one has.", "|"),
    ("bitwise_xor", "The bits that exactly one has.", "^"),
):
    texts = {"c": {"biu": _c_infix(_mark)}, "triton": {"biu": f"{{x}} {_mark} {{y}}"}}
    word(_name, _doc, torch=on_torch.wrapping(_name), **texts)
word(
    "invert",
    "Every bit inverted; `not` for booleans.",
    names="invert bitwise_not bitwise_invert",
    torch=on_torch.wrapping("bitwise_not"),
    c={"iu": "({T})(~{x})", "b": "(uint8_t)(!{x})"},
    numba="",
)
# by more bits than there are, everything is gone
word(
    "left_shift",
    "x1 * 2**x2 in the integers of its dtype.",
    names="left_shift bitwise_left_shift",
    torch=on_torch.shift(left=True),
    c={"iu": "({T})((uint64_t){y} < {bits} ? {x} << {y} : 0)"},
    triton={
        "i": "tl.where(({y} < 0) | ({y} >= {bits}), 0, {x} << ({y} & ({bits} - 1)))",
        "u": "tl.where({y} < {bits}, {x} << ({y} & ({bits} - 1)), 0)",
    },
    numba="",
)
word(
    "right_shift",
    "floor(x1 / 2**x2), for integers.",
    names="right_shift bitwise_right_shift",
    torch=on_torch.shift(left=False),
    c={
        "i": "({T})((uint64_t){y} < {bits} ? {x} >> {y} : ({x} < 0 ? -1 : 0))",
        "u": "({T})((uint64_t){y} < {bits} ? {x} >> {y} : 0)",
    },
    triton={
        "i": "{x} >> tl.where(({y} < 0) | ({y} >= {bits}), {bits} - 1, {y})",
        "u": "tl.where({y} < {bits}, {x} >> ({y} & ({bits} - 1)), 0)",
    },
    numba="",
)
word("bitwise_count", "How many bits of |x| are set.", torch=on_torch.bitwise_count)

# --- complex numbers --------------------------------------------------------------------------


def _part(name: str) -> Eager:
    def part(x: Any, out: Any = None) -> Any:
        x = np.asarray(x)
        if out is None:
            return getattr(x, name)
        out[...] = getattr(x, name) if name == "real" or x.dtype.kind == "c" else 0
        return out

    return part


word(
    "conjugate",
    "The complex conjugate.",
    names="conjugate conj",
    entry={"method": False},
    torch=on_torch.conjugate,
    c={"c": "(~{x})"},
    triton={"iuf": "{x}"},
)
word(
    "real",
    numpy=_part("real"),
    torch=on_torch.real,
    c={"c": "(__real__ {x})"},
    triton={"iuf": "{x}"},
    gives="real",
)
word("imag", numpy=_part("imag"), torch=on_torch.imag, c={"c": "(__imag__ {x})"}, gives="real")

# --- choice and casts -------------------------------------------------------------------------


CHOSEN_AT_A_TIME = 1 << 14
"""Elements of a choice that NumPy makes by itself, to be copied: a copy under a mask takes five
times as long."""


def _choose_into(out: Any, mask: Any, x: Any, y: Any) -> None:
    """A choice between arrays of one shape and dtype, some lines or elements at a time."""
    line = out[0].size
    if line > CHOSEN_AT_A_TIME:
        for k in range(len(out)):
            _choose_into(out[k], mask[k], x[k], y[k])
        return
    step = CHOSEN_AT_A_TIME // line
    for k in range(0, len(out), step):
        part = slice(k, k + step)
        out[part] = np.where(mask[part], x[part], y[part])


def _where(condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    mask = np.asarray(condition, dtype=bool)
    if out is None:
        return np.where(mask, x, y)
    if out.ndim and out.size and {getattr(one, "dtype", None) for one in (x, y)} == {out.dtype}:
        _choose_into(out, *(np.broadcast_to(one, out.shape) for one in (mask, x, y)))
        return out
    if np.may_share_memory(out, mask):
        mask = mask.copy()
    if np.may_share_memory(out, x):  # the branch that is overwritten goes in first
        x, y, mask = y, x, ~mask
    np.copyto(out, y)
    np.copyto(out, x, where=mask)
    return out


def _cast(x: Any, out: Any) -> Any:
    source = x.real if np.iscomplexobj(x) and out.dtype.kind != "c" and out.dtype != bool else x
    np.copyto(out, source, casting="unsafe")
    return out


word(
    "where",
    n_args=3,
    numpy=_where,
    torch=on_torch.where,
    c={"biufc": "({x} ? {y} : {z})"},
    triton={"biuf": "tl.where({x}, {y}, {z})"},
    in_half=True,
    numba="({y} if {x} else {z})",
    chooses=True,
)
word(
    "clip",
    n_args=3,
    torch=on_torch.clip,
    c={kinds: _clip_c(kinds) for kinds in ("iu", "f")},
    triton={kinds: _clip_triton(kinds) for kinds in ("iu", "f")},
    numba="np.minimum(np.maximum({x}, {y}), {z})",
)
word("cast", n_args=1, numpy=_cast, torch=on_torch.cast)  # a step by itself: generated as a cast


def _on_cpu(each: Word) -> Eager:
    """A word as NumPy's function or, of those over blocks, with the loops of generated code."""
    block = each.c.get("f")
    if not isinstance(each.numpy, np.ufunc):
        return each.numpy
    if isinstance(block, Block):
        return as_generated(each.numpy, block.name)
    return as_generated(each.numpy, each.name) if each.calls_block("c") else each.numpy


EAGER: dict[str, dict[str, Eager]] = {
    "cpu": {name: _on_cpu(each) for name, each in WORDS.items()},
    "cuda": {name: each.torch for name, each in WORDS.items()},
}
"""The functions of each word, by kind of device."""
OF_HALVES: dict[str, Eager] = {
    name: with_half_loops(each) if isinstance(each, np.ufunc) else each
    for name, each in EAGER["cpu"].items()
}
"""Those of a CPU for halves."""

"""Random but plausible array programs, written once for every library.

`program(seed, number, device)` draws one: its kind, its shapes, its dtype and its text. The text is
a Python function of a namespace `xp` and the operands, in NumPy's words; `survey_libraries` gives
each library such a namespace. Sizes are drawn evenly in their logarithm, from 1,000 elements to
what takes about 100 ms.

>>> drawn = program(0, 3, "cpu")
>>> drawn == program(0, 3, "cpu")
True
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "uint8")

MOST_BYTES = {"cuda": 1 << 29, "cpu": 1 << 26}
"""Of the largest operand: some ms of reading on a GPU, some tens on two cores."""
MOST_FLOPS = {"cuda": 1e12, "cpu": 1e10}
"""Of a product."""
MOST_SORTED = {"cuda": 1 << 25, "cpu": 1 << 21}
"""Elements of what is sorted, or found by its order."""


@dataclass(frozen=True)
class Operand:
    """An array that a program is given: `values` are normal, positive (0.5 to 1.5), unit (0 to 1),
    or integers below `high`."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    values: str = "normal"
    high: int = 100


@dataclass(frozen=True)
class Program:
    """One drawn program: the text of `def program(xp, a, b, …)` and what it is called with."""

    kind: str
    text: str
    operands: tuple[Operand, ...]

    def function(self) -> Callable[..., object]:
        names: dict[str, Callable[..., object]] = {}
        exec(compile(self.text, f"<{self.kind}>", "exec"), names)
        return names["program"]

    @property
    def body(self) -> str:
        """Its statements in one line, for a report."""
        lines = [line.strip() for line in self.text.splitlines()[1:]]
        return "; ".join(lines).removeprefix("return ")

    @property
    def shapes(self) -> str:
        return " ".join(f"{x.dtype}{list(x.shape)}" for x in self.operands)


NAMES = "abcdefgh"


class Draw:
    """What kinds draw from: random numbers, and the limits of a device."""

    def __init__(self, rng: Random, device: str) -> None:
        self.rng = rng
        self.device = device

    def count(self, most: float, least: float = 1e3) -> int:
        """Evenly in the logarithm; often a power of two or a round number."""
        n = math.exp(self.rng.uniform(math.log(least), math.log(max(most, least))))
        style = self.rng.random()
        if style < 0.3:
            return max(1, 1 << round(math.log2(n)))
        if style < 0.5:
            step = 10 ** max(0, int(math.log10(n)) - 1)
            return max(1, round(n / step) * step)
        return max(1, round(n))

    def elements(self, itemsize: int = 4, share: float = 1.0) -> int:
        return self.count(MOST_BYTES[self.device] / itemsize * share)

    def float_type(self) -> str:
        return self.rng.choice(FLOATS)

    def matrix(self, elements: int) -> tuple[int, int]:
        """Rows and columns: square, tall with 1 to 64 columns, or rows of any length."""
        style = self.rng.random()
        if style < 0.3:
            columns = self.rng.randint(1, 64)
        elif style < 0.6:
            columns = round(math.sqrt(elements))
        else:
            columns = self.count(min(elements, 1e6), 8)
        return max(1, elements // columns), columns

    def shape(self, elements: int, n_axes: int) -> tuple[int, ...]:
        if n_axes == 1:
            return (elements,)
        if n_axes == 2:
            return self.matrix(elements)
        lengths = []
        left = elements
        for k in range(n_axes - 1):
            n = self.count(max(2, left ** (1.5 / (n_axes - k))), 2)
            lengths.append(min(n, left))
            left = max(1, left // lengths[-1])
        return (*lengths, left)


def written(kind: str, lines: list[str], operands: list[Operand]) -> Program:
    names = ", ".join(NAMES[: len(operands)])
    text = "\n    ".join([f"def program(xp, {names}):", *lines])
    return Program(kind, text, tuple(operands))


# Expressions --------------------------------------------------------------------------------------

UNARY = (
    "xp.exp(-xp.abs({0}))", "xp.sqrt(xp.abs({0}))", "xp.sin({0})", "xp.tanh({0})", "xp.abs({0})",
    "-{0}", "xp.log1p(xp.abs({0}))", "{0} * {0}", "1 / (1 + xp.exp(-{0}))", "xp.floor({0})",
    "{0} * 0.5 + 1", "xp.cos({0})", "xp.arctan({0})", "xp.sign({0})", "{0} ** 2",
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / (xp.abs({1}) + 1)", "xp.maximum({0}, {1})",
    "xp.minimum({0}, {1})", "xp.where({0} > {1}, {0}, {1} * 0.5)", "xp.hypot({0}, {1})",
)  # fmt: skip
OF_INTEGERS = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "({0} * 31 + 7) % 1000", "{0} // 7", "{0} ^ {1}",
    "{0} & {1}", "xp.maximum({0}, {1})", "xp.where({0} > {1}, {0}, {1})", "{0} >> 2",
)  # fmt: skip


def expression(draw: Draw, names: list[str], n_ops: int, forms: tuple[str, ...]) -> list[str]:
    """Lines `t0 = …` of so many ops; each name is used, the last line has the result."""
    lines: list[str] = []
    unused = list(names)
    pool = list(names)
    for k in range(n_ops):
        form = draw.rng.choice(forms)
        first = f"t{k - 1}" if k else unused.pop()
        others = [name for name in pool if name != first] or pool
        second = unused.pop() if unused else draw.rng.choice(others)
        lines.append(f"t{k} = {form.format(first, second)}")
        pool.append(f"t{k}")
    lines += [f"t{n_ops - 1} = t{n_ops - 1} + {name}" for name in unused if n_ops]
    return lines


def elementwise(draw: Draw) -> Program:
    """A graph of 1 to 30 ops over one to three operands, some of which are broadcast."""
    dtype = draw.float_type()
    n_ops = round(math.exp(draw.rng.uniform(0, math.log(30))))
    shape = draw.shape(draw.elements(4, 0.5), draw.rng.choice((1, 1, 2, 3)))
    operands = [Operand(shape, dtype)]
    for _ in range(draw.rng.randint(0, min(2, n_ops))):
        style = draw.rng.random()
        other = shape
        if style < 0.3 and len(shape) > 1:
            other = shape[-1:]
        elif style < 0.45 and len(shape) > 1:
            other = (*shape[:-1], 1)
        operands.append(Operand(other, dtype))
    names = list(NAMES[: len(operands)])
    lines = expression(draw, names, n_ops, UNARY + BINARY * 2)
    return written("elementwise", [*lines, f"return t{n_ops - 1}"], operands)


def whole_numbers(draw: Draw) -> Program:
    """A graph of few ops over integers."""
    dtype = draw.rng.choice(INTEGERS)
    shape = draw.shape(draw.elements(8, 0.5), draw.rng.choice((1, 2)))
    n_ops = draw.rng.randint(1, 6)
    forms = tuple(f for f in OF_INTEGERS if dtype != "uint8" or "1000" not in f)
    operands = [Operand(shape, dtype, "integers", 100) for _ in range(draw.rng.randint(1, 2))]
    lines = expression(draw, list(NAMES[: len(operands)]), n_ops, forms)
    return written("integers", [*lines, f"return t{n_ops - 1}"], operands)


def complex_numbers(draw: Draw) -> Program:
    shape = draw.shape(draw.elements(8, 0.5), draw.rng.choice((1, 2)))
    forms = (
        "{0} + {1}",
        "{0} * {1}",
        "{0} - {1}",
        "xp.conj({0}) * {1}",
        "{0} * 0.5",
        "xp.exp({0} * 0.1)",
    )
    n_ops = draw.rng.randint(1, 6)
    lines = expression(draw, ["a", "b"], n_ops, forms)
    last = draw.rng.choice((f"t{n_ops - 1}", f"xp.abs(t{n_ops - 1})"))
    operands = [Operand(shape, "complex64")] * 2
    return written("complex", [*lines, f"return {last}"], operands)


def views(draw: Draw) -> Program:
    """Elementwise over transposed, flipped, sliced, strided operands."""
    dtype = draw.rng.choice(FLOATS[:4])
    n = draw.elements(4, 0.5)
    rows, columns = draw.matrix(n) if draw.rng.random() < 0.5 else (math.isqrt(n), math.isqrt(n))
    style = draw.rng.choice(
        ("transposed", "flipped", "differences", "strided", "stencil", "both", "permuted")
    )
    given = Operand((rows, columns), dtype)
    square = Operand((columns, rows), dtype)
    line = {
        "transposed": ("return a.T + b", [given, square]),
        "flipped": ("return xp.flip(a, 0) * 2 + xp.flip(b, 1)", [given, given]),
        "differences": ("return a[1:] - a[:-1]", [Operand((n,), dtype)]),
        "strided": ("return a[::2] * 3 + a[1::2]", [Operand((n // 2 * 2,), dtype)]),
        "stencil": (
            "return (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 5",
            [Operand((rows + 2, columns + 2), dtype)],
        ),
        "both": ("return xp.flip(a.T, 0) + b * 0.5", [given, square]),
        "permuted": (
            "return xp.exp(-xp.abs(xp.permute_dims(a, (2, 0, 1)))) + 1",
            [Operand(draw.shape(n, 3), dtype)],
        ),
    }[style]
    return written(f"views: {style}", [line[0]], line[1])


# Reductions ---------------------------------------------------------------------------------------

FOLDS = ("xp.sum", "xp.mean", "xp.amax", "xp.amin", "xp.var", "xp.std")


def reduction(draw: Draw) -> Program:
    """One to three reductions of a short expression over any axes."""
    dtype = draw.float_type()
    n_axes = draw.rng.choice((1, 2, 2, 2, 3))
    shape = draw.shape(draw.elements(), n_axes)
    axes = [k for k in range(n_axes) if draw.rng.random() < 0.5] or [draw.rng.randrange(n_axes)]
    over = "None" if len(axes) == n_axes else str(axes[0] if len(axes) == 1 else tuple(axes))
    n_ops = draw.rng.choice((0, 0, 1, 2, 4))
    lines = expression(draw, ["a"], n_ops, UNARY)
    value = f"t{n_ops - 1}" if n_ops else "a"
    folds = draw.rng.sample(FOLDS, draw.rng.choice((1, 1, 1, 2, 3)))
    made = ", ".join(f"{fold}({value}, axis={over})" for fold in folds)
    return written("reduction", [*lines, f"return {made}"], [Operand(shape, dtype)])


ROWS = {
    "softmax": ("e = xp.exp(a - xp.amax(a, axis={0}, keepdims=True))",
                "return e / xp.sum(e, axis={0}, keepdims=True)"),
    "layer norm": ("m = xp.mean(a, axis={0}, keepdims=True)",
                   "v = xp.var(a, axis={0}, keepdims=True)", "return (a - m) / xp.sqrt(v + 1e-5)"),
    "RMS norm": ("return a / xp.sqrt(xp.mean(a * a, axis={0}, keepdims=True) + 1e-6)",),
    "log-sum-exp": ("m = xp.amax(a, axis={0}, keepdims=True)",
                    "return xp.log(xp.sum(xp.exp(a - m), axis={0}, keepdims=True)) + m"),
    "log-softmax": ("s = a - xp.amax(a, axis={0}, keepdims=True)",
                    "return s - xp.log(xp.sum(xp.exp(s), axis={0}, keepdims=True))"),
    "normalise": ("return a / (xp.sqrt(xp.sum(a * a, axis={0}, keepdims=True)) + 1e-6)",),
    "min-max": ("lo = xp.amin(a, axis={0}, keepdims=True)",
                "hi = xp.amax(a, axis={0}, keepdims=True)", "return (a - lo) / (hi - lo + 1e-6)"),
    "centre": ("return a - xp.mean(a, axis={0}, keepdims=True)",),
    "entropy": ("p = xp.abs(a) / xp.sum(xp.abs(a), axis={0}, keepdims=True)",
                "return -xp.sum(p * xp.log(p + 1e-6), axis={0})"),
    "cosine": ("return xp.sum(a * b, axis={0}) / (xp.sqrt(xp.sum(a * a, axis={0}))"
               " * xp.sqrt(xp.sum(b * b, axis={0})) + 1e-6)",),
    "weighted": ("return xp.sum(a * b, axis={0}) / (xp.sum(xp.abs(b), axis={0}) + 1)",),
    "argmax": ("return xp.argmax(a, axis={0})",),
    "argmin of distance": ("return xp.argmin(xp.abs(a - b), axis={0})",),
    "nearest": ("d = xp.sum((a[:, None, :8] - b[None, :16, :8]) ** 2, axis=2)",
                "return xp.argmin(d, axis=1)"),
}  # fmt: skip


def rows(draw: Draw) -> Program:
    """Reductions of rows or columns whose results are used with the values again."""
    dtype = draw.float_type()
    shape = draw.matrix(draw.elements(4, 0.5))
    name = draw.rng.choice(list(ROWS))
    axis = draw.rng.choice((-1, -1, 0))
    if name == "nearest":
        shape = (max(shape[0], 16), max(shape[1] % 64, 8))
    lines = [line.format(axis) for line in ROWS[name]]
    operands = [Operand(shape, dtype) for _ in range(1 + any("b" in _names(t) for t in lines))]
    return written(f"rows: {name}", lines, operands)


def _names(text: str) -> set[str]:
    return set(re.findall(r"\b[a-h]\b", text))


def truth(draw: Draw) -> Program:
    shape = draw.shape(draw.elements(4), draw.rng.choice((1, 2)))
    line = draw.rng.choice(
        (
            "return xp.any(a > 100)", "return xp.all(a > -100)", "return xp.sum(a > 0.5)",
            "return xp.any(xp.isnan(a), axis=-1)", "return xp.all(xp.isfinite(a), axis=0)",
            "return xp.count_nonzero(a > 0)", "return (a > 0) & (a < 1)",
        )
    )  # fmt: skip
    return written("truth", [line], [Operand(shape, draw.rng.choice(FLOATS[:4]))])


# Products -----------------------------------------------------------------------------------------


def sizes(draw: Draw, n_batches: int = 1) -> tuple[int, int, int]:
    """Rows, inner and columns of a product within the limits."""
    most = MOST_FLOPS[draw.device] / n_batches
    flops = draw.count(most, 1e5)
    style = draw.rng.random()
    if style < 0.35:
        n = max(2, round((flops / 2) ** (1 / 3)))
        return n, n, n
    m, k, n = (draw.count(max(4.0, (flops / 2) ** 0.45), 2) for _ in range(3))
    if style < 0.7:
        tall = int(min(flops / (2 * k * n) + 1, MOST_BYTES[draw.device] / 8 / max(k, n)))
        return max(tall, 2), k, n
    return m, k, n


def product(draw: Draw) -> Program:
    """A product of matrices with what comes before and after it."""
    dtype = draw.rng.choice(("float32", "float32", "float64", "float16", "bfloat16"))
    m, k, n = sizes(draw)
    a, b = Operand((m, k), dtype), Operand((k, n), dtype)
    bias = Operand((n,), dtype)
    after = draw.rng.choice(
        (
            ("return a @ b", []), ("return xp.maximum(a @ b + c, c * 0)", [bias]),
            ("return xp.tanh(a @ b) * 0.5", []), ("return (a * 0.5 + 1) @ b", []),
            ("return xp.sum(a @ b, axis=1)", []), ("return xp.argmax(a @ b, axis=1)", []),
            ("return xp.argmin(xp.sum(b * b, axis=0) - 2 * (a @ b), axis=1)", []),
            ("return a @ b - xp.mean(a @ b, axis=0)", []), ("return a @ b + c", [bias]),
        )
    )  # fmt: skip
    return written("product", [after[0]], [a, b, *after[1]])


def gram(draw: Draw) -> Program:
    m, k, _ = sizes(draw)
    k = min(k, 512)
    line = draw.rng.choice(
        (
            "return a.T @ a",
            "return (a - xp.mean(a, axis=0)).T @ (a - xp.mean(a, axis=0)) / a.shape[0]",
            "return a.T @ (a * b[:, None])", "return a.T @ b", "return b @ a",
        )
    )  # fmt: skip
    operands = [Operand((m, k), draw.rng.choice(("float32", "float64")))]
    if "b" in _names(line):
        operands.append(Operand((m,), operands[0].dtype))
    return written("gram", [line], operands)


def batched(draw: Draw) -> Program:
    """Batches of products, einsum's spelling of them, and attention."""
    dtype = draw.rng.choice(("float32", "float32", "float16", "bfloat16"))
    n_batches = draw.count(256, 2)
    m, k, n = (min(x, 2048) for x in sizes(draw, n_batches))
    while n_batches * max(m * k, k * n, m * n) * 4 > MOST_BYTES[draw.device]:
        n_batches, m, n = max(1, n_batches // 2), max(2, m // 2), max(2, n // 2)
    style = draw.rng.choice(("matmul", "bij,bkj->bik", "bij,bjk->bk", "attention", "bilinear"))
    a, b = Operand((n_batches, m, k), dtype), Operand((n_batches, k, n), dtype)
    if style == "matmul":
        return written("batched", ["return a @ b"], [a, b])
    if style == "attention":
        d = min(max(k, 16), 128)
        q = Operand((n_batches, m, d), dtype)
        kv = Operand((n_batches, n, d), dtype)
        lines = [
            f"s = a @ xp.permute_dims(b, (0, 2, 1)) * {d**-0.5:.4f}",
            "e = xp.exp(s - xp.amax(s, axis=-1, keepdims=True))",
            "return (e / xp.sum(e, axis=-1, keepdims=True)) @ c",
        ]
        return written("batched: attention", lines, [q, kv, kv])
    if style == "bilinear":
        lines = ['return xp.einsum("ni,ij,nj->n", a, b, c)']
        rows_ = min(n_batches * m, 1 << 20)
        operands = [Operand((rows_, k), dtype), Operand((k, n), dtype), Operand((rows_, n), dtype)]
        return written("batched: bilinear", lines, operands)
    other = Operand((n_batches, n, k), dtype) if style == "bij,bkj->bik" else b
    return written(f"batched: {style}", [f'return xp.einsum("{style}", a, b)'], [a, other])


def pairs(draw: Draw) -> Program:
    """Points against points."""
    d = draw.rng.randint(2, 32)
    n = draw.count(1e6 if draw.device == "cuda" else 3e4, 100)
    k = draw.count(min(MOST_BYTES[draw.device] / 8 / n, 1e3), 4)
    squares = "xp.sum(a * a, axis=1)[:, None] - 2 * (a @ b.T) + xp.sum(b * b, axis=1)"
    forms = ("xp.argmin({0}, axis=1)", "xp.exp(-({0}))", "xp.sqrt(xp.abs({0}))")
    line = "return " + draw.rng.choice(forms).format(squares)
    dtype = draw.rng.choice(("float32", "float64"))
    return written("pairs", [line], [Operand((n, d), dtype), Operand((k, d), dtype)])


# Library routines ---------------------------------------------------------------------------------


def order(draw: Draw) -> Program:
    """Sorts, order statistics, scans, searches."""
    n = draw.count(MOST_SORTED[draw.device])
    dtype = draw.rng.choice(("float32", "float32", "float64", "int64", "int32"))
    values = "integers" if dtype.startswith("int") else "normal"
    style = draw.rng.choice(("line", "rows", "rows", "columns"))
    shape = (n,) if style == "line" else draw.matrix(n)
    axis = {"line": 0, "rows": -1, "columns": 0}[style]
    forms = ["xp.sort(a, axis={0})", "xp.argsort(a, axis={0})", "xp.cumsum(a, axis={0})"]
    if values == "normal":
        forms += [
            "xp.median(a, axis={0})",
            "xp.quantile(a, 0.9, axis={0})",
            "xp.cumsum(a * a, axis={0}) * 0.5",
        ]
    if style == "line":
        forms += ["xp.searchsorted(xp.sort(a), b)", "xp.unique(a)"]
    form = draw.rng.choice(forms)
    operands = [Operand(shape, dtype, values, 1 << 20)]
    if "b" in _names(form):
        operands.append(Operand((max(n // 2, 1),), dtype, values, 1 << 20))
    name = form.split("(")[0].removeprefix("xp.")
    return written(f"order: {name} {style}", [f"return {form.format(axis)}"], operands)


def counts(draw: Draw) -> Program:
    n = draw.elements(8, 0.25)
    high = draw.count(1e5, 4)
    line, operands = draw.rng.choice(
        (
            ("return xp.histogram(a, {0}, -4.0, 4.0)", [Operand((n,))]),
            ("return xp.bincount(a, {0})", [Operand((n,), "int64", "integers", high)]),
            (
                "return xp.bincount(a, {0}, b)",
                [Operand((n,), "int64", "integers", high), Operand((n,), "float32")],
            ),
        )
    )
    n_bins = min(high, 4096) if "histogram" in line else high
    return written("counts", [line.format(n_bins)], operands)


def gathers(draw: Draw) -> Program:
    """Reading and writing by indices and masks."""
    n = draw.elements(8, 0.2)
    rows_, columns = draw.matrix(n)
    n_read = draw.count(max(2e3, n))
    dtype = draw.rng.choice(FLOATS[:4])
    line = Operand((n,), dtype)
    index = Operand((n_read,), "int64", "integers", n)
    table = Operand((rows_, columns), dtype)
    picks = Operand((max(2, n_read // columns),), "int64", "integers", rows_)
    text, operands = draw.rng.choice(
        (
            ("return a[b]", [line, index]),
            ("return a[b] * 2 + 1", [line, index]),
            ("return a[b]", [table, picks]),
            ("return xp.sum(a[b], axis=0)", [table, picks]),
            ("return xp.sum(a[b] * c, axis=-1)", [table, picks, Operand((columns,), dtype)]),
            ("return xp.add_at(a, b, c)", [line, index, Operand((n_read,), dtype)]),
            ("return xp.add_at(a, b, c)", [table, picks, Operand((*picks.shape, columns), dtype)]),
            ("return a[a > 0.5]", [line]),
            ("return xp.sum(xp.where(a > 0.5, a, a * 0))", [line]),
            ("return xp.where(a > 0, b, c)", [line, line, line]),
            (
                "return xp.take_along(a, b)",
                [table, Operand((rows_, 1), "int64", "integers", columns)],
            ),
        )
    )
    return written("gathers", [text], operands)


def transforms(draw: Draw) -> Program:
    n = draw.count(MOST_SORTED[draw.device])
    style = draw.rng.choice(("fft", "rfft", "fft rows", "fft2", "spectrum", "convolution"))
    shape = {"fft rows": draw.matrix(n), "fft2": (math.isqrt(n), math.isqrt(n))}.get(style, (n,))
    line = {
        "fft": "return xp.fft.fft(a)",
        "rfft": "return xp.fft.rfft(a)",
        "fft rows": "return xp.fft.fft(a)",
        "fft2": "return xp.fft.fft2(a)",
        "spectrum": "return xp.abs(xp.fft.rfft(a * 0.5)) ** 2",
        "convolution": "return xp.fft.irfft(xp.fft.rfft(a) * xp.fft.rfft(b), a.shape[0])",
    }[style]
    shape = tuple(x // 2 * 2 + 2 for x in shape)
    dtype = "complex64" if line.endswith("fft(a)") and "rfft" not in line else "float32"
    given = Operand(shape, dtype)
    return written(f"transforms: {style}", [line], [given] * (1 + (style == "convolution")))


def joins(draw: Draw) -> Program:
    dtype = draw.rng.choice(FLOATS[:4])
    n = draw.elements(4, 0.25)
    shape = draw.matrix(n)
    line = draw.rng.choice(
        (
            "return xp.concatenate([a, b], axis=0)", "return xp.concatenate([a, b], axis=1)",
            "return xp.stack([a, b], axis=0)", "return xp.stack([a, b * 2], axis=-1)",
            "return xp.roll(a, 3, axis=0) + b", "return xp.concatenate([a * 2, b + 1], axis=0)",
            "return xp.reshape(a, (-1,)) * 2 + xp.reshape(b, (-1,))",
        )
    )  # fmt: skip
    return written("joins", [line], [Operand(shape, dtype)] * 2)


# Loops --------------------------------------------------------------------------------------------


def loops(draw: Draw) -> Program:
    """Many small steps, each from what the one before gave."""
    n_steps = draw.rng.choice((10, 20, 50, 100))
    n = draw.count(1e6 if draw.device == "cuda" else 1e5)
    side = max(8, min(math.isqrt(n), 1024))
    dtype = draw.rng.choice(("float32", "float32", "float64"))
    line, square = Operand((n,), dtype), Operand((side, side), dtype, "unit")
    vector = Operand((side,), dtype)
    style = draw.rng.choice(
        ("tanh", "momentum", "power", "gradient", "diffusion", "average", "layers")
    )
    step = {
        "tanh": (["a = xp.tanh(a) * 0.9 + 0.01"], [line], "a"),
        "momentum": (["b = b * 0.9 + a * 0.1", "a = a - b * 0.1"], [line, line], "a, b"),
        "power": (["b = a @ b", "b = b / xp.sqrt(xp.sum(b * b))"], [square, vector], "b"),
        "gradient": (["c = c - (a.T @ (a @ c - b)) * 1e-4"], [square, vector, vector], "c"),
        "diffusion": (
            ["a = a * 0.6 + (xp.roll(a, 1, axis=0) + xp.roll(a, -1, axis=0)) * 0.2"], [line], "a",
        ),
        "average": (["c = c * 0.99 + a * b * 0.01", "a = a * 0.999"], [line] * 3, "c"),
        "layers": (["a = xp.maximum(a @ b, c) * 0.01 + a"], [square, square, vector], "a"),
    }[style]  # fmt: skip
    lines = [f"for _ in range({n_steps}):", *("    " + text for text in step[0])]
    return written(f"loops: {style}", [*lines, f"return {step[2]}"], step[1])


KINDS: dict[Callable[[Draw], Program], float] = {
    elementwise: 5, reduction: 4, rows: 5, views: 3, product: 3, order: 3, gathers: 3, loops: 3,
    whole_numbers: 2, truth: 1.5, gram: 1.5, batched: 2, pairs: 1.5, counts: 1.5, transforms: 1.5,
    joins: 1.5, complex_numbers: 1,
}  # fmt: skip
"""Kinds of programs and how often each is drawn."""


def program(seed: int, number: int, device: str) -> Program:
    """The program of a number: the same on every machine."""
    rng = Random(f"{seed}/{number}/{device}")
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    return kind(Draw(rng, device))

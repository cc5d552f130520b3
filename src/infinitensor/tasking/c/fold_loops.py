"""Reductions inside generated code: a tile is reduced while it is made, without storing it.

Along the inner axis a block is summed in lanes as it is made, or reduced as a whole
(`fold_loops.h`), and blocks are merged in order; over other axes rows are merged element by
element. Either order depends on the shape alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES
from infinitensor.ops.table.words import BOOL
from infinitensor.tasking.c.expressions import (
    Unsupported,
    c_type,
    cast,
    read,
    store_text,
    stored_type,
)

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node

KINDS = {
    "sum": "sum", "mean": "sum", "count_nonzero": "count", "min": "min", "amin": "min",
    "max": "max", "amax": "max", "any": "max", "all": "min", "var": "moments", "std": "moments",
    "argmin": "argmin", "argmax": "argmax",
}  # fmt: skip
"""How generated code reduces: by op."""
INT32, INT64, FLOAT = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32)
SUMMED = ("float32", "float64", "int64", "uint64")


@dataclass(frozen=True, slots=True)
class Fold:
    """One reduction: how, of what, in which dtype, and whether it runs along the inner loop."""

    kind: str
    source: tuple[str, int]
    given: np.dtype[Any]
    dtype: np.dtype[Any]
    along: bool
    end: str = ""
    """The result where a row is reduced as a whole: "mean", "var" or "std"; "place" of a place
    over other axes, without the value there."""
    ddof: float = 0.0
    half: np.dtype[Any] | None = None
    """The dtype that the result is written in, where that has 16 bits: it is reduced as floats."""

    @property
    def written(self) -> np.dtype[Any]:
        """The dtype of what it found, in memory."""
        return self.half or self.dtype

    @property
    def sums(self) -> bool:
        """Whether it begins with the sum of a block."""
        return self.along and self.kind in ("sum", "count", "moments")

    @property
    def lane(self) -> np.dtype[Any]:
        """What a block is summed in: counts and sums of short integers fit less than their dtype
        has."""
        is_short = self.given.kind in "biu" and self.given.itemsize <= 2
        if self.dtype.kind in "iu" and (self.kind == "count" or (is_short and self.kind == "sum")):
            return INT32
        return self.dtype

    @property
    def looks_back(self) -> bool:
        """Whether it needs a block once more, after it is made."""
        return self.along and self.kind not in ("sum", "count")

    @property
    def finds(self) -> bool:
        """Whether it says where, besides what."""
        return self.kind in ("argmin", "argmax")

    @property
    def parts(self) -> tuple[np.dtype[Any], ...]:
        """Dtypes of the arrays it writes."""
        if self.finds:
            return (INT64,) if self.end else (self.written, INT64)
        if self.kind == "moments" and not self.end:
            return (INT64, self.dtype, self.dtype)
        return (self.written,)

    def degrees(self) -> str:
        """The C text of what variances divide by."""
        return f"fmax(n - {self.ddof!r}, 0.0)"

    def store(self, text: str) -> str:
        """The C text of what it found as it is in memory."""
        return store_text(cast(text, self.dtype, self.written), self.written)

    def value(self, dtype: np.dtype[Any] | None = None) -> str:
        """The C text of what is reduced, in its dtype or another."""
        name = f"{'x' if self.source[0] == 'in' else 's'}{self.source[1]}"
        if self.kind == "count":
            return cast(cast(name, self.given, BOOL), BOOL, dtype or self.dtype)
        return cast(name, self.given, dtype or self.dtype)


def fold_of(node: Node, source: tuple[str, int], inner: int) -> Fold:
    """The fold of a reduction around an inner axis; raises Unsupported where there is none."""
    kind = KINDS.get(node.op.name)
    if kind is None or not node.call.form.contracted:
        raise Unsupported(f"reduction {node.op.name}")
    given = node.call.loop[0] if node.call.loop else node.call.outs[0].dtype
    dtype = node.call.parts[1 if kind == "moments" else 0]
    if kind in ("sum", "count", "moments") and dtype.name not in SUMMED:
        raise Unsupported(f"sums of {dtype}")
    if dtype.kind == "c":
        raise Unsupported(f"{kind} of {given}")
    half = dtype if dtype in HALVES else None
    dtype = FLOAT if half else dtype
    c_type(dtype), c_type(given)
    along = node.call.form.inputs[0][inner] in node.call.form.contracted
    fold = Fold(kind, source, given, dtype, along, half=half)
    if fold.finds and len(node.call.form.contracted) > 1:
        raise Unsupported("places over several axes")
    fold.value()  # a cast may be what C does otherwise
    return fold


def ending_fold(fold: Fold, node: Node) -> Fold:
    """The fold of whole rows that writes a reduction's result, where that takes a last step."""
    params, dtype = dict(node.call.params), node.call.outs[0].dtype
    half = dtype if dtype in HALVES and fold.dtype == FLOAT else fold.half
    if fold.dtype.kind != "f" or dtype != (half or fold.dtype):
        return fold
    if node.op.name == "mean":
        return replace(fold, end="mean", half=half)
    if fold.kind == "moments" and isfinite(params["ddof"]):
        end = "std" if params["root"] else "var"
        return replace(fold, end=end, ddof=params["ddof"], half=half)
    return replace(fold, half=half) if fold.kind == "sum" else fold


def across_fold(fold: Fold) -> Fold:
    """The fold over other axes, of what is reduced as a whole, that writes a reduction's result."""
    return replace(fold, end="place") if fold.finds else fold


def is_result(fold: Fold, node: Node) -> bool:
    """Whether the last thing that a fold writes is a reduction's result."""
    dtype = node.call.outs[0].dtype
    if not fold.finds and not fold.end and (fold.kind == "moments" or node.op.name == "mean"):
        return False
    return bool(fold.parts[-1] == dtype)


def states(j: int, fold: Fold) -> list[tuple[str, str]]:
    """The accumulators between blocks: C type and name; all begin as 0."""
    name = c_type(fold.dtype)
    if not fold.along:
        return []
    if fold.finds:
        return [(name, f"f{j}"), ("int64_t", f"f{j}at")]
    if fold.kind == "moments":
        return [("Moments", f"f{j}")]
    if fold.kind in ("sum", "count") and fold.dtype.kind == "f":
        return [("Sum", f"f{j}")]
    return [(name, f"f{j}")]


def block_lines(j: int, fold: Fold, block: str, total: str) -> list[str]:
    """Along the inner axis: one block of it, named `block`, and its sum."""
    name = c_type(fold.dtype)
    if fold.kind == "moments":
        return [
            f"{{ const double mean = (double){total} / m;",
            f"  join(&f{j}, m, mean, squares_{name}({block}, m, ({name})mean)); }}",
        ]
    if fold.kind in ("sum", "count"):
        return [f"add_to(&f{j}, {total});" if fold.dtype.kind == "f" else f"f{j} += {total};"]
    better = f"got {'>' if fold.kind in ('max', 'argmax') else '<'} f{j}"
    is_float = fold.dtype.kind == "f"  # integers have no NaN, and compilers warn of the comparison
    if fold.finds:
        better = f"f{j} == f{j} && ({better} || got != got)" if is_float else better
        return [
            f"{{ const {name} got = {fold.kind[3:]}_{name}({block}, m);",
            f"  if (begun == 0 || ({better}))",
            f"    f{j} = got, f{j}at = begun + first_{name}({block}, m, got); }}",
        ]
    if is_float:
        better += " || got != got"
    return [
        f"{{ const {name} got = {fold.kind}_{name}({block}, m);",
        f"  f{j} = (begun == 0 && (n_same == 1 || row % n_same == 0)) || {better} ? got : f{j}; }}",
    ]


def end_lines(j: int, fold: Fold, at: int) -> list[str]:
    """Along the inner axis: the result of what was reduced into one element."""
    name = c_type(fold.dtype)
    if not fold.along:
        return []
    found = f"*({stored_type(fold.written)} *)q[{at}]"
    if fold.finds:
        return [f"{found} = {fold.store(f'f{j}')};", f"*(int64_t *)q[{at + 1}] = f{j}at;"]
    if fold.kind == "moments" and fold.end:
        value = f"({name})f{j}.m2 / ({name}){fold.degrees()}"
        value = f"({name})sqrt({value})" if fold.end == "std" else value
        return [f"{found} = {fold.store(f'({value})')};", f"f{j} = (Moments){{0, 0, 0}};"]
    if fold.kind == "moments":
        lines = [f"*(int64_t *)q[{at}] = (int64_t)f{j}.n;"]
        lines += [f"*({name} *)q[{at + 1}] = ({name})f{j}.mean;"]
        lines += [f"*({name} *)q[{at + 2}] = ({name})f{j}.m2;", f"f{j} = (Moments){{0, 0, 0}};"]
        return lines
    if fold.kind in ("sum", "count") and fold.dtype.kind == "f":
        over = f" / ({name})n" if fold.end else ""
        value = f"(({name})sum_of(&f{j}){over})"
        return [f"{found} = {fold.store(value)};", f"f{j} = (Sum){{0, 0}};"]
    return [f"{found} = {fold.store(f'f{j}')};", f"f{j} = 0;"]


def kept_lines(j: int, fold: Fold) -> list[str]:
    """Over other axes: what a place is looked for with, of as many elements as are walked through
    all rows before the next."""
    if fold.along or not fold.finds:
        return []
    return [f"{c_type(fold.dtype)} best{j}[BLOCK];", f"{_place_type(fold)} where{j}[BLOCK];"]


def _place_type(fold: Fold) -> str:
    """The C type in which places are counted: as wide as elements, so that both fit one vector."""
    return f"int{max(8 * fold.dtype.itemsize, 32)}_t"


def found_lines(j: int, fold: Fold, at: int) -> list[str]:
    """Over other axes, after the last row: the places, and the values there."""
    if fold.along or not fold.finds:
        return []
    into = f"((int64_t *)q[{at + len(fold.parts) - 1}])"
    lines = [f"for (int64_t i = 0; i < m; ++i) {into}[begun + i] = where{j}[i];"]
    if not fold.end:
        values = f"(({stored_type(fold.written)} *)q[{at}])[begun + i]"
        lines += [f"for (int64_t i = 0; i < m; ++i) {values} = {fold.store(f'best{j}[i]')};"]
    return lines


def across_lines(j: int, fold: Fold) -> list[str]:
    """Over other axes: one element of a row is merged into what rows before gave."""
    value = f"f{j}v"
    if fold.finds:
        name, place = c_type(fold.dtype), _place_type(fold)
        better = f"({value} {'>' if fold.kind == 'argmax' else '<'} was{j})"
        if fold.dtype.kind == "f":
            better += f" | ((was{j} == was{j}) & ({value} != {value}))"
        return [
            f"const {name} was{j} = seen ? best{j}[i] : {value};",
            f"const {place} before{j} = seen ? where{j}[i] : 0;",
            f"const {place} better{j} = {better};",
            f"best{j}[i] = better{j} ? {value} : was{j};",
            f"where{j}[i] = better{j} ? ({place})seen : before{j};",
        ]
    if fold.kind == "moments":
        name = c_type(fold.dtype)
        return [
            f"const {name} was{j} = seen ? r{j}[i] : 0;",
            f"const {name} delta{j} = {value} - was{j};",
            f"const {name} now{j} = was{j} + delta{j} * ({name})share;",
            f"r{j}m[i] = (seen ? r{j}m[i] : 0) + delta{j} * ({value} - now{j});",
            f"r{j}[i] = now{j};",
        ]
    if fold.kind in ("sum", "count"):
        return [f"r{j}[i] = (seen ? r{j}[i] : 0) + {value};"]
    better = f"({value} {'>' if fold.kind == 'max' else '<'} was{j})"
    if fold.dtype.kind == "f":
        better += f" | ({value} != {value})"
    was = read(f"r{j}[i]", fold.written)
    return [
        f"const {c_type(fold.dtype)} was{j} = seen ? {was} : {value};",
        f"r{j}[i] = {store_text(f'({better} ? {value} : was{j})', fold.written)};",
    ]


def across_name(fold: Fold) -> str:
    """What rows are reduced by, several at a time (`across_rows.h`)."""
    return "sum" if fold.kind == "count" else fold.kind


def across_function(fold: Fold) -> str:
    """The C text that makes that function."""
    name = c_type(fold.dtype)
    if fold.kind == "moments":
        return f"MOMENTS_ACROSS({name})"
    if fold.kind in ("sum", "count"):
        return f"ACROSS({name}, sum, NOTHING, PLUS)"
    word = "LARGER" if fold.kind == "max" else "SMALLER"
    word += "_OR_NAN" if fold.dtype.kind == "f" else ""
    return f"ACROSS({name}, {fold.kind}, AS_IT_IS, {word})"


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """A tile's shape without the reduced axes (counted from the last)."""
    return tuple(n for axis, n in enumerate(shape, -len(shape)) if axis not in axes)

"""Triton source of reductions, fused with the steps that make what they reduce.

A space is seen as (outer, rows, columns), rows being reduced. A program reduces a chunk of rows for
a block of columns: each lane of a block of fixed shape adds up its own rows in order, then lanes
are merged in a tree by index; a second kernel merges chunks in a tree by index. Chunks depend on
the leaf alone, so bits depend neither on the tile nor on its strides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import kind_of
from infinitensor.ops.table.words import WORDS
from infinitensor.tasking.c.expressions import Unsupported
from infinitensor.tasking.triton.triton_division import Division
from infinitensor.tasking.triton.triton_source import (
    HEADER,
    Writer,
    cast,
    function,
    text_over,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.tasking.triton.triton_source import Group

_MERGES = {"sum": "a + b", "prod": "a * b", "any": "a | b", "all": "a & b"}
_MOMENTS = """\
@triton.jit
def merge_moments(n_a, mean_a, m2_a, n_b, mean_b, m2_b):
    n = n_a + n_b
    share = n_b.to(mean_a.dtype) / tl.maximum(n, 1.0).to(mean_a.dtype)
    away = mean_b - mean_a
    mean = tl.where(n_b == 0, mean_a, mean_a + away * share)
    m2 = m2_a + m2_b + away * away * (n_a.to(mean_a.dtype) * share)
    return n, tl.where(n_a == 0, mean_b, mean), tl.where(n_a == 0, m2_b, m2)

"""
_PLACES = """\
@triton.jit
def {name}(a, i, b, j):
    beats = (b {mark} a) | ((b != b) & (a == a))
    same = (b == a) | ((b != b) & (a != a))
    take = beats | (same & (j < i))
    return tl.where(take, b, a), tl.where(take, j, i)

"""
"""NaN is best, then the better value, then the first."""
NOWHERE = 1 << 62
"""The place of an identity: behind all others."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction of a group: of what (an input or a step), and in which dtype it adds up."""

    kind: str
    """sum, prod, min, max, any, all, count, moments (mean and squared distances from it), argmin or
    argmax (the best value and the first place of it)."""
    source: tuple[str, int]
    dtype: np.dtype[Any]
    end: str = ""
    """ "mean", "var", "std" or "where": what the last kernel makes of a sum, of moments, or of a
    place; else what is held is the result."""
    ddof: float = 0.0

    @property
    def held(self) -> tuple[np.dtype[Any], ...]:
        """The dtypes of its partial results."""
        if self.kind in ("any", "all"):
            return (np.dtype(np.int32),)
        if self.kind == "moments":
            return (np.dtype(np.float64), self.dtype, self.dtype)
        return (self.dtype, np.dtype(np.int64)) if self.finds else (self.dtype,)

    @property
    def finds(self) -> bool:
        """Whether it finds a place."""
        return self.kind in ("argmin", "argmax")

    @property
    def is_exact(self) -> bool:
        """Whether the order of merging changes nothing."""
        return self.kind not in ("sum", "prod", "moments") or self.dtype.kind in "biu"

    def identity(self) -> str:
        """The identity of the merge; of places, that of their values."""
        kind, dtype = self.kind.removeprefix("arg"), self.dtype
        if kind in ("min", "max"):
            if kind_of(dtype) == "f":
                return f'float("{"inf" if kind == "min" else "-inf"}")'
            if dtype.kind == "b":
                raise Unsupported(f"{kind} of booleans")
            info = np.iinfo(dtype)
            return str(info.max if kind == "min" else info.min)
        if kind in ("prod", "all"):
            return "1"
        return "-0.0" if kind == "sum" and kind_of(dtype) == "f" else "0"  # 0.0 + -0.0 is 0.0

    def merge(self) -> str:
        """The function that merges two partial results."""
        if self.kind == "moments":
            return _MOMENTS
        if self.finds:
            return _PLACES.format(name=self.name, mark=">" if self.kind == "argmax" else "<")
        if self.kind in ("min", "max"):
            word = WORDS["maximum" if self.kind == "max" else "minimum"]
            text = text_over(word, ("a", "b"), self.dtype)
        else:
            text = _MERGES.get(self.kind, "a + b")
        return f"@triton.jit\ndef {self.name}(a, b):\n    return {text}\n\n"

    @property
    def name(self) -> str:
        """The name of that function."""
        if self.kind == "moments":
            return "merge_moments"
        return f"merge_{self.kind}{'_float' if kind_of(self.dtype) == 'f' else ''}"


def _tree(reduction: Reduction, names: list[str], rows: int, columns: int) -> list[str]:
    """Rows of a block merged to one, in the same order whatever the block's layout."""
    together = ", ".join(names)
    if reduction.is_exact:
        given = together if len(names) == 1 else f"({together})"
        return [f"{together} = tl.reduce({given}, 0, {reduction.name})"]
    lines = []
    while rows > 1:
        rows //= 2
        pairs = ", ".join(f"tl.reshape({name}, ({rows}, 2, {columns}))" for name in names)
        given = pairs if len(names) == 1 else f"({pairs})"
        lines.append(f"{together} = tl.reduce({given}, 1, {reduction.name})")
    return [*lines, *(f"{name} = tl.reshape({name}, ({columns},))" for name in names)]


def _held_names(k: int, reduction: Reduction) -> list[str]:
    """Names of what a program holds of a reduction."""
    if reduction.kind == "moments":
        return [f"n{k}", f"m{k}", f"q{k}"]
    return [f"a{k}", f"i{k}"] if reduction.finds else [f"a{k}"]


def chunk_source(
    group: Group,
    reductions: Sequence[Reduction],
    rows: int,
    columns: int,
    wide: bool,
    split: bool = False,
    even: bool = True,
    last: bool = False,
) -> str:
    """The kernel that reduces chunks in blocks of `rows` by `columns` lanes.

    `split`: rows are those of two axes, `inner_rows` of them side by side. `even`: as in
    `function`. `last`: no other kernel follows, so it makes the results.
    """
    lines = [
        f"pid = tl.program_id(0){'.to(tl.int64)' if wide else ''}",
        f"n_blocks = tl.cdiv(n_columns, {columns})",
        "rest = pid // n_blocks",
        "part = rest % n_parts",
        "outer = rest // n_parts",
        "leaf = part // n_chunks",
        "first = leaf * leaf_rows + (part % n_chunks) * chunk_rows",
        "last = tl.minimum(tl.minimum(first + chunk_rows, (leaf + 1) * leaf_rows), n_rows)",
        "last = tl.maximum(first, last)",
        f"r = tl.arange(0, {rows})[:, None]",
        f"c1 = (pid % n_blocks) * {columns} + tl.arange(0, {columns})",
        "c = c1[None, :]",
    ]
    places = []
    for a in range(group.n_arrays):
        if split:
            lines.append(f"o{a} = c * s{a}_2")
            at = f"(here // inner_rows) * s{a}_3 + (here % inner_rows) * s{a}_1"
        else:
            lines.append(f"o{a} = r * s{a}_1 + c * s{a}_2")
            at = f"row * s{a}_1"
        places.append(f"p{a} + (outer * s{a}_0 + {at}) + o{a}")
    lines += group.scalar_lines()
    lines += ["there = c < n_columns", *_begin_lines(reductions, rows, columns)]
    masked = ["here = row + r", "mask = (here < last) & there"]
    if any(reduction.kind == "moments" for reduction in reductions):
        lines += ["row = first", *masked, *_steps(group, reductions, places, "mask", _first)]
    masked += _steps(group, reductions, places, "mask", _take_lines)
    if group.parts:  # steps take time to compile: once
        lines.append(f"for row in range(first, last, {rows}):")
        lines += [f"    {line}" for line in masked]
    else:  # full blocks without a mask, several on their way at a time, then the rest
        lines.append(f"full = first + (last - first) // {rows} * {rows}")
        ahead = 8 if rows * columns <= 256 else 4
        lines.append(f"for row in tl.range(first, full, {rows}, loop_unroll_factor={ahead}):")
        plain = _steps(group, reductions, places, "" if columns == 1 else "there", _take_lines)
        lines += [f"    {line}" for line in ["here = row + r", *plain]]
        lines += ["if full < last:", "    row = full", *(f"    {line}" for line in masked)]
    lines += _end_lines(reductions, rows)
    lines.append("place = (outer * n_parts + part) * n_columns + c1")
    outs = _merge_lines(reductions, rows, columns, lines, last, group.fused)
    steps = [f"s{a}_{d}" for a in range(group.n_arrays) for d in range(4 if split else 3)]
    sizes = ["n_rows", "n_columns", "leaf_rows", "chunk_rows", "n_chunks", "n_parts"]
    sizes += ["inner_rows"] * split
    arguments = [*group.pointers(), *outs, *group.numbers(), *sizes, *steps]
    text = function("reduced", arguments, lines, even=even)
    return HEADER + _functions(reductions) + text


def _functions(reductions: Sequence[Reduction]) -> str:
    return "".join(dict.fromkeys(reduction.merge() for reduction in reductions))


def _merge_lines(
    reductions: Sequence[Reduction],
    rows: int,
    columns: int,
    lines: list[str],
    last: bool,
    fused: bool,
) -> list[str]:
    """Rows of lanes become one, which is stored at `place`; names of where to."""
    outs = []
    for k, reduction in enumerate(reductions):
        names = _held_names(k, reduction)
        lines += _tree(reduction, names, rows, columns)
        if last and reduction.end:
            is_place = reduction.end == "where"
            names = [f"i{k}" if is_place else _result_name(k, reduction, fused, lines)]
        for name in names:
            lines.append(f"tl.store(out_{name} + place, {name}, mask=c1 < n_columns)")
            outs.append(f"out_{name}")
    return outs


def _result_name(k: int, reduction: Reduction, fused: bool, lines: list[str]) -> str:
    """A name for what becomes of what is held in the end."""
    writer = Writer(Division.FUSED if fused else Division.EXACT, f"z{k}_")
    if reduction.end == "mean":  # as torch divides by a number: it multiplies by its inverse
        dtype = reduction.dtype if kind_of(reduction.dtype) == "f" else np.dtype(np.float64)
        total = writer.cast(f"a{k}", reduction.dtype, dtype)
        n = writer.let(f"tl.cast(n_rows, {type_of(dtype)})")
        one = writer.let(f"tl.full((), 1.0, {type_of(dtype)})")
        name = writer.let(f"{total} * {writer.word(WORDS['divide'], [one, n], dtype)}")
    else:
        degrees = writer.let(f"tl.maximum(n{k} - {reduction.ddof!r}, 0.0)")
        degrees = writer.let(f"tl.cast({degrees}, {type_of(reduction.dtype)})")
        name = writer.word(WORDS["divide"], [f"q{k}", degrees], reduction.dtype)
    if reduction.end == "std":
        name = writer.word(WORDS["sqrt"], [name], reduction.dtype)
    lines += writer.lines
    return name


def _begin_lines(reductions: Sequence[Reduction], rows: int, columns: int) -> list[str]:
    """The state of lanes before the first row."""
    lines = []
    for k, reduction in enumerate(reductions):
        begin = _begin_of(reduction)
        for name, value, dtype in zip(
            _held_names(k, reduction), begin, reduction.held, strict=True
        ):
            if value:
                lines.append(f"{name} = tl.full(({rows}, {columns}), {value}, {type_of(dtype)})")
    return lines


def _begin_of(reduction: Reduction) -> list[str]:
    """What each of what is held is where there is nothing; empty: it is counted in the end."""
    identity = reduction.identity()
    if reduction.kind == "moments":
        return ["", identity, identity]
    return [identity, str(NOWHERE)] if reduction.finds else [identity]


def _steps(
    group: Group, reductions: Sequence[Reduction], places: Sequence[str], mask: str, then: Any
) -> list[str]:
    """A block of rows is computed and goes into what is held."""
    lines, made = group.body(places, mask)
    for k, reduction in enumerate(reductions):
        where, at = reduction.source
        dtype = group.inputs[at].dtype if where == "in" else group.parts[at].dtype
        value = f"x{at}" if where == "in" else made[at]
        if reduction.kind in ("count", "any", "all"):
            lines.append(f"v{k} = ({value} != 0).to({type_of(reduction.held[0])})")
        else:
            lines.append(f"v{k} = {cast(value, dtype, reduction.dtype)}")
        lines += then(k, reduction, mask)
    return lines


def _first(k: int, reduction: Reduction, mask: str) -> list[str]:
    """Moments are of distances from a lane's first value: what is lost by that is at most what the
    value itself is away from the mean."""
    return [f"k{k} = tl.where({mask}, v{k}, 0)"] if reduction.kind == "moments" else []


def _take_lines(k: int, reduction: Reduction, mask: str) -> list[str]:
    if reduction.kind == "moments":
        sums = {f"m{k}": f"m{k} + d{k}", f"q{k}": f"q{k} + d{k} * d{k}"}
        lines = [f"d{k} = v{k} - k{k}"]
    elif reduction.finds:
        found = (
            f"{reduction.name}(a{k}, i{k}, v{k}, tl.broadcast_to(here, a{k}.shape).to(tl.int64))"
        )
        lines = [f"b{k}, j{k} = {found}"]
        sums = {f"a{k}": f"b{k}", f"i{k}": f"j{k}"}
    else:
        sums, lines = {f"a{k}": f"{reduction.name}(a{k}, v{k})"}, []
    for name, text in sums.items():
        lines.append(f"{name} = " + (f"tl.where(mask, {text}, {name})" if mask == "mask" else text))
    return lines


def _end_lines(reductions: Sequence[Reduction], rows: int) -> list[str]:
    """Sums of distances and of their squares become the mean and the squares around it."""
    lines = []
    for k, reduction in enumerate(reductions):
        if reduction.kind == "moments":
            lines += [
                f"n{k} = (last - first - r + {rows - 1}) // {rows}",
                f"e{k} = m{k} / tl.maximum(n{k}, 1).to({type_of(reduction.dtype)})",
                f"n{k} = tl.broadcast_to(n{k}, m{k}.shape).to(tl.float64)",
                f"q{k} = q{k} - m{k} * e{k}",
                f"q{k} = tl.where(q{k} < 0, 0.0, q{k})",
                f"m{k} = k{k} + e{k}",
            ]
    return lines


def merge_source(
    reductions: Sequence[Reduction],
    rows: int,
    columns: int,
    last: bool = False,
    fused: bool = False,
) -> str:
    """The kernel that merges groups of `rows` partial results, neighbours first.

    `last`: one group is all of them, and it makes the results; `fused`: as in `Group`.
    """
    lines = [
        "pid = tl.program_id(0)",
        f"n_blocks = tl.cdiv(n_columns, {columns})",
        f"n_groups = tl.cdiv(n_parts, {rows})",
        "rest = pid // n_blocks",
        "outer = (rest // n_groups).to(tl.int64)",
        f"r = (rest % n_groups) * {rows} + tl.arange(0, {rows})[:, None]",
        f"c1 = (pid % n_blocks) * {columns} + tl.arange(0, {columns})",
        "mask = (r < n_parts) & (c1[None, :] < n_columns)",
        "source = (outer * n_parts + r) * n_columns + c1[None, :]",
        "place = (outer * n_groups + rest % n_groups) * n_columns + c1",
    ]
    ins = []
    for k, reduction in enumerate(reductions):
        for name, value in zip(_held_names(k, reduction), _begin_of(reduction), strict=True):
            other = value or reduction.identity()
            lines.append(f"{name} = tl.load(in_{name} + source, mask=mask, other={other})")
            ins.append(f"in_{name}")
    outs = _merge_lines(reductions, rows, columns, lines, last, fused)
    arguments = [*ins, *outs, "n_columns", "n_parts", "n_rows"]
    return HEADER + _functions(reductions) + function("merged", arguments, lines)

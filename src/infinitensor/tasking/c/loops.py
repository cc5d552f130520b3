"""C source of a fused group: rows over the outer axes, blocks along the last one.

Steps run element by element, in one loop over a block with everything between in registers. A
function such as exp runs over a whole block, where its loop is vectorised (`vector.h`), so it
parts the steps into loops; what one loop leaves for a later one is in a block that stays in
cache. Operands that are not side by side in memory are lined up in a block first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES, kind_of
from infinitensor.tasking.c.expressions import (
    CONSTANT,
    c_type,
    cast,
    expression,
    number,
    read,
    store_text,
    stored_type,
)
from infinitensor.tasking.c.fold_loops import (
    across_function,
    across_lines,
    across_name,
    block_lines,
    end_lines,
    found_lines,
    kept_lines,
    states,
)
from infinitensor.tasking.c.half_lanes import AT_ONCE, converts, lines_of_lanes, rest_of_lanes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from infinitensor.tasking.c.expressions import GroupStep, Input
    from infinitensor.tasking.c.fold_loops import Fold

C_BLOCK_ELEMENTS = 1024
"""Elements of a block: a handful of them stay in the nearest cache."""

MOST_LOOP_STEPS = 24
"""Steps of a loop over a block at most; more are parted into several loops."""
WIDE_VECTORS = """#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#define IS_WIDE
#endif"""
"""What many steps are computed with, and divisions: of few, memory takes longer than either
width. And what converts float16: of so many at once there is one register, and what two narrow ones
have just stored is waited for."""
MOST_KEPT = 16
"""Rows at most that are reduced part by part, in turns."""
MOST_LINED = 2
"""Operands of which blocks of so many rows are lined up at once."""

_HALVES = re.compile(r"\b(read|rounded|written)_b?float16\(")

FLOAT = np.dtype(np.float32)

WIDE = {"f": "double", "c": "complex128"}
"""The C type of a scalar argument, by its kind."""


@cache
def header(name: str) -> str:
    """The text of a C file, by its path from here."""
    return (Path(__file__).parent / name).read_text()


@dataclass(slots=True)
class _Value:
    """Something computed for every element: by an expression, or by a function over blocks."""

    name: str
    dtype: np.dtype[Any]
    text: str
    uses: tuple[str, ...]
    loop: int
    """The loop it is computed in; for a function the first one that may read it."""
    called: bool = False
    read_in: set[int] = field(default_factory=set)


def is_called_over_floats(value: _Value) -> bool:
    """Whether a function of `vector.h` computes it."""
    return value.called and value.dtype.kind not in "iu"


def is_input(text: str) -> bool:
    return text[0] == "x" and text[1:].isdigit()


class Body:
    """The values of a group, in order, parted into loops.

    The steps are numbered from `first` on; of those before the dtypes of some are `given`, whose
    values are in blocks.
    """

    def __init__(
        self,
        parts: Sequence[GroupStep],
        inputs: Sequence[Input],
        first: int = 0,
        given: Mapping[int, np.dtype[Any]] = MappingProxyType({}),
    ) -> None:
        self.inputs = inputs
        self.given = {f"s{k}": dtype for k, dtype in given.items()}
        steps = {**given, **{k: part.dtype for k, part in enumerate(parts, first)}}
        self.values: dict[str, _Value] = {}
        self.is_long = False
        self.inverses: dict[tuple[str, str], str] = {}
        """The names of inverted divisors, by their texts and types."""
        for k, part in enumerate(parts, first):
            args = []
            for (where, at), loop in zip(part.sources, part.loop, strict=True):
                dtype = inputs[at].dtype if where == "in" else steps[at]
                args.append((cast(f"{'x' if where == 'in' else 's'}{at}", dtype, loop), loop))
            if part.tree.word == CONSTANT:
                text, made = number(part.tree.args[0], part.dtype), part.dtype
            elif part.tree.word == "cast":
                text, made = args[0]
            else:
                text, made = expression(part.tree, args, self.call, self.invert)
            self.add(f"s{k}", part.dtype, cast(text, made, part.dtype))
        self.n_loops = 1 + max((v.loop for v in self.values.values()), default=0)

    def add(self, name: str, dtype: np.dtype[Any], text: str, call: bool = False) -> None:
        uses = tuple(dict.fromkeys(re.findall(r"\b[xsab]\d+\b", text)))
        loop = max((self.values[use].loop for use in uses if use in self.values), default=0)
        self.values[name] = _Value(name, dtype, text, uses, loop + call, call)

    def call(self, name: str, texts: Sequence[str], dtype: np.dtype[Any], *numbers: str) -> str:
        """A function over blocks: its arguments and its result become values, of halves floats;
        `numbers` are the same for all elements."""
        blocks = []
        wide = FLOAT if dtype in HALVES else dtype
        for given in texts:
            text = given if dtype == wide else f"((float){given})"
            is_block = text in self.values or text in self.given
            if not (is_block or (is_input(text) and self.moves(int(text[1:])))):
                argument = f"a{len(self.values)}"
                self.add(argument, wide, text)
                text = argument
            blocks.append(text)
        made = f"b{len(self.values)}"
        kind = c_type(wide) if wide.kind in "iu" else f"{wide.kind}{8 * wide.itemsize}"
        given = ", ".join([*blocks, *numbers, made])
        self.add(made, wide, f"block_{name}_{kind}({given}, m);", call=True)
        self.values[made].uses = tuple(blocks)
        return made

    def compute_late(self, wanted: Sequence[str], whole: Sequence[str]) -> None:
        """Compute every value as late as its readers allow; those that nobody reads, not at all.

        `whole` are wanted as blocks, after the last loop.
        """
        for name in (*wanted, *whole):
            if name in self.values:
                self.values[name].read_in.add(self.n_loops - 1)
        for value in reversed(list(self.values.values())):
            if not value.read_in:
                continue
            if not value.called:
                value.loop = min(value.read_in)
            at = value.loop - 1 if value.called else value.loop
            for use in value.uses:
                if use in self.values:
                    self.values[use].read_in.add(at)
        self.values = {name: value for name, value in self.values.items() if value.read_in}
        self.part_long_loops([*wanted, *whole])
        arguments = {use for value in self.values.values() if value.called for use in value.uses}
        self.blocks = {
            name: value
            for name, value in self.values.items()
            if value.called or name in arguments or name in whole or max(value.read_in) > value.loop
        }

    def part_long_loops(self, wanted: Sequence[str]) -> None:
        """Part loops of many steps into several: a processor looks ahead some hundred instructions,
        and where one element takes more, each of its steps waits for the one before.
        """
        own: list[list[_Value]] = [[] for _ in range(self.n_loops)]
        for value in self.values.values():
            if not value.called:
                own[value.loop].append(value)
        first = 0
        moved: dict[int, int] = {}
        """Of each loop before: the first of those that it becomes."""
        for loop, values in enumerate(own):
            moved[loop] = first
            n_parts = max(1, -(-len(values) // MOST_LOOP_STEPS))
            for k, value in enumerate(values):
                value.loop = first + k * n_parts // len(values)
            first += n_parts
        self.is_long = first > self.n_loops
        if not self.is_long:
            return
        self.n_loops = first
        for value in self.values.values():
            value.read_in.clear()
            if value.called:
                value.loop = moved[value.loop]
        for name in wanted:
            if name in self.values:
                self.values[name].read_in.add(self.n_loops - 1)
        for value in self.values.values():
            for use in value.uses:
                if use in self.values:
                    self.values[use].read_in.add(value.loop - value.called)

    def loop_lines(
        self,
        loop: int,
        last: Sequence[str],
        sums: Sequence[tuple[str, str, str]],
        kinds: dict[str, str],
    ) -> Iterator[str]:
        """One loop over a block, and the functions that run behind it; `sums` are (name, type,
        value) of what is added up on the way, `kinds` the C types of what is read and written
        element by element, by the names of the pointers."""
        here = [v for v in self.values.values() if not v.called and v.loop == loop]
        text = " ".join([*(v.text for v in here), *last, *(value for _, _, value in sums)])
        names = dict.fromkeys(re.findall(r"\b[xsab]\d+\b", text))
        made = {v.name for v in here}
        lines = []
        for name in names:
            if name in made:
                continue
            if name in self.given:
                lines.append(f"const {c_type(self.given[name])} {name} = block_{name}[i];")
            elif name in self.blocks:
                lines.append(f"const {c_type(self.blocks[name].dtype)} {name} = block_{name}[i];")
            elif name[0] == "x" and self.moves(int(name[1:])):
                dtype = self.inputs[int(name[1:])].dtype
                text = read(f"v{name[1:]}[i]", dtype)
                lines.append(f"const {c_type(dtype)} {name} = {text};")
        for value in here:
            lines.append(f"const {c_type(value.dtype)} {value.name} = {value.text};")
            if value.name in self.blocks:
                lines.append(f"block_{value.name}[i] = {value.name};")
        lines += last
        if sums:
            yield from _in_lanes(lines, sums, kinds)
        elif here or last:
            yield from _one_by_one(lines, kinds)
        for value in self.values.values():
            if value.called and value.loop == loop + 1:
                text = re.sub(r"\bx(\d+)\b", r"v\1", value.text)
                yield re.sub(r"\b([sab]\d+)\b", r"block_\1", text)

    def invert(self, text: str, dtype: np.dtype[Any]) -> str:
        """The name of the inverse of a divisor, if that is one number for all elements of a loop;
        else nothing."""
        names = re.findall(r"\b[xsab]\d+\b", text)
        if any(not is_input(name) or self.moves(int(name[1:])) for name in names):
            return ""
        return self.inverses.setdefault((text, c_type(dtype)), f"inverse{len(self.inverses)}")

    def inverse_lines(self, *, of_rows: bool) -> Iterator[str]:
        """The inverses of divisors that are one number for a row, or of those for all."""
        for (text, kind), name in self.inverses.items():
            names = [int(x[1:]) for x in re.findall(r"\bx\d+\b", text)]
            if of_rows == any(self.inputs[k].row for k in names):
                yield f"const inverse_{kind} {name} = inverse_of_{kind}({text});"

    def all_inverse_lines(self) -> Iterator[str]:
        """The inverses of all divisors."""
        yield from self.inverse_lines(of_rows=False)
        yield from self.inverse_lines(of_rows=True)

    def moves(self, k: int) -> bool:
        return not self.inputs[k].scalar and not self.inputs[k].row


def _one_by_one(lines: Sequence[str], kinds: dict[str, str]) -> Iterator[str]:
    """A loop over the elements of a block; with float16 some at a time, where they are converted
    so."""
    if not converts(lines):
        yield "#pragma GCC ivdep"
        yield "for (int64_t i = 0; i < m; ++i) {"
        yield from ("  " + line for line in lines)
        yield "}"
        return
    in_lanes = list(lines_of_lanes(lines))
    yield "{ int64_t i = 0;"
    yield "#ifdef CONVERTS_HALVES"
    yield f"for (; i + {AT_ONCE} <= m; i += {AT_ONCE}) {{"
    yield from ("  " + line for line in in_lanes)
    yield "}"
    yield "if (i < m) {"
    yield from ("  " + line for line in rest_of_lanes(in_lanes, kinds))
    yield "}"
    yield "#else"
    yield "#pragma GCC ivdep"
    yield "for (; i < m; ++i) {"
    yield from ("  " + line for line in lines)
    yield "}"
    yield "#endif"
    yield "}"


def _in_lanes(
    lines: Sequence[str], sums: Sequence[tuple[str, str, str]], kinds: dict[str, str]
) -> Iterator[str]:
    """A loop whose sums stay in registers: an element is added to the lane of its index, whatever
    else is summed. Where halves are converted, what is added is in a block: of steps as long as
    theirs compilers make no vectors in such a loop."""
    if len(sums) > 1 or any(_HALVES.search(line) for line in lines):
        yield from (f"{kind} {name}_of[BLOCK];" for name, kind, _ in sums)
        added = [f"{name}_of[i] = {value};" for name, _, value in sums]
        yield from _one_by_one([*lines, *added], kinds)
        lines, sums = [], [(name, kind, f"{name}_of[i]") for name, kind, _ in sums]
    if len(sums) > 1:
        yield from _lanes_of_blocks(sums)
        return
    added = [f"{name}s[w % LANES({kind})] += {value};" for name, kind, value in sums]
    yield from (f"{kind} {name}s[LANES({kind})] = {{0}};" for name, kind, _ in sums)
    yield "int64_t i = 0;"
    yield "while (i + MOST_LANES <= m) {"
    yield "  #pragma GCC ivdep"
    yield "  for (int w = 0; w < MOST_LANES; ++w, ++i) {"
    yield from ("    " + line for line in (*lines, *added))
    yield "  }"
    yield "}"
    yield "for (int w = 0; i < m; ++w, ++i) {"
    yield from ("  " + line for line in (*lines, *added))
    yield "}"
    yield from (f"const {kind} {name} = total_{kind}({name}s);" for name, kind, _ in sums)


def _lanes_of_blocks(sums: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Several blocks summed beside each other: compilers keep the lanes of one in registers, those
    of more where they are vectors."""
    yield from (f"vector_{kind} {name}v[N_VECTORS] = {{{{0}}}};" for name, kind, _ in sums)
    yield "int64_t i = 0;"
    yield "for (; i + MOST_LANES <= m; i += MOST_LANES) {"
    for name, kind, _ in sums:
        lanes = f"ADD_LANES({kind}, {name}v, {name}_of + i + w)"
        yield f"  for (int w = 0; w < MOST_LANES; w += LANES({kind})) {lanes}"
    yield "}"
    for name, kind, _ in sums:
        yield f"{kind} {name}s[LANES({kind})];"
        yield f"memcpy({name}s, {name}v, sizeof {name}s);"
        at = f"{name}s[(k - i) % LANES({kind})]"
        yield f"for (int64_t k = i; k < m; ++k) {at} += {name}_of[k];"
        yield f"const {kind} {name} = total_{kind}({name}s);"


class Source:
    """The text of a group's C function."""

    def __init__(
        self,
        parts: Sequence[GroupStep],
        inputs: Sequence[Input],
        n_outs: int,
        folds: Sequence[Fold],
    ) -> None:
        self.inputs = inputs
        self.folds = folds
        self.body = body = self.first_body(parts)
        stored = {part.stored: k for k, part in enumerate(parts) if part.stored >= 0}
        self.outs = [(j, f"s{stored[j]}", parts[stored[j]].dtype) for j in range(n_outs)]
        dtypes = {*(x.dtype for x in inputs), *(p.dtype for p in parts)}
        dtypes |= {fold.written for fold in folds}
        self.is_complex = any(dtype.kind == "c" for dtype in dtypes)
        self.has_halves = not dtypes.isdisjoint(HALVES)
        self.has_float16 = np.dtype(np.float16) in dtypes
        self.has_floats = bool(folds) or not dtypes <= {np.dtype(np.float16), np.dtype(np.bool_)}
        self.arrays = [k for k, given in enumerate(inputs) if given.is_array]
        self.moving = [k for k in self.arrays if body.moves(k)]
        places = len(self.arrays) + n_outs
        self.fold_at = []
        for fold in folds:
            self.fold_at.append(places)
            places += len(fold.parts)
        self.n_arrays = places
        self.is_across = any(not fold.along for fold in folds)
        self.folded = [self.fold_value(j, fold) for j, fold in enumerate(folds)]
        self.part()

    def first_body(self, parts: Sequence[GroupStep]) -> Body:
        """The values of its steps: of all, or of those before a loop."""
        return Body(parts, self.inputs)

    def part(self) -> None:
        """Part its values into loops over a block."""
        stored = [name for _, name, _ in self.outs]
        self.body.compute_late([*stored, *self.at_once()], self.as_blocks())

    @property
    def calls(self) -> bool:
        """Whether functions of floats are called over blocks."""
        return any(map(is_called_over_floats, self.body.values.values()))

    def blocks(self) -> Iterator[str]:
        """The blocks that loops leave for later ones."""
        for name, value in self.body.blocks.items():
            yield block_text(name, value.dtype)

    def at_once(self) -> list[str]:
        """Folds of values while they are computed."""
        both = zip(self.folded, self.folds, strict=True)
        return [name for name, fold in both if fold.sums or not fold.along]

    def as_blocks(self) -> list[str]:
        """Folds of values block by block, after they are computed."""
        both = zip(self.folded, self.folds, strict=True)
        return [name for name, fold in both if fold.looks_back]

    def pointers(self) -> dict[str, str]:
        """What the elements of a line are read from and written to: names, and the C types."""
        kinds = {f"v{k}": stored_type(self.inputs[k].dtype) for k in self.moving}
        kinds |= {f"o{j}": stored_type(dtype) for j, _, dtype in self.outs}
        for j, fold in enumerate(self.folds):
            if not fold.finds:
                kinds |= {f"r{j}": stored_type(fold.written), f"r{j}m": c_type(fold.dtype)}
        return kinds

    @property
    def n_lined(self) -> int:
        """Elements of an operand that are lined up at once: blocks of as many lines as are reduced
        in turns, where few operands have them on the stack."""
        has_turns = any(fold.along for fold in self.folds) and len(self.moving) <= MOST_LINED
        return C_BLOCK_ELEMENTS * (MOST_KEPT if has_turns else 1)

    def fold_value(self, j: int, fold: Fold) -> str:
        """The name of what is reduced: a value, or an operand as it is."""
        dtype = self.lane(fold)
        text = fold.value(dtype)
        if text in self.body.values or (is_input(text) and self.body.moves(int(text[1:]))):
            return text
        name = f"a{len(self.body.values)}"
        self.body.add(name, dtype, text)
        return name

    def lane(self, fold: Fold) -> np.dtype[Any]:
        """What elements are reduced in."""
        return fold.lane if fold.along else fold.dtype

    def lines(self) -> Iterator[str]:
        if self.body.is_long or self.body.inverses or self.has_float16:
            yield WIDE_VECTORS
        yield from ("#include <math.h>", "#include <stdint.h>", "#include <string.h>")
        if self.calls:
            yield from (header("polynomials.h"), header("vector.h"), header("blocks.h"))
        yield f"#define BLOCK {C_BLOCK_ELEMENTS}"
        yield f"#define LINED ({self.n_lined} + ROWS_TOGETHER * APART)"
        yield from self.headers()
        yield "void run(int64_t n_rows, int64_t n, int64_t n_outer, const int64_t *shape, char **p,"
        yield "         const int64_t *steps, const char *scalars, const int64_t *folded,"
        yield "         int64_t n_same) {"
        yield "  (void)scalars, (void)folded, (void)n_same;"  # not every kernel needs all
        yield from ("  " + line for line in self.declarations())
        yield from ("  " + line for line in self.walk())
        yield "}"

    def headers(self) -> Iterator[str]:
        """The C files that the function is made with, beside those of functions over blocks."""
        if self.folds:
            yield from (header("../../ops/forms/sums.h"), header("fold_loops.h"))
        yield from (header("../../ops/forms/transposed.h"), header("lines.h"), header("division.h"))
        yield header("extremes.h")
        if self.is_complex:
            yield header("complex.h")
        if self.has_halves:
            if self.has_floats or self.calls:
                yield "#define BECOME_FLOATS"
            yield from (header("halves.h"), "EXTREMES(half)")
        if self.is_plain_across:
            yield header("../../ops/forms/across_rows.h")
            yield from dict.fromkeys(across_function(fold) for fold in self.folds)
            if self.has_halves:
                yield header("half_rows.h")

    @property
    def is_plain_across(self) -> bool:
        """Whether rows of one operand, as it is or halves as floats, are reduced element by
        element."""
        if not self.is_across or self.keeps_places or len(self.arrays) != 1:
            return False
        if not self.has_halves:
            return not self.body.values and all(map(is_input, self.folded))
        are_floats = all(fold.dtype == FLOAT for fold in self.folds) and not self.outs
        as_float = f"((float)x{self.arrays[0]})"
        return are_floats and {value.text for value in self.body.values.values()} == {as_float}

    @property
    def keeps_places(self) -> bool:
        """Whether places are looked for element by element: lines have to be walked through all
        rows, a block of them after the other."""
        return any(fold.finds and not fold.along for fold in self.folds)

    def few_rows(self) -> Iterator[str]:
        """Reductions of several rows at a time, where these are one after another."""
        (k,) = self.moving
        stored = stored_type(self.inputs[k].dtype)
        yield f"if (n_outer && folded[n_outer - 1] && inner[0] == sizeof({stored})) {{"
        if self.has_halves:
            yield "  float wide[4 * BLOCK];"
            yield from (f"  float found{j}[BLOCK];" for j, f in enumerate(self.folds) if f.half)
        yield "  for (int64_t first = 0; first < n_rows; first += length) {"
        yield f"    char *q[{self.n_arrays}];"
        yield f"    at_row(first, n_outer, shape, {self.n_arrays}, p, steps, q);"
        yield "    const int64_t before = n_seen(first, n_outer, shape, folded);"
        yield from ("    " + line for line in self.few_at_a_time(stored))
        for fold, at in zip(self.folds, self.fold_at, strict=True):
            if len(fold.parts) > 1:
                counted = f"((int64_t *)q[{at}])[i] = n_lines;"
                yield f"    for (int64_t i = 0; i < n; ++i) {counted}"
        yield "  }"
        yield "  return;"
        yield "}"

    def few_at_a_time(self, stored: str) -> Iterator[str]:
        """The loop over rows, a few in each turn; of halves in blocks that become floats."""
        rows = ["q[0]", "outer[0]", "few", "before + row", "n"]
        begun = ""
        if self.has_halves:
            rows = ["(const char *)wide", "m * sizeof *wide", "few", "before + row", "m"]
            begun = " + from"
            yield "for (int64_t from = 0, m; from < n; from += m) {"
            yield "m = n - from < BLOCK ? n - from : BLOCK;"
            yield "const int64_t fit = 4 * BLOCK / m, most = fit < FEW_ROWS ? fit : FEW_ROWS;"
            yield f"const char *x = q[0] + from * sizeof({stored});"
        both = zip(self.folds, self.fold_at, strict=True)
        found = [(j, f"({stored} *)q[{at}] + from") for j, (f, at) in enumerate(both) if f.half]
        for j, there in found:
            yield f"if (before) widen_{stored}({there}, found{j}, m);"
        if self.has_halves:
            yield "for (int64_t row = 0, few; row < length; row += few, x += few * outer[0]) {"
            yield "  few = length - row < most ? length - row : most;"
            yield f"  wide_rows_{stored}(x, outer[0], few, m, wide);"
        else:
            yield "for (int64_t row = 0, few; row < length; row += few, q[0] += few * outer[0]) {"
            yield "  few = length - row < FEW_ROWS ? length - row : FEW_ROWS;"
        for j, (fold, at) in enumerate(zip(self.folds, self.fold_at, strict=True)):
            name, outs = c_type(fold.dtype), range(at + len(fold.parts) // 2, at + len(fold.parts))
            made = [f"found{j}"] if fold.half else [f"({name} *)q[{o}]{begun}" for o in outs]
            yield f"  {across_name(fold)}_across_{name}({', '.join([*rows, *made])});"
        yield "}"
        yield from (f"write_line_{stored}(found{j}, {there}, m);" for j, there in found)
        if self.has_halves:
            yield "}"

    def walk(self) -> Iterator[str]:
        """The loop over rows: as a whole, or in parts of each, and what they give is kept."""
        if self.is_plain_across:
            yield from self.few_rows()
        kept = [state for j, fold in enumerate(self.folds) for state in states(j, fold)]
        yield from (f"{kind} {name}_kept[{MOST_KEPT}] = {{0}};" for kind, name in kept)
        if self.keeps_places:
            yield "const int64_t chunk = shape[n_outer] < BLOCK ? shape[n_outer] : BLOCK;"
        else:
            yield "const int64_t chunk = shape[n_outer];"
        for j, fold in enumerate(self.folds):
            yield from kept_lines(j, fold)
        for k in self.moving:
            at, size = self.arrays.index(k), f"sizeof({stored_type(self.inputs[k].dtype)})"
            steps = f"outer[{at}], inner[{at}]"
            yield f"const int across{k} = is_across({size}, {steps}, length, chunk);"
        yield "for (int64_t first = 0; first < n_rows; first += length)"
        yield "for (int64_t from = 0; from < n; from += chunk) {"
        yield "  const int64_t until = n - from < chunk ? n : from + chunk;"
        yield f"  char *q[{self.n_arrays}];"
        yield f"  at_row(first, n_outer, shape, {self.n_arrays}, p, steps, q);"
        if self.is_across:
            yield "  int64_t seen = n_seen(first, n_outer, shape, folded);"
        yield "  for (int64_t row = first; row < first + length; ++row) {"
        if kept:
            yield "    const int64_t place = chunk < n ? row - first : 0;"
        yield from (f"    {kind} {name} = {name}_kept[place];" for kind, name in kept)
        yield from ("    " + line for line in self.row())
        yield from (f"    {name}_kept[place] = {name};" for _, name in kept)
        yield f"    for (int a = 0; a < {self.n_arrays}; ++a) q[a] += outer[a];"
        if self.is_across:
            yield "    seen += n_outer && folded[n_outer - 1];"
        yield "  }"
        yield "}"

    def declarations(self) -> Iterator[str]:
        at = 0
        for k, dtype in enumerate(given.dtype for given in self.inputs):
            if self.inputs[k].scalar:
                name, wide = c_type(dtype), WIDE.get(kind_of(dtype), "int64_t")
                yield f"const {name} x{k} = ({name})*(const {wide} *)(scalars + {at});"
                at += 16 if dtype.kind == "c" else 8
        yield from self.body.inverse_lines(of_rows=False)
        yield from self.blocks()
        yield from (f"{stored_type(self.inputs[k].dtype)} line{k}[LINED];" for k in self.moving)
        yield from (f"{stored_type(dtype)} out{j}[BLOCK];" for j, _, dtype in self.outs)
        yield f"const int64_t *inner = steps + n_outer * {self.n_arrays};"
        yield f"const int64_t *outer = n_outer ? inner - {self.n_arrays} : inner;"
        yield "const int64_t length = n_outer ? shape[n_outer - 1] : 1;"
        if any(not fold.along and fold.kind == "moments" for fold in self.folds):
            yield "int64_t n_lines = 1;"
            yield "for (int64_t a = 0; a < n_outer; ++a) n_lines *= folded[a] ? shape[a] : 1;"

    def row(self) -> Iterator[str]:
        for at, k in enumerate(self.arrays):
            if self.inputs[k].row:
                dtype = self.inputs[k].dtype
                text = read(f"*(const {stored_type(dtype)} *)q[{at}]", dtype)
                yield f"const {c_type(dtype)} x{k} = {text};"
        yield from self.body.inverse_lines(of_rows=True)
        if self.is_across:
            yield "const double share = 1.0 / (seen + 1);"
            yield "(void)share;"
        yield "for (int64_t begun = from; begun < until; begun += BLOCK) {"
        yield "  const int64_t m = until - begun < BLOCK ? until - begun : BLOCK;"
        yield from ("  " + line for line in self.block())
        yield "}"
        ends = [
            line
            for j, (fold, at) in enumerate(zip(self.folds, self.fold_at, strict=True))
            for line in end_lines(j, fold, at)
        ]
        for fold, at in zip(self.folds, self.fold_at, strict=True):
            if not fold.along and fold.kind == "moments":
                counted = f"((int64_t *)q[{at}])[i] = n_lines;"
                yield f"if (seen + 1 == n_lines) for (int64_t i = from; i < until; ++i) {counted}"
        if ends:
            yield "if (until == n && (n_same == 1 || (row + 1) % n_same == 0)) {"
            yield f"  {' '.join(ends)}"
            yield "}"

    def block(self) -> Iterator[str]:
        for k in self.moving:
            at, name = self.arrays.index(k), stored_type(self.inputs[k].dtype)
            yield f"const {name} *v{k} = across{k}"
            yield f"  ? across_{name}(line{k}, q[{at}], inner[{at}], outer[{at}], begun, m,"
            yield "       row - first, first + length - row)"
            yield f"  : lined_{name}(line{k}, q[{at}], inner[{at}], begun, m);"
        last = []
        for j, value, dtype in self.outs:
            at, name = len(self.arrays) + j, stored_type(dtype)
            there = f"({name} *)q[{at}] + begun"
            yield f"{name} *o{j} = inner[{at}] == sizeof({name}) ? {there} : out{j};"
            last.append(f"o{j}[i] = {store_text(value, dtype)};")
        for j, (fold, at) in enumerate(zip(self.folds, self.fold_at, strict=True)):
            if not fold.along:
                name, stored = c_type(fold.dtype), stored_type(fold.written)
                values = at + len(fold.parts) // 2  # a count is first
                if not fold.finds:
                    yield f"{stored} *r{j} = ({stored} *)q[{values}] + begun;"
                if fold.kind == "moments":
                    yield f"{name} *r{j}m = ({name} *)q[{values + 1}] + begun;"
                last.append(f"const {name} f{j}v = {self.folded[j]};")
                last += across_lines(j, fold)
        totals = {
            (value, c_type(self.lane(fold))): f"t{j}"
            for j, (value, fold) in enumerate(zip(self.folded, self.folds, strict=True))
            if fold.sums
        }
        sums = [(total, kind, value) for (value, kind), total in totals.items()]
        yield from self.computed(last, sums)
        for j, (value, fold) in enumerate(zip(self.folded, self.folds, strict=True)):
            if fold.along:
                block = f"v{value[1:]}" if is_input(value) else f"block_{value}"
                total = totals.get((value, c_type(self.lane(fold))), "")
                yield from block_lines(j, fold, block, total)
        if self.keeps_places:
            yield "if (seen + 1 == n_same) {"
            for j, (fold, at) in enumerate(zip(self.folds, self.fold_at, strict=True)):
                yield from (f"  {line}" for line in found_lines(j, fold, at))
            yield "}"
        for j, _, dtype in self.outs:
            at, name = len(self.arrays) + j, stored_type(dtype)
            yield f"if (o{j} == out{j}) put_{name}(o{j}, q[{at}], inner[{at}], begun, m);"

    def computed(self, last: Sequence[str], sums: Sequence[tuple[str, str, str]]) -> Iterator[str]:
        """The loops over a block; with the last one what is stored and what is added up."""
        for loop in range(self.body.n_loops):
            is_last = loop == self.body.n_loops - 1
            ends = (last, sums) if is_last else ([], [])
            yield from self.body.loop_lines(loop, *ends, self.pointers())


def block_text(name: str, dtype: np.dtype[Any]) -> str:
    """The declaration of a block."""
    return f"{c_type(dtype)} block_{name}[BLOCK] __attribute__((aligned(64)));"


def source_of(
    parts: Sequence[GroupStep], inputs: Sequence[Input], n_outs: int, folds: Sequence[Fold] = ()
) -> str:
    """The C function of a group.

    `run(n_rows, n, n_outer, shape, pointers, steps, scalars, folded, n_same)`: pointers are of
    operands, outputs, then partial results; `folded` marks outer axes that are reduced, and
    `n_same` rows reduce into one element. Behind the lengths of the outer axes, `shape` has how
    many elements of each row along the last of them are computed before the next part of any.
    """
    return "\n".join(Source(parts, inputs, n_outs, folds).lines())

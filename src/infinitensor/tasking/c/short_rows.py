"""C source of a fused group over short rows: many of them are one block.

A row of three elements is shorter than its own beginning and end, so as many rows as fill a block
are computed as if they were one. Operands that are the same for all rows, or for all elements of
one, are lined up beside those that are not. Where neighbours in memory are in different rows, so
are parts of long rows: what is read in turns would fill no more than a corner of a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.tasking.c.expressions import c_type, store_text, stored_type
from infinitensor.tasking.c.fold_loops import across_function, across_name
from infinitensor.tasking.c.loops import Source, header, is_input

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from infinitensor.tasking.c.expressions import GroupStep, Input
    from infinitensor.tasking.c.fold_loops import Fold


class _Short(Source):
    """Of a group over short rows; rows that are contiguous are one, which is cut into parts."""

    def at_once(self) -> list[str]:
        return []

    def as_blocks(self) -> list[str]:
        return self.folded

    def lane(self, fold: Fold) -> np.dtype[Any]:
        return fold.dtype

    def headers(self) -> Iterator[str]:
        yield from super().headers()
        yield header("short_rows.h")
        dtypes = [*(self.inputs[k].dtype for k in self.moving), *(dtype for *_, dtype in self.outs)]
        yield from (f"SHORT_LINES({name})" for name in dict.fromkeys(map(stored_type, dtypes)))
        if self.is_across:
            yield header("../../ops/forms/across_rows.h")
            yield from dict.fromkeys(map(across_function, self.folds))
        elif self.folds:
            yield header("short_folds.h")
            yield from dict.fromkeys(line for fold in self.folds for line in _made_for(fold))

    def declarations(self) -> Iterator[str]:
        yield from super().declarations()
        yield "const int64_t part = shape[n_outer] < BLOCK ? shape[n_outer] : BLOCK;"
        yield "const int64_t chunk = n < part ? n : part, most = n ? BLOCK / chunk : 1;"
        yield from (f"const char *had{k} = 0;" for k in self.moving)

    def walk(self) -> Iterator[str]:
        yield "for (int64_t begun = 0; begun < n; begun += chunk) {"
        yield "  const int64_t each = n - begun < chunk ? n - begun : chunk;"
        yield "  for (int64_t row = 0, rows; row < n_rows; row += rows) {"
        yield "    const int64_t left = length - row % length;"
        yield "    rows = left < most ? left : most;"
        yield "    const int64_t m = rows * each;"
        yield "    (void)m;"
        yield f"    char *q[{self.n_arrays}];"
        yield f"    at_row(row, n_outer, shape, {self.n_arrays}, p, steps, q);"
        yield from ("    " + line for line in self.block())
        yield "  }"
        yield "}"

    def block(self) -> Iterator[str]:
        if not self.folds and not any(value.called for value in self.body.values.values()):
            yield from self.block_of_lines()
            return
        for k in self.moving:
            at, name = self.arrays.index(k), stored_type(self.inputs[k].dtype)
            yield f"const {name} *v{k} = rows_{name}(line{k}, &had{k}, {_rows_at(at)});"
        last = []
        for j, value, dtype in self.outs:
            at, name = len(self.arrays) + j, stored_type(dtype)
            yield f"{name} *o{j} = into_{name}(out{j}, {_rows_at(at)});"
            last.append(f"o{j}[i] = {store_text(value, dtype)};")
        yield from self.computed(last, [])
        for value, fold, at in zip(self.folded, self.folds, self.fold_at, strict=True):
            block = f"v{value[1:]}" if is_input(value) else f"block_{value}"
            yield from (_add_rows if self.is_across else _reduce_rows)(fold, block, at)
        for j, _, dtype in self.outs:
            at = len(self.arrays) + j
            yield f"if (o{j} == out{j}) put_rows_{stored_type(dtype)}(o{j}, {_rows_at(at)});"

    def block_of_lines(self) -> Iterator[str]:
        """A block that no function goes over as a whole: parts of long rows are read and written
        where they are, if they are side by side."""
        for k in self.moving:
            at, name = self.arrays.index(k), stored_type(self.inputs[k].dtype)
            yield f"int64_t pitch{k};"
            yield f"const char *from{k} ="
            yield f"  lines_{name}(line{k}, &had{k}, {_rows_at(at)}, &pitch{k});"
        for j, _, dtype in self.outs:
            at, name = len(self.arrays) + j, stored_type(dtype)
            yield f"int64_t pitch_to{j};"
            yield f"char *to{j} = into_lines_{name}(out{j}, {_rows_at(at)}, &pitch_to{j});"
        yield "const int64_t n_lines = each < LONG_PART ? 1 : rows;"
        yield "for (int64_t nth = 0; nth < n_lines; ++nth) {"
        yield "  const int64_t m = each < LONG_PART ? rows * each : each;"
        for k in self.moving:
            name = stored_type(self.inputs[k].dtype)
            yield f"  const {name} *v{k} = (const {name} *)(from{k} + nth * pitch{k});"
        last = []
        for j, value, dtype in self.outs:
            name = stored_type(dtype)
            yield f"  {name} *o{j} = ({name} *)(to{j} + nth * pitch_to{j});"
            last.append(f"o{j}[i] = {store_text(value, dtype)};")
        yield from ("  " + line for line in self.computed(last, []))
        yield "}"
        for j, _, dtype in self.outs:
            at = len(self.arrays) + j
            yield f"if (to{j} == (char *)out{j})"
            yield f"  put_rows_{stored_type(dtype)}(out{j}, {_rows_at(at)});"


def _add_rows(fold: Fold, block: str, at: int) -> Iterator[str]:
    """The rows of a block reduced element by element into the arrays of a fold, after those before
    it: all into the same elements, or each into its own."""
    name, call = c_type(fold.dtype), f"{across_name(fold)}_across_{c_type(fold.dtype)}"
    outs = range(at + len(fold.parts) // 2, at + len(fold.parts))  # a count is first
    own = [f"({name} *)(q[{o}] + r * outer[{o}]) + begun" for o in outs]
    yield "{ const int64_t before = n_seen(row, n_outer, shape, folded);"
    yield "  const int is_one = n_outer && folded[n_outer - 1];"
    yield "  for (int64_t r = 0; r < rows; r += is_one ? rows : 1)"
    yield f"    {call}((const char *)({block} + r * each), each * (int64_t)sizeof({name}),"
    yield f"           is_one ? rows : 1, before, each, {', '.join(own)});"
    if len(fold.parts) > 1:
        yield "  if (before == 0)"
        yield "    for (int64_t r = 0; r < rows; r += is_one ? rows : 1)"
        yield "      for (int64_t c = 0; c < each; ++c)"
        yield f"        ((int64_t *)(q[{at}] + r * outer[{at}]))[begun + c] = n_lines;"
    yield "}"


def _reduce_rows(fold: Fold, block: str, at: int) -> Iterator[str]:
    """The rows of a block reduced into the arrays of a fold, which begin `at` some place; halves by
    way of floats. Places are written last: their array may be that of the values, too."""
    kind = fold.end or ("sum" if fold.kind == "count" else fold.kind)
    given = [f"q[{k}], outer[{k}]" for k in range(at, at + len(fold.parts))]
    if fold.half:
        given[0] = f"(char *)found{at}, sizeof(float)"
        yield f"float found{at}[BLOCK];"
        if fold.finds:
            given[1] = f"(char *)places{at}, sizeof(int64_t)"
            yield f"int64_t places{at}[BLOCK];"
    if kind in ("var", "std"):
        given.append(fold.degrees())
    yield f"{kind}_rows_{c_type(fold.dtype)}({block}, rows, n, {', '.join(given)});"
    if fold.half:
        name = stored_type(fold.half)
        yield f"{name} halves{at}[BLOCK];"
        yield f"write_line_{name}(found{at}, halves{at}, rows);"
        yield f"EACH_ROW *({name} *)(q[{at}] + r * outer[{at}]) = halves{at}[r];"
        if fold.finds:
            yield f"EACH_ROW *(int64_t *)(q[{at + 1}] + r * outer[{at + 1}]) = places{at}[r];"


def _made_for(fold: Fold) -> Iterator[str]:
    """The functions that reduce rows for a fold; places are counted as wide as its elements are."""
    name = c_type(fold.dtype)
    if fold.kind in ("sum", "count", "moments"):
        yield f"SHORT_SUMS({name})"
        if fold.end == "mean":
            yield f"SHORT_MEANS({name})"
        elif fold.kind == "moments":
            yield f"SHORT_MOMENTS({name})"
    elif fold.finds:
        op = "<" if fold.kind == "argmin" else ">"
        yield f"SHORT_PLACES({name}, int{8 * fold.dtype.itemsize}_t, {fold.kind}, {op})"
    else:
        yield f"SHORT_EXTREMES({name}, {fold.kind}, {'<' if fold.kind == 'min' else '>'})"


def _rows_at(at: int) -> str:
    return f"q[{at}] + begun * inner[{at}], outer[{at}], inner[{at}], rows, each"


def short_source_of(
    parts: Sequence[GroupStep], inputs: Sequence[Input], n_outs: int, folds: Sequence[Fold] = ()
) -> str:
    """The C function of a group over short rows, to be called as that of `source_of`: no operand is
    known to be one value a row, and folds are of the last axis alone, or all of others."""
    return "\n".join(_Short(parts, inputs, n_outs, folds).lines())

"""Triton source of a fused group: one pass over a tile, temporaries in registers.

Each step is an expression over the scalar vocabulary (`ops/table/words.py` has its texts), computed
in the dtypes that NumPy's loops use; functions are those of CUDA's own library, which torch calls
too. What Triton does not do exactly as NumPy does makes the group run eagerly; only
`config.rounding` may allow it to round otherwise. Sizes, strides and scalars are arguments, so that
one source serves every tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import bfloat16, kind_of
from infinitensor.ops.table.scalar import Arg
from infinitensor.ops.table.words import BOOL
from infinitensor.tasking.c.expressions import Unsupported, refuse_undefined, word_and_operands
from infinitensor.tasking.c.rolled_steps import MOST_WRITTEN, loops_of
from infinitensor.tasking.triton.triton_division import (
    DIVIDE,
    DIVISIONS,
    LEAST_CHECKED_SIZE,
    ONE,
    Division,
    form_of,
    found_far,
    functions,
    sizes_to_check,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ops.table.words import Word
    from infinitensor.tasking.c.expressions import GroupStep, Input, Typed
    from infinitensor.tasking.c.rolled_steps import Loop, Source

TYPES = {
    "bool": "tl.int1",
    **{f"int{n}": f"tl.int{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"tl.uint{n}" for n in (8, 16, 32, 64)},
    **{f"float{n}": f"tl.float{n}" for n in (16, 32, 64)},
    "bfloat16": "tl.bfloat16",
}
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def floor_divide(x, y):
    by = tl.where((y == 0) | (y == -1), 1, y)
    down = (x % by != 0) & ((x < 0) != (by < 0))
    return tl.where(y == 0, 0, tl.where(y == -1, 0 - x, x // by - down.to(x.dtype)))


@triton.jit
def floor_remainder(x, y):
    by = tl.where((y == 0) | (y == -1), 1, y)
    rest = x % by
    up = (rest != 0) & ((x < 0) != (by < 0))
    return tl.where((y == 0) | (y == -1), 0, tl.where(up, rest + by, rest))


"""


def type_of(dtype: np.dtype[Any]) -> str:
    """Triton's name of a dtype."""
    name = TYPES.get(dtype.name)
    if name is None:
        raise Unsupported(f"dtype {dtype}")
    return name


def cast(text: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """A name in another dtype, as NumPy casts."""
    if source == target:
        return text
    if target == BOOL:
        return f"({text} != 0)"
    refuse_undefined(SINGLE if source == bfloat16 else source, target)
    return f"tl.cast({text}, {type_of(target)})"


def number(value: Any, dtype: np.dtype[Any]) -> str:
    """A constant of a dtype."""
    made = np.asarray(value).astype(dtype)[()]
    is_float = kind_of(dtype) == "f"
    text = repr(float(made)) if is_float else repr(int(made))
    if is_float and not np.isfinite(made):
        text = f'float("{text}")'
    return f"tl.full((), {text}, {type_of(dtype)})"


class Writer:
    """The lines of a kernel's body, one for each term.

    `how` it divides and takes roots; what names begin with.
    """

    def __init__(self, how: Division = Division.EXACT, prefix: str = "t") -> None:
        self.lines: list[str] = []
        self.how = how
        self.least = ""
        """The name of the smallest size of all that is to be checked in the end; NaN if one is."""
        self._checked: dict[str, int] = {}
        """The checked values, and the line where they come in."""
        self._prefix = prefix
        self._n = 0

    def let(self, text: str) -> str:
        """A new name for what a text computes."""
        name = f"{self._prefix}{self._n}"
        self._n += 1
        self.lines.append(f"{name} = {text}")
        return name

    def cast(self, name: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
        """A name for a value in another dtype."""
        return name if source == target else self.let(cast(name, source, target))

    def step(self, part: GroupStep, args: Sequence[tuple[str, np.dtype[Any]]]) -> str:
        """A name for the result of a step, in its dtype."""
        given = [
            (self.cast(name, dtype, loop), loop)
            for (name, dtype), loop in zip(args, part.loop, strict=True)
        ]
        found = given[0] if part.tree.word == "cast" else self.term(part.tree, given)
        return self.cast(*found, part.dtype)

    def term(self, tree: Any, args: Sequence[Typed]) -> Typed:
        """Name and dtype of a tree over named arguments."""
        if isinstance(tree, Arg):
            return args[tree.index]
        word, together, given = word_and_operands(tree, lambda e: self.term(e, args), number)
        # NumPy computes float16 in float32 and rounds; so does torch, and bfloat16
        is_half = together == bfloat16 or (together == HALF and not word.in_half)
        inner = SINGLE if is_half else together
        loop = word.loop(inner)
        names = [self.cast(*each, dtype) for each, dtype in zip(given, loop, strict=True)]
        made = self.word(word, names, loop[-1])
        if word.gives == "truth":
            return made, BOOL
        return self.cast(made, inner, together), together

    def word(self, word: Word, names: list[str], dtype: np.dtype[Any]) -> str:
        """A name for a word over names of the dtype that it computes in."""
        is_late = self.how is Division.LATE and dtype == SINGLE
        if is_late and word.float32.positive and names[0] in self._checked:
            names = [self._positive(names[0])]
        if dtype == SINGLE:
            word, names = form_of(word, names, self.how)
        made = self.let(text_over(word, names, dtype, self.how))
        if is_late and word.float32.late:
            for name in sizes_to_check(word, names, made):
                self._check(name)
        return made

    def _check(self, name: str) -> None:
        """The size of a value is one of those that are checked in the end."""
        if name in self._checked:
            return
        size = f"tl.abs({name})"
        if self.least:
            size = f"tl.minimum({self.least}, {size}, propagate_nan=tl.PropagateNan.ALL)"
        self._checked[name] = len(self.lines)
        self.least = self.let(size)

    def _positive(self, name: str) -> str:
        """The text of a checked value that has to be positive: if not, all is computed again.

        The compiler sees that it is not small: of a logarithm it leaves out what is for 0 and for
        subnormal numbers, five instructions for the one of `maximum`.
        """
        at = self._checked[name]
        self.lines[at] = self.lines[at].replace(f"tl.abs({name})", name)
        return f"tl.maximum({name}, {LEAST_CHECKED_SIZE})"


def text_over(
    word: Word, names: Sequence[str], dtype: np.dtype[Any], how: Division = Division.EXACT
) -> str:
    """The text of a word over names of a dtype."""
    form = word.triton.get(kind_of(dtype))
    if form is None:
        raise Unsupported(f"{word.name} of {dtype}")
    if dtype == SINGLE:
        form = text_of(word, how) or form
    return form.format(**dict(zip("xyz", names, strict=False)), bits=8 * dtype.itemsize)


# --- kernels ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """The steps of a group, what they read, and how many of them are stored."""

    parts: tuple[GroupStep, ...]
    inputs: tuple[Input, ...]
    n_outs: int
    ones: frozenset[int] = frozenset()
    """The numerators that are 1 in this kernel."""
    alike: tuple[tuple[int, int], ...] = ()
    """Scalars that are as another one in this kernel, which is given that one alone."""
    fused: bool = False
    """Whether it rounds as `config.rounding` "fused" says."""

    @property
    def numerators(self) -> list[int]:
        """The inputs that are numbers of 32 bits and divided by something."""
        found = {
            part.sources[0][1]
            for part in self.parts
            if _divides(part) and part.sources[0][0] == "in"
        }
        return [k for k in sorted(found) if self.inputs[k].scalar]

    @property
    def arrays(self) -> list[int]:
        """The inputs that are arrays."""
        return [k for k, given in enumerate(self.inputs) if not given.scalar]

    @property
    def scalars(self) -> list[int]:
        """The inputs that are numbers."""
        return [k for k, given in enumerate(self.inputs) if given.scalar]

    @property
    def n_arrays(self) -> int:
        """Arrays that a kernel takes: those it reads, then those it stores."""
        return len(self.arrays) + self.n_outs

    def pointers(self) -> list[str]:
        """Names of the arrays in a kernel's arguments."""
        return [f"p{a}" for a in range(self.n_arrays)]

    @property
    def passed(self) -> list[int]:
        """The scalars that a kernel is given: of those that are alike the first."""
        alike = dict(self.alike)
        return [k for k in self.scalars if k not in alike]

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The repeats of its steps that are written as loops."""
        if not all(self._is_block):  # it would have no lanes before the loop, and some in it
            return ()
        alike = dict(self.alike)
        return tuple(
            loop
            for loop in loops_of(self.parts, self.inputs)
            if len(self.parts) > MOST_WRITTEN
            or all(len({alike.get(k, k) for k in every}) == 1 for every in loop.changing)
        )

    @property
    def _is_block(self) -> list[bool]:
        """Of each step, whether it has a value for each lane."""
        found: list[bool] = []
        for part in self.parts:
            found.append(
                any(
                    found[at] if where == "step" else not self.inputs[at].scalar
                    for where, at in part.sources
                )
            )
        return found

    def numbers(self) -> list[str]:
        """The scalars in a kernel's arguments, in the dtype that `_passed_dtype` says."""
        short = {"f": "fp", "u": "u"}
        kinds = [_passed_dtype(self.inputs[k].dtype) for k in self.passed]
        return [
            f'x{k}: "{short.get(dtype.kind, "i")}{8 * dtype.itemsize}"'
            for k, dtype in zip(self.passed, kinds, strict=True)
        ]

    def body(
        self, places: Sequence[str], mask: str, stores: bool = True, rolls: bool = False
    ) -> tuple[list[str], list[str]]:
        """(lines of one pass, names of what steps make) over pointers to places in arrays.

        `mask` names the lanes that are there; empty: all are. `stores`: what is kept is stored.
        `rolls`: repeats are written as loops; only what is kept has a name then.
        """
        how = Division.FUSED if self.fused else Division.EXACT
        lines, made, _ = self._pass(places, mask, how, rolls=rolls)
        return [*lines, *(self._stores(places, made, mask) if stores else ())], made

    def late_body(self, places: Sequence[str], mask: str) -> list[str]:
        """Lines of one pass that divides the short way, and of another one for where that was not
        exact in some lane of a program."""
        lines, made, writer = self._pass(places, mask, Division.LATE)
        assert writer.least, "nothing is divided"
        again, same, _ = self._pass(places, mask, Division.EXACT, "e")
        return [
            *lines,
            *found_far(writer.least),
            "if is_far:",
            *(f"    {line}" for line in [*again, *self._stores(places, same, mask)]),
            "else:",
            *(f"    {line}" for line in self._stores(places, made, mask)),
        ]

    @property
    def n_divisions(self) -> int:
        """Steps that divide or take a root in float32."""
        return sum(
            part.loop[0] in (HALF, SINGLE, bfloat16) and not part.tree.words().isdisjoint(DIVISIONS)
            for part in self.parts
        )

    def _pass(
        self,
        places: Sequence[str],
        mask: str,
        how: Division,
        prefix: str = "t",
        rolls: bool = False,
    ) -> tuple[list[str], list[str], Writer]:
        """Lines that load and compute, the names of what steps make, and who wrote them; `rolls`:
        with loops, of which only what is stored has a name."""
        writer = Writer(how, prefix)
        lines = []
        for place, k in zip(places, self.arrays, strict=False):
            type_of(self.inputs[k].dtype)
            masked = f", mask={mask}, other=0" if mask else ""
            lines.append(f"x{k} = tl.load({place}{masked})")
        made = _Pass(self, writer).write(self.loops if rolls else ())
        return [*lines, *writer.lines], made, writer

    def _stores(self, places: Sequence[str], made: Sequence[str], mask: str) -> list[str]:
        stored = {part.stored: k for k, part in enumerate(self.parts) if part.stored >= 0}
        masked = f", mask={mask}" if mask else ""
        return [
            f"tl.store({places[len(self.arrays) + j]}, {made[stored[j]]}{masked})"
            for j in range(self.n_outs)
        ]

    def scalar_lines(self) -> list[str]:
        """Scalars in their own dtype."""
        return [
            f"x{k} = {cast(f'x{k}', _passed_dtype(self.inputs[k].dtype), self.inputs[k].dtype)}"
            for k in self.passed
            if _passed_dtype(self.inputs[k].dtype) != self.inputs[k].dtype
        ]


class _Pass:
    """One pass over the steps of a group, which a writer writes."""

    def __init__(self, group: Group, writer: Writer) -> None:
        self.group, self.writer = group, writer
        alike = dict(group.alike)
        self.inputs = [f"x{alike.get(k, k)}" for k in range(len(group.inputs))]
        self.names = [""] * len(group.parts)

    def write(self, loops: Sequence[Loop]) -> list[str]:
        """Write all, some steps as loops; the names of what they make: of loops, what is held."""
        at = 0
        for loop in loops:
            self.steps(at, loop.repeat.first)
            self.loop(loop)
            at = loop.repeat.end
        self.steps(at, len(self.names))
        return self.names

    def steps(self, begin: int, end: int) -> None:
        """Write some steps, one after another."""
        for k in range(begin, end):
            sources = self.group.parts[k].sources
            names = [self.inputs[at] if where == "in" else self.names[at] for where, at in sources]
            self.names[k] = self.step(k, names, sources[0])

    def step(self, k: int, names: Sequence[str], numerator: Source) -> str:
        """Write a step over names of what it reads; the name of what it makes."""
        group, part = self.group, self.group.parts[k]
        args = [
            (name, (group.inputs if where == "in" else group.parts)[at].dtype)
            for name, (where, at) in zip(names, part.sources, strict=True)
        ]
        where, at = numerator
        every = (at,) if where == "in" else at if where == "ins" else ()
        if _divides(part) and every and group.ones.issuperset(every):
            args[0] = (ONE, SINGLE)
        return self.writer.step(part, args)

    def loop(self, loop: Loop) -> None:
        """Write a loop: what is held has the same names in it and behind it."""
        repeat, lines = loop.repeat, self.writer.lines
        held = {(at, ago): f"h{repeat.first + at}_{ago}" for at, ago, _ in loop.held}
        lines += [f"{held[at, ago]} = {self.names[before]}" for at, ago, before in loop.held]
        begin = len(lines)
        names: list[str] = []
        numbers: dict[tuple[int, ...], str] = {}
        """Of each number that changes from turn to turn."""
        for k, sources in enumerate(loop.sources, repeat.first + repeat.length):
            read = []
            for where, at in sources:
                if where == "ins" and at not in numbers:
                    numbers[at] = self.number(at)
                by: dict[str, Any] = {"in": self.inputs, "ins": numbers, "step": self.names}
                by |= {"turn": names, "held": held}
                read.append(by[where][at])
            names.append(self.step(k, read, sources[0]))
        for at, ago, _ in loop.held:
            lines.append(f"{held[at, ago]} = {names[at] if ago == 1 else held[at, ago - 1]}")
        lines[begin:] = [
            f"for turn in range({repeat.times}):",
            *(f"    {x}" for x in lines[begin:]),
        ]
        for at, ago, _ in loop.held:
            self.names[loop.step_of(at, ago)] = held[at, ago]

    def number(self, every: tuple[int, ...]) -> str:
        """The number of a turn, of those of all turns."""
        names = [self.inputs[k] for k in every]
        name = names[0]
        if len(set(names)) > 1:
            for turn, each in enumerate(names[1:], 1):
                name = self.writer.let(f"tl.where(turn == {turn}, {each}, {name})")
        return name


def _divides(part: GroupStep) -> bool:
    """Whether a step is a quotient of float32."""
    return part.tree == DIVIDE and part.loop[0] == SINGLE


def _passed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that a scalar is passed in: its own, or a wider one. (Every thread would cast a
    float of 64 bits to one of 32, and such a cast takes as long as eight additions.)"""
    if kind_of(dtype) == "f":
        return np.dtype(np.float64) if dtype.itemsize == 8 else SINGLE
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def function(
    name: str,
    arguments: Sequence[str],
    lines: Sequence[str],
    fixed: Sequence[str] = (),
    even: bool = True,
    alike: bool = False,
) -> str:
    """The text of a kernel; the values of scalars are not looked at. Profilers show its name.

    Not `even`: nor is it looked at how arrays are aligned. Where some are and others are not,
    Triton would give each lane four neighbours for the sake of the first, and read the others with
    gaps between lanes, which takes the cache twice as long.

    `alike`: nothing is looked at, so that all tiles have one kernel.
    """
    first = "x" if even else ("x", "p")
    kept = [a.split(":")[0] for a in arguments if alike or a.startswith(first)]
    names = ", ".join([*arguments, *(f"{name}: tl.constexpr" for name in fixed)])
    decorator = f"@triton.jit(do_not_specialize={kept})" if kept else "@triton.jit"
    body = [f"    {line}" for line in lines]
    return "\n".join([decorator, f"def {name}({names}):", *body, "", "", f"run = {name}", ""])


def map_source(
    group: Group,
    n_axes: int,
    by_row: bool,
    wide: bool,
    even: bool = True,
    whole: bool = False,
    late: bool = False,
    across: int = -1,
) -> str:
    """A kernel over a space of `n_axes` axes.

    `by_row`: a program takes a block of a row; else a block of elements in C order, whose place
    along each axis is found by division. `wide`: offsets take 64 bits. `even`: as in `function`.
    `whole`: no block is cut off at the end. `late`: a group that divides checks that in the end.
    `across`: the axis along which some arrays are stored that others store across it (-1: there is
    none): a program takes a block of it and of the last axis, so that every array is read and
    written side by side; Triton hands values over between lanes.
    """
    last = n_axes - 1
    sizes = [f"n{d}" for d in range(n_axes)]
    steps = [[f"s{a}_{d}" for d in range(n_axes)] for a in range(group.n_arrays)]
    lines = [f"pid = tl.program_id(0){'.to(tl.int64)' if wide else ''}"]
    if across >= 0:
        lines += ["rest = pid"]
        for d, block, lanes in ((last, "COLUMNS", "[None, :]"), (across, "ROWS", "[:, None]")):
            lines += [f"n_blocks = tl.cdiv(n{d}, {block})"]
            lines += [f"c{d} = (rest % n_blocks) * {block} + tl.arange(0, {block}){lanes}"]
            lines += ["rest = rest // n_blocks"]
        lines += [f"mask = (c{across} < n{across}) & (c{last} < n{last})"]
        outer = [d for d in range(last - 1, -1, -1) if d != across]
    elif by_row:
        if last:
            lines += [f"n_blocks = tl.cdiv(n{last}, BLOCK)", "rest = pid // n_blocks"]
            lines += ["pid = pid % n_blocks"]
        lines += [f"c{last} = pid * BLOCK + tl.arange(0, BLOCK)"]
        lines += [f"mask = c{last} < n{last}"]
        outer = list(range(last - 1, -1, -1))
    else:
        lines += ["rest = pid * BLOCK + tl.arange(0, BLOCK)"]
        lines += [f"mask = rest < {' * '.join(sizes)}"]
        outer = list(range(last, -1, -1))
    for d in outer:
        lines += [f"c{d} = rest % n{d}", f"rest = rest // n{d}"] if d else ["c0 = rest"]
    places = []
    for a in range(group.n_arrays):
        offset = " + ".join(f"c{d} * {steps[a][d]}" for d in range(n_axes))
        places.append(f"p{a} + ({offset})")
    lines += group.scalar_lines()
    mask = "" if whole else "mask"
    lines += group.late_body(places, mask) if late else group.body(places, mask, rolls=True)[0]
    arguments = [*group.pointers(), *group.numbers(), *sizes, *(s for each in steps for s in each)]
    text = function(
        "steps", arguments, lines, ["ROWS", "COLUMNS"] if across >= 0 else ["BLOCK"], even
    )
    return HEADER + (functions() if late else "") + text


def framed_source(group: Group, n_axes: int, wide: bool, even: bool = True) -> str:
    """A kernel over a whole tile, by blocks of rows and columns, of steps that make a box in it.

    Outside of the box it copies: the last array is what was there before. Rows of a block read
    their neighbours from the cache of their own processor.
    """
    axes = range(n_axes)
    last = n_axes - 1
    n_arrays = group.n_arrays + 1
    sizes = [f"{name}{d}" for name in "nlh" for d in axes]
    steps = [f"s{a}_{d}" for a in range(n_arrays) for d in axes]
    lines = [f"rest = tl.program_id(0){'.to(tl.int64)' if wide else ''}"]
    for d, block, lanes in ((last, "COLUMNS", "[None, :]"), (last - 1, "ROWS", "[:, None]")):
        if d >= 0:
            lines += [f"n_blocks = tl.cdiv(n{d}, {block})"]
            lines += [f"c{d} = (rest % n_blocks) * {block} + tl.arange(0, {block}){lanes}"]
            lines += ["rest = rest // n_blocks"]
    for d in range(last - 2, -1, -1):
        lines += [f"c{d} = rest % n{d}", f"rest = rest // n{d}"] if d else ["c0 = rest"]
    lines += ["mask = " + " & ".join(f"(c{d} < n{d})" for d in axes)]
    lines += ["inside = mask & " + " & ".join(f"(c{d} >= l{d}) & (c{d} < h{d})" for d in axes)]

    def place(a: int, within: bool) -> str:
        at = [f"(c{d} - l{d})" if within else f"c{d}" for d in axes]
        return f"p{a} + (" + " + ".join(f"{c} * s{a}_{d}" for d, c in enumerate(at)) + ")"

    n_read = len(group.arrays)
    lines += group.scalar_lines()
    computed, made = group.body([place(a, True) for a in range(n_read)], "inside", stores=False)
    lines += computed
    kept = next(k for k, part in enumerate(group.parts) if part.stored == 0)
    lines += [f"before = tl.load({place(n_arrays - 1, False)}, mask=mask & (inside == 0), other=0)"]
    lines += [f"after = tl.where(inside, {made[kept]}, before)"]
    lines += [f"tl.store({place(n_read, False)}, after, mask=mask)"]
    arguments = [*(f"p{a}" for a in range(n_arrays)), *group.numbers(), *sizes, *steps]
    return HEADER + function("framed", arguments, lines, ["ROWS", "COLUMNS"], even)

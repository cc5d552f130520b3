"""C source of a group of many steps: its repeats as loops over a block (`rolled_steps.py`).

What a turn leaves for later ones is in blocks, which change their names from turn to turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from infinitensor.dtypes import kind_of
from infinitensor.tasking.c.expressions import c_type
from infinitensor.tasking.c.loops import (
    MOST_LOOP_STEPS,
    WIDE,
    Body,
    Source,
    block_text,
    is_called_over_floats,
)
from infinitensor.tasking.c.rolled_steps import loops_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from infinitensor.tasking.c.expressions import GroupStep, Input
    from infinitensor.tasking.c.rolled_steps import Loop


@dataclass(slots=True)
class _Section:
    """Steps that stand one behind the other, or those of a turn."""

    body: Body
    whole: list[str]
    """What other sections read."""
    stored: list[int]
    """The outputs that are stored behind it."""
    loop: Loop | None = None
    numbers: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """The inputs that stand for a number of each turn, and those of all turns."""

    def local_blocks(self) -> Iterator[str]:
        """The blocks that nobody else reads."""
        for name, value in self.body.blocks.items():
            if name not in self.whole:
                yield block_text(name, value.dtype)


class _Rolled(Source):
    """Of a group with loops, which ends with no reduction."""

    def __init__(
        self,
        parts: Sequence[GroupStep],
        inputs: Sequence[Input],
        n_outs: int,
        loops: Sequence[Loop],
    ) -> None:
        self.loops = loops
        self.steps = parts
        self.dtypes: dict[int, np.dtype[Any]] = {k: part.dtype for k, part in enumerate(parts)}
        """Of steps and, behind them, of what loops hold."""
        self.held: list[dict[tuple[int, int], int]] = []
        """For each loop: the numbers of what it holds."""
        self.block_of = list(range(len(parts)))
        """In which block a step is once its section is over."""
        for loop in loops:
            self.held.append({})
            for at, ago, before in loop.held:
                number = len(self.dtypes)
                self.held[-1][at, ago] = number
                self.dtypes[number] = parts[before].dtype
        super().__init__(parts, inputs, n_outs, ())

    def first_body(self, parts: Sequence[GroupStep]) -> Body:
        self.sections: list[_Section] = []
        at = 0
        for number, loop in enumerate(self.loops):
            self.sections.append(self.straight(at, loop.repeat.first))
            self.sections.append(self.turn(number))
            for (step, ago), block in self.held[number].items():
                self.block_of[loop.step_of(step, ago)] = block
            at = loop.repeat.end
        self.sections.append(self.straight(at, len(parts)))
        return self.sections[0].body

    def straight(self, begin: int, end: int) -> _Section:
        """Steps that stand for themselves."""
        parts = [
            replace(part, sources=tuple([self.name_of(*source, begin) for source in part.sources]))
            for part in self.steps[begin:end]
        ]
        return self.section(parts, begin, self.inputs)

    def name_of(self, where: str, at: int, begin: int) -> tuple[str, int]:
        """What a step reads, by its block where it is of a section before."""
        return (where, at) if where == "in" or at >= begin else (where, self.block_of[at])

    def turn(self, number: int) -> _Section:
        """The steps of a turn: of the second one."""
        loop, held = self.loops[number], self.held[number]
        first = loop.repeat.first + loop.repeat.length
        inputs = list(self.inputs)
        numbers: dict[tuple[int, ...], int] = {}
        parts = []
        for k, sources in enumerate(loop.sources, first):
            read: list[tuple[str, int]] = []
            for where, at in sources:
                if where == "ins":
                    if at not in numbers:
                        numbers[at] = len(inputs)
                        inputs.append(inputs[at[0]])
                    read.append(("in", numbers[at]))
                elif where == "turn":
                    read.append(("step", first + at))
                elif where == "held":
                    read.append(("step", held[at]))
                else:
                    read.append((where, at if where == "in" else self.block_of[at]))
            parts.append(replace(self.steps[k], sources=tuple(read)))
        made = self.section(parts, first, inputs)
        made.loop = loop
        made.numbers = tuple((k, every) for every, k in numbers.items())
        return made

    def section(self, parts: Sequence[GroupStep], first: int, inputs: Sequence[Input]) -> _Section:
        own = range(first, first + len(parts))
        read = {at for part in parts for where, at in part.sources if where == "step"}
        given = {k: self.dtypes[k] for k in sorted(read) if k not in own}
        return _Section(Body(parts, inputs, first, given), [], [])

    def part(self) -> None:
        """Also: which steps of each section others read, and where outputs are stored."""
        read = {name for section in self.sections for name in section.body.given}
        for number, loop in enumerate(self.loops):
            read |= {f"s{self.block_of[before]}" for _, _, before in loop.held}
            turn, second = self.sections[2 * number + 1], loop.repeat.first + loop.repeat.length
            turn.whole = [f"s{second + at}" for at, ago in self.held[number] if ago == 1]
        stored = {part.stored: k for k, part in enumerate(self.steps) if part.stored >= 0}
        self.outs = [(j, f"s{self.block_of[stored[j]]}", dtype) for j, _, dtype in self.outs]
        begins = [0, *(loop.repeat.first for loop in self.loops)]
        for number, section in enumerate(self.sections[::2]):
            # what a loop holds is stored behind it, with the steps that follow
            end = self.loops[number].repeat.first if number < len(self.loops) else len(self.steps)
            section.stored = [j for j, k in stored.items() if begins[number] <= k < end]
            names = {name for _, name, _ in (self.outs[j] for j in section.stored)}
            section.body.given |= {
                name: self.dtypes[int(name[1:])]
                for name in names
                if name not in section.body.values
            }
            section.whole = [name for name in section.body.values if name in read]
        for section in self.sections:
            wanted = [self.outs[j][1] for j in section.stored]
            section.body.compute_late(wanted, section.whole)
        self.body.is_long = True

    @property
    def calls(self) -> bool:
        every = (value for x in self.sections for value in x.body.values.values())
        return any(map(is_called_over_floats, every))

    def blocks(self) -> Iterator[str]:
        for section in self.sections:
            for name in section.whole:
                kind = c_type(section.body.values[name].dtype)
                if section.loop is None:
                    yield block_text(name, section.body.values[name].dtype)
                else:
                    yield f"{kind} first_{name}[BLOCK] __attribute__((aligned(64)));"
        for held in self.held:
            for number in held.values():
                kind = c_type(self.dtypes[number])
                yield f"{kind} first_s{number}[BLOCK] __attribute__((aligned(64)));"
        places = self.scalar_places()
        for section in self.sections:
            for k, every in section.numbers:
                found = ", ".join(str(places[each]) for each in every)
                yield f"static const int64_t {_places(k, every)}[] = {{{found}}};"

    def scalar_places(self) -> dict[int, int]:
        """Where each number is among the scalars."""
        places, at = {}, 0
        for k, given in enumerate(self.inputs):
            if given.scalar:
                places[k] = at
                at += 16 if given.dtype.kind == "c" else 8
        return places

    def computed(self, last: Sequence[str], sums: Sequence[tuple[str, str, str]]) -> Iterator[str]:
        for section in self.sections:
            if section.loop is None:
                yield "{"
                if section is not self.sections[0]:  # its own are declared in front of all
                    yield from (f"  {line}" for line in section.body.all_inverse_lines())
                yield from (f"  {line}" for line in section.local_blocks())
                stores = [last[j] for j in section.stored]
                yield from (f"  {line}" for line in self.loops_over(section, stores))
                yield "}"
            else:
                yield from self.turns(section, section.loop)

    def loops_over(self, section: _Section, last: Sequence[str]) -> Iterator[str]:
        body = section.body
        for loop in range(body.n_loops):
            ends = last if loop == body.n_loops - 1 else []
            yield from body.loop_lines(loop, ends, [], self.pointers())

    def turns(self, section: _Section, loop: Loop) -> Iterator[str]:
        """The turns of a loop, and what they begin with."""
        held = self.held[self.loops.index(loop)]
        second = loop.repeat.first + loop.repeat.length
        for at, ago, before in loop.held:
            kind, name = c_type(self.dtypes[held[at, ago]]), f"s{held[at, ago]}"
            yield f"{kind} *block_{name} = first_{name};"
            start = f"block_s{self.block_of[before]}"
            yield f"memcpy(block_{name}, {start}, (size_t)m * sizeof({kind}));"
            if ago == 1:
                yield f"{kind} *block_s{second + at} = first_s{second + at};"
        yield f"for (int64_t turn = 0; turn < {loop.repeat.times}; ++turn) {{"
        for k, every in section.numbers:
            dtype = section.body.inputs[k].dtype
            wide = WIDE.get(kind_of(dtype), "int64_t")
            place = f"scalars + {_places(k, every)}[turn]"
            yield f"  const {c_type(dtype)} x{k} = ({c_type(dtype)})*(const {wide} *)({place});"
        yield from (f"  {line}" for line in section.body.all_inverse_lines())
        yield from (f"  {line}" for line in section.local_blocks())
        yield from (f"  {line}" for line in self.loops_over(section, []))
        for at, lag in enumerate(loop.repeat.lags):
            if lag:
                names = [f"block_s{held[at, ago]}" for ago in range(lag, 0, -1)]
                names.append(f"block_s{second + at}")
                yield f"  {c_type(self.dtypes[held[at, 1]])} *oldest{at} = {names[0]};"
                both = zip(names, [*names[1:], f"oldest{at}"], strict=True)
                yield from (f"  {name} = {after};" for name, after in both)
        yield "}"


def _places(k: int, every: tuple[int, ...]) -> str:
    """The name of the places of a number that is another one in each turn."""
    return f"places{k}_{every[0]}"


def rolled_source_of(parts: Sequence[GroupStep], inputs: Sequence[Input], n_outs: int) -> str:
    """The C function of a group as that of `source_of`, with loops where its steps repeat."""
    loops = loops_of(tuple(parts), tuple(inputs))
    made = _Rolled(parts, inputs, n_outs, loops)
    if not made.calls:  # no function parts them: as many steps as keep values in registers
        made = _Rolled(
            parts, inputs, n_outs, loops_of(tuple(parts), tuple(inputs), MOST_LOOP_STEPS)
        )
    return "\n".join(made.lines())

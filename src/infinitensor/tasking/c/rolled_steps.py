"""The steps of a group with its repeats as loops: one turn is written instead of all.

A group of many steps is mostly a loop of the user's program, recorded turn by turn. Who writes the
text of a group asks for its loops here; a turn has the bits of the steps it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from infinitensor.ir.repeats import Repeat, find_repeats
from infinitensor.tasking.c.expressions import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infinitensor.tasking.c.expressions import GroupStep, Input

MOST_WRITTEN = 128
"""Steps of a group up to which a loop whose numbers change from turn to turn is written out: then
no number is chosen by the turn."""

MOST_TEXT = 512
"""Steps that are written for a kernel at most: of more it takes seconds to compile."""

Source = tuple[str, Any]
"""What a step of a turn reads: "in" and an input, "ins" and an input for each turn, "step" and a
step before the loop, "turn" and a step of the same turn, or "held" and (a step of the turn, how
many turns ago)."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeat, and for each step of a turn what it reads."""

    repeat: Repeat
    sources: tuple[tuple[Source, ...], ...]

    @property
    def held(self) -> Iterator[tuple[int, int, int]]:
        """(step of a turn, how many turns ago, the step before the loop that it is in the first
        one) for all that a turn leaves to later ones, the oldest first."""
        length, first = self.repeat.length, self.repeat.first
        for at, lag in enumerate(self.repeat.lags):
            for ago in range(lag, 0, -1):
                yield at, ago, first + at - ago * length

    def step_of(self, at: int, ago: int) -> int:
        """The step that something held is behind the loop."""
        return self.repeat.first + at + (self.repeat.times - ago) * self.repeat.length

    @property
    def changing(self) -> tuple[tuple[int, ...], ...]:
        """The inputs of each number that is another one in each turn."""
        return tuple(at for read in self.sources for where, at in read if where == "ins")


def refuse_long(n_steps: int, loops: Sequence[Loop]) -> None:
    """`Unsupported` for so many steps outside of loops that compilers take seconds."""
    if n_steps - sum(loop.repeat.n_saved for loop in loops) > MOST_TEXT:
        raise Unsupported("many steps, of which no loop is found")


@lru_cache(maxsize=64)
def loops_of(
    parts: tuple[GroupStep, ...], inputs: tuple[Input, ...], n_steps: int = 0
) -> tuple[Loop, ...]:
    """The loops of a group's steps, in order. A turn is as many of the user's as have up to
    `n_steps` steps, if that is more than one."""
    kinds: list[Any] = []
    reads: list[list[int]] = []
    for part in parts:
        # a number is read by place, and may be another one in each turn
        read = tuple(
            (parts[at].dtype, "step")
            if where == "step"
            else (inputs[at], -1 if inputs[at].scalar else at)
            for where, at in part.sources
        )
        kinds.append((part.tree, part.loop, part.dtype, read))
        reads.append([at for where, at in part.sources if where == "step"])
    stored = {k for k, part in enumerate(parts) if part.stored >= 0}
    found = find_repeats(kinds, reads, stored)
    wide = [repeat.widen(max(n_steps // repeat.length, 1)) for repeat in found]
    return tuple(_loop(parts, repeat) for repeat in wide if repeat.times > 1)


def _loop(parts: tuple[GroupStep, ...], repeat: Repeat) -> Loop:
    """A turn of a repeat, seen from its second one."""
    first, length = repeat.first, repeat.length
    second = first + length

    def source(k: int, i: int) -> Source:
        where, at = parts[k].sources[i]
        before = parts[k - length].sources[i][1]
        if where == "in":
            turns = range(k - length, repeat.end, length)
            every = tuple(parts[turn].sources[i][1] for turn in turns)
            return ("in", at) if len(set(every)) == 1 else ("ins", every)
        if at == before:
            return "step", at
        if at >= second:
            return "turn", at - second
        return "held", ((at - first) % length, -(-(second - at) // length))

    return Loop(
        repeat,
        tuple(
            tuple(source(k, i) for i in range(len(parts[k].sources)))
            for k in range(second, second + length)
        ),
    )

"""Repeats in a list of steps: parts that come several times in a row, each from what the one before
made, as the steps of a recorded loop do.

A repeat is written as a loop by those who generate code: `length` steps, `times` over. What a step
of it reads is then

- made in the same turn, or
- made some turns before by the same step of the loop (its *lag*), for the first turns by what
  stands before the loop, or
- the same in every turn, and made before the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

MOST_LENGTH = 64
"""Steps of a turn at most."""
LEAST_TIMES = 3
LEAST_SAVED = 16
"""Steps that need not be written, at least: shorter lists are read as fast as they are."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """`times` turns of `length` steps, from the step `first` on.

    `lags`: for each step of a turn how many turns ago a step may have been that is still read, by
    a turn or after the loop.
    """

    first: int
    length: int
    times: int
    lags: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first step behind it."""
        return self.first + self.length * self.times

    @property
    def n_saved(self) -> int:
        """Steps that need not be written."""
        return self.length * (self.times - 1)

    def widen(self, n: int) -> Repeat:
        """The same with so many turns in each; the rest of them stands behind it."""
        lags = [-(-max(lag - (n - 1 - turn), 0) // n) for turn in range(n) for lag in self.lags]
        return Repeat(self.first, self.length * n, self.times // n, tuple(lags))

    def place(self, step: int) -> tuple[int, int]:
        """Which step of a turn a step in it is, and which turn from behind (the last: 1)."""
        turn, at = divmod(step - self.first, self.length)
        return at, self.times - turn


def find_repeats(
    kinds: Sequence[Hashable], reads: Sequence[Sequence[int]], seen: Collection[int] = ()
) -> list[Repeat]:
    """The repeats of a list of steps, in order.

    `kinds` say what steps are: all but which steps they read, though of what dtype those are;
    `reads` has these steps, all before the reader. What others see is in `seen`. Takes time linear
    in the steps, for each length of a turn.

    >>> find_repeats("abcbcbcbcbcbcbcbcbcd", [[], *([k - 1] for k in range(1, 20))])
    [Repeat(first=1, length=2, times=9, lags=(0, 1))]
    """
    return _Search(kinds, reads, seen).within(0, len(kinds))


class _Search:
    def __init__(
        self,
        kinds: Sequence[Hashable],
        reads: Sequence[Sequence[int]],
        seen: Collection[int],
    ) -> None:
        numbers: dict[Hashable, int] = {}
        both = zip(kinds, map(len, reads), strict=True)
        self.kinds = np.array([numbers.setdefault(one, len(numbers)) for one in both])
        self.reads = reads
        self.read_until = [0] * len(kinds)
        """The last reader of each step."""
        for k, read in enumerate(reads):
            for step in read:
                self.read_until[step] = k
        for step in seen:
            self.read_until[step] = len(kinds)

    def within(self, low: int, high: int) -> list[Repeat]:
        """Those of a part of the list: the one that saves most, and what is beside it."""
        best: Repeat | None = None
        for length in range(1, min(MOST_LENGTH, (high - low) // LEAST_TIMES) + 1):
            more = best.n_saved if best is not None else LEAST_SAVED - 1
            for found in self.of_length(length, low, high, more + 1):
                if best is None or found.n_saved > best.n_saved:
                    best = found
        if best is None:
            return []
        return [*self.within(low, best.first), best, *self.within(best.end, high)]

    def of_length(self, length: int, low: int, high: int, n_saved: int) -> Iterator[Repeat]:
        """Repeats whose turns have so many steps, where they may save as many as asked."""
        same = self.kinds[low + length : high] == self.kinds[low : high - length]
        borders = np.flatnonzero(np.diff(same, prepend=False, append=False)) + low + length
        least = max(n_saved, length * (LEAST_TIMES - 1))
        for begin, end in borders.reshape(-1, 2).tolist():
            if end - begin >= least:
                yield from self.in_run(length, begin, end)

    def in_run(self, length: int, begin: int, end: int) -> Iterator[Repeat]:
        """Repeats where each step from `begin` to `end` is of the kind of that a turn before."""
        stays: dict[int, tuple[bool, ...] | None] = {}
        """Of each step, for what it reads: whether that is the same as a turn before."""
        k = begin
        while k < end:
            stays[k] = found = self.stay(k, length)
            if found is None:
                yield from self.longest(length, begin, k, stays)
                begin = k + 1
            elif k - length >= begin and stays[k - length] != found:
                yield from self.longest(length, begin, k, stays)
                begin = k - length + 1
            if found is not None and any(found):
                fixed = max(x for x, stay in zip(self.reads[k], found, strict=True) if stay)
                begin = max(begin, fixed + 1 + length)  # it is made before the loop
            k += 1
        yield from self.longest(length, begin, end, stays)

    def stay(self, k: int, length: int) -> tuple[bool, ...] | None:
        """For all that a step reads: whether it is what was read a turn before, or made a turn
        later; None: something is neither."""
        found = []
        for x, y in zip(self.reads[k], self.reads[k - length], strict=True):
            if x not in (y, y + length):
                return None
            found.append(x == y)
        return tuple(found)

    def longest(
        self, length: int, begin: int, end: int, stays: dict[int, tuple[bool, ...] | None]
    ) -> Iterator[Repeat]:
        """The repeat of steps that are all as a turn before: as many turns as may be, so that
        nobody behind the loop reads what is not held any more."""
        while (end - begin) // length >= LEAST_TIMES - 1:
            first = begin - length
            lags = self.lags(length, begin, stays)
            times, lost = self.turns_held(first, length, (end - first) // length, lags)
            if times >= LEAST_TIMES:
                if length * (times - 1) >= LEAST_SAVED:
                    yield Repeat(first, length, times, lags)
                return
            begin = lost + 1 + length

    def lags(
        self, length: int, begin: int, stays: dict[int, tuple[bool, ...] | None]
    ) -> tuple[int, ...]:
        """How many turns ago, at most, each step of a turn was that is read in the second one."""
        lags = [0] * length
        for k in range(begin, begin + length):
            stay = stays[k]
            assert stay is not None
            for x, fixed in zip(self.reads[k], stay, strict=True):
                if not fixed and x < begin:
                    at = (x - begin) % length
                    lags[at] = max(lags[at], -(-(begin - x) // length))
        return tuple(lags)

    def turns_held(
        self, first: int, length: int, times: int, lags: tuple[int, ...]
    ) -> tuple[int, int]:
        """(turns of which all that is read behind them is held, the first step that more of them
        would lose)."""
        lost = -1
        while True:
            end, most = first + length * times, times
            for k in range(first, end):
                if self.read_until[k] >= end:
                    turn, at = divmod(k - first, length)
                    if turn + lags[at] < most:
                        most, lost = turn + lags[at], k
            if most == times:
                return times, lost
            times = most

"""With how many threads a program is quickest: found by trying.

Threads have to be woken, share caches and memory, and may find no core that is free; how much that
costs differs between machines, and from one minute to the next. So a program that is repeated tries
half and twice as many threads as it has, now and then, and goes on with what took least. One of
little work tries a single thread first of all: between it and many, every number may be slow.
"""

from __future__ import annotations

TRIED_AGAIN = 256
"""After so many runs another number is tried: other programs come and go."""
COLD = 4
"""Runs of a number just taken that say nothing: who slept is woken, data changes caches."""
TRIES = 6
"""Runs after which a time is believed, those among them."""
GAIN = 0.95
"""What another number of threads has to take of the time at most."""
ALONE_NS = 500_000
"""Work of all threads up to which one alone is tried first."""
MOST_PACED_NS = 50_000_000
"""Programs that take longer have all threads: to try fewer costs too much."""
UNTIMED = 7
"""Runs after each that is timed, once all near numbers are known: to look costs microseconds."""


class Pace:
    """How long a program takes with 1, 2, 4 … threads, of late; `first` is where it begins."""

    __slots__ = ("_best", "_most", "_ns", "_tried", "_tries", "_turn", "_untimed")

    def __init__(self, most: int, first: int) -> None:
        self._most = max(most, 1)
        n = _level(self._most) + 1
        self._ns = [0] * n
        self._tries = [0] * n
        self._best = self._tried = min(_level(max(first, 1)), n - 1)
        self._turn = 0
        self._untimed = 0

    @property
    def is_timed(self) -> bool:
        """Whether how long the next run takes is to be noted."""
        return not self._untimed

    @property
    def took_ns(self) -> int:
        """How long a run takes with the number that is quickest."""
        return self._ns[self._best] or MOST_PACED_NS

    def n_threads(self, work_ns: int = MOST_PACED_NS) -> int:
        """How many are to work the next time; all together took so long the last time."""
        self._turn += 1
        best = self._best
        if self._untimed:
            self._untimed -= 1
            return min(1 << best, self._most)
        if self._ns[best] > MOST_PACED_NS:
            return self._most
        if self._tries[self._tried] >= TRIES:
            self._tried = self._next(work_ns)
            if self._tried == best:
                self._untimed = UNTIMED
        return min(1 << self._tried, self._most)

    def _next(self, work_ns: int) -> int:
        """What is to run now: the quickest, or another that begins to be tried."""
        best = self._best
        near = [k for k in (best - 1, best + 1) if 0 <= k < len(self._ns)]
        unknown = [k for k in near if not self._tries[k]]
        if not self._tries[0] and work_ns < ALONE_NS:
            return 0
        if unknown:
            return unknown[0]
        if near and self._turn % TRIED_AGAIN <= UNTIMED:
            tried = near[self._turn // TRIED_AGAIN % len(near)]
            self._tries[tried] = self._ns[tried] = 0
            return tried
        return best

    def note(self, n_threads: int, ns: int) -> None:
        """So many took so long; once much longer, for a core went to somebody else, says little."""
        level = min(_level(n_threads), len(self._ns) - 1)
        before = self._ns[level] or ns
        if 2 * ns < before and self._tries[level] >= TRIES:  # another program: it was compiled
            self._ns = [0] * len(self._ns)
            self._tries = [0] * len(self._ns)
            self._best = self._tried = level
        self._tries[level] += 1
        if self._tries[level] <= COLD:
            return
        if self._tries[level] <= TRIES:
            self._ns[level] = min(before, ns)
        else:
            self._ns[level] = before + (min(ns, 2 * before) - before) // 4
        known = [k for k, n in enumerate(self._tries) if n >= TRIES]
        quickest = min(known, key=self._ns.__getitem__, default=self._best)
        if self._best not in known or self._ns[quickest] < GAIN * self._ns[self._best]:
            self._best = quickest


def _level(n: int) -> int:
    """The least power of two that is not below a number."""
    return (n - 1).bit_length()

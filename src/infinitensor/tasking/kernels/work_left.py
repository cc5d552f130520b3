"""How much runs step by step before a kernel is compiled for it."""

from __future__ import annotations

import os
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from infinitensor.native import begin, is_built, is_compiled, is_compiling

if TYPE_CHECKING:
    from infinitensor.tasking.kernels.c_kernel import Compiled

PAID_OFF = 1 << 27
"""Elements times steps that take about as long as compiling."""
BEGUN = 1 << 20
"""Elements times steps, about a ms of work, from which a compiler is started, if it has a core of
its own: steps go on meanwhile."""
_N_CORES = len(os.sched_getaffinity(0))


class WorkLeft:
    """Work until a kernel has paid for its compiling: none once it is compiled.

    That is asked while a program runs: a plan is the same whatever was compiled before.
    """

    __slots__ = ("_has_begun", "_has_looked", "_missing", "amount")

    def __init__(self, *sources: str) -> None:
        """Of a kernel that is made of these C sources, if it is C."""
        self.amount = PAID_OFF
        self._missing = sources
        self._has_looked = self._has_begun = False

    def is_done(self) -> bool:
        """Whether generated code is due: it is compiled, or has been paid for and no compiler is at
        work on it. Files are looked for once."""
        if self._missing:
            is_there = is_compiled if self._has_looked else is_built
            self._missing = tuple(source for source in self._missing if not is_there(source))
            self._has_looked = True
            if not self._missing:
                self.amount = 0
        return self.amount <= 0 and not any(map(is_compiling, self._missing))

    def spend(self, work: int) -> None:
        """So much was done step by step."""
        self.amount -= work
        if self.amount <= PAID_OFF - BEGUN:
            self.begin()

    def begin(self) -> None:
        """Start a compiler, if it has a core of its own."""
        if not self._has_begun and _N_CORES > 1:
            self._has_begun = True
            for source in self._missing:
                begin(source)


_of_kernels: weakref.WeakKeyDictionary[Compiled, WorkLeft] = weakref.WeakKeyDictionary()


def left_of(in_c: Compiled) -> WorkLeft:
    """That of a kernel, whatever the shapes it runs on."""
    left = _of_kernels.get(in_c)
    if left is None:
        left = _of_kernels[in_c] = WorkLeft(in_c.source)
    return left


@lru_cache(maxsize=1024)
def left_of_all(sources: tuple[str, ...]) -> WorkLeft:
    """That of several kernels that are used together."""
    return WorkLeft(*sources)


@lru_cache(maxsize=1024)
def left_on_gpu(kind: tuple[Any, ...]) -> WorkLeft:
    """That of all groups of a kind, together."""
    return WorkLeft()

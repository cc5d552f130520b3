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
BEGUN = 1 << 22
"""Elements times steps, some ms of work, from which a compiler is started, if it has a core of its
own: steps go on meanwhile."""
_N_CORES = len(os.sched_getaffinity(0))


class WorkLeft:
    """Work until a kernel has paid for its compiling: none once it is compiled.

    That is asked while a program runs: a plan is the same whatever was compiled before.
    """

    __slots__ = ("_has_begun", "_has_looked", "_is_there", "_source", "amount")

    def __init__(self, source: str | None = None) -> None:
        self.amount = PAID_OFF
        self._source = source
        self._has_looked = self._has_begun = self._is_there = False

    def is_done(self) -> bool:
        """Whether generated code is due: it is compiled, or has been paid for and no compiler is at
        work on it. Files are looked for once."""
        source = self._source
        if source is None or self._is_there:
            return self.amount <= 0
        is_there = is_compiled if self._has_looked else is_built
        self._has_looked = True
        if is_there(source):
            self.amount, self._is_there = 0, True
        return self.amount <= 0 and (self._is_there or not is_compiling(source))

    def spend(self, work: int) -> None:
        """So much was done step by step."""
        self.amount -= work
        if self._has_begun or self._source is None or self.amount > PAID_OFF - BEGUN:
            return
        self._has_begun = True
        if _N_CORES > 1:
            begin(self._source)


_of_kernels: weakref.WeakKeyDictionary[Compiled, WorkLeft] = weakref.WeakKeyDictionary()


def left_of(in_c: Compiled) -> WorkLeft:
    """That of a kernel, whatever the shapes it runs on."""
    left = _of_kernels.get(in_c)
    if left is None:
        left = _of_kernels[in_c] = WorkLeft(in_c.source)
    return left


@lru_cache(maxsize=1024)
def left_on_gpu(kind: tuple[Any, ...]) -> WorkLeft:
    """That of all groups of a kind, together."""
    return WorkLeft()

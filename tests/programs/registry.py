"""What a program is: a function of `np` and arguments, and how its arguments are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy

    Arguments = Callable[[numpy.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """`run(np, *arguments(rng))` gives the result; it may change the arrays it is given."""

    name: str
    run: Callable[..., Any]
    arguments: Arguments
    rtol: float
    is_slow: bool

    def __str__(self) -> str:
        return self.name


PROGRAMS: list[Program] = []


def program(
    arguments: Arguments, *, rtol: float = 1e-9, is_slow: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function in the list of programs."""

    def enter(run: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(Program(run.__name__, run, arguments, rtol, is_slow))
        return run

    return enter

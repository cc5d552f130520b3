"""How often there is which kind of line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import calling, creating, writing
from .generate import MOST, Generator

if TYPE_CHECKING:
    from .program import Program

KINDS = (
    (3, creating.create),
    (4, creating.sliced),
    (2, creating.transposed),
    (4, creating.reshaped),
    (1, creating.part),
    (1, creating.broadcast),
    (2, creating.copied),
    (5, writing.assigned),
    (4, writing.overlapping),
    (5, writing.masked),
    (4, writing.indexed),
    (4, writing.in_place),
    (4, writing.stored),
    (1, writing.sorted_in_place),
    (3, calling.unary),
    (5, calling.binary),
    (3, calling.chosen),
    (4, calling.reduced),
    (2, calling.reduced_into),
    (2, calling.scanned),
    (2, calling.ordered),
    (4, calling.moved),
    (2, calling.multiplied),
    (1, calling.looked_at),
    (1, calling.read_element),
    (1, calling.scalar_changed),
    (1, calling.cast_loop),
    (1, Generator.drop),
)


def program_of(seed: int, most: int = MOST, *, scalars: bool = False) -> Program:
    """The program that a seed stands for."""
    return Generator(seed, most, scalars).program(KINDS)

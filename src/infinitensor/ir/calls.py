"""Tasks as calls of compiled functions: where operands lie, and what is called on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

REAL, WHOLE, REAL_PART, IMAGINARY_PART = range(4)
"""How a scalar is handed over: as a double, as 64 bits of an integer, as a half of a complex."""


class Lies(NamedTuple):
    """Where one operand of some tasks lies: for each an array in some memory.

    `bases` numbers the memories; offsets and strides are in bytes.
    """

    bases: np.ndarray
    offsets: np.ndarray
    shapes: np.ndarray
    strides: np.ndarray

    def take(self, which: Any) -> Lies:
        """Those of some of the tasks."""
        return Lies(*(column[which] for column in self))


class Form(NamedTuple):
    """What is called: a function, and how it walks arrays that lie alike."""

    numbers: tuple[int, ...]
    """function, n_rows, n, n_outer, shape, steps, folded, n_same: as a generated source says."""
    n_arrays: int
    n_scalars: int
    held: Any
    """What those addresses are of."""


class Calls(NamedTuple):
    """The calls of a family, in the order of its tasks."""

    tasks: np.ndarray
    """The task of each call, by its place among those that were asked for."""
    forms: np.ndarray
    of: Sequence[Form]
    bases: np.ndarray
    """The memories of the arrays of all calls, one call after another, and how far into them."""
    offsets: np.ndarray
    words: np.ndarray
    """Likewise the scalars: 4 * number + how it is handed over."""


class InC(Protocol):
    """The C of a family's tasks."""

    def is_due(self, n_tasks: int) -> bool:
        """Whether it is compiled, or is worth compiling for so many tasks and those before."""

    def calls(
        self,
        tasks: np.ndarray,
        many: tuple[np.ndarray, Lies] | None,
        ins: Sequence[Any],
        outs: Sequence[Lies],
    ) -> Calls:
        """The calls of some tasks.

        `many` has (borders, what lies between them); `ins` for each column what it reads, or the
        numbers of scalars. `CompilerError` if it cannot be had.
        """

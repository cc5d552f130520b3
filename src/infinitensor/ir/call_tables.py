"""Tasks as calls of compiled functions: the addresses and strides of operands, the function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.view import Access

REAL, WHOLE, REAL_PART, IMAGINARY_PART = range(4)
"""How a scalar is handed over: as a double, as 64 bits of an integer, as a half of a complex."""

ALONE, BY_ROWS, BY_LINES, BY_ITSELF = range(4)
"""Along what threads may share a call: nothing, its first outer axis, its lines; or it shares
its work itself, and is given their number for `n_rows`."""

MOST_CALL_ARRAYS, MOST_CALL_WORDS = 64, 4096
"""Arrays, and words of scalars, of one call (`c_program.c`)."""
N_FORM, N_TIMES = 12, 5
"""Numbers of a `Form` in `c_program.c`, and of the `Times` in `threads.h`."""


class StridedArrays(NamedTuple):
    """The arrays of one operand, one for each of some tasks, in some memory.

    `bases` numbers the memories; offsets and strides are in bytes.
    """

    bases: np.ndarray
    offsets: np.ndarray
    shapes: np.ndarray
    strides: np.ndarray

    def take(self, which: Any) -> StridedArrays:
        """The arrays of some of the tasks."""
        return StridedArrays(*(column[which] for column in self))

    @classmethod
    def join(cls, parts: Sequence[StridedArrays]) -> StridedArrays:
        """The arrays of the tasks of all parts, which have as many axes."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def view(self, starts: np.ndarray, boxes: np.ndarray, access: Access | None) -> StridedArrays:
        """Boxes of tensors, or of views of them, in tiles that begin at `starts` of the tensor."""
        lengths = boxes[:, :, 1] - boxes[:, :, 0]
        if access is None:
            offsets = ((boxes[:, :, 0] - starts) * self.strides).sum(axis=1)
            return StridedArrays(self.bases, self.offsets + offsets, lengths, self.strides)
        n, ndim = self.strides.shape
        at = np.broadcast_to(np.asarray(access.fixed, np.int64), (n, ndim)).copy()
        strides = np.zeros((n, len(access.axes)), np.int64)
        for axis, walked in enumerate(access.axes):
            if walked is not None:
                base, start, step = walked
                at[:, base] = start + step * boxes[:, axis, 0]
                strides[:, axis] = step * self.strides[:, base]
        offsets = self.offsets + ((at - starts) * self.strides).sum(axis=1)
        return StridedArrays(self.bases, offsets, lengths, strides)


class Form(NamedTuple):
    """A compiled function, and how it walks arrays of the same strides."""

    numbers: tuple[int, ...]
    """function, n_rows, n, n_outer, shape, steps, folded, n_same: as a generated source says."""
    n_arrays: int
    n_scalars: int
    held: Any
    """The objects at the addresses, which must outlive them."""
    shared_by: int = ALONE
    """Along what threads may share a call."""
    n_read: int = 0
    """Arrays that are read, of one that is shared; the others are written."""


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

    @classmethod
    def one_each(
        cls,
        forms: np.ndarray,
        of: Sequence[Form],
        arrays: Sequence[StridedArrays],
        tasks: np.ndarray | None = None,
        words: np.ndarray | None = None,
    ) -> Calls:
        """A call for each of some tasks (None: all), on arrays that all tasks have."""
        some = np.arange(len(forms)) if tasks is None else tasks
        bases = np.stack([x.bases for x in arrays], axis=1)[some].reshape(-1)
        offsets = np.stack([x.offsets for x in arrays], axis=1)[some].reshape(-1)
        numbers = np.zeros(0, np.int64) if words is None else words.reshape(-1)
        return cls(some, forms.reshape(-1), of, bases, offsets, numbers)

    def split(self, borders: Sequence[int]) -> list[Calls]:
        """The calls of the tasks between borders; all have as many arrays and scalars."""
        n = max(len(self.tasks), 1)
        n_arrays, n_words = len(self.bases) // n, len(self.words) // n
        ends = np.searchsorted(self.tasks, borders).tolist()
        return [
            Calls(
                self.tasks[lo:hi] - border,
                self.forms[lo:hi],
                self.of,
                self.bases[lo * n_arrays : hi * n_arrays],
                self.offsets[lo * n_arrays : hi * n_arrays],
                self.words[lo * n_words : hi * n_words],
            )
            for border, lo, hi in zip(borders, ends, ends[1:], strict=False)
        ]


class Operands(NamedTuple):
    """What some tasks of a family work on: `many` has (borders, the arrays between them), `ins` for
    each column what it reads, or the numbers of scalars."""

    tasks: np.ndarray
    many: tuple[np.ndarray, StridedArrays] | None
    ins: Sequence[Any]
    outs: Sequence[StridedArrays]


class InC(Protocol):
    """The C of a family's tasks."""

    together: Any = None
    """A key that families share whose tasks, a call each, may be asked for together; None: each
    has to be asked for alone."""

    def is_due(self, n_tasks: int) -> bool:
        """Whether it is compiled, or is worth compiling for so many tasks and those before."""
        return True

    def begin(self) -> None:
        """Start to compile it, while others run its tasks: it will be used again."""
        return

    def calls(self, asked: Operands) -> Calls:
        """The calls of some tasks. `CompilerError` if it cannot be had."""

    def plain(self, asked: Operands) -> tuple[InC, Operands]:
        """The C of a kernel that knows nothing of this family, on the same arrays."""
        return self, asked

"""Families whose tasks are generated code, as calls that C makes (`runtime/native`)."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.dtypes import kind_of
from infinitensor.ir.call_tables import (
    IMAGINARY_PART,
    MOST_CALL_ARRAYS,
    MOST_CALL_WORDS,
    REAL,
    REAL_PART,
    WHOLE,
    Calls,
    Form,
    InC,
    StridedArrays,
)
from infinitensor.native import CompilerError, address
from infinitensor.tasking.c.fold_loops import kept_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from infinitensor.ir.call_tables import Operands
    from infinitensor.tasking.kernels.c_kernel import Compiled, Walk
    from infinitensor.tasking.kernels.work_left import WorkLeft

ALIGNED_BYTES = 64
"""Bytes at whose multiples arrays begin."""
TASK_WORK = 1 << 13
"""The cost of starting a task from Python, as elements of a kernel."""


class Stand(NamedTuple):
    """Stands for an array of this shape and these strides."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int = 1


class Mapped(InC):
    """One call a task, on operands and outputs as the family has them.

    `left` says when compiling has paid for itself, if it is not worth it at once; `counts` is the
    work that a task is counted for here, if nobody else does.
    """

    def __init__(self, in_c: Compiled, left: WorkLeft | None = None, counts: int = 0) -> None:
        self.in_c = in_c
        self.together = in_c
        self._left = left
        self._counts = counts

    def is_due(self, n_tasks: int) -> bool:
        """Whether it is compiled, or is worth compiling for so many tasks and those before."""
        left = self._left
        if self.in_c.n_arrays > MOST_CALL_ARRAYS or self.in_c.packer.size > 8 * MOST_CALL_WORDS:
            return False
        if left is None:
            return True
        if self._counts and not left.is_done():
            left.spend(n_tasks * self._counts)
        return left.is_done()

    def begin(self) -> None:
        """Start to compile it."""
        if self._left is not None:
            self._left.begin()

    def calls(self, asked: Operands) -> Calls:
        """The calls of some tasks; those that have nothing to do have none."""
        in_c, ins = self.in_c, asked.ins
        shapes, written = self._space(asked)
        arrays = [*(ins[k] for k in in_c.arrays), *written]
        some = np.flatnonzero((shapes > 0).all(axis=1))
        rows = np.concatenate(
            [shapes, *(_align_strides(x, shapes.shape[1]) for x in arrays)], axis=1
        )[some]
        first, forms = kinds(rows)
        of = [_form(in_c, self._walk(rows[k], len(arrays)), len(arrays)) for k in first]
        words = np.stack(list(words_of(in_c, ins)), axis=1)[some] if in_c.scalars else None
        return Calls.one_each(forms, of, arrays, some, words)

    def _space(self, asked: Operands) -> tuple[np.ndarray, Sequence[StridedArrays]]:
        """The shape that each task walks, and the arrays that it writes."""
        return asked.outs[-1].shapes, asked.outs

    def _walk(self, row: np.ndarray, n_arrays: int) -> Walk:
        shape, *strides = (tuple(part.tolist()) for part in np.split(row, n_arrays + 1))
        n_plain, axes = self.in_c.n_plain, self.in_c.axes
        stands = [Stand(shape, each) for each in strides[:n_plain]]
        own = kept_shape(shape, axes)
        stands += [Stand(own, kept_shape(each, axes)) for each in strides[n_plain:]]
        walk = self.in_c.walk(stands, shape)
        if walk.scattered or not self._has_lines(strides[n_plain:]):
            raise CompilerError("C makes no copies of what a line goes through")
        return walk

    def _has_lines(self, strides: Sequence[tuple[int, ...]]) -> bool:
        """Whether lines that are kept are side by side in what folds write."""
        in_c = self.in_c
        if in_c.inner in in_c.axes:
            return True
        dtypes = [dtype for fold in in_c.folds for dtype in fold.parts]
        return all(e[in_c.inner] == d.itemsize for e, d in zip(strides, dtypes, strict=True))


class Reduced(Mapped):
    """One call a task that reduces rows of `n` elements, of spaces with `ndim` axes, each into one
    element of its last outputs; what is written beside is as large as the space.

    Where a place is looked for, the value there is written first, into the same element.
    """

    def __init__(self, in_c: Compiled, ndim: int, n: int, left: WorkLeft | None = None) -> None:
        super().__init__(in_c, left)
        self.together = self  # `reduced` has one for all rows of a length
        self._ndim = ndim
        self._n = n

    def _space(self, asked: Operands) -> tuple[np.ndarray, Sequence[StridedArrays]]:
        folds, outs = self.in_c.folds, asked.outs
        n_beside = len(outs) - len(folds)
        lead = outs[-1].shapes[:, : self._ndim - 1]
        last = np.full((len(lead), 1), self._n, np.int64)
        shapes = np.concatenate([lead, last], axis=1)
        written = list(outs[:n_beside])
        for fold, out in zip(folds, outs[n_beside:], strict=True):
            strides = np.concatenate([out.strides[:, : self._ndim - 1], 0 * last], axis=1)
            columns = StridedArrays(out.bases, out.offsets, shapes, strides)
            written += [columns] * len(fold.parts)
        return shapes, written


reduced = lru_cache(maxsize=1024)(Reduced)


class Folded(Mapped):
    """One call a task that reduces a box of a space, of which `lengths` has those of each task,
    into what the folds write."""

    def __init__(self, in_c: Compiled, lengths: np.ndarray, left: WorkLeft | None = None) -> None:
        super().__init__(in_c, left)
        self.together = None
        self._lengths = lengths

    def _space(self, asked: Operands) -> tuple[np.ndarray, Sequence[StridedArrays]]:
        shapes = self._lengths[asked.tasks]
        ndim = shapes.shape[1]
        kept = [axis for axis in range(ndim) if axis - ndim not in self.in_c.axes]
        n_beside = self.in_c.n_plain - len(self.in_c.arrays)
        written = list(asked.outs[:n_beside])
        for out in asked.outs[n_beside:]:
            strides = np.zeros_like(shapes)
            has_all = out.strides.shape[1] == ndim  # reduced axes too, of one element
            strides[:, kept] = out.strides[:, kept if has_all else slice(len(kept))]
            written.append(StridedArrays(out.bases, out.offsets, shapes, strides))
        return shapes, written


def _align_strides(arrays: StridedArrays, ndim: int) -> np.ndarray:
    """Steps along the axes of a space whose last ones an operand has: 0 where it is one long."""
    steps = np.zeros((len(arrays.bases), ndim), np.int64)
    own = arrays.strides.shape[1]
    if own:
        steps[:, ndim - own :] = np.where(arrays.shapes == 1, 0, arrays.strides)
    return steps


def kinds(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal rows: the first of each kind, and the kind of every row."""
    weights = np.random.default_rng(0).integers(1, 1 << 62, rows.shape[1]) | 1
    _, first, kind = np.unique(rows @ weights, return_index=True, return_inverse=True)
    if (rows != rows[first][kind]).any():  # two that differ have the same sum
        _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.reshape(-1)


def words_of(in_c: Compiled, ins: Any) -> Iterator[np.ndarray]:
    """The scalars of each task; `ins` has them by the operands of the kernel."""
    for k in in_c.scalars:
        numbers = 4 * np.asarray(ins[k], np.int64)
        kind = kind_of(in_c.inputs[k].dtype)
        if kind == "c":
            yield numbers + REAL_PART
            yield numbers + IMAGINARY_PART
        else:
            yield numbers + (REAL if kind == "f" else WHOLE)


def _form(in_c: Compiled, walk: Walk, n_arrays: int) -> Form:
    numbers, n_words = walk.numbers(in_c.source), in_c.packer.size // 8
    return Form(numbers, n_arrays, n_words, walk, in_c.shared_by(walk), len(in_c.arrays))


class Parts(NamedTuple):
    """The calls of tasks on parts of their sources and their output, wherever these are."""

    tasks: np.ndarray
    forms: np.ndarray
    of: list[Form]
    places: np.ndarray
    """Of each array of each call, the source or output that it is a part of."""
    offsets: np.ndarray
    scalars: np.ndarray
    """Of each scalar of each call: its task, and which of the family's columns it is."""


class Parted(InC):
    """Any number of calls a task, on parts of what it looks into and of its outputs.

    `calls_of(task, arrays)` says which: (kernel, operands, output), None for a scalar; where a
    kernel has several outputs, all but the last are among the operands.
    """

    def __init__(
        self,
        mapped: Mapped,
        calls_of: Callable[[int, list[np.ndarray]], Iterator[tuple[Compiled, list[Any], Any]]],
        dtypes: Callable[[int], list[np.dtype[Any]]],
    ) -> None:
        self._mapped = mapped
        self._calls_of = calls_of
        self._dtypes = dtypes
        self._found: dict[Any, Parts] = {}

    def is_due(self, n_tasks: int) -> bool:
        """As of the kernel."""
        return self._mapped.is_due(n_tasks)

    def begin(self) -> None:
        """Start to compile the kernel."""
        self._mapped.begin()

    def calls(self, asked: Operands) -> Calls:
        """The calls of some tasks; worked out once for all families that have the same strides."""
        assert asked.many is not None
        borders, sources = asked.many
        every = (sources, *asked.outs)
        columns = [column for arrays in every for column in (arrays.shapes, arrays.strides)]
        key = (asked.tasks.tobytes(), *(column.tobytes() for column in columns))
        parts = self._found.get(key)
        if parts is None:
            parts = self._found[key] = self._parts(asked.tasks, borders, sources, asked.outs)
        bases = np.concatenate([arrays.bases for arrays in every])[parts.places]
        offsets = np.concatenate([arrays.offsets for arrays in every])[parts.places]
        offsets = offsets + parts.offsets
        numbers = np.zeros(0, np.int64)
        if len(parts.scalars):
            in_c = self._mapped.in_c  # all columns of the family are scalars
            numbered = dict(zip(in_c.scalars, asked.ins, strict=True))
            given = np.stack(list(words_of(in_c, numbered)), axis=1)
            numbers = given[parts.scalars[:, 0], parts.scalars[:, 1]]
        return Calls(parts.tasks, parts.forms, parts.of, bases, offsets, numbers)

    def _parts(
        self,
        tasks: np.ndarray,
        borders: np.ndarray,
        sources: StridedArrays,
        outs: Sequence[StridedArrays],
    ) -> Parts:
        n_sources = len(sources.bases)
        of: dict[int, tuple[int, Form]] = {}
        columns: tuple[list[int], ...] = ([], [], [], [])
        scalars: list[tuple[int, int]] = []
        every = [one for arrays in (sources, *outs) for one in strided(arrays)]
        for j, i in enumerate(tasks.tolist()):
            own = [*range(borders[j], borders[j + 1])]
            own += range(n_sources + j, len(every), len(tasks))
            stands, ends = stand_ins([every[k] for k in own], self._dtypes(i))
            firsts = list(map(address, stands))
            for in_c, operands, target in self._calls_of(i, stands):
                tiles = [*(x for x in operands if x is not None), target]
                walk = in_c.walk(tiles, target.shape)
                found = of.get(id(walk))
                if found is None:
                    found = of[id(walk)] = (len(of), _form(in_c, walk, len(tiles)))
                columns[0].append(j)
                columns[1].append(found[0])
                for tile in tiles:
                    at = address(tile)
                    place = bisect_right(ends, at)
                    columns[2].append(own[place])
                    columns[3].append(at - firsts[place])
                if in_c.scalars:
                    scalars += [(j, k) for k in range(in_c.packer.size // 8)]
        calls, forms, places, offsets = (np.asarray(column, np.int64) for column in columns)
        pairs = np.asarray(scalars, np.int64).reshape(-1, 2)
        return Parts(calls, forms, [form for _, form in of.values()], places, offsets, pairs)


def strided(arrays: StridedArrays) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes and strides, without axes that an array does not have."""
    found = []
    for shape, strides in zip(arrays.shapes.tolist(), arrays.strides.tolist(), strict=True):
        ndim = len([n for n in shape if n >= 0])
        found.append((tuple(shape[:ndim]), tuple(strides[:ndim])))
    return found


def stand_ins(
    whole: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], dtypes: Sequence[np.dtype[Any]]
) -> tuple[list[np.ndarray], list[int]]:
    """Arrays of those shapes and strides, one behind another in memory that nobody uses; where each
    ends, as an address."""
    places, n_bytes = [], 0
    for (shape, strides), dtype in zip(whole, dtypes, strict=True):
        steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
        places.append(n_bytes - sum(step for step in steps if step < 0))
        n_bytes += -(-(dtype.itemsize + sum(map(abs, steps))) // ALIGNED_BYTES) * ALIGNED_BYTES
        places.append(n_bytes)
    memory = np.empty(n_bytes, np.uint8)
    begin = address(memory)
    stands = [
        np.ndarray(shape, dtype, memory, at, strides)
        for (shape, strides), dtype, at in zip(whole, dtypes, places[::2], strict=True)
    ]
    return stands, [begin + end for end in places[1::2]]

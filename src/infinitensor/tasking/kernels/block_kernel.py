"""Several generated kernels on one block of rows after another, in one call.

What one kernel leaves for the next is a block that stays in cache, so a tile is read from memory
once and written once however many passes its rows need.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.native import address, library
from infinitensor.tasking.c.loops import header
from infinitensor.tasking.kernels.c_calls import stand_ins
from infinitensor.tasking.kernels.c_kernel import entry, strides_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from infinitensor.tasking.kernels.c_kernel import Compiled, Walk

CACHE_BLOCK_BYTES = 1 << 17
"""Bytes of all arrays in a block of rows: what a core's own cache holds with room to spare."""
LEAST_BLOCK_ROWS = 1024
"""Rows of a block at least, if they take no more than twice that: kernels have to begin."""


class Stage(NamedTuple):
    """One kernel: the places of its operands and outputs among all arrays and scalars, and the axes
    that its space has behind those that are walked in blocks."""

    in_c: Any
    """`Compiled` or `Few`."""
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    tail: tuple[int, ...]
    rows_of: tuple[int, ...] = ()
    """For each array how many rows each of its first axis is for, where that is not one; 0: the
    whole array is for all of them."""


class Buffer(NamedTuple):
    """An array between two stages: one value a row, or several."""

    dtype: np.dtype[Any]
    tail: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return prod(self.tail) * self.dtype.itemsize


class Some(NamedTuple):
    """Blocks of one size in tiles that have the same strides: for each stage its walk and, block by
    block, how far into every array it is."""

    n_blocks: int
    walks: list[Walk]
    offsets: list[np.ndarray]


class Blocks:
    """`blocks(arrays, lead)`: run the stages over a tile of which these axes are walked in blocks.

    `arrays` has operands (scalars among them) and outputs; the buffers come behind. `rows` are
    places of one value a row, in arrays without the last axis.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        buffers: Sequence[Buffer],
        rows: frozenset[int],
        scratch: Callable[[int, tuple[int, ...], np.dtype[Any]], np.ndarray],
    ) -> None:
        self.stages = stages
        self.buffers = buffers
        self.rows = rows
        self.scratch = scratch
        self.prepared: dict[Any, tuple[tuple[int, ...], list[Some]]] = {}
        self.places = [
            (*(stage.ins[k] for k in stage.in_c.arrays), *stage.outs) for stage in stages
        ]

    def __call__(self, arrays: Sequence[Any], lead: tuple[int, ...]) -> None:
        key = (lead, *[(x.shape, x.strides) for x in arrays if isinstance(x, np.ndarray)])
        found = self.prepared.get(key)
        if found is None:
            if len(self.prepared) > 64:
                self.prepared.clear()
            found = self.prepared[key] = self.prepare(arrays, lead)
        every = [*arrays, *self.between(found[0], self.scratch)]
        begin = [np.asarray([address(every[k]) for k in places]) for places in self.places]
        scalars = [
            np.frombuffer(stage.in_c.pack([every[stage.ins[k]] for k in stage.in_c.scalars]), "u1")
            for stage in self.stages
        ]
        for some in found[1]:
            table = [
                (*_numbers(stage.in_c, walk), len(at), address(at), address(into))
                for stage, walk, at, into in zip(
                    self.stages, some.walks, begin, some.offsets, strict=True
                )
            ]
            numbers = np.asarray(table, np.int64)
            numbers[:, 6] = [address(values) for values in scalars]
            driver()(some.n_blocks, len(table), address(numbers))

    def between(
        self, block: tuple[int, ...], make: Callable[[int, tuple[int, ...], Any], np.ndarray]
    ) -> list[np.ndarray]:
        """The buffers, for a block."""
        return [
            make(k, (*block, *buffer.tail), buffer.dtype) for k, buffer in enumerate(self.buffers)
        ]

    def prepare(
        self, arrays: Sequence[Any], lead: tuple[int, ...]
    ) -> tuple[tuple[int, ...], list[Some]]:
        """The shape of a block; whole blocks, and those at the ends of axes."""
        block = block_shape(lead, self.row_bytes(arrays, len(lead)))
        together = [n for stage in self.stages for n in stage.rows_of if n > 1]
        if together:  # no block is for two elements
            block = (min(block[0], *together),)
        every = [*arrays, *self.between(block, lambda _, n, dtype: np.empty(n, dtype))]
        found = []
        for corners, size in corners_of(lead, block):
            walks, offsets = [], []
            for stage, places in zip(self.stages, self.places, strict=True):
                into = np.zeros((len(corners), len(places)), np.int64)
                tiles = []
                for at, k in enumerate(places):
                    x, ndim = every[k], len(size) + len(stage.tail)
                    n_rows = stage.rows_of[at] if stage.rows_of else 1
                    if n_rows != 1:
                        if n_rows:
                            into[:, at] = corners[:, 0] // n_rows * x.strides[0]
                        tiles.append(x)
                        continue
                    if k in self.rows:
                        if at >= stage.in_c.n_plain:
                            ndim = len(size)
                        x = x.reshape(x.shape + (1,) * (ndim - len(size)))
                    if k < len(arrays):
                        steps = strides_of(x, ndim, ())[: len(size)]
                        into[:, at] = corners @ np.asarray(steps, np.int64)
                    tiles.append(_first(x, ndim, size))
                offsets.append(into)
                walks.append(stage.in_c.walk(tiles, (*size, *stage.tail)))
            found.append(Some(len(corners), walks, offsets))
        return block, found

    def row_bytes(self, arrays: Sequence[Any], n_lead: int) -> int:
        """Bytes of all that a row is in, what several stages read counted once."""
        given = [x for x in arrays if isinstance(x, np.ndarray)]
        apart: dict[Any, int] = {
            (address(x), x.strides): prod(x.shape[n_lead:]) * x.itemsize for x in given
        }
        return sum(buffer.row_bytes for buffer in self.buffers) + sum(apart.values())


class Script:
    """Kernels one after another on parts of some arrays, in one call; for other arrays that are
    alike."""

    def __init__(
        self,
        arrays: Sequence[np.ndarray],
        calls_of: Callable[[list[np.ndarray]], Iterable[tuple[Compiled, list[Any], Any]]],
    ) -> None:
        """`calls_of(arrays)` are (kernel, operands, output): None for a scalar, else a part of an
        array. At most one kernel has scalars.

        It is asked with stand-ins that do not overlap: tiles may be between each other's rows.
        """
        stands, ends = stand_ins([(x.shape, x.strides) for x in arrays], [x.dtype for x in arrays])
        firsts = list(map(address, stands))
        calls = list(calls_of(stands))
        self.walks: list[Walk] = []
        self.scalars = next((in_c for in_c, _, _ in calls if in_c.scalars), None)
        places: list[int] = []
        offsets: list[int] = []
        table = []
        for in_c, ins, out in calls:
            tiles = [*(x for x in ins if x is not None), out]
            walk = in_c.walk(tiles, out.shape)
            self.walks.append(walk)
            at = 8 * (12 * len(calls) + len(places))
            table.append((*_numbers(in_c, walk), len(tiles), at, 0))
            for tile in tiles:
                at = address(tile)
                places.append(bisect_right(ends, at))
                offsets.append(at - firsts[places[-1]])
        self.n_calls = len(calls)
        self.places = np.asarray(places)
        n_scalars = 0 if self.scalars is None else self.scalars.packer.size // 8
        self.zeros = np.zeros(max(row[9] for row in table), np.int64)
        self.numbers = np.asarray([*sum(table, ()), *offsets, *[0] * n_scalars], np.int64)
        rows = self.rows(self.numbers)
        rows[:, 6] = 8 * (rows.size + len(places))
        rows[:, 11] = address(self.zeros)

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """The stages that all numbers begin with; then come pointers and scalars."""
        return numbers[: 12 * self.n_calls].reshape(-1, 12)

    def __call__(self, arrays: Sequence[np.ndarray], scalars: Sequence[Any]) -> None:
        """Run it."""
        numbers = self.numbers.copy()
        at = address(numbers)
        rows = self.rows(numbers)
        rows[:, 6:11:4] += at  # scalars and pointers follow
        begin = np.asarray([address(x) for x in arrays])
        numbers[rows.size : rows.size + len(self.places)] += begin[self.places]
        if self.scalars is not None:
            values = np.frombuffer(self.scalars.pack(list(scalars)), np.int64)
            numbers[rows.size + len(self.places) :] = values
        driver()(1, self.n_calls, at)


def _numbers(in_c: Compiled, walk: Walk) -> tuple[int, ...]:
    """The numbers of a stage: its function and its walk; scalars come later."""
    function = ctypes.cast(entry(in_c.source), ctypes.c_void_p).value or 0
    return (
        function, walk.n_rows, walk.n, walk.n_outer, ctypes.addressof(walk.shape),
        ctypes.addressof(walk.steps), 0, ctypes.addressof(walk.folded), walk.n_same,
    )  # fmt: skip


def driver() -> Any:
    """The function that runs stages over blocks."""
    run = library(header("block_kernel.c")).run
    if run.argtypes is None:
        run.restype = None
        run.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return run


def block_shape(lead: tuple[int, ...], row_bytes: int) -> tuple[int, ...]:
    """As many rows as fit: trailing axes whole, one cut by a power of two, the rest one by one.

    >>> block_shape((1000, 6), 4096), block_shape((5000,), 1000), block_shape((5000,), 200)
    ((4, 6), (128,), (1024,))
    """
    is_short = LEAST_BLOCK_ROWS * row_bytes <= 2 * CACHE_BLOCK_BYTES
    left = max(CACHE_BLOCK_BYTES // max(row_bytes, 1), LEAST_BLOCK_ROWS if is_short else 1)
    block: list[int] = []
    for n in reversed(lead):
        block.append(n if n <= left else 1 << (left.bit_length() - 1))
        left = max(left // max(n, 1), 1)
    return tuple(reversed(block))


def corners_of(
    shape: tuple[int, ...], block: tuple[int, ...]
) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """First elements of blocks by their size: whole ones, then those that are cut short.

    >>> [(corners.tolist(), size) for corners, size in corners_of((2, 5), (1, 4))]
    [([[0, 0], [1, 0]], (1, 4)), ([[0, 4], [1, 4]], (1, 1))]
    """
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for corner in product(*(range(0, n, b) for n, b in zip(shape, block, strict=True))):
        size = tuple(min(b, n - at) for at, b, n in zip(corner, block, shape, strict=True))
        found.setdefault(size, []).append(corner)
    return [(np.asarray(corners, np.int64), size) for size, corners in found.items()]


def _first(x: np.ndarray, ndim: int, size: tuple[int, ...]) -> np.ndarray:
    """The first block of an array whose axes are the last of `ndim` ones."""
    index = [
        slice(0, n if x.shape[axis - ndim] != 1 else 1)
        for axis, n in enumerate(size)
        if ndim - axis <= x.ndim
    ]
    return x[tuple(index)]


def scratch_bytes(buffers: Sequence[Buffer]) -> int:
    """Bytes that a task allocates at most: its buffers, for a block of rows or one long row."""
    row = sum(buffer.row_bytes for buffer in buffers)
    return max(2 * CACHE_BLOCK_BYTES, row) + 64 * len(buffers)

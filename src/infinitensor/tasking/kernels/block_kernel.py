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

from infinitensor.native import address
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


class Sets(NamedTuple):
    """How blocks of all sizes in tiles that have the same strides are walked."""

    block: tuple[int, ...]
    """The shape of a whole block."""
    numbers: np.ndarray
    """As C takes them: how many blocks each set has, and where its stages are."""
    held: list[Any]
    """What is at the addresses in it."""


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
        self.prepared: dict[Any, Sets] = {}
        self.places = [
            (*(stage.ins[k] for k in stage.in_c.arrays), *stage.outs) for stage in stages
        ]
        self.scalars = [stage.ins[k] for stage in stages for k in stage.in_c.scalars]
        sizes = [stage.in_c.packer.size if stage.in_c.scalars else 0 for stage in stages]
        self.scalars_at = [sum(sizes[:s]) for s in range(len(sizes) + 1)]
        """How far into the bytes of all scalars those of each stage are; how many there are."""

    @property
    def sources(self) -> tuple[str, ...]:
        """All C that it runs."""
        return (header("block_kernel.c"), *(stage.in_c.source for stage in self.stages))

    def __call__(self, arrays: Sequence[Any], lead: tuple[int, ...]) -> None:
        given = self.arrays_of(arrays)
        key = (lead, *[(x.shape, x.strides) for x in given])
        found = self.prepared.get(key)
        if found is None:
            if len(self.prepared) > 64:
                self.prepared.clear()
            found = self.prepared[key] = self.prepare(arrays, lead)
        given += self.between(found.block, self.scratch)
        pointers = (ctypes.c_void_p * len(given))(*map(address, given))
        scalars = b"".join(
            stage.in_c.pack([arrays[stage.ins[k]] for k in stage.in_c.scalars])
            for stage in self.stages
        )
        n_sets = len(found.numbers)
        at = address(found.numbers)
        driver()(n_sets, len(self.stages), len(given), at, pointers, None, scalars, None, 0)

    def arrays_of(self, given: Sequence[Any]) -> list[Any]:
        """What is given, without scalars."""
        return [x for k, x in enumerate(given) if k not in self.scalars]

    def between(
        self, block: tuple[int, ...], make: Callable[[int, tuple[int, ...], Any], np.ndarray]
    ) -> list[np.ndarray]:
        """The buffers, for a block."""
        return [
            make(k, (*block, *buffer.tail), buffer.dtype) for k, buffer in enumerate(self.buffers)
        ]

    def prepare(self, arrays: Sequence[Any], lead: tuple[int, ...]) -> Sets:
        """Whole blocks, and those at the ends of axes."""
        block = block_shape(lead, self.row_bytes(arrays, len(lead)))
        together = [n for stage in self.stages for n in stage.rows_of if n > 1]
        if together:  # no block is for two elements
            block = (min(block[0], *together),)
        every = [*arrays, *self.between(block, lambda _, n, dtype: np.empty(n, dtype))]
        number = {k: at for at, k in enumerate(self.arrays_of(range(len(every))))}
        which = [np.asarray([number[k] for k in places], np.int64) for places in self.places]
        sets, held = [], [which]
        for corners, size in corners_of(lead, block):
            rows = []
            for s, stage in enumerate(self.stages):
                walk, into = self.walk(s, every, corners, size)
                walked = _numbers(stage.in_c, walk, self.scalars_at[s])
                rows.append((*walked, len(which[s]), address(which[s]), address(into)))
                held.append([walk, into])
            table = np.asarray(rows, np.int64)
            held.append([table])
            sets.append((len(corners), address(table)))
        return Sets(block, np.asarray(sets, np.int64), held)

    def walk(
        self, s: int, every: Sequence[Any], corners: np.ndarray, size: tuple[int, ...]
    ) -> tuple[Any, np.ndarray]:
        """How a stage walks blocks of a size, and how far into each of its arrays they are."""
        stage, places = self.stages[s], self.places[s]
        n_given = len(every) - len(self.buffers)
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
            if k < n_given:
                steps = strides_of(x, ndim, ())[: len(size)]
                into[:, at] = corners @ np.asarray(steps, np.int64)
            tiles.append(_first(x, ndim, size))
        return stage.in_c.walk(tiles, (*size, *stage.tail)), into

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
        self.scalars = next((in_c for in_c, _, _ in calls if in_c.scalars), None)
        self.held: list[Any] = []
        rows = []
        for in_c, ins, out in calls:
            tiles = [*(x for x in ins if x is not None), out]
            walk = in_c.walk(tiles, out.shape)
            which = np.asarray([bisect_right(ends, address(tile)) for tile in tiles])
            into = np.asarray([address(x) - firsts[k] for x, k in zip(tiles, which, strict=True)])
            rows.append((*_numbers(in_c, walk, 0), len(tiles), address(which), address(into)))
            self.held.append((walk, which, into))
        self.table = np.asarray(rows, np.int64)
        self.sets = np.asarray([(1, address(self.table))], np.int64)

    def __call__(self, arrays: Sequence[np.ndarray], scalars: Sequence[Any]) -> None:
        """Run it."""
        pointers = (ctypes.c_void_p * len(arrays))(*map(address, arrays))
        values = b"" if self.scalars is None else self.scalars.pack(list(scalars))
        n_calls, at = len(self.table), address(self.sets)
        driver()(1, n_calls, len(arrays), at, pointers, None, values, None, 0)


def _numbers(in_c: Compiled, walk: Walk, scalars_at: int) -> tuple[int, ...]:
    """The numbers of a stage: its function, its walk, and where its scalars are."""
    function = ctypes.cast(entry(in_c.source), ctypes.c_void_p).value or 0
    return (
        function, walk.n_rows, walk.n, walk.n_outer, ctypes.addressof(walk.shape),
        ctypes.addressof(walk.steps), scalars_at, ctypes.addressof(walk.folded), walk.n_same,
    )  # fmt: skip


def driver() -> Any:
    """The function that runs stages over blocks."""
    return entry(header("block_kernel.c"))


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

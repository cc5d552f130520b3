"""A group's steps as generated C: which arrays and scalars a call of it gets."""

from __future__ import annotations

import ctypes
import struct
from functools import cache, lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import kind_of
from infinitensor.events import lane
from infinitensor.ir.call_tables import (
    ALONE,
    BY_LINES,
    BY_ROWS,
    MOST_CALL_ARRAYS,
    N_FORM,
    N_TIMES,
)
from infinitensor.native import address, fixed_library, library
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.c.loops import C_BLOCK_ELEMENTS, MOST_KEPT, source_of
from infinitensor.tasking.c.rolled_blocks import rolled_source_of
from infinitensor.tasking.c.rolled_steps import loops_of, refuse_long
from infinitensor.tasking.c.short_rows import short_source_of
from infinitensor.threads import n_sharing, share_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.tasking.c.fold_loops import Fold

ROW_CHUNK_ELEMENTS = 64
"""Elements of each row that are computed together, where neighbours in memory are in many rows: so
many lines of them stay in the nearest cache."""
MOST_CHUNK_ELEMENTS = 256
"""The same of few rows, which fill a block together."""


LEAST_ROLLED = 64
"""Steps of a group from which its repeats are loops."""
STARTED_ELEMENTS = 1 << 14
"""Elements from which a kernel that Python starts, outside of workers, may be shared."""


@lru_cache(maxsize=1024)
def compiled_kernel(
    parts: tuple[GroupStep, ...],
    inputs: tuple[Input, ...],
    n_outs: int,
    folds: tuple[Fold, ...] = (),
    axes: tuple[int, ...] = (),
    line: tuple[int, ...] = (-1,),
    short: bool = False,
) -> Compiled:
    """The steps of a group in one pass; compiled at its first call."""
    return Compiled(parts, inputs, n_outs, folds, axes, line, short)


def copy_kernel(dtype: np.dtype[Any]) -> Compiled:
    """One array into another."""
    step = GroupStep(Term("cast", (Arg(0),)), (dtype,), (("in", 0),), dtype, 0)
    return compiled_kernel((step,), (Input(dtype, False, False),), 1)


class Compiled:
    """`compiled(ins, outs, shape)`: behind the outputs come the partial results of folds, without
    the reduced axes. These and the axes of the inner loop are counted from the last."""

    def __init__(
        self,
        parts: tuple[GroupStep, ...],
        inputs: tuple[Input, ...],
        n_outs: int,
        folds: tuple[Fold, ...],
        axes: tuple[int, ...],
        line: tuple[int, ...],
        short: bool,
    ) -> None:
        self.short = short
        self.source = _source(parts, inputs, n_outs, folds, short)
        self.inputs, self.folds, self.axes, self.line = inputs, folds, axes, line
        self.inner = line[-1]
        self.scalars = [k for k, given in enumerate(inputs) if given.scalar]
        kinds = [kind_of(inputs[k].dtype) for k in self.scalars]
        self.packer = struct.Struct("".join({"f": "d", "c": "dd"}.get(kind, "q") for kind in kinds))
        self.wide = [at for at, kind in enumerate(kinds) if kind in "bu"]
        self.in_parts = "c" in kinds
        self.arrays = [k for k, given in enumerate(inputs) if given.is_array]
        self.n_plain = len(self.arrays) + n_outs
        self.n_arrays = self.n_plain + sum(len(fold.parts) for fold in folds)
        self.keeps_places = any(fold.finds and not fold.along for fold in folds)
        self.keeps_last = bool(folds) or any(given.row for given in inputs)
        self.walks: dict[Any, Walk] = {}

    def __call__(self, ins: Sequence[Any], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
        function = entry(self.source)
        tiles = [np.asarray(ins[k]) for k in self.arrays]  # an element of an array has no address
        tiles += outs
        walk = self.walk(tiles, shape)
        for k in walk.scattered:
            tiles[k] = np.ascontiguousarray(tiles[k])
        pointers = (ctypes.c_void_p * len(tiles))(*[address(tile) for tile in tiles])
        scalars = self.pack([ins[k] for k in self.scalars])
        n_threads = 1 if lane.is_worker or walk.n_rows * walk.n < STARTED_ELEMENTS else n_sharing()
        if n_threads < 2 or not self._call_shared(walk, pointers, scalars, n_threads):
            walk.call(function, pointers, scalars)
        for k in walk.scattered:
            if k >= len(self.arrays):
                np.copyto(outs[k - len(self.arrays)], tiles[k])

    def _call_shared(self, walk: Walk, pointers: Any, scalars: bytes, n_threads: int) -> bool:
        """Walk it with other threads, if that takes less time; False, and nothing done, where it
        cannot be parted."""
        if walk.form is None:
            walk.by = self.shared_by(walk) if self.n_arrays <= MOST_CALL_ARRAYS else ALONE
            row = (*walk.numbers(self.source), self.n_arrays, self.packer.size // 8)
            walk.form = (ctypes.c_int64 * N_FORM)(*row, walk.by, len(self.arrays))
        if walk.by == ALONE:
            return False
        found = _sharing()
        if found is not None:
            call, share_parts = found
            call(share_parts, walk.form, pointers, scalars, n_threads, walk.times)
        return found is not None

    def shared_by(self, walk: Walk) -> int:
        """Along what threads may share a call: rows that nothing reduces, or lines that no fold
        goes along, whichever gives more pieces."""
        has_rows = walk.n_outer > 0 and not walk.folded[0]
        has_lines = not any(fold.along for fold in self.folds)
        if has_rows and has_lines:
            return BY_ROWS if walk.shape[0] >= walk.n // C_BLOCK_ELEMENTS else BY_LINES
        return BY_ROWS if has_rows else BY_LINES if has_lines else ALONE

    def walk(self, tiles: Sequence[Any], shape: tuple[int, ...]) -> Walk:
        """The walk over tiles like these."""
        # what stands for an array does not know how large its elements are
        key = (shape, type(tiles[0]), *[(tile.shape, tile.strides) for tile in tiles])
        found = self.walks.get(key)
        if found is None:
            if len(self.walks) > 64:
                self.walks.clear()
            how = (self.keeps_last, self.keeps_places, self.axes, self.n_plain, self.line)
            found = Walk(shape, tiles, *how)
            self.walks[key] = found
        return found

    def pack(self, values: list[Any]) -> bytes:
        """Scalars as the function reads them."""
        for at in self.wide:  # Python's integers have no top bit, NumPy's booleans are none
            values[at] = int(values[at]) - (int(values[at]) >> 63 << 64)
        if self.in_parts:
            values = [
                part
                for k, value in zip(self.scalars, values, strict=True)
                for part in (
                    (value.real, value.imag) if self.inputs[k].dtype.kind == "c" else (value,)
                )
            ]
        return self.packer.pack(*values)


def _source(
    parts: tuple[GroupStep, ...],
    inputs: tuple[Input, ...],
    n_outs: int,
    folds: tuple[Fold, ...],
    short: bool,
) -> str:
    """The C of a group; with loops only where that leaves much less to compile."""
    if short:
        return short_source_of(parts, inputs, n_outs, folds)
    if not folds and len(parts) > LEAST_ROLLED:
        loops = loops_of(parts, inputs)
        refuse_long(len(parts), loops)
        if loops:
            return rolled_source_of(parts, inputs, n_outs)
    return source_of(parts, inputs, n_outs, folds)


@cache
def _sharing() -> tuple[Any, int] | None:
    """How C calls with threads, and how parts are shared; None where that cannot be had."""
    share_parts = share_address("share_parts")
    if not share_parts:
        return None
    call = fixed_library("runtime/native/c_program").call_shared
    call.restype = None
    call.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p]
    return call, share_parts


def entry(source: str) -> Any:
    """The one function of a generated source."""
    run = library(source).run
    if run.argtypes is None:
        run.restype = None
        run.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 5 + [ctypes.c_int64]
    return run


class Walk:
    """How a shape is walked over arrays: a line inside, neighbours that have the same strides as
    one.

    Along reduced axes the walk is the same for every tile of a shape, because it decides the order
    of rounding (`fold_order.py`): a line is no more and no less than its axes, and arrays in which
    they are not one (`scattered`) are brought together first. What becomes one element is walked
    line after line.
    """

    __slots__ = (
        "by", "folded", "form", "n", "n_outer", "n_rows", "n_same", "scattered", "shape", "steps",
        "times",
    )  # fmt: skip

    def numbers(self, source: str) -> tuple[int, ...]:
        """The function of a source and the walk, as C takes them."""
        function = ctypes.cast(entry(source), ctypes.c_void_p).value or 0
        addresses = map(ctypes.addressof, (self.shape, self.steps, self.folded))
        return (function, self.n_rows, self.n, self.n_outer, *addresses, self.n_same)

    def call(self, function: Any, pointers: Any, scalars: bytes) -> None:
        """Walk it."""
        function(
            self.n_rows, self.n, self.n_outer, self.shape, pointers, self.steps, scalars,
            self.folded, self.n_same,
        )  # fmt: skip

    def __init__(
        self,
        shape: tuple[int, ...],
        tiles: Sequence[Any],
        keeps_last: bool,
        keeps_places: bool,
        axes: tuple[int, ...],
        n_plain: int,
        line: tuple[int, ...],
    ) -> None:
        self.form: Any = None
        """As threads share it, once they are to: `Form` in `c_program.c`."""
        self.by = ALONE
        """Along what they share it, then."""
        self.times = (ctypes.c_int64 * N_TIMES)()
        """What it took of late: `Times` in `threads.h`."""
        axes = tuple(a + len(shape) for a in axes)
        along = [a + len(shape) for a in line if a + len(shape) >= 0]
        walked = [a for a, n in enumerate(shape) if n != 1 and a not in along]
        if along and (along[-1] in axes or keeps_places):
            walked.sort(key=lambda a: a in axes)
        long = [a for a in along if shape[a] != 1]
        along = long or (along[-1:] if keeps_last else [])
        walked += along
        self.scattered: list[int] = []
        strides = [
            strides_of(tile, len(shape), axes if k >= n_plain else ())
            for k, tile in enumerate(tiles)
        ]
        if axes:
            for k, tile in enumerate(tiles[:n_plain]):
                if not _is_one(strides[k], shape, along):
                    self.scattered.append(k)
                    strides[k] = strides_of(np.empty(tile.shape, np.bool_), len(shape), ())
                    strides[k] = [s * tile.itemsize for s in strides[k]]
        merged: list[tuple[int, list[int], bool]] = []
        for a in reversed(walked):
            outer = [s[a] for s in strides]
            is_before_line = along and len(merged) == 1 and a not in along and a in axes
            if merged and merged[-1][2] == (a in axes) and not is_before_line:
                n, within, _ = merged[-1]
                is_one = a in along or any(within)
                if is_one and all(s == t * n for s, t in zip(outer, within, strict=True)):
                    merged[-1] = (shape[a] * n, within, a in axes)
                    continue
            merged.append((shape[a], outer, a in axes))
        if not merged:
            merged.append((1, [0] * len(tiles), False))
        merged.reverse()
        self.n = merged[-1][0]
        self.n_outer = len(merged) - 1
        lengths = [n for n, _, _ in merged[:-1]]
        self.n_rows = prod(lengths)
        self.n_same = 1
        for n, _, is_folded in reversed(merged[:-1]):
            if not is_folded:
                break
            self.n_same *= n
        steps = [s for _, strides, _ in merged for s in strides]
        self.shape = (ctypes.c_int64 * (len(lengths) + 1))(*lengths, self.chunk(merged))
        self.folded = (ctypes.c_int64 * max(len(lengths), 1))(*[f for _, _, f in merged[:-1]])
        self.steps = (ctypes.c_int64 * len(steps))(*steps)

    def chunk(self, merged: Sequence[tuple[int, list[int], bool]]) -> int:
        """Elements of each row that are computed before the next part of any: all, but where
        neighbours in memory are in different rows."""
        is_transposed = any(
            0 < abs(outer) < abs(inner)
            for _, strides, _ in merged[:-1]
            for outer, inner in zip(strides, merged[-1][1], strict=True)
        )
        if not is_transposed:
            return self.n
        if not merged[-1][2]:
            return max(
                ROW_CHUNK_ELEMENTS, min(C_BLOCK_ELEMENTS // merged[-2][0], MOST_CHUNK_ELEMENTS)
            )
        return C_BLOCK_ELEMENTS if self.n_same == 1 and merged[-2][0] <= MOST_KEPT else self.n


def strides_of(tile: Any, ndim: int, axes: tuple[int, ...]) -> list[int]:
    """The step along each axis of a shape: 0 where one value stands for all, or is reduced to."""
    kept = [a for a in range(ndim) if a not in axes]
    found = [0] * ndim
    for axis, n, stride in zip(
        reversed(kept), reversed(tile.shape), reversed(tile.strides), strict=False
    ):
        found[axis] = int(stride) if n != 1 else 0
    return found


def _is_one(strides: list[int], shape: tuple[int, ...], along: list[int]) -> bool:
    """Whether the axes of a line can be walked as one."""
    return all(strides[a] == strides[b] * shape[b] for a, b in pairwise(along))

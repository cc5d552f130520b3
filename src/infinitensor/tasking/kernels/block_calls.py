"""Kernels on blocks of rows as calls that C makes: one a task, with the buffers on its stack."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.call_tables import MOST_CALL_ARRAYS, MOST_CALL_WORDS, Calls, Form, InC
from infinitensor.native import address
from infinitensor.tasking.kernels.block_kernel import CACHE_BLOCK_BYTES, driver
from infinitensor.tasking.kernels.c_calls import (
    ALIGNED_BYTES,
    kinds,
    stand_ins,
    strided,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.call_tables import Operands, StridedArrays
    from infinitensor.tasking.kernels.block_kernel import Blocks, Sets
    from infinitensor.tasking.kernels.work_left import WorkLeft

MOST_ROOM_BYTES = 2 * CACHE_BLOCK_BYTES
"""Bytes of the buffers of a block at most: they are on the stack of a thread."""


class BlockCalls(InC):
    """Stages over blocks of the rows that each task has: `leads` are the lengths of the axes that
    are walked in blocks, `dtypes` those of all operands and outputs."""

    def __init__(
        self,
        blocks: Blocks,
        leads: Sequence[tuple[int, ...]],
        dtypes: Sequence[np.dtype[Any]],
        left: WorkLeft | None,
    ) -> None:
        self._blocks = blocks
        self._leads = leads
        self._dtypes = dtypes
        self._left = left

    def is_due(self, n_tasks: int) -> bool:
        """Whether all stages are compiled, or are worth it."""
        n_arrays, n_bytes = len(self._dtypes), self._blocks.scalars_at[-1]
        if n_arrays > MOST_CALL_ARRAYS or n_bytes > 8 * MOST_CALL_WORDS:
            return False
        rows = [buffer.row_bytes for buffer in self._blocks.buffers]
        if sum(rows) + ALIGNED_BYTES * len(rows) > MOST_ROOM_BYTES:
            return False
        return self._left is None or self._left.is_done()

    def begin(self) -> None:
        """Start to compile the stages."""
        if self._left is not None:
            self._left.begin()

    def calls(self, asked: Operands) -> Calls:
        """A call for each of some tasks; none for those that have no rows."""
        blocks = self._blocks
        given = blocks.arrays_of([*asked.ins, *asked.outs])
        leads = [self._leads[i] for i in asked.tasks.tolist()]
        some = np.asarray([j for j, lead in enumerate(leads) if 0 not in lead], np.int64)
        rows = np.concatenate([np.asarray(leads), *map(_numbers, given), *_same(given)], axis=1)
        first, forms = kinds(rows[some])
        of = [self._form(leads[j], asked, j) for j in some[first].tolist()]
        words = np.stack(self._words(asked), axis=1)[some] if blocks.scalars else None
        return Calls.one_each(forms, of, given, some, words)

    def _words(self, asked: Operands) -> list[np.ndarray]:
        """The scalars of each task, stage after stage."""
        found: list[np.ndarray] = []
        for stage in self._blocks.stages:
            own = {k: asked.ins[stage.ins[k]] for k in stage.in_c.scalars}
            found += words_of(stage.in_c, own)
        return found

    def _form(self, lead: tuple[int, ...], asked: Operands, j: int) -> Form:
        """How the rows of a task are walked; arrays in one place are one, as in memory."""
        blocks, places = self._blocks, [*asked.ins, *asked.outs]
        given = [k for k in range(len(places)) if k not in blocks.scalars]
        whole = [strided(places[k].take([j]))[0] for k in given]
        stands, _ = stand_ins(whole, [self._dtypes[k] for k in given])
        found: dict[Any, np.ndarray] = {}
        arrays: list[Any] = [None] * len(places)
        for k, stand in zip(given, stands, strict=True):
            at = (int(places[k].bases[j]), int(places[k].offsets[j]), stand.shape, stand.strides)
            stand = found.setdefault(at, stand)
            is_row = k in blocks.rows and stand.ndim > len(lead)
            arrays[k] = stand[..., 0] if is_row else stand
        sets = blocks.prepare(arrays, lead)
        rooms = self._rooms(sets)
        shape, steps = address(sets.numbers), address(rooms)
        function = ctypes.cast(driver(), ctypes.c_void_p).value or 0
        n_stages, n_rooms = len(blocks.stages), len(blocks.buffers)
        walk = (function, len(sets.numbers), n_stages, len(given), shape, steps, 0, n_rooms)
        return Form(walk, len(given), blocks.scalars_at[-1] // 8, (sets, rooms))

    def _rooms(self, sets: Sets) -> np.ndarray:
        """Where each buffer begins in the memory of a thread, and how much that is."""
        sizes = [np.prod(sets.block, dtype=int) * b.row_bytes for b in self._blocks.buffers]
        ends = np.cumsum([-(-size // ALIGNED_BYTES) * ALIGNED_BYTES for size in sizes])
        return np.concatenate([[0], ends]).astype(np.int64)


def _numbers(arrays: StridedArrays) -> np.ndarray:
    return np.concatenate([arrays.shapes, arrays.strides], axis=1)


def _same(given: Sequence[StridedArrays]) -> list[np.ndarray]:
    """For each array which of those before it begin where it does, by task."""
    places = [np.stack([x.bases, x.offsets], axis=1) for x in given]
    return [
        (x == y).all(axis=1, keepdims=True).astype(np.int64)
        for k, x in enumerate(places)
        for y in places[:k]
    ]

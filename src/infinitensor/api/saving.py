"""A tensor written to a file, block by block: it is never held whole beside its tiles."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from infinitensor.api import copying
from infinitensor.ir.region import boxes_of, cut_evenly
from infinitensor.ir.view import structure
from infinitensor.storage import format_of, open_writer

if TYPE_CHECKING:
    from infinitensor.api.tensor import Tensor

BLOCK_BYTES = 8 << 20
"""What is taken out of the tiles at a time; four blocks are on their way at most."""
N_WRITERS = 3


def write(path: Any, x: Tensor, format: str | None, chunks: tuple[int, ...] | None) -> None:
    """Write a tensor under a name, which it gets when all of it is on the disk."""
    name = os.fspath(path)
    chosen = format_of(name, format)
    if chosen == "npy":
        if chunks is not None:
            raise ValueError("save: a .npy file has no chunks; give format='zarr'")
        name = name if name.endswith(".npy") else name + ".npy"
    with x._session.guard():
        x._compute()
        if x._view is not None and structure(x._view) is None:  # no box of it is one of its base
            x = copying.copied(x)
            x._compute()
        block = _block(x.shape, x.dtype.itemsize) if chunks is None else _chunks(chunks, x.shape)
        with open_writer(name, x.shape, x.dtype, chosen, block) as writer:
            _put_all(writer, x, block)
    x._session.counts["bytes_written"] += x.nbytes


def _block(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Lengths of a block that lies in one run of a C-order file, or almost."""
    room = BLOCK_BYTES // itemsize
    lengths = []
    for n in reversed(shape):
        lengths.append(max(min(n, room), 1))
        room //= lengths[-1]
    return tuple(reversed(lengths))


def _chunks(chunks: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(chunks) != len(shape) or any(n < 1 for n in chunks):
        raise ValueError(f"save: chunks {chunks} for a tensor of shape {shape}")
    return tuple(chunks)


def _put_all(writer: Any, x: Tensor, block: tuple[int, ...]) -> None:
    """Blocks are read here and written by a few threads; the first error stops it."""
    cuts = tuple(cut_evenly(n, step) for n, step in zip(x.shape, block, strict=True))
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(N_WRITERS, "infinitensor-save") as threads:
        try:
            for box in boxes_of(cuts):
                part: Any = x[tuple(slice(lo, hi) for lo, hi in box)] if box else x
                waiting.append(threads.submit(writer.put, box, part.numpy()))
                if len(waiting) > N_WRITERS:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()

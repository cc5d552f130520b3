"""A tensor written to a file, block by block: it is never held whole beside its tiles.

One that waits and is large is made block by block, too, where it can be.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Any

from infinitensor.api.access import copies
from infinitensor.api.evaluate.evaluate import evaluate
from infinitensor.api.evaluate.retention import bytes_of
from infinitensor.api.evaluate.waiting import waiting_nodes
from infinitensor.api.session.version import Version
from infinitensor.ir.region import boxes_of, cut_evenly
from infinitensor.ir.view import structure
from infinitensor.storage import format_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    import numpy as np

    from infinitensor.api.tensor.tensor import Tensor

WRITE_BLOCK_BYTES = 8 << 20
"""Bytes taken out of the tiles at a time; four blocks are on their way at most."""
N_WRITERS = 3
COMPUTED_MEMORY_PART = 8
"""A tensor of less than this part of the memory is computed at once, not in blocks."""


def write(path: Any, x: Tensor, format: str | None, chunks: tuple[int, ...] | None) -> None:
    """Write a tensor under a name, which it gets when all of it is on the disk."""
    name = os.fspath(path)
    chosen = format_of(name, format)
    if not chosen.has_chunks:
        if chunks is not None:
            raise ValueError(f"save: a {chosen.ending} file has no chunks; give format='zarr'")
        name = name if name.endswith(chosen.ending) else name + chosen.ending
    with x._session.guard():
        streams = _comes_in_parts(x)
        if not streams:
            x._compute()
        if (
            not streams and x._view is not None and structure(x._view) is None
        ):  # no box of it is one of its base
            x = copies.copy_tensor(x)
            x._compute()
        block = _block(x.shape, x.dtype.itemsize) if chunks is None else _chunks(chunks, x.shape)
        with chosen.writer(name, x.shape, x.dtype, block) as writer:
            _put_all(writer, x, block, _part_of_waiting if streams else _part_of_stored)
    x._session.counts["bytes_written"] += x.nbytes


def _comes_in_parts(x: Tensor) -> bool:
    """Whether a tensor waits, is larger than half the memory, and is made block from block.

    Little things that it needs (sums, means) are computed now.
    """
    version, session = x._version, x._session
    room = min(session.engine.budgets())
    if version.node is None or (x._view is not None and structure(x._view) is None):
        return False
    if 2 * x.nbytes <= room or session.engine.mesh.kind != "cpu":
        return False
    read = [v for node in waiting_nodes([version]) for v in node.inputs if type(v) is Version]
    little = [v for v in read if v.node is not None and COMPUTED_MEMORY_PART * bytes_of(v) <= room]
    evaluate(session, little)
    return all(
        node.op.kind == "elementwise" or node.op.name in ("_copy", "_cast")
        for node in waiting_nodes([version])
    )


def _part_of_waiting(x: Tensor, part: tuple[slice, ...]) -> np.ndarray:
    """A block, made for itself: nothing else of the tensor is."""
    piece = copies.copy_tensor(x[part])
    evaluate(x._session, [piece._version], peek=True)
    return piece.numpy()


def _part_of_stored(x: Tensor, part: tuple[slice, ...]) -> np.ndarray:
    return x[part].numpy() if part else x.numpy()


def _block(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Lengths of a block that is one run of a C-order file, or almost."""
    room = WRITE_BLOCK_BYTES // itemsize
    lengths = []
    for n in reversed(shape):
        lengths.append(max(min(n, room), 1))
        room //= lengths[-1]
    return tuple(reversed(lengths))


def _chunks(chunks: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(chunks) != len(shape) or any(n < 1 for n in chunks):
        raise ValueError(f"save: chunks {chunks} for a tensor of shape {shape}")
    return tuple(chunks)


def _put_all(
    writer: Any,
    x: Tensor,
    block: tuple[int, ...],
    read: Callable[[Tensor, tuple[slice, ...]], np.ndarray],
) -> None:
    """Blocks are read here and written by a few threads; the first error stops it."""
    from concurrent.futures import ThreadPoolExecutor  # not with an import: it imports logging

    cuts = tuple(cut_evenly(n, step) for n, step in zip(x.shape, block, strict=True))
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(N_WRITERS, "infinitensor-save") as threads:
        try:
            for box in boxes_of(cuts):
                values = read(x, tuple(slice(lo, hi) for lo, hi in box))
                waiting.append(threads.submit(writer.put, box, values))
                if len(waiting) > N_WRITERS:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()

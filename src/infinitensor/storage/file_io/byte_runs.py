"""Boxes of an array in C order as runs of bytes in its file.

A run that is long goes straight between the file and the caller's memory. Short runs with small
gaps between them are read in one go, with their gaps, into a buffer of this thread, and copied out
of it: `SPAN_BYTES` is all that is held beside the caller's memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Fetch: TypeAlias = Callable[[int, memoryview], None]
"""Fills the memory with the bytes at an offset."""
Store: TypeAlias = Callable[[int, memoryview], None]
"""Writes the memory's bytes at an offset."""

FetchRuns: TypeAlias = Callable[[int, int, Array], bool]
"""Fills each `out[i]` with the run at an offset + i * step, or says that it does not."""

SPAN_BYTES = 1 << 20
"""The buffer of a thread."""
RUN_BYTES = 64 << 10
"""A run of this length is worth a call of its own."""
GAP_BYTES = 32 << 10
"""A gap of this length is read through: a disk that reads ahead reads it anyway."""
PAGE_BYTES = 4096


class _Buffers(threading.local):
    span: Array | None = None


_buffers = _Buffers()


def aligned_bytes(n_bytes: int) -> Array:
    """Bytes that begin at a page."""
    raw = np.empty(n_bytes + PAGE_BYTES, np.uint8)
    start = -raw.ctypes.data % PAGE_BYTES
    return raw[start : start + n_bytes]


def span_buffer() -> Array:
    """The buffer of this thread, which its next user overwrites."""
    if _buffers.span is None:
        _buffers.span = aligned_bytes(SPAN_BYTES)
    return _buffers.span


def bytes_of(values: Array) -> memoryview:
    """The memory of a C-contiguous array."""
    return values.reshape(-1).view(np.uint8).data


def steps_of(shape: Sequence[int], n_bytes: int) -> tuple[int, ...]:
    """Bytes from one index to the next, of each axis of an array in C order."""
    steps = []
    for n in reversed(shape):
        steps.append(n_bytes)
        n_bytes *= max(n, 1)
    return tuple(reversed(steps))


def _span_bytes(shape: Sequence[int], steps: Sequence[int], n_bytes: int) -> int:
    """From the first byte to the last, gaps counted."""
    return sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + n_bytes


def gather(
    fetch: Fetch,
    offset: int,
    steps: tuple[int, ...],
    kind: Any,
    out: Array,
    fetch_runs: FetchRuns | None = None,
) -> None:
    """Fill `out` with values of dtype `kind` that are `steps` bytes apart, from `offset` on."""
    if not out.size:
        return
    while out.ndim and out.shape[0] == 1:
        steps, out = steps[1:], out[0, ...]
    n_bytes = kind.itemsize
    span = _span_bytes(out.shape, steps, n_bytes)
    if is_run(out, steps, kind):
        fetch(offset, bytes_of(out))
        return
    if not out.ndim or (span <= SPAN_BYTES and _is_one_read(out, steps, kind)):
        held = span_buffer()[:span]
        fetch(offset, held.data)
        out[...] = np.ndarray(out.shape, kind, held.data, 0, steps)
        return
    inner = _span_bytes(out.shape[1:], steps[1:], n_bytes)
    one_by_one = inner > SPAN_BYTES or not _is_one_read(out, steps, kind)
    straight = inner == out[0].nbytes and _is_straight(out[0, ...], kind)
    if one_by_one and straight and fetch_runs and fetch_runs(offset, steps[0], out):
        return
    together = 1 if one_by_one else max((SPAN_BYTES - inner) // steps[0] + 1, 1)
    for start in range(0, out.shape[0], together):
        part = out[start : start + together]
        gather(fetch, offset + start * steps[0], steps, kind, part, fetch_runs)


def is_run(out: Array, steps: tuple[int, ...], kind: Any) -> bool:
    """Whether values that are `steps` bytes apart are one run of bytes, and `out` the same one."""
    span = _span_bytes(out.shape, steps, kind.itemsize)
    return span == out.size * kind.itemsize and _is_straight(out, kind)


def _is_straight(out: Array, kind: Any) -> bool:
    """Whether bytes of a file are the bytes of this memory."""
    return out.dtype == kind and out.flags.c_contiguous


def _is_one_read(out: Array, steps: tuple[int, ...], kind: Any) -> bool:
    """Whether every gap is small, and no run long enough to be read straight into `out`."""
    while out.ndim:
        inner = _span_bytes(out.shape[1:], steps[1:], kind.itemsize)
        straight = inner >= RUN_BYTES and _is_straight(out[0, ...], kind)
        if out.shape[0] > 1 and (steps[0] - inner > GAP_BYTES or (steps[0] > inner and straight)):
            return False
        out, steps = out[0, ...], steps[1:]
    return True


def scatter(store: Store, offset: int, steps: tuple[int, ...], kind: Any, values: Array) -> None:
    """Write `values` as dtype `kind`, `steps` bytes apart from `offset` on; gaps are left."""
    if not values.size:
        return
    while values.ndim and values.shape[0] == 1:
        steps, values = steps[1:], values[0, ...]
    n_bytes = kind.itemsize
    n = values.size * n_bytes
    dense = _span_bytes(values.shape, steps, n_bytes) == n
    if dense and values.dtype == kind and values.flags.c_contiguous:
        store(offset, bytes_of(values))
    elif dense and n <= SPAN_BYTES:
        held = span_buffer()[:n]
        np.ndarray(values.shape, kind, held.data)[...] = values
        store(offset, held.data)
    else:
        together = max(SPAN_BYTES // steps[0], 1) if dense else 1
        for start in range(0, values.shape[0], together):
            part = values[start : start + together]
            scatter(store, offset + start * steps[0], steps, kind, part)

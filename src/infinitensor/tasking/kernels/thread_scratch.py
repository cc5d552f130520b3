"""Scratch arrays of the threads that run tasks."""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import numpy as np

_lane = threading.local()


def scratch(register: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """This thread's scratch array of a register: the same memory again and again, so it stays in
    cache and faults no pages. What steps make is in registers from 0 on, what reductions leave in
    those below."""
    held: dict[int, np.ndarray] = _lane.__dict__.setdefault("registers", {})
    n_bytes = prod(shape) * dtype.itemsize
    block = held.get(register)
    if block is None or block.nbytes < n_bytes:
        block = held[register] = np.empty(max(n_bytes, 64), np.uint8)
    return block[:n_bytes].view(dtype).reshape(shape)

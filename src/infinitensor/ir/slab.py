"""Slab sizes: tile buffers come in classes, so that a freed one fits the next tile of its size."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.native import IS_CHECKED


def slab_bytes(n_bytes: Any) -> Any:
    """The slab a tile of `n_bytes` takes: at least 64, then eight classes an octave (12.5 % over).

    Works on numbers and arrays.

    >>> int(slab_bytes(100)), int(slab_bytes(1 << 20)), int(slab_bytes((1 << 20) + 1))
    (128, 1048576, 1179648)
    """
    if IS_CHECKED:
        return (n_bytes + (n_bytes == 0) + 15) // 16 * 16
    if type(n_bytes) is int:  # asked for at every buffer
        few = max(n_bytes, 64)
        each = max(1 << max(few.bit_length() - 4, 0), 64)
        return -(-few // each) * each
    need = np.maximum(np.asarray(n_bytes, np.int64), 64)
    octave = np.floor(np.log2(need.astype(np.float64))).astype(np.int64)
    step = np.maximum(np.left_shift(np.int64(1), np.maximum(octave - 3, 0)), 64)
    return (need + step - 1) // step * step

"""Truth values packed into bytes, and bytes into truth values."""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.ops.gather import along
from infinitensor.ops.registry import program


def _shifts(bitorder: str) -> Any:
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    up = np.arange(8, dtype=np.uint8)
    return up if bitorder == "little" else up[::-1]


@program(
    "packbits",
    "a",
    cases=lambda rng: [
        ((rng.integers(0, 2, (3, 11)).astype(np.uint8),), {}),
        ((rng.integers(0, 2, (3, 11)) > 0, 1), {}),
        ((rng.integers(0, 3, (11, 2)), 0, "little"), {}),
        ((np.zeros((0, 3), bool), 0), {}),
        ((np.ones(3),), {}),
        ((np.ones(3, bool), 0, "middle"), {}),
    ],
    same="equal",
)
def packbits(xp: Any, a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight truth values in each byte, along an axis or flattened; the last is filled with zeros.

    >>> import infinitensor as it
    >>> it.packbits(it.asarray([1, 0, 0, 0, 0, 0, 0, 1])).tolist()
    [129]
    """
    if a.dtype.kind not in "iub":
        raise TypeError("Expected an input array of integer or boolean data type")
    weights = (1 << _shifts(bitorder).astype(int)).astype(np.uint8)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, len(a.shape))
    n = a.shape[axis]
    n_bytes = -(-n // 8)
    bits = xp.moveaxis(a != 0, axis, -1)
    bits = xp._pad(bits, False, ((0, 0),) * (len(a.shape) - 1) + ((0, 8 * n_bytes - n),))
    bits = bits.reshape((*bits.shape[:-1], n_bytes, 8)).astype(np.uint8)
    return xp.moveaxis(xp.sum(bits * weights, axis=-1, dtype=np.uint8), -1, axis)


@program(
    "unpackbits",
    "a",
    cases=lambda rng: [
        ((rng.integers(0, 256, (3, 2)).astype(np.uint8),), {}),
        ((rng.integers(0, 256, (3, 2)).astype(np.uint8), 1), {"count": 11}),
        ((rng.integers(0, 256, (3, 2)).astype(np.uint8), 0), {"count": -3, "bitorder": "little"}),
        ((rng.integers(0, 256, 2).astype(np.uint8),), {"count": 20}),
        ((np.arange(3),), {}),
    ],
    same="equal",
)
def unpackbits(
    xp: Any, a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of each byte, along an axis or flattened; `count` of them, if it is given.

    >>> import infinitensor as it
    >>> it.unpackbits(it.asarray([129], dtype=it.uint8)).tolist()
    [1, 0, 0, 0, 0, 0, 0, 1]
    """
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, len(a.shape))
    lines = xp.moveaxis(a, axis, -1)
    bits = (lines.reshape((*lines.shape, 1)) >> _shifts(bitorder)) & np.uint8(1)
    n = 8 * a.shape[axis]
    bits = xp.moveaxis(bits.reshape((*lines.shape[:-1], n)), -1, axis)
    wanted = n if count is None else as_int(count) + (n if count < 0 else 0)
    if wanted < 0:
        raise ValueError(f"-ve count {count} too large for an axis of {n} bits")
    if wanted <= n:
        return bits[along(axis, slice(0, wanted))] if wanted < n else bits
    pad = tuple((0, wanted - n if i == axis else 0) for i in range(len(bits.shape)))
    return xp._pad(bits, 0, pad)

"""Truth values packed into bytes, bytes into truth values, and bits read as another dtype."""

from __future__ import annotations

from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import to_torch
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.forms.gather import along, gather_form, is_empty
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


def _shifts(bitorder: str) -> Any:
    if not isinstance(bitorder, str):
        raise TypeError(f"bitorder must be str, not {type(bitorder).__name__}")
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    up = np.arange(8, dtype=np.uint8)
    return up if bitorder == "little" else up[::-1]


@program(
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
def packbits(xp: Any, a: Array, axis: int | None = None, bitorder: str = "big") -> Any:
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
    xp: Any, a: Array, axis: int | None = None, count: int | None = None, bitorder: str = "big"
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


# --- bits as another dtype --------------------------------------------------------------------


def _bits_need(box: Box, specs: Sequence[Spec], *, dtype: np.dtype[Any]) -> tuple[Box | None, ...]:
    """The elements whose bytes are in a box: whole ones along the last axis."""
    if not box:
        return (box,)
    (lo, hi), before, after = box[-1], specs[0].dtype.itemsize, dtype.itemsize
    part = (*box[:-1], (lo * after // before, -(-hi * after // before)))
    return (None if is_empty(part) else part,)


def _bits_kernel(xp: Any, x: Any, out: Any, at: At, dtype: np.dtype[Any]) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    if xp is np:
        seen = np.ascontiguousarray(x).view(dtype).reshape((*x.shape[:-1], -1) if x.ndim else ())
        before = x.dtype.itemsize
    else:
        before = x.element_size()
        seen = x.contiguous().view(to_torch(dtype))
    if x.ndim:
        first = at.outputs[0][-1][0] - source[-1][0] * before // dtype.itemsize
        seen = seen[..., first : first + out.shape[-1]]
    out[...] = seen


@op(
    "gather",
    kernel=_bits_kernel,
    need=_bits_need,
    scratch_bytes=lambda ins, outs, params: 2 * ins[0].n_elements * int(ins[0].dtype.itemsize),
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), np.dtype(np.int64)), {}),
        ((rng.standard_normal((3, 5)), np.dtype(np.uint8)), {}),
        ((rng.integers(0, 99, (3, 8)).astype(np.int16), np.dtype(np.int64)), {}),
        ((rng.standard_normal(()), np.dtype(np.int64)), {}),
    ],
    oracle=lambda x, dtype: np.array(x).view(dtype),
)
def _bits(x: Spec, dtype: np.dtype[Any]) -> Call:
    """The bytes of the elements, in C order, as elements of another dtype along the last axis."""
    shape = x.shape
    if shape:
        shape = (*shape[:-1], shape[-1] * x.dtype.itemsize // dtype.itemsize)
    return call(gather_form((x,), shape), Spec(shape, dtype), dtype=dtype)

"""The parts floating-point numbers and bytes are made of."""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.ops.gather import along
from infinitensor.ops.registry import elementwise, program

elementwise(
    "ldexp",
    lambda e, x1, x2: e.ldexp(x1, x2),
    "x1 * 2**x2, for an integer x2.",
    cases=lambda rng: [
        ((rng.normal(size=(4, 5)), rng.integers(-9, 9, (4, 5))), {}),
        ((rng.normal(size=5).astype(np.float32), 3), {}),
        ((np.array([1.0, 5e-324, np.inf, np.nan]), np.array([2000, 1074, 1, 1])), {}),
        ((np.arange(5), np.int32(2)), {}),
        ((rng.normal(size=5), 0.5), {}),
    ],
)
elementwise("spacing", lambda e, x: e.spacing(x), "The distance to the next larger |x|.")
elementwise(
    "_mantissa",
    lambda e, x: e.mantissa(x),
    "The part of x between 0.5 and 1, with its sign.",
    dtype=lambda x: np.frexp.resolve_dtypes((x.dtype, None, None))[:2],
    oracle=lambda x: np.frexp(x)[0],
    scratch_bytes=lambda ins, outs, params: 8 * ins[0].n_elements,  # NumPy makes both parts
)
elementwise(
    "_exponent",
    lambda e, x: e.exponent(x),
    "The power of two that goes with the mantissa.",
    dtype=lambda x: np.frexp.resolve_dtypes((x.dtype, None, None))[::2],
    oracle=lambda x: np.frexp(x)[1],
    scratch_bytes=lambda ins, outs, params: 8 * ins[0].n_elements,
)


def _numbers(rng: Any) -> list[Any]:
    return [
        ((rng.normal(size=(4, 5)) * 100,), {}),
        ((rng.normal(size=5).astype(np.float32),), {}),
        ((np.arange(-3, 4),), {}),
        ((np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -2.5]),), {}),
        ((rng.normal(size=3) * 1j,), {}),
        ((np.float64(-1.25),), {}),
    ]


@program("frexp", "x", cases=_numbers, same="equal")
def frexp(xp: Any, x: Any) -> tuple[Any, Any]:
    """The mantissa and the exponent: x = mantissa * 2**exponent, 0.5 <= |mantissa| < 1.

    >>> import infinitensor as it
    >>> [part.tolist() for part in it.frexp(it.asarray([1.0, 10.0]))]
    [[0.5, 0.625], [1, 4]]
    """
    return xp._mantissa(x), xp._exponent(x)


@program("modf", "x", cases=_numbers, same="equal")
def modf(xp: Any, x: Any) -> tuple[Any, Any]:
    """The fraction and the integer in front of it, both with the sign of x.

    >>> import infinitensor as it
    >>> [part.tolist() for part in it.modf(it.asarray([1.5, -2.25]))]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    if x.dtype.kind == "c":
        raise TypeError("ufunc 'modf' not supported for the input types: complex numbers")
    x = xp.copysign(x, x)  # floating point, as it would divide
    whole = xp.trunc(x)
    return xp.copysign(xp.where(xp.isinf(x), x.dtype.type(0), x - whole), x), whole


@program("fix", "x", cases=_numbers, same="equal")
def fix(xp: Any, x: Any) -> Any:
    """The nearest integer towards zero.

    >>> import infinitensor as it
    >>> it.fix(it.asarray([2.7, -2.7])).tolist()
    [2.0, -2.0]
    """
    return xp.trunc(x)


# --- bits -------------------------------------------------------------------------------------


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

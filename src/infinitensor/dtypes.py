"""The dtypes of tensors are NumPy's; this file says which, and what torch calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

NAMES = """
bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64
complex128 byte ubyte short ushort intc uintc int_ uint long ulong longlong ulonglong intp uintp
half single double csingle cdouble dtype generic number integer signedinteger unsignedinteger
inexact floating complexfloating
"""
TYPES: dict[str, Any] = {name: getattr(np, name) for name in NAMES.split()}
"""What users call dtypes: NumPy's own types, which also make scalars, and their families."""

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
INTEGERS = SIGNED + UNSIGNED
REAL_FLOATING = (float16, float32, float64)
COMPLEX = (complex64, complex128)
FLOATING = REAL_FLOATING + COMPLEX
NUMERIC = INTEGERS + FLOATING
ALL = (bool_, *NUMERIC)
_KNOWN = frozenset(ALL)


def as_dtype(name: Any) -> np.dtype[Any]:
    """The dtype a user means; anything we do not hold is a TypeError that says so.

    >>> as_dtype("f4"), as_dtype(float)
    (dtype('float32'), dtype('float64'))
    """
    dtype: np.dtype[Any] = np.dtype(name)
    if dtype not in _KNOWN:
        swapped: np.dtype[Any] = dtype.newbyteorder("=")
        if swapped in _KNOWN:
            return swapped
        raise TypeError(
            f"infinitensor holds no {dtype} values; it holds bool, integers, "
            "float16/32/64 and complex64/128"
        )
    return dtype


_TORCH: dict[np.dtype[Any], torch.dtype] = {}


def to_torch(dtype: np.dtype[Any]) -> torch.dtype:
    """torch's name of a dtype (torch is imported at the first call)."""
    if not _TORCH:
        import torch

        for ours in ALL:
            _TORCH[ours] = getattr(torch, ours.name)
    return _TORCH[dtype]


def dtype_of(values: Any) -> np.dtype[Any]:
    """The dtype of a NumPy array or a torch tensor; a TypeError if we do not hold it.

    >>> import torch
    >>> dtype_of(torch.ones(2)), dtype_of(np.ones(2))
    (dtype('float32'), dtype('float64'))
    """
    if isinstance(values, np.ndarray):
        return as_dtype(values.dtype)
    name = str(values.dtype).removeprefix("torch.")
    found = {ours.name: ours for ours in ALL}.get(name)
    if found is None:
        raise TypeError(
            f"infinitensor holds no {name} values; convert them first, for example x.float()"
        )
    return found

"""Copies of arrays, whatever they are: NumPy's, torch's, or values in a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.dtypes import from_numpy, to_numpy


def copy_into(out: Any, value: Any) -> None:
    """`out[...] = value` for NumPy and torch, across devices, and from files.

    Between a GPU and pinned host memory only the start of the copy is waited for.
    """
    if hasattr(value, "read_into"):
        if not hasattr(out, "copy_"):
            value.read_into(out)
            return
        value = read(value)
    if hasattr(out, "copy_"):
        if not hasattr(value, "copy_"):
            value = from_numpy(np.asarray(value, order="C")).reshape(value.shape)
        out.copy_(value, non_blocking=True)
    elif hasattr(value, "copy_"):
        from_numpy(out).copy_(value, non_blocking=True)
    else:
        out[...] = value


def read(stored: Any) -> np.ndarray:
    """The values of a file as an array in memory."""
    values = np.empty(stored.shape, stored.dtype)
    stored.read_into(values)
    return values


def to_host(values: Any) -> np.ndarray:
    """The values of an array of any device as NumPy's; those of a CPU where they are."""
    return to_numpy(values.cpu()) if hasattr(values, "copy_") else np.asarray(values)

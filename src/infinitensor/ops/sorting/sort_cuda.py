"""Sorting on a GPU: of one line by CuPy where it is installed, else torch's.

torch's sort carries the indices along, and takes 1.6 times as long. Of many lines it takes a half
to a sixth of CuPy's time.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from typing import Any

from infinitensor.lazy_torch import torch


@lru_cache(maxsize=1)
def _cupy() -> Any:
    """CuPy, if it is installed."""
    return importlib.import_module("cupy") if importlib.util.find_spec("cupy") else None


def one_nan(x: Any) -> Any:
    """Every NaN without a sign: the libraries sort by bits, some lines or all, and put those with
    one (0 / 0 on x86) first."""
    return torch.where(x == x, x, torch.nan) if x.is_floating_point() else x


def sort_with_cupy(x: Any, out: Any, axis: int) -> bool:
    """Sort one line into `out`; False, and nothing done, without CuPy or where there are several.
    Its temporaries come from torch, so that one allocator has all memory."""
    kinds = (torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
    if x.device.type != "cuda" or x.dtype not in kinds or not 0 < x.numel() == x.shape[axis]:
        return False
    cupy = _cupy()
    if cupy is None or not out.is_contiguous():
        return False

    def allocate(n_bytes: int) -> Any:
        block = torch.empty(max(n_bytes, 1), dtype=torch.uint8, device=out.device)
        memory = cupy.cuda.UnownedMemory(block.data_ptr(), n_bytes, block)
        return cupy.cuda.MemoryPointer(memory, 0)

    out.copy_(one_nan(x))
    external = getattr(cupy.cuda.Stream, "from_external", None)  # older ones have another name
    current = torch.cuda.current_stream(out.device)
    stream = external(current) if external else cupy.cuda.ExternalStream(current.cuda_stream)
    with cupy.cuda.Device(out.device.index), stream, cupy.cuda.using_allocator(allocate):
        cupy.from_dlpack(out).sort(axis=axis)
    return True

"""Fourier transforms on a GPU straight into their output, through the cuFFT that torch has loaded.

torch makes a result of its own, which would have to be copied: a quarter of the time.
"""

from __future__ import annotations

import contextlib
import ctypes
from functools import lru_cache
from typing import Any

from infinitensor.lazy_torch import torch

C2C, Z2Z, R2C, D2Z = 0x29, 0x69, 0x2A, 0x6A
FORWARD, INVERSE = -1, 1
MOST_PLANS = 16


@lru_cache(maxsize=1)
def _library() -> Any:
    """cuFFT, where torch has loaded it."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "libcufft.so" in line}
    except OSError:
        return None
    return ctypes.CDLL(sorted(paths)[0]) if paths else None


@lru_cache(maxsize=1)
def _kinds() -> dict[Any, int]:
    """cuFFT's type of a transform, by torch's dtype and the word."""
    return {
        (torch.complex64, "fft"): C2C,
        (torch.complex64, "ifft"): C2C,
        (torch.complex128, "fft"): Z2Z,
        (torch.complex128, "ifft"): Z2Z,
        (torch.float32, "rfft"): R2C,
        (torch.float64, "rfft"): D2Z,
    }


_plans: dict[Any, tuple[ctypes.c_int, int]] = {}
_set: dict[int, tuple[int, int]] = {}
"""By handle: the stream and the work space that a plan has been given."""


def _plan(library: Any, device: int, kind: int, n: int, n_lines: int, n_out: int) -> Any:
    """(handle, bytes it works in) of contiguous lines; the work space is the caller's."""
    key = (device, kind, n, n_lines)
    if key not in _plans:
        if len(_plans) >= MOST_PLANS:
            torch.cuda.synchronize()
            for handle, _ in _plans.values():
                library.cufftDestroy(handle)
            _plans.clear()
            _set.clear()
        handle, work, wide = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_longlong
        failed = library.cufftCreate(ctypes.byref(handle))
        failed = failed or library.cufftSetAutoAllocation(handle, 0)
        lengths = (wide * 1)(n)
        failed = failed or library.cufftMakePlanMany64(
            handle, 1, lengths, (wide * 1)(n), wide(1), wide(n), (wide * 1)(n_out), wide(1),
            wide(n_out), kind, wide(n_lines), ctypes.byref(work),
        )  # fmt: skip
        if failed:
            return None
        _plans[key] = (handle, int(work.value))
    return _plans[key]


def transform_into(x: Any, out: Any, word: str, axis: int, n: int, norm: str) -> bool:
    """Transform lines that are contiguous; False, and nothing done, for any others."""
    kind = _kinds().get((x.dtype, word))
    rows = x.is_contiguous() and out.is_contiguous() and axis == x.ndim - 1 and n == x.shape[-1]
    if kind is None or not rows or not x.is_cuda or not x.numel():
        return False
    library = _library()
    if library is None:
        return False
    device = x.get_device()
    is_current = torch._C._cuda_getDevice() == device
    with contextlib.nullcontext() if is_current else torch.cuda.device(device):
        found = _plan(library, device, kind, n, x.numel() // n, out.shape[-1])
        if found is None:
            return False
        handle, n_bytes = found
        work = torch.empty(max(n_bytes, 1), dtype=torch.uint8, device=x.device)
        uses = (torch._C._cuda_getCurrentRawStream(device), work.data_ptr())
        failed = 0
        if _set.get(handle.value) != uses:
            failed = library.cufftSetStream(handle, ctypes.c_void_p(uses[0]))
            failed = failed or library.cufftSetWorkArea(handle, ctypes.c_void_p(uses[1]))
            _set[handle.value] = uses
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, out)]
        if kind in (C2C, Z2Z):
            run = library.cufftExecC2C if kind == C2C else library.cufftExecZ2Z
            failed = failed or run(handle, *pointers, INVERSE if word == "ifft" else FORWARD)
        else:
            run = library.cufftExecR2C if kind == R2C else library.cufftExecD2Z
            failed = failed or run(handle, *pointers)
    if failed:
        _set.clear()
        return False
    scaled = {"ortho": n**-0.5, "backward": 1 / n if word == "ifft" else 1.0}
    scale = scaled.get(norm, 1.0 if word == "ifft" else 1 / n)
    if scale != 1:
        out.mul_(scale)
    return True

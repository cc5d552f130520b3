"""Host memory that a GPU copies from and to on its own: pages that stay where they are."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import weakref
from typing import Any

import numpy as np

from infinitensor.devices.device import HUGE_BYTES, CpuDevice
from infinitensor.lazy_torch import torch


class PinnedDevice(CpuDevice):
    """Host memory beside GPUs. To pin a GiB takes about half a second, so slabs are kept."""

    def __init__(self) -> None:
        super().__init__(0)
        self.name = "host"

    def allocate(self, n_bytes: int) -> Any:
        """Pages of their own, pinned until nothing uses them any more."""
        pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if n_bytes >= HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without them
                pages.madvise(mmap.MADV_HUGEPAGE)
        block = np.frombuffer(pages, np.uint8)
        cuda: Any = torch.cuda
        runtime = cuda.cudart()
        at = ctypes.c_void_p(block.ctypes.data).value
        status = runtime.cudaHostRegister(at, n_bytes, 0)
        if int(status) != 0:
            raise MemoryError(f"{n_bytes} bytes of host memory cannot be pinned: {status}")
        weakref.finalize(block, runtime.cudaHostUnregister, at)
        return block

"""A GPU that is not there: its paths run on torch's CPU tensors, lanes and all.

What is planned, brought, kept and computed is what a GPU would do, kernel for kernel, but for
generated code; copies and kernels are over when they are started.
"""

from __future__ import annotations

import contextlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor.devices.device import CpuDevice, CudaDevice
from infinitensor.devices.pinned import PinnedDevice
from infinitensor.dtypes import from_numpy, to_numpy
from infinitensor.engines import local
from infinitensor.ir.mesh import Tools, preset
from infinitensor.jit import has_triton
from infinitensor.ops.points import centres_triton

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Over:
    """An event that is over."""

    def query(self) -> bool:
        return True


@contextmanager
def fake_gpu(scale: int = 1, plans_triton: bool = False) -> Iterator[None]:
    """While it lasts "cuda:0" opens a device in host memory.

    `scale`: plans are made as if sides of matrices were that much longer, so that little ones are
    planned like those of real programs. `plans_triton`: plans are made as if there were Triton;
    nothing here runs what it compiles.
    """
    import torch

    def scaled(*given: Any) -> Any:
        mesh = preset(*given)
        device = mesh.devices[0]
        device = replace(
            device, flops=device.flops / scale**3, bytes_per_s=device.bytes_per_s / scale**2
        )
        rate = mesh.host_bytes_per_s / scale**2
        return replace(mesh, devices=(device,) * mesh.n_devices, host_bytes_per_s=rate)

    def opened(self: Any, number: int, gpu: int) -> None:
        self.name = f"cuda:{gpu}" if number == 0 else f"cuda:{gpu}#{number}"
        self.gpu = torch.device("cpu")

    def copied(self: Any, array: Any, values: Any) -> None:
        array.copy_(from_numpy(np.array(values, order="C")).reshape(tuple(array.shape)))

    methods: dict[str, Any] = {
        "__init__": opened,
        "release": lambda self: None,
        "to_host": lambda self, array, where=(): to_numpy(array[where].clone()),
        "from_host": copied,
        "running": lambda self, lane=0: contextlib.nullcontext(),
        "stream": lambda self: None,
        "mark": lambda self, lane: _Over(),
        "wait": lambda self, lane, event: None,
        "record": lambda self, work, most_own_bytes=None: None,
        "play": lambda self, start: start(),
        "synchronize": lambda self: None,
        "free_bytes": lambda self: 1 << 33,
    }
    with pytest.MonkeyPatch.context() as patched:
        if vars(centres_triton)["has_triton"] is has_triton:  # nothing here runs what it compiles
            patched.setattr(centres_triton, "has_triton", lambda: False)
        patched.setattr(local, "find_tools", lambda: Tools(has_triton=plans_triton))
        for name, method in methods.items():
            patched.setattr(CudaDevice, name, method)
        patched.setattr(PinnedDevice, "allocate", CpuDevice.allocate)
        patched.setattr(local, "preset", scaled)
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as many as there are cores wait for each other on a busy machine
        try:
            yield
        finally:
            torch.set_num_threads(n_threads)


@contextmanager
def with_tools(tools: Tools) -> Iterator[None]:
    """Sessions plan with these tools; undone before a stand-in GPU around it is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local, "find_tools", lambda: tools)
        yield

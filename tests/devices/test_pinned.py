"""Host memory beside GPUs: pinned while something uses it, refused with its size."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

from infinitensor.devices.device import HUGE_BYTES
from infinitensor.devices.pinned import PinnedDevice


class Runtime:
    """The runtime of a GPU that is not there: which memory is pinned."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.pinned: dict[int, int] = {}

    def cudaHostRegister(self, at: int, n_bytes: int, flags: int) -> int:
        if not self.status:
            self.pinned[at] = n_bytes
        return self.status

    def cudaHostUnregister(self, at: int) -> int:
        del self.pinned[at]
        return 0


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    runtime = Runtime()
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    return runtime


@pytest.mark.parametrize("n_bytes", [1, 5000, HUGE_BYTES])
def test_block_is_pinned_over_its_whole_length(runtime: Runtime, n_bytes: int) -> None:
    block: Any = PinnedDevice().allocate(n_bytes)
    assert (block.dtype, block.nbytes) == (np.uint8, n_bytes)
    assert runtime.pinned == {block.ctypes.data: n_bytes}
    block[:] = 7
    assert block[-1] == 7


def test_block_stays_pinned_until_nothing_uses_it_any_more(runtime: Runtime) -> None:
    device = PinnedDevice()
    block = device.allocate(4096)
    array = device.array(block, (4, 8), np.dtype("float64"))
    del block
    gc.collect()
    assert len(runtime.pinned) == 1
    array[...] = 1.5
    del array
    gc.collect()
    assert runtime.pinned == {}


def test_memory_that_cannot_be_pinned_is_said_and_not_let_go_twice(runtime: Runtime) -> None:
    runtime.status = 2
    with pytest.raises(MemoryError, match="4096 bytes of host memory cannot be pinned: 2"):
        PinnedDevice().allocate(4096)
    gc.collect()
    assert runtime.pinned == {}


def test_it_is_the_host_and_computes_like_a_cpu() -> None:
    device = PinnedDevice()
    assert (device.name, device.kind) == ("host", "cpu")

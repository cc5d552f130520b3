"""The driver's calls: made with the addresses given, and what they refuse is torch's to do."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor.devices import gpu_driver
from infinitensor.devices.device import FEW_READ_BYTES, CudaDevice
from infinitensor.devices.gpu_driver import Recorded
from infinitensor.dtypes import to_numpy
from infinitensor.native import extension

if TYPE_CHECKING:
    from collections.abc import Iterator

LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t)


class Driver:
    """A driver that notes its calls, and refuses streams from 100 on, and parts of eight bytes."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.launch, self.wait = LAUNCH(self._launch), WAIT(self._wait)
        self.read = READ(self._read)

    def _launch(self, graph: int, stream: int) -> int:
        self.calls.append((graph, stream))
        return int(stream >= 100)

    def _wait(self, stream: int) -> int:
        self.calls.append((stream,))
        return int(stream >= 100)

    def _read(self, to: int, place: int, n_bytes: int) -> int:
        self.calls.append((n_bytes,))
        if not n_bytes % 8:
            ctypes.memmove(to, place, n_bytes)
        return n_bytes % 8


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    module = extension("devices/gpu_driver")
    if module is None:
        pytest.skip("no compiler")
    found = Driver()
    calls = (found.launch, found.wait, found.read)
    module.use(*(ctypes.cast(f, ctypes.c_void_p).value for f in calls))
    made = module.launch_graph, module.wait, module.read
    monkeypatch.setattr(gpu_driver, "_driver", lambda: made)
    yield found
    module.use(0, 0, 0)


class Graph:
    """What torch has recorded."""

    def __init__(self, handle: int | None) -> None:
        self.n_replayed = 0
        if handle is not None:
            self.raw_cuda_graph_exec = lambda: handle

    def replay(self) -> None:
        self.n_replayed += 1


def test_a_recording_is_started_on_its_stream_by_the_driver(driver: Driver) -> None:
    graph = Graph(11)
    recorded = Recorded(graph, 7)
    assert recorded.launch()
    assert driver.calls == [(11, 7)]
    assert graph.n_replayed == 0
    recorded()
    assert graph.n_replayed == 1


@pytest.mark.parametrize(("handle", "stream"), [(11, 100), (None, 7), (0, 7)])
def test_what_the_driver_cannot_start_it_does_not(
    driver: Driver, handle: int | None, stream: int
) -> None:
    assert not Recorded(Graph(handle), stream).launch()


def test_all_streams_are_waited_for_unless_one_is_refused(driver: Driver) -> None:
    assert gpu_driver.wait((1, 2))
    assert not gpu_driver.wait((3, 100, 4))
    assert driver.calls == [(1,), (2,), (3,), (100,)]


def test_without_a_driver_nothing_is_started_or_waited_for() -> None:
    module: Any = extension("devices/gpu_driver")
    if module is None:
        pytest.skip("no compiler")
    assert not module.launch_graph(1, 2)
    assert not module.wait((1,))
    assert not module.read(1, 2, 3)
    with pytest.raises(TypeError, match="two addresses and a number of bytes"):
        module.read(1, 2)
    with pytest.raises(TypeError, match="two addresses"):
        module.launch_graph(1)
    with pytest.raises(TypeError, match="a tuple of addresses"):
        module.wait([1])


@pytest.mark.gpu
def test_a_device_plays_what_it_has_recorded_whatever_the_current_stream() -> None:
    import torch

    device = CudaDevice(0, 0)
    x = torch.zeros(8, device="cuda")
    torch.cuda.synchronize()

    def add_one() -> None:
        x.add_(1)

    recorded = device.record(add_one)
    assert isinstance(recorded, Recorded)
    for _ in range(3):
        device.play(recorded)
    another: Any = torch.cuda.Stream
    with torch.cuda.stream(another()):
        device.play(recorded)
    device.synchronize()
    assert x.tolist() == [4.0] * 8


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (2,), (3, 8), (0,), (9,), (100, 100)])
def test_little_is_read_by_the_driver_and_what_it_refuses_by_torch(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: str
) -> None:
    torch = pytest.importorskip("torch")
    device: Any = object.__new__(CudaDevice)
    monkeypatch.setattr(CudaDevice, "synchronize", lambda self: None)
    given = (torch.randn(shape) * 3).to(getattr(torch, dtype))
    for array in (given, given.T if len(shape) == 2 else given):
        driver.calls.clear()
        found = device.to_host(array)
        wanted = to_numpy(array.clone())
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
        is_little = 0 < array.nbytes <= FEW_READ_BYTES and array.is_contiguous()
        assert driver.calls == [(array.nbytes,)] * is_little

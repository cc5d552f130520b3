"""The driver's calls: made with the addresses given, and what they refuse is torch's to do."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pytest

from infinitensor.devices import gpu_driver
from infinitensor.devices.device import CudaDevice
from infinitensor.devices.gpu_driver import Recorded
from infinitensor.native import extension

if TYPE_CHECKING:
    from collections.abc import Iterator

LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Driver:
    """A driver that notes its calls, and refuses streams from 100 on."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.launch, self.wait = LAUNCH(self._launch), WAIT(self._wait)

    def _launch(self, graph: int, stream: int) -> int:
        self.calls.append((graph, stream))
        return int(stream >= 100)

    def _wait(self, stream: int) -> int:
        self.calls.append((stream,))
        return int(stream >= 100)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    module = extension("devices/gpu_driver")
    if module is None:
        pytest.skip("no compiler")
    found = Driver()
    module.use(*(ctypes.cast(f, ctypes.c_void_p).value for f in (found.launch, found.wait)))
    monkeypatch.setattr(gpu_driver, "_driver", lambda: (module.launch_graph, module.wait))
    yield found
    module.use(0, 0)


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

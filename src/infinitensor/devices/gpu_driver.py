"""NVIDIA's driver, called directly: to start a recording, to wait for streams and to read little.

torch's calls look up the current stream, switch to ours and back, and make objects: some
microseconds in every evaluation. Where a call of the driver does not go well, nothing is done, and
torch is asked, which says what is wrong.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from infinitensor.config import config
from infinitensor.native import extension

if TYPE_CHECKING:
    from collections.abc import Callable


def _never(*_: Any) -> bool:
    return False


@lru_cache(maxsize=1)
def _driver() -> tuple[Callable[..., bool], Callable[..., bool], Callable[..., bool]]:
    """What starts recordings, waits for streams and reads; without driver or C none does."""
    module = None if config.compile == "never" else extension("devices/gpu_driver")
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        found = driver.cuGraphLaunch, driver.cuStreamSynchronize, driver.cuMemcpyDtoH_v2
    except (OSError, AttributeError):
        return _never, _never, _never
    if module is None:
        return _never, _never, _never
    module.use(*(ctypes.cast(function, ctypes.c_void_p).value for function in found))
    return module.launch_graph, module.wait, module.read


def launch_graph() -> Callable[[int, int], bool]:
    """The call that starts an instantiated graph on a stream, and says whether the driver did."""
    return _driver()[0]


def wait(streams: tuple[int, ...]) -> bool:
    """Wait for streams; whether the driver did."""
    return _driver()[1](streams)


def read(to: int, place: int, n_bytes: int) -> bool:
    """Copy bytes of a GPU that are made to memory of the host; whether the driver did."""
    return _driver()[2](to, place, n_bytes)


class Recorded:
    """Kernels that torch has recorded as a CUDA graph, for one stream of ours.

    A call starts them on torch's current stream; `launch` on ours, whatever the current one is.
    `own_bytes`: memory that no other recording shares.
    """

    __slots__ = ("_by_driver", "_graph", "_handles", "own_bytes")

    def __init__(self, graph: Any, stream: int, own_bytes: int = 0) -> None:
        self._graph = graph
        self._by_driver = launch_graph()
        self.own_bytes = own_bytes
        handle = getattr(graph, "raw_cuda_graph_exec", None)  # torch has it since 2.11
        self._handles = (0, stream) if handle is None else (int(handle()), stream)

    def __call__(self) -> None:
        self._graph.replay()

    def launch(self) -> bool:
        """Start them by one call of the driver; whether that did."""
        return self._by_driver(*self._handles)

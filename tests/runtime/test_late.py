"""Lanes of a GPU whose kernels and copies run late, in any order that the waits of its streams
allow: a wait that is missing gives other values."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import local, strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.cluster import KMeans
from infinitensor.devices.device import CudaDevice
from infinitensor.dtypes import from_numpy, to_numpy
from infinitensor.ir.layout import DISK
from infinitensor.ir.tasks import COMPUTE, EVICT, LOAD
from infinitensor.ops.points import centres
from infinitensor.runtime.run.kernel_calls import KernelCalls
from infinitensor.runtime.state.step import TILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Event:
    """A place in a stream."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.is_over = False

    def query(self) -> bool:
        self.streams.go_on(int(self.streams.rng.integers(0, 4)))
        return self.is_over


class Streams:
    """What was started in each lane and has not run: the first of each may run next, unless it
    waits for an event."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lane = COMPUTE
        self.queues: dict[int, deque[Any]] = {lane: deque() for lane in (COMPUTE, LOAD, EVICT)}
        self.n_late = 0

    def start(self, work: Callable[[], None]) -> None:
        self.n_late += any(self.queues.values())
        self.queues[self.lane].append(work)

    def mark(self, lane: int) -> Event:
        event = Event(self)
        self.queues[lane].append(lambda: setattr(event, "is_over", True))
        return event

    def wait(self, lane: int, event: Event) -> None:
        self.queues[lane].append(event)

    def go_on(self, n_steps: int = 1 << 62) -> None:
        """Run some of it."""
        for _ in range(n_steps):
            able = [
                queue
                for queue in self.queues.values()
                if queue and not (isinstance(queue[0], Event) and not queue[0].is_over)
            ]
            if not able:
                assert not any(self.queues.values()), "streams that wait for each other"
                return
            first = able[int(self.rng.integers(len(able)))].popleft()
            if not isinstance(first, Event):
                first()

    @contextmanager
    def running(self, lane: int) -> Iterator[None]:
        before, self.lane = self.lane, lane
        try:
            yield
        finally:
            self.lane = before


@contextmanager
def late_gpu(seed: int) -> Iterator[Streams]:
    """A GPU that is not there, and runs what is started when it must."""
    streams = Streams(seed)

    def run_late(self: KernelCalls, step: Any) -> None:
        asked = [*step.many, *(tile for how, tile, _, _ in step.reads if how == TILE)]
        found = {tile: self.array(tile) for tile in asked}
        if step.family.lane == EVICT and step.outs[0].device == DISK:
            self._spill(step, step.operands(self.scalars, self.array, self._across)[0])
            return
        updates = step.family.updates
        outs = [self.array(out.tile) if updates else self.tiles.output(out) for out in step.outs]
        # a view may be a kernel of its own
        streams.start(
            lambda: step.family.run(
                step.operands(self.scalars, found.__getitem__, self._across), outs, step.i
            )
        )

    def read(self: Any, array: Any, where: tuple[slice, ...] = ()) -> np.ndarray:
        streams.go_on()
        return to_numpy(array[where].clone())

    def written(self: Any, array: Any, values: Any) -> None:
        streams.go_on()
        array.copy_(from_numpy(np.array(values, order="C")).reshape(tuple(array.shape)))

    methods: dict[str, Any] = {
        "to_host": read,
        "from_host": written,
        "running": lambda self, lane=COMPUTE: streams.running(lane),
        "mark": lambda self, lane: streams.mark(lane),
        "wait": lambda self, lane, event: streams.wait(lane, event),
        "shares_streams": lambda self, other: True,
        "synchronize": lambda self: streams.go_on(),
    }
    with fake_gpu(), pytest.MonkeyPatch.context() as patched:
        for name, method in methods.items():
            patched.setattr(CudaDevice, name, method)
        patched.setattr(KernelCalls, "call", run_late)
        yield streams


@pytest.mark.parametrize("seed", range(12))
def test_what_runs_late_gives_the_same_values(seed: int) -> None:
    with fake_gpu(), strict("cuda:0", 7) as session:
        asked = recorded(seed)
        it.compute(*asked)
        roomy = [tensor.numpy() for tensor in asked]
        peak = local(session).ledgers[0].peak_bytes
    for share in (0.6, 0.3):
        with late_gpu(seed), strict("cuda:0", 7, int(share * peak), 0, host="64MiB"):
            try:
                asked = recorded(seed)
                it.compute(*asked)
            except it.MemoryBudgetError:
                continue
            for a, tensor in zip(roomy, asked, strict=True):
                np.testing.assert_array_equal(a, tensor.numpy())


@pytest.mark.parametrize("seed", range(2))
def test_points_that_stream_late_have_the_same_labels(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(centres, "ELEMENTS_AT_ONCE_ON_GPU", 1 << 10)
    x = np.random.default_rng(0).normal(size=(6_000, 4))
    theirs = KMeans(5, init=x[:5], max_iter=6, tol=0).fit(x)
    with late_gpu(seed) as streams, strict("cuda:0", 4096, "512KiB", 0, host="1GiB"):
        ours = KMeans(5, init=x[:5], max_iter=6, tol=0).fit(x)
        stats = it.stats()
    assert stats["bytes_loaded"] > 4 * x.nbytes
    assert stats["bytes_evicted"] > x.nbytes
    assert streams.n_late > 0
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)

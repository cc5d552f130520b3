"""The ledger: bytes in use, at rest and at most, whatever order buffers come and go in."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor import events
from infinitensor.devices import Buffer, Ledger, open_devices
from infinitensor.devices.ledger import BLOCK_BYTES
from infinitensor.errors import DeviceOutOfMemoryError
from infinitensor.ir.slab import slab_bytes


class Recorder:
    """A CPU that counts what it was asked for, and refuses beyond a limit."""

    kind = "cpu"
    name = "cpu:0"

    def __init__(self, limit_bytes: int = 1 << 60) -> None:
        self.asked: list[int] = []
        self.released = 0
        self.limit_bytes = limit_bytes
        (self.inner,) = open_devices("cpu")

    def allocate(self, n_bytes: int) -> Any:
        if n_bytes > self.limit_bytes:
            raise RuntimeError("no memory")
        self.asked.append(n_bytes)
        return self.inner.allocate(n_bytes)

    def release(self) -> None:
        self.released += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def ledger_of(budget_bytes: int, limit_bytes: int = 1 << 60) -> tuple[Ledger, Recorder]:
    device = Recorder(limit_bytes)
    return Ledger(device, budget_bytes), device


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40_000)), max_size=40))
@examples(60)
def test_used_resting_and_peak_are_what_a_count_says(steps: list[tuple[bool, int]]) -> None:
    ledger, _ = ledger_of(1 << 20)
    held: list[Buffer] = []
    peak = 0
    for takes, n in steps:
        if takes or not held:
            held.append(ledger.take(int(slab_bytes(n))))
        else:
            held.pop(n % len(held))
        used = sum(buffer.n_bytes for buffer in held)
        peak = max(peak, used)
        assert ledger.used_bytes == used
        assert ledger.peak_bytes == peak
        assert ledger.resting_bytes >= 0
        assert ledger.used_bytes + ledger.resting_bytes <= max(ledger.budget_bytes, used)
        assert all(len(buffer.block) == buffer.n_bytes for buffer in held)
    held.clear()
    assert ledger.used_bytes == 0
    ledger.trim()
    assert ledger.resting_bytes == 0


def test_a_slab_given_back_is_handed_out_again() -> None:
    ledger, device = ledger_of(1 << 30)
    big = 1 << 20
    buffer = ledger.take(big)
    at = buffer.block.ctypes.data
    del buffer
    assert ledger.resting_bytes == big
    assert ledger.take(big).block.ctypes.data == at
    assert device.asked == [big]


def test_small_slabs_are_carved_from_one_block() -> None:
    ledger, device = ledger_of(1 << 30)
    held = [ledger.take(1024) for _ in range(BLOCK_BYTES // 1024)]
    assert device.asked == [BLOCK_BYTES]
    starts = {buffer.block.ctypes.data for buffer in held}
    assert len(starts) == len(held)
    for buffer in held:
        buffer.block[:] = 1
    assert ledger.resting_bytes == 0
    assert ledger.used_bytes == BLOCK_BYTES


def test_carving_stays_within_the_budget() -> None:
    ledger, device = ledger_of(10_000)
    held = [ledger.take(1024)]
    assert sum(device.asked) <= 10_000
    held.append(ledger.take(2048))
    assert ledger.used_bytes + ledger.resting_bytes <= 10_000


def test_slabs_at_rest_are_returned_when_the_budget_is_needed() -> None:
    ledger, device = ledger_of(3 << 20)
    held = [ledger.take(1 << 20), ledger.take(1 << 20)]
    held.clear()
    assert ledger.resting_bytes == 2 << 20
    keep = ledger.take(2 << 20)
    assert (ledger.used_bytes, ledger.resting_bytes) == (2 << 20, 0)
    assert device.released == 1
    assert keep.n_bytes == 2 << 20


def test_a_device_without_memory_is_asked_twice_and_then_named() -> None:
    ledger, device = ledger_of(1 << 30, limit_bytes=1 << 20)
    with pytest.raises(DeviceOutOfMemoryError, match=r"cpu:0 has no 2.0 MiB left although"):
        ledger.take(2 << 20)
    assert device.released == 1
    assert ledger.used_bytes == 0
    assert ledger.take(1 << 20).n_bytes == 1 << 20


def test_every_taking_is_told() -> None:
    ledger, _ = ledger_of(1 << 30)
    seen: list[Any] = []
    with events.on("allocate", lambda **what: seen.append((what["device"], what["n_bytes"]))):
        ledger.take(128)
    assert seen == [("cpu:0", 128)]


def test_two_threads_never_get_one_slab() -> None:
    ledger, _ = ledger_of(1 << 24)
    torn: list[int] = []

    def work(mark: int) -> None:
        for k in range(400):
            buffers = [ledger.take(256 << (k % 4)) for _ in range(3)]
            for buffer in buffers:
                buffer.block[:] = mark
            for buffer in buffers:
                if (buffer.block != mark).any():
                    torn.append(k)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not torn
    assert ledger.used_bytes == 0
    assert 0 < ledger.peak_bytes <= 2 * 2 * 3 * 2048

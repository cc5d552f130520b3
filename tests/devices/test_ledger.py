"""The ledger: bytes in use, at rest and at most, whatever order buffers come and go in."""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor import events
from infinitensor.devices import Buffer, Ledger, open_devices
from infinitensor.devices import ledger as ledger_file
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
        self.held_bytes = 0
        (self.inner,) = open_devices("cpu")

    def allocate(self, n_bytes: int) -> Any:
        if n_bytes > self.limit_bytes:
            raise RuntimeError("no memory")
        self.asked.append(n_bytes)
        block = self.inner.allocate(n_bytes)
        self.held_bytes += n_bytes
        weakref.finalize(block, self.went, n_bytes)
        return block

    def went(self, n_bytes: int) -> None:
        self.held_bytes -= n_bytes

    def release(self) -> None:
        self.released += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def ledger_of(budget_bytes: int, limit_bytes: int = 1 << 60) -> tuple[Ledger, Recorder]:
    device = Recorder(limit_bytes)
    return Ledger(device, budget_bytes), device


def are_apart(blocks: list[Any]) -> bool:
    """Whether no two blocks share a byte."""
    spans = sorted((block.ctypes.data, block.nbytes) for block in blocks)
    return all(at + n <= after for (at, n), (after, _) in pairwise(spans))


@st.composite
def slab_sizes(draw: st.DrawFn) -> int:
    """Slabs of all sizes, the many small classes as likely as the large ones."""
    return int(slab_bytes(draw(st.integers(1, 1 << draw(st.integers(3, 15))))))


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "take", "give", "export", "drop"]), slab_sizes()),
    max_size=120,
)


@given(STEPS, st.sampled_from([1 << 14, 1 << 16, 1 << 20]))
@examples(100)
def test_held_is_what_is_counted_and_within_the_budget(
    steps: list[tuple[str, int]], budget_bytes: int
) -> None:
    ledger, device = ledger_of(budget_bytes)
    held: list[Buffer] = []
    exported: list[Any] = []
    peak = 0
    for step, n in steps:
        if step == "take" and ledger.used_bytes + n <= budget_bytes:
            held.append(ledger.take(n))
            peak = max(peak, ledger.used_bytes)
        elif step == "give" and held:
            held.pop(n % len(held))
        elif step == "export" and held:
            buffer = held.pop(n % len(held))
            exported.append(buffer.block[1:].view())
            buffer.exported = True
            del buffer
        elif step == "drop" and exported:
            exported.pop(n % len(exported))
        given_out = sum(len(array) + 1 for array in exported)
        assert ledger.used_bytes == sum(buffer.n_bytes for buffer in held) + given_out
        assert device.held_bytes == ledger.used_bytes + ledger.resting_bytes <= budget_bytes
        assert ledger.peak_bytes == peak
        assert all(len(buffer.block) == buffer.n_bytes for buffer in held)
        assert are_apart([buffer.block for buffer in held] + exported)
    held.clear()
    exported.clear()
    assert ledger.used_bytes == 0
    ledger.trim()
    assert device.held_bytes == ledger.resting_bytes == 0


def test_many_sizes_of_small_slabs_hold_no_more_than_the_budget() -> None:
    ledger, device = ledger_of(1 << 20)
    kept: list[Buffer] = []
    for n in range(64, 16_384, 64):
        size = int(slab_bytes(n))
        several = [ledger.take(size) for _ in range(8)]
        kept.append(several[3])  # one of each size lives on, and pins itself alone
        if ledger.used_bytes > 1 << 19:
            kept.clear()
        del several
        assert device.held_bytes <= 1 << 20


def test_a_slab_given_back_is_handed_out_again() -> None:
    ledger, device = ledger_of(1 << 30)
    big = 1 << 20
    buffer = ledger.take(big)
    at = buffer.block.ctypes.data
    del buffer
    assert ledger.resting_bytes == big
    assert ledger.take(big).block.ctypes.data == at
    assert device.asked == [big]


def test_there_is_room_for_what_nobody_uses_any_more() -> None:
    ledger = Ledger(Recorder(), 1000)
    held = [ledger.take(400), ledger.take(400)]
    assert ledger.has(200)
    assert not ledger.has(201)
    held[0].exported = True
    block = held[0].block
    del held[:]
    assert ledger.has(600), "one was given back"
    assert not ledger.has(601), "the other is seen"
    del block
    assert ledger.has(1000)
    assert not ledger.has(1001)


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


def test_every_taking_is_reported() -> None:
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


@pytest.fixture(params=["C", "Python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slabs at rest are handed out by C, or by what says what that does."""
    if request.param == "Python":
        monkeypatch.setattr(ledger_file, "_take_at_rest", lambda ledger, n_bytes: None)


@pytest.mark.usefixtures("way")
def test_what_is_handed_out_again_is_counted_alike() -> None:
    ledger, device = ledger_of(1 << 13)
    places = set()
    for k in range(40):
        held = [ledger.take(1024) for _ in range(1 + k % 3)]
        places |= {buffer.block.ctypes.data for buffer in held}
        assert all(buffer.ledger is ledger and buffer.n_bytes == 1024 for buffer in held)
        assert not any(buffer.exported for buffer in held)
        assert len(ledger.loans) == len(held)
        assert ledger.used_bytes == 1024 * len(held)
        assert ledger.used_bytes + ledger.resting_bytes == device.held_bytes
        assert ledger.peak_bytes == 1024 * min(k + 1, 3)
        held.clear()
    assert (ledger.n_taken, len(places)) == (sum(1 + k % 3 for k in range(40)), 3)
    assert device.asked == [1024] * 3
    assert ledger.used_bytes == 0
    assert not ledger.loans


@pytest.mark.usefixtures("way")
def test_what_somebody_sees_is_not_handed_out() -> None:
    ledger, _ = ledger_of(1 << 20)
    first, second = ledger.take(512), ledger.take(512)
    at, seen = second.block.ctypes.data, first.block[:]
    first.exported = True
    del first, second
    again = [ledger.take(512), ledger.take(512)]
    assert again[0].block.ctypes.data == at
    assert not any((buffer.block.ctypes.data == seen.ctypes.data) for buffer in again)
    assert ledger.used_bytes == 3 * 512
    del seen
    assert ledger.used_bytes == 2 * 512


def test_a_slab_is_not_taken_while_another_thread_counts() -> None:
    ledger, _ = ledger_of(1 << 20)
    ledger.take(256)
    found: list[Buffer] = []
    thread = threading.Thread(target=lambda: found.append(ledger.take(256)))
    with ledger._lock:
        thread.start()
        thread.join(0.05)
        assert not found
    thread.join()
    assert ledger.used_bytes == 256


def test_no_slab_is_lost_to_a_collection_at_any_time() -> None:
    """Cycles that hold buffers are found while others are taken."""
    ledger, device = ledger_of(1 << 24)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for k in range(300):
            held: list[Any] = [ledger.take(256 << (k % 3))]
            held.append(held)
            del held
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert ledger.used_bytes == 0
    assert device.held_bytes == ledger.resting_bytes
    assert not ledger.loans

"""Memory at rest goes back to the machine once nobody has taken any for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.ir.sessions import local

import infinitensor as it
from infinitensor.devices import idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.devices import Ledger


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "SECONDS", 0.05)
    monkeypatch.setattr(idle, "LEAST_IDLE_BYTES", 1 << 20)


def becomes(is_so: Callable[[], bool], most_s: float = 30.0) -> bool:
    end = time.monotonic() + most_s
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    return is_so()


def held(ledger: Ledger) -> int:
    return ledger._used_bytes + ledger._resting_bytes  # as it is: a property would count anew


@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
def test_what_dropped_tensors_took_is_given_back(devices: str) -> None:
    with it.init(devices) as session:
        made = [it.zeros(400_000) + k for k in range(4)]
        it.compute(*made)
        ledgers = local(session).ledgers
        assert sum(map(held, ledgers)) >= 4 * 400_000 * 8
        kept = made.pop()
        del made
        assert becomes(lambda: sum(map(held, ledgers)) < 2 * 400_000 * 8)
        assert kept[-1].item() == 3
        assert float((kept * 2).sum()) == 6 * 400_000, "the session goes on"


def test_nobody_looks_after_ledgers_that_hold_little() -> None:
    with it.init("cpu"):
        x = it.compute(it.zeros(400_000) + 1)
        assert idle._threads
        del x
        assert becomes(lambda: not idle._threads)

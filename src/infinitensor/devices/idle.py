"""Memory that rests for a while is given back: other programs of the machine may need it.

A program that runs takes the same slabs again and again, so they rest in their ledger. When nobody
has taken any for some seconds, they go. One thread looks after all ledgers, while one of them holds
much.
"""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

SECONDS = 5.0
"""How long slabs rest, at least; at most twice as long."""
LEAST_IDLE_BYTES = 64 << 20
"""Bytes from which a ledger is looked after."""


class Resting(Protocol):
    """A ledger, as far as it is looked after."""

    n_taken: int

    @property
    def used_bytes(self) -> int: ...

    @property
    def resting_bytes(self) -> int: ...

    def let_go(self) -> None: ...

    def trim(self) -> None: ...


_watched: weakref.WeakKeyDictionary[Resting, int] = weakref.WeakKeyDictionary()
"""Ledgers, and how often each had been asked for memory when it was looked at last."""
_lock = threading.Lock()
_threads: list[threading.Thread] = []


def watch(ledger: Resting) -> None:
    """Look after a ledger from now on, until it holds little."""
    with _lock:
        _watched.setdefault(ledger, -1)
        if not any(thread.is_alive() for thread in _threads):  # after a fork there is none
            _threads[:] = [threading.Thread(target=_look, name="infinitensor idle", daemon=True)]
            _threads[0].start()


def _look() -> None:
    waits = threading.Event()
    while True:
        waits.wait(SECONDS)
        with _lock:
            found = list(_watched.items())
        while found:  # not under the lock: who works with a ledger may call `watch`
            _look_at(*found.pop())
        with _lock:
            if not _watched:
                _threads.clear()
                return


def _look_at(ledger: Resting, seen: int) -> None:
    """Trim a ledger of which nobody has taken anything since it was looked at."""
    ledger.let_go()
    if ledger.n_taken == seen:
        ledger.trim()
    _watched[ledger] = ledger.n_taken
    if ledger.used_bytes + ledger.resting_bytes < LEAST_IDLE_BYTES:
        _watched.pop(ledger, None)

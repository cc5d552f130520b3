"""Bar F13: memory that a device refuses to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.ir.sessions import local

import infinitensor as it
from infinitensor import events

from .sampling import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Program = Callable[[Any], list[Any]]


class Refusal:
    """Refuses memory at the n-th allocation, or from it on."""

    def __init__(self, at: int, n_times: float = 1) -> None:
        self.at = at
        self.n_times = n_times
        self.n_seen = 0

    def __call__(self, device: str, n_bytes: int) -> None:
        number, self.n_seen = self.n_seen, self.n_seen + 1
        if self.at <= number < self.at + self.n_times:
            raise it.DeviceOutOfMemoryError(f"{device} has no {n_bytes} bytes left", n_bytes)


def values_of(tensors: Sequence[Any]) -> list[np.ndarray]:
    return [np.array(tensor.numpy()) for tensor in tensors]


def assert_same(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def allocations(session: it.Session, program: Program, values: np.ndarray) -> int:
    """How often a program asks for memory."""
    counted = Refusal(1 << 60)
    with session, events.on("allocate", counted):
        values_of(program(it.asarray(values)))
    return counted.n_seen


def assert_one_refusal_changes_nothing(
    open_session: Callable[[], it.Session],
    program: Program,
    values: np.ndarray,
    wanted: Sequence[np.ndarray],
    name: str,
) -> None:
    """Whichever allocation it is (of a sample); and nothing is left of what it was for."""
    n_seen = allocations(open_session(), program, values)
    assert n_seen >= 4
    for at in sample(range(n_seen), 8, name):
        with open_session() as session:
            with events.on("allocate", Refusal(at)):
                x = it.asarray(values)
                asked = program(x)
                assert_same(values_of(asked), wanted)
            del x, asked
            session.drain()
            assert local(session).ledgers[0].used_bytes == 0
            assert local(session).tiers.spilled_bytes == 0

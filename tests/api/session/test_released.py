"""What is gone is counted down, in C and in Python alike."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.session import released

if TYPE_CHECKING:
    import pytest


def test_readers_and_cells_are_counted_down_as_they_go() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.arange(10.0))
        base = x._version
        y, z = x + 1, x * 2
        assert (base.readers, base.live) == (2, 1)
        other = x
        del y
        session.drain()
        assert (base.readers, base.live) == (1, 1)
        it.compute(z)
        session.drain()
        assert (base.readers, base.live) == (0, 1)
        del x, other
        gc.collect()
        session.drain()
        assert base.live == 0
        assert session.graveyard == []
        assert session.dropped == []


def test_a_loop_of_temporaries_leaves_no_readers() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.arange(6.0))
        for _ in range(50):
            x + 1
        session.drain()
        assert x._version.readers == 0
        assert session.graveyard == []


def test_a_view_that_goes_leaves_its_base() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.arange(6.0))
        part = x[1:4]
        made = part * 2
        del part
        session.drain()
        assert x._version.live == 1
        np.testing.assert_array_equal(made.numpy(), [2.0, 4.0, 6.0])


def test_without_c_nothing_is_put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "load_beside", lambda path: None)
    released.in_c(int)  # what installs it would refuse it

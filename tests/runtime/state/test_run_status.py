"""How far a run is: what stops it, what it goes past, what it counts."""

from __future__ import annotations

import numpy as np
import pytest

from infinitensor.runtime.state.run_status import IS_STOPPED, Left, Status


def test_a_failure_stops_and_the_first_is_kept() -> None:
    status = Status(3, 3)
    first = ValueError("first")
    status.fail(1, first)
    status.fail(2, ValueError("second"))
    assert status.stopping
    assert status.failed == [1, 2]
    assert status.failure is first


def test_a_resumed_run_goes_past_errors_but_not_past_an_interrupt() -> None:
    status = Status(3, 3)
    status.goes_past_failures = True
    status.fail(0, ValueError("a task"))
    assert not status.stopping
    status.fail(1, KeyboardInterrupt())
    assert status.stopping


def test_a_loop_that_was_left_is_no_failure() -> None:
    status = Status(1, 1)
    status.check_stop()
    status.stop()
    with pytest.raises(Left, match=r"^$") as left:
        status.check_stop()
    status.fail(0, left.value)
    assert status.failure is None
    assert status.clear_stop()
    assert not status.clear_stop()
    assert not status.stopping


def test_c_hears_of_a_stop() -> None:
    status = Status(1, 1)
    status.job = np.zeros(IS_STOPPED + 1, np.int64)
    status.stop()
    assert status.job[IS_STOPPED] == 1


def test_counts_are_given_out_once() -> None:
    status = Status(3, 3)
    status.n_done = 2
    status.counts["bytes_moved"] += 8
    assert status.take_counts() == {"tasks": 2, "bytes_moved": 8}
    status.n_done = 3
    assert status.is_finished()
    assert status.take_counts() == {"tasks": 1}

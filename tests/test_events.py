"""Hooks are called where something happens, until they are taken off; what they raise is raised."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from infinitensor import events
from infinitensor.events import between_steps, emit, lane, on

pytestmark = pytest.mark.unaudited  # what happens here are inventions


def test_hooks_are_called_in_turn_with_what_happened() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    with (
        on("allocate", lambda **what: seen.append(("first", what))),
        on("allocate", lambda **what: seen.append(("second", what))),
        on("run_end", lambda **what: seen.append(("other", what))),
    ):
        emit("allocate", n_bytes=7)
    assert seen == [("first", {"n_bytes": 7}), ("second", {"n_bytes": 7})]


def test_name_without_hooks_is_not_in_the_table() -> None:
    before = dict(events.hooks)
    with on("tile_commit", print), on("tile_commit", repr):
        assert "tile_commit" in events.hooks
    assert events.hooks == before


def test_what_a_hook_raises_is_raised_there_and_hooks_after_it_are_not_called() -> None:
    def fail(**what: Any) -> None:
        raise OSError(f"no room for {what['n_bytes']}")

    seen: list[Any] = []
    with (
        on("allocate", fail),
        on("allocate", lambda **what: seen.append(what)),
        pytest.raises(OSError, match="no room for 5"),
    ):
        emit("allocate", n_bytes=5)
    assert seen == []
    emit("allocate", n_bytes=5)  # taken off, also by an exception


def test_one_callback_put_on_twice_is_called_until_each_is_taken_off() -> None:
    seen: list[int] = []

    def count(**what: Any) -> None:
        seen.append(what["k"])

    outer = on("evaluated", count)
    with on("evaluated", count) as inner:
        emit("evaluated", k=0)
    inner.off()  # nothing the second time
    emit("evaluated", k=1)
    outer.off()
    emit("evaluated", k=2)
    assert seen == [0, 0, 1]


def test_hook_may_take_itself_off_while_it_is_called() -> None:
    seen: list[str] = []

    def once(**what: Any) -> None:
        seen.append("once")
        hook.off()

    hook = on("run_start", once)
    with on("run_start", lambda **what: seen.append("always")):
        emit("run_start")
        emit("run_start")
    assert seen == ["once", "always", "always"]


def test_event_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="no event 'tasks'; events are allocate, task_start"):
        on("tasks", print)


def test_loop_asks_its_own_thread_whether_to_go_on() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    seen: list[bool] = []

    def other() -> None:
        between_steps()
        seen.append(lane.in_task)

    lane.check, lane.in_task = stop, True
    try:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            between_steps()
    finally:
        lane.check, lane.in_task = None, False
    assert seen == [False]
    between_steps()

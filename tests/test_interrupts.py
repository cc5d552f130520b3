"""Ctrl-C is held back, never lost."""

from __future__ import annotations

import gc
import signal
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import infinitensor  # noqa: F401 - loads the C form
from infinitensor import interrupts
from infinitensor.interrupts import (
    Uninterrupted,
    hold_in_python,
    interruptible,
    restore_in_python,
    without_interrupts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def held(*raised: Exception, is_pressed: bool = True) -> list[str]:
    """A block that is asked to stop and goes on to its end; perhaps by raising."""
    done = []
    try:
        with without_interrupts():
            if is_pressed:
                signal.raise_signal(signal.SIGINT)
            done.append("inner")
            for error in raised:
                raise error
    except KeyboardInterrupt as interrupt:
        done += ["interrupted", repr(interrupt.__context__)]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return done


@pytest.fixture(params=["in C", "in Python"])
def holding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """How handlers are held, and given back."""
    if request.param == "in Python":
        monkeypatch.setattr(interrupts, "_hold", hold_in_python)
        monkeypatch.setattr(interrupts, "_put_back", restore_in_python)
    return interrupts._hold, interrupts._put_back


def test_only_the_very_objects_are_held(holding: Any) -> None:
    hold, _ = holding
    one, other, ours = object(), object(), object()
    for given, seen, is_so in [
        ((1, 2, 3), (one, None, other), True),
        ((1, 2, 3), (one, None, one), False),
        ((1, 2, 3), (one, None), False),
        ((1, 2, 3), (), False),
        ((), (), True),
    ]:
        found: dict[int, Any] = {1: one, 2: None, 3: other}
        users = {1: one, 3: other} if given else {}
        assert hold((found.get, found.__setitem__), given, seen, users, ours) is is_so
        assert (found[1] is ours) is (is_so and bool(given))
        assert found[2] is None
    with pytest.raises(KeyError):
        hold(({}.__getitem__, print), (4,), (one,), {}, ours)


def test_only_what_has_our_handler_is_given_back(holding: Any) -> None:
    _, restore = holding
    one, other, ours = object(), object(), object()
    found = {1: ours, 2: other, 3: ours}
    restore((found.get, found.__setitem__), {1: one, 2: one}, ours)
    assert found == {1: one, 2: other, 3: ours}
    with pytest.raises(KeyError):
        restore(({}.__getitem__, print), {4: one}, ours)


@pytest.mark.usefixtures("holding")
@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGRTMIN", "SIGRTMAX"])
def test_a_handler_that_is_new_is_held_back_and_then_as_it_was(name: str) -> None:
    number = getattr(signal, name)
    for text in ("first", "second"):  # two handlers, one after the other, between blocks

        def fail(*_: Any, text: str = text) -> None:
            raise TimeoutError(text)

        def press(done: list[int]) -> None:
            with without_interrupts():
                signal.raise_signal(number)
                done.append(number)

        before, done = signal.signal(number, fail), list[int]()
        try:
            with pytest.raises(TimeoutError, match=text):
                press(done)
            assert signal.getsignal(number) is fail
        finally:
            signal.signal(number, before)
        assert done == [number]
        with without_interrupts():
            assert signal.getsignal(number) == before


def test_a_held_interrupt_comes_at_the_end_of_the_block() -> None:
    assert held() == ["inner", "interrupted", "None"]


def test_a_held_interrupt_comes_though_another_error_leaves_the_block() -> None:
    assert held(ZeroDivisionError("x")) == ["inner", "interrupted", "ZeroDivisionError('x')"]


def test_an_error_without_an_interrupt_leaves_the_block_as_it_is() -> None:
    assert held(is_pressed=False) == ["inner"]
    with pytest.raises(ZeroDivisionError, match="of the block"):
        held(ZeroDivisionError("of the block"), is_pressed=False)


def test_an_interrupt_in_a_block_within_another_comes_after_the_outer_one() -> None:
    done = []
    try:
        with without_interrupts():
            with without_interrupts():
                signal.raise_signal(signal.SIGINT)
            done.append("outer")
    except KeyboardInterrupt:
        done.append("interrupted")
    assert done == ["outer", "interrupted"]


class Tile:
    """What a run holds."""


def hold_and_raise(seen: list[weakref.ref[Tile]], raised: type[BaseException] | None) -> None:
    tile = Tile()
    seen.append(weakref.ref(tile))
    with without_interrupts():
        signal.raise_signal(signal.SIGUSR1)
        if raised is not None:
            raise raised


@pytest.mark.parametrize("raised", [None, ZeroDivisionError, KeyboardInterrupt])
def test_what_a_stopped_block_held_is_gone_with_the_error(
    on_usr1: Callable[[Any], object], raised: type[BaseException] | None
) -> None:
    def stop(*_: object) -> None:
        raise TimeoutError

    on_usr1(stop)
    seen: list[weakref.ref[Tile]] = []
    gc.disable()  # whose time nobody knows
    try:
        with suppress(TimeoutError):
            hold_and_raise(seen, raised)
        assert seen[0]() is None
    finally:
        gc.enable()


@pytest.fixture
def on_usr1() -> Iterator[Callable[[Any], object]]:
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


def raise_time_is_up(number: int, frame: Any) -> None:
    raise TimeoutError("time is up")


def test_what_another_handler_raises_waits_and_stops_the_work_too(
    on_usr1: Callable[[Any], object],
) -> None:
    on_usr1(raise_time_is_up)
    done = []

    class Work:
        def stop(self) -> None:
            done.append("stopped")

    def work() -> None:
        with Uninterrupted(Work()):
            signal.raise_signal(signal.SIGUSR1)
            done.append("inner")

    with pytest.raises(TimeoutError, match="time is up"):
        work()
    assert done == ["stopped", "inner"]
    assert signal.getsignal(signal.SIGUSR1) is raise_time_is_up


def test_a_handler_that_raises_nothing_runs_at_once(on_usr1: Callable[[Any], object]) -> None:
    done = []
    on_usr1(lambda number, frame: done.append("handled"))
    with without_interrupts():
        signal.raise_signal(signal.SIGUSR1)
        done.append("inner")
    assert done == ["handled", "inner"]


def test_a_handler_that_puts_another_in_its_place_is_obeyed(
    on_usr1: Callable[[Any], object],
) -> None:
    def once(number: int, frame: Any) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    on_usr1(once)
    with without_interrupts():
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_work_that_begins_after_a_signal_is_asked_to_stop(on_usr1: Callable[[Any], object]) -> None:
    on_usr1(raise_time_is_up)
    stops = []

    class Work:
        def stop(self) -> None:
            stops.append(True)

    def work() -> None:
        with without_interrupts():
            signal.raise_signal(signal.SIGUSR1)
            with Uninterrupted(Work()):
                stops.append(False)

    with pytest.raises(TimeoutError, match="time is up"):
        work()
    assert stops == [True, False]


def test_what_leaves_nothing_torn_is_interrupted_at_once(on_usr1: Callable[[Any], object]) -> None:
    on_usr1(raise_time_is_up)
    done = []

    def pure() -> None:
        with without_interrupts():
            signal.raise_signal(signal.SIGUSR1)
            done.append("inner")
        signal.raise_signal(signal.SIGUSR1)
        done.append("not reached")

    with pytest.raises(TimeoutError, match="time is up"), without_interrupts():
        interruptible(pure)
    assert done == ["inner"]


def test_a_second_signal_and_the_next_block_are_as_the_first(
    on_usr1: Callable[[Any], object],
) -> None:
    on_usr1(raise_time_is_up)

    def twice() -> None:
        with without_interrupts():
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR1)

    for _ in range(2):
        with pytest.raises(TimeoutError, match="time is up"):
            twice()
    with without_interrupts():
        pass


class _Gone:
    """Something that is put away in a finaliser, in which a signal comes."""

    def __init__(self, done: list[str], by: str) -> None:
        self.done = done
        if by == "finalize":
            weakref.finalize(self, _put_away, done)
        self.by = by

    def __del__(self) -> None:
        if self.by == "__del__":
            _put_away(self.done)


def _put_away(done: list[str]) -> None:
    signal.raise_signal(signal.SIGINT)
    done.append("put away")


@pytest.mark.parametrize("by", ["finalize", "__del__"])
def test_in_a_finaliser_it_waits_where_it_would_be_lost(by: str) -> None:
    done: list[str] = []

    def plan() -> None:
        gone = _Gone(done, by)
        del gone
        done.append("planned")

    with pytest.raises(KeyboardInterrupt), without_interrupts():
        interruptible(plan)
    assert done == ["put away", "planned"]

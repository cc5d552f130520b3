"""Ctrl-C is held back, never lost."""

from __future__ import annotations

import signal

import pytest

from infinitensor.interrupts import without_interrupts


def held(*raised: Exception, is_pressed: bool = True) -> list[str]:
    """A block that is told to stop and goes on to its end; perhaps by raising."""
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

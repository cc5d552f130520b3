"""Settings put back after each test, and the bars printed at the end of the run."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol

import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class HoldsBar(Protocol):
    """Note a measured value beside its bar; fail beyond `slack` times the bar."""

    def __call__(
        self, name: str, measured: float, bar: float, unit: str = "s", slack: float = 5.0
    ) -> None: ...


@pytest.fixture
def holds_bar(record_property: Callable[[str, object], None]) -> HoldsBar:
    """Times are asserted at five times their bar, since machines are shared, and printed at it."""

    def hold(name: str, measured: float, bar: float, unit: str = "s", slack: float = 5.0) -> None:
        verdict = "ok" if measured <= bar else "OVER THE BAR"
        line = f"{name}: {measured:.3g} {unit}, bar {bar:g} {unit}: {verdict}"
        print(line)
        record_property("reliability_bar", line)
        assert measured <= slack * bar, line

    return hold


@pytest.fixture(autouse=True)
def settings_are_put_back() -> Iterator[None]:
    """Each test starts without a session and with the settings it found."""
    before = {field.name: getattr(it.config, field.name) for field in fields(it.config)}
    it.shutdown()
    yield
    it.shutdown()
    for name, value in before.items():
        setattr(it.config, name, value)


@pytest.fixture
def strict() -> None:
    """Every op, however small, goes through record, plan, tiles and devices."""
    it.config.small_elements = 0
    it.config.tile_elements = 7


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Every bar that was measured, whether its test passed or not."""
    lines = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "reliability_bar"
    ]
    if lines:
        terminalreporter.section("reliability bars")
        for line in lines:
            terminalreporter.write_line(line)

"""No session is left by a test, and the bars are printed at the end of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest
from tests.settings import no_session_is_left  # noqa: F401 - every test here uses it

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable


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

"""Every evaluation of every test is audited; a test that measures time or memory opts out.

Settings that a test changed are put back after it.
"""

from __future__ import annotations

import signal
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from tests.audit import Audit

from infinitensor.config import config

if TYPE_CHECKING:
    from collections.abc import Iterator


# started in the background (nohup, `&` in a script) a process ignores Ctrl-C, which tests send
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def settings_are_put_back() -> Iterator[None]:
    """A test leaves the settings that it found."""
    before = {field.name: getattr(config, field.name) for field in fields(config)}
    yield
    for name, value in before.items():
        setattr(config, name, value)


@pytest.fixture(autouse=True)
def audit(request: pytest.FixtureRequest) -> Iterator[Audit | None]:
    """The audit of this test's evaluations; None for tests marked `unaudited`."""
    if request.node.get_closest_marker("unaudited"):
        yield None
        return
    with Audit().on() as audit:
        yield audit

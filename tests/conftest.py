"""Every evaluation of every test is audited; a test that measures time or memory opts out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.audit import Audit

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def audit(request: pytest.FixtureRequest) -> Iterator[Audit | None]:
    """The audit of this test's evaluations; None for tests marked `unaudited`."""
    if request.node.get_closest_marker("unaudited"):
        yield None
        return
    with Audit().on() as audit:
        yield audit

"""Sessions that tests of the public functions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.faithful.conftest import strict_or_default
from tests.ir.sessions import strict

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["strict_or_default"]


@pytest.fixture(params=["small", "strict"], scope="module")
def at_once_and_in_tiles(request: pytest.FixtureRequest) -> Iterator[None]:
    """At once on the host, and everything through tiles of seven on three devices."""
    with strict("cpu*3") if request.param == "strict" else it.init("cpu*3"):
        yield


@pytest.fixture
def counted_session() -> Iterator[it.Session]:
    """A session with the default settings on one CPU, whose counters begin at 0."""
    with it.init("cpu") as opened:
        it.stats(reset=True)
        yield opened

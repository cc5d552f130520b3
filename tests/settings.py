"""A session of its own for each test, for folders whose tests change how sessions are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def no_session_is_left() -> Iterator[None]:
    """Each test starts without a session, and leaves none."""
    it.shutdown()
    yield
    it.shutdown()

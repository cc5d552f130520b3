"""Settings put back after each test, for folders whose tests change them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def settings_are_put_back() -> Iterator[None]:
    """Each test starts without a session and with the settings it found."""
    before = {field.name: getattr(it.config, field.name) for field in fields(it.config)}
    it.shutdown()
    yield
    it.shutdown()
    for name, value in before.items():
        setattr(it.config, name, value)

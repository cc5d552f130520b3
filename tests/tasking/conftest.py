"""What tests of generated code share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def always() -> Iterator[None]:
    """Everything is compiled, whatever its size."""
    before = it.config.compile, it.config.small_elements
    it.config.compile, it.config.small_elements = "always", 0
    yield
    it.config.compile, it.config.small_elements = before

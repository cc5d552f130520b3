"""Small calls that C has counted and that the counts of their session do not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

putters: list[Callable[[], None]] = []
"""Each puts what it has counted into the counts of the session that it was for."""


def put_all() -> None:
    """Before counts are read or replaced, and before there is another session."""
    for put in putters:
        put()

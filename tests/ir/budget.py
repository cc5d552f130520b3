"""How much hypothesis looks for: the same examples on every run, few enough for a commit hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable


def examples(n: int) -> Callable[[Any], Any]:
    """A test over n examples, always the same ones."""
    return settings(
        max_examples=n,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

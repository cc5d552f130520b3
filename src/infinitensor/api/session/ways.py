"""The ways a call can run: their names, by which sessions count them (`stats()["ways"]`).

What each is for, who decides and what it costs is in docs/architecture.md. Ways in C count by
themselves and are asked for their counts when somebody reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

IN_C = ("numpy", "in_place", "read", "write")
"""The ways that C counts, in the order of its enum."""
AT_ONCE = (*IN_C, "kernel", "moved", "changing_shapes", "unplanned")
"""A call is done when it returns, without a plan: `stats()["small_calls"]` is their sum."""
RECORDED = ("recorded", "recorded_again")
"""A call waits as a node."""
EVALUATED = ("read_few", "resumed", "few_kernels", "repeated", "planned", "planned_in_less")
"""Ways that compute waiting calls; counted by program, but `unplanned` by call."""
NAMES = (*AT_ONCE, *RECORDED, *EVALUATED)

putters: list[Callable[[], None]] = []
"""Each puts what C has counted into the ways of the session that it was for."""


def put_all() -> None:
    """Before counts are read or replaced, and before there is another session."""
    for put in putters:
        put()

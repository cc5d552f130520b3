"""Calls on host values that only move elements: up to a medium size they run at once.

One loop over the elements is all that there is to do, and to find, bind and run a plan takes longer
than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.api.eager.changing_places import MEDIUM, blank, keep, runs_unplanned
from infinitensor.api.session.version import user_site

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version
    from infinitensor.ir.op import Spec


def is_moved(session: Session, made: Spec) -> bool:
    """Whether a result is of medium size at most, and there is room for it without a plan."""
    if made.n_elements > MEDIUM or not runs_unplanned(session):
        return False
    return 2 * made.n_bytes < session.engine.available_bytes(0)


def move(session: Session, made: Spec, name: str, fill: Callable[[Any], Any]) -> Version | None:
    """A version that `fill` has written, as a call of this name in the user's program.

    None where the call has to wait, or `fill` answers False.
    """
    with session.guard():
        if session.closed or not is_moved(session, made):
            return None
        table = blank(session, made.shape, made.dtype)
        if fill(table.whole) is False:
            return None
        session.ways["moved"] += 1
        return keep(session, table, name, user_site())

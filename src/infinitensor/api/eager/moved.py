"""Calls on host values that move elements or count them: up to a medium size they run at once.

One loop over the elements is all that there is to do, and to find, bind and run a plan takes longer
than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.api.eager.changing_places import LEAF, MEDIUM, blank, keep, runs_unplanned
from infinitensor.api.session.version import user_site
from infinitensor.interrupts import without_interrupts
from infinitensor.ir.op import n_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version
    from infinitensor.ir.op import Call, Op, Spec


def is_moved(session: Session, op: Op, call: Call) -> bool:
    """Whether a call moves or counts a medium number of elements at most, and there is room."""
    return is_medium(op, call) and _has_room(session, call.outs)


def is_medium(op: Op, call: Call) -> bool:
    """Whether a call makes or, where it counts them, reads a medium number of elements at most.

    Where numbers are added up it is one leaf, of which a plan has the same bits.
    """
    if not op.moves or max(spec.n_elements for spec in call.outs) > MEDIUM:
        return False
    is_rounded = op.combine is not None and not op.combine.exact
    return op.kind != "reduction" or n_points(op, call) <= (LEAF if is_rounded else MEDIUM)


def _has_room(session: Session, made: tuple[Spec, ...]) -> bool:
    n_bytes = sum(spec.n_bytes for spec in made)
    return runs_unplanned(session) and 2 * n_bytes < session.engine.available_bytes(0)


def move(session: Session, made: Spec, name: str, fill: Callable[[Any], Any]) -> Version | None:
    """A version that `fill` has written, as a call of this name in the user's program.

    None where the call has to wait, or `fill` answers False.
    """
    with session.guard(), without_interrupts():  # one block for all that the ledger opens
        if session.closed or made.n_elements > MEDIUM or not _has_room(session, (made,)):
            return None
        table = blank(session, made.shape, made.dtype)
        if fill(table.whole) is False:
            return None
        session.ways["moved"] += 1
        return keep(session, table, name, user_site())

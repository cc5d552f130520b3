"""Other shapes of stored memory: a reshape that is no box of its base is read in place.

A view that merges axes has no place in a plan, which cuts along axes: its values would be gathered
into a copy. Where they are contiguous in host memory, or all of one tile on a device, they are a
value of their own instead, over the same memory, which is not written or used again while the value
lives.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from infinitensor.api.session.version import Node, Version
from infinitensor.config import config
from infinitensor.interrupts import finalisers

if TYPE_CHECKING:
    import numpy as np

    from infinitensor.api.session.session import Session
    from infinitensor.ir.view import View

_lent: dict[weakref.ref[Version], tuple[Session, Node]] = {}
"""For each such value, what counts down its base when it dies."""


def alias(session: Session, base: Version, values: np.ndarray) -> Version | None:
    """A version over memory of another one; None where it cannot be read in place."""
    if base.table is None or not values.flags.c_contiguous or not config.small_elements:
        return None
    made = _lend(session, base, values.shape)
    made.host = values
    return made


def alias_of_all(session: Session, base: Version, view: View) -> Version | None:
    """The same of a view that is all of its base in its order, in another shape.

    It is in host memory, or one tile on a device; None for any other.
    """
    if base.table is None or not config.small_elements or not view.is_reshape:
        return None
    if base.host is not None:
        return alias(session, base, base.host.reshape(view.shape))
    table = base.table.reshaped(view.shape)
    if table is None:
        return None
    made = _lend(session, base, view.shape)
    made.table = table
    return made


def base_of(made: Version) -> Version | None:
    """The version whose memory another one is lent; None if it is not."""
    found = _lent.get(weakref.ref(made))
    return found[1].inputs[0] if found is not None else None


def _lend(session: Session, base: Version, shape: tuple[int, ...]) -> Version:
    """A version that holds the memory of another while it lives."""
    base.exported += 1
    made = Version(session, shape, base.dtype)
    made.exported = 1  # it is nobody's to use up
    nothing: Any = None
    node = Node(nothing, nothing, (base,), (), (), nothing, 0)
    node.alive = 1
    _lent[weakref.ref(made, _give_back)] = (session, node)
    return made


def _give_back(dead: weakref.ref[Version]) -> None:
    session, node = _lent.pop(dead)
    session.graveyard.append(node)


finalisers.add(_give_back.__code__)

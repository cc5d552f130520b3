"""Other shapes of stored memory: a reshape that is no box of its base is read in place.

A view that merges axes has no place in a plan, which cuts along axes: its values would be gathered
into a copy. Where they are contiguous in host memory, they are a value of their own instead, over
the same memory, which is not written or used again while the value lives.
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

_lent: dict[weakref.ref[Version], tuple[Session, Node]] = {}
"""For each such value, what counts down its base when it dies."""


def alias(session: Session, base: Version, values: np.ndarray) -> Version | None:
    """A version over memory of another one; None where it cannot be read in place."""
    if base.table is None or not values.flags.c_contiguous or not config.small_elements:
        return None
    base.exported += 1
    made = Version(session, values.shape, values.dtype)
    made.host = values
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

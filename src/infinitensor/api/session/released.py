"""Counting down what is gone, in C (`released.c`) where it can be compiled.

The finalisers of versions and cells and `Session.drain`, which say what that does, are complete
without it. Every temporary of a program passes here twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.api.session.extensions import compiled
from infinitensor.api.session.version import Cell, Node, Version

if TYPE_CHECKING:
    from infinitensor.api.session.session import Session


def in_c(session: type[Session]) -> None:
    """Put the C forms in the place of Python's, if they can be compiled."""
    module = compiled(__file__)
    if module is not None:
        module.install(Version, Cell, Node, session)

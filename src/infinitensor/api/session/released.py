"""Counting down what is gone, in C (`released.c`) where it can be compiled.

The finalisers of versions and cells and `Session.drain`, which say what that does, are complete
without it. Every temporary of a program passes here twice.
"""

from __future__ import annotations

from infinitensor.api.session.extensions import load_beside


def in_c(*types: type) -> None:
    """Put the C forms in the place of Python's, if they can be compiled.

    The types are `Version`, `Cell`, `Node` and `Session`.
    """
    module = load_beside(__file__)
    if module is not None:
        module.install(*types)

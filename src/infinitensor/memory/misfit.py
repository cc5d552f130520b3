"""How code deep inside a memory stage says that something does not fit.

At the border of the stage (`allocate`, `stream`) it becomes a value, so that the pipeline decides
what gives way by looking at results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.tasks import Misfit, Program


class MisfitError(Exception):
    """Ends the walk over tasks that do not fit."""

    def __init__(self, misfit: Misfit) -> None:
        super().__init__(misfit.op)
        self.misfit = misfit


def program_or_misfit(walk: Callable[[], Program]) -> Program | Misfit:
    """The result of a walk over tasks, or why there is none."""
    try:
        return walk()
    except MisfitError as error:
        return error.misfit

"""What does not fit ends a walk, and is a value at the border of its stage."""

from __future__ import annotations

import pytest

from infinitensor.ir.tasks import Misfit, Program
from infinitensor.memory.misfit import MisfitError, program_or_misfit

MISFIT = Misfit("sort", 10, 8, 0, "here")


def test_a_misfit_is_returned() -> None:
    def walk() -> Program:
        raise MisfitError(MISFIT)

    assert program_or_misfit(walk) is MISFIT


def test_other_errors_are_raised() -> None:
    def walk() -> Program:
        raise KeyError("another")

    with pytest.raises(KeyError, match="another"):
        program_or_misfit(walk)

"""Unchanged NumPy programs give NumPy's results here, and leave their arguments as NumPy would."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.programs import (
    factorizations,
    images,
    networks,
    physics,
    products,
    searches,
    statistics,
    stencils,
)
from tests.programs.registry import PROGRAMS, Program

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator

FAMILIES = (
    factorizations,
    images,
    networks,
    physics,
    products,
    searches,
    statistics,
    stencils,
)

pytestmark = [
    pytest.mark.local,
    pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning"),  # in NumPy 2.5
]


@pytest.fixture(scope="module", params=["default", "strict"])
def run_kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """A session as it comes, and one in which everything is cut into tiles of 7 elements."""
    if request.param == "strict":
        with strict("cpu*3"):
            yield "strict"
    else:
        with it.init("cpu"):
            yield "default"


def same(ours: Any, theirs: Any, rtol: float) -> None:
    """The shape, the dtype and, but for rounding, the values of NumPy's result."""
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, rtol)
        return
    actual, expected = np.asarray(ours), np.asarray(theirs)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(actual, expected, rtol, atol=1e-3 * rtol)


@pytest.mark.parametrize(
    "program",
    [pytest.param(p, id=p.name, marks=[pytest.mark.slow] * p.is_slow) for p in PROGRAMS],
)
def test_program_gives_numpys_results(program: Program, run_kind: str) -> None:
    theirs = program.arguments(np.random.default_rng(7))
    ours = [it.asarray(a) if isinstance(a, np.ndarray) else a for a in copy.deepcopy(theirs)]
    with np.errstate(all="ignore"):
        expected = program.run(np, *theirs)
    it.stats(reset=True)
    result = program.run(it, *ours)
    if expected is not None:
        same(result, expected, program.rtol)
    for a, b in zip(ours, theirs, strict=True):
        same(a, b, program.rtol)
    counts = it.stats()
    assert counts["tasks"] + counts["small_calls"] > 0
    assert counts["host_fallbacks"] == 0
    if it.config.compile != "always":  # then complex numbers and integer division count
        assert counts["eager_fallbacks"] == 0
    if run_kind == "strict":
        assert counts["tasks"] > 0
        assert counts["small_calls"] == 0


def test_there_are_at_least_as_many_programs_as_in_npbench() -> None:
    assert len(PROGRAMS) >= 54
    assert {p.run.__module__ for p in PROGRAMS} == {family.__name__ for family in FAMILIES}

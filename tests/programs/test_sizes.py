"""The programs at the sizes of `benchmarks.bench_programs`: many tiles, windows, tasks run by C.

At the sizes of `test_programs` a tensor is one tile unless tiles are made tiny, and then nothing is
worth compiling. All of them run with INFINITENSOR_TEST_ALL=1; a sample that takes seconds always.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmarks.bench_programs import PROGRAMS, SIZED
from tests.programs.test_programs import same

import infinitensor as it
from infinitensor.runtime.native import c_program

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.local,
    pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning"),  # in NumPy 2.5
]
ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"
SAMPLE = (
    "black_scholes",
    "cloud_scheme",
    "game_of_life",
    "gram_schmidt",
    "lu_by_outer_products",
    "mandelbrot_by_masks",
    "radix_sort",
    "red_black",
    "sobel_edges",
    "vertical_advection",
)
"""Windows, writes in place, masks, reductions and shrinking shapes, none of them long."""


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """As it comes, but that programs are bound to C when they come for the first time."""
    with pytest.MonkeyPatch.context() as patch, it.init("cpu"):
        patch.setattr(c_program, "BIND", 0)
        yield


@pytest.mark.parametrize("name", sorted(SIZED) if ALL else SAMPLE)
def test_program_of_its_size_gives_numpys_results_twice(name: str) -> None:
    program = PROGRAMS[name]
    given = SIZED[name](np.random.default_rng(7))
    theirs = copy.deepcopy(given)
    with np.errstate(all="ignore"):
        expected = program.run(np, *theirs)
    for _ in range(2):  # planned, and found again
        ours: list[Any] = [it.asarray(a) if isinstance(a, np.ndarray) else a for a in given]
        result = program.run(it, *ours)
        if expected is not None:
            same(result, expected, program.rtol)
        for a, b in zip(ours, theirs, strict=True):
            if not np.array_equal(a, b):  # what is compared within a tolerance takes much memory
                same(a, b, program.rtol)

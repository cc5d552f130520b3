"""What calls cost: functions and complex numbers more than sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.ops.table.work import COMPLEX_WORK, FUNCTION_WORK, work_of


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda x: x + 1, 1),
        (it.exp, FUNCTION_WORK),
        (lambda x: x * 2j, COMPLEX_WORK),
        (lambda x: it.exp(x.astype("c16")), 2 * FUNCTION_WORK),
        (it.sum, 1),
    ],
    ids=["sum", "function", "complex", "complex function", "reduction"],
)
def test_functions_and_complex_numbers_cost_more(made: Any, wanted: int) -> None:
    it.config.small_elements = 0
    with it.init("cpu"):
        result = made(it.asarray(np.ones(100)))
        node = result._cell.version.node
        assert work_of(node) == wanted

"""One node of a group: its dtype is that of its result, and it begins without a place."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analysis.graphs import recorded_graph
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.tasking.c.group_step import Step


@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_a_step_makes_what_its_node_makes_and_has_no_place_yet(dtype: str) -> None:
    with strict("cpu") as session:
        x = it.asarray(np.ones(3, "f8"))
        made = x.astype(dtype)
        node = recorded_graph(session, made).nodes[-1]
        step = Step(None, [("in", 0)], node)
    assert step.dtype == np.dtype(dtype)
    assert (step.out, step.register, step.located) == (-1, -1, False)
    assert step.sources == [("in", 0)]

"""A loop over small tensors becomes few families."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it


def families(session: it.Session, tensors: list[Any], op: str) -> list[int]:
    """How many tasks each family of an op has."""
    graph = prepared(session, *tensors).program.graph
    return [family.n for family in graph.families if family.op == op]


def vectors(n: int) -> list[Any]:
    return [it.asarray(np.arange(6.0) + k) for k in range(n)]


@pytest.mark.parametrize("devices", ["null", "cpu"])
def test_groups_of_one_line_that_read_other_tensors_are_one_family(devices: str) -> None:
    with strict(devices) as session:
        made = [it.sqrt(x) for x in vectors(12)]
        # the first is the pattern of the others
        assert families(session, made, "sqrt") == [1, 11]


def test_groups_that_read_what_the_one_before_makes_are_families_of_their_own() -> None:
    with strict("null") as session:
        (x,) = vectors(1)
        for _ in range(5):
            x = it.sort(it.sqrt(x))
        assert families(session, [x], "sqrt") == [1] * 5


def test_scalars_are_each_groups_own() -> None:
    with strict("cpu"):
        made = [x * (k + 2) for k, x in enumerate(vectors(9))]
        it.compute(*made)
        for k, tensor in enumerate(made):
            np.testing.assert_array_equal(tensor.numpy(), (np.arange(6.0) + k) * (k + 2))


def test_lines_apart_are_families_apart() -> None:
    with strict("null") as session:
        first = [it.sqrt(x) for x in vectors(2)]
        second = [it.sqrt(x) for x in vectors(2)]
        assert families(session, [*first, *second], "sqrt") == [1, 1, 2]

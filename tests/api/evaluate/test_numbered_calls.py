"""Calls by the numbers of their values: keys of equal programs, windows that stand for leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.api.evaluate.numbered_calls import NumberedCalls


def numbered(session: it.Session, tensor: Any) -> NumberedCalls:
    bound = Bound(session, [tensor._version], True)
    return NumberedCalls(bound.nodes, bound.numbers)


def test_every_value_has_a_spec_and_a_number() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.ones((6, 4), np.float32))
        found = numbered(session, (x + 1).sum(axis=0))
    assert [spec.shape for spec in found.specs] == [(6, 4), (6, 4), (4,)]
    assert found.outs == [(1,), (2,)]
    assert [operands for _, operands, _ in found.parts] == [((0, None), -1), ((1, None),)]


def test_equal_programs_have_equal_keys() -> None:
    with strict("cpu") as session:
        x, y = it.asarray(np.ones((6, 4))), it.asarray(np.zeros((6, 4)))
        assert numbered(session, x * y).key() == numbered(session, y * x).key()
        assert numbered(session, x * y).key() != numbered(session, x * x).key()
        assert numbered(session, x * y).key() != numbered(session, x + y).key()
        assert numbered(session, x[1] * 2).key() != numbered(session, x[2] * 2).key()


def test_parts_of_leaves_stand_for_them() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.arange(24.0).reshape(6, 4))
        keys = []
        for row in (1, 2):
            found = numbered(session, x[row] * 2)
            found.look_through({0: ((row, row + 1), (0, 4))})
            assert found.specs[0].shape == (1, 4)
            keys.append(found.key())
    assert keys[0] == keys[1]


def test_nodes_of_the_graph_number_scalars_by_themselves() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.ones(5))
        nodes = numbered(session, (x + 1) * 3).graph_nodes()
    assert [[operand.scalar for operand in node.operands] for node in nodes] == [[-1, 0], [-1, 1]]
    assert [node.outs for node in nodes] == [(1,), (2,)]

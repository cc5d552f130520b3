"""Of ops with several results the last alone is made, where the others are not wanted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analysis.graphs import names, recorded_graph
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.analysis.last_output import make_alone
from infinitensor.ops import TABLE

MATRIX = np.random.default_rng(3).normal(size=(30, 4))


def test_r_alone_needs_no_reflectors() -> None:
    with strict("null", 40) as session:
        graph = recorded_graph(session, it.linalg.qr(it.asarray(MATRIX))[1])
    found = make_alone(graph)
    assert "_qr_reflectors" in names(graph)
    assert "_qr_reflectors" not in names(found)
    for before, after in zip(graph.nodes, found.nodes, strict=True):
        if before.op.name == "_qr_reflectors":
            assert (after.op.name, dict(after.call.params)["mode"]) == ("_qr_batch", "r")
            assert after.outs == before.outs[-1:]
            assert after.operands == before.operands
            assert after.call.outs[0] == before.call.outs[-1]


def test_where_q_is_wanted_too_all_is_made() -> None:
    with strict("null", 40) as session:
        q, r = it.linalg.qr(it.asarray(MATRIX))
        graph = recorded_graph(session, q, r)
    assert any(node.op.alone for node in graph.nodes)
    assert names(make_alone(graph)) == names(graph)


def test_a_graph_without_such_ops_is_itself() -> None:
    with strict("null") as session:
        graph = recorded_graph(session, it.exp(it.asarray(MATRIX)))
    assert make_alone(graph) is graph


def test_the_ops_that_are_named_exist_and_have_one_result() -> None:
    named = [op for op in TABLE.values() if op.alone]
    assert named
    for op in named:
        assert op.alone is not None
        assert op.alone[0] in TABLE


@pytest.mark.parametrize("tile_elements", [40, 1 << 20])
def test_r_has_the_same_bits_whether_q_is_asked_for(tile_elements: int) -> None:
    with strict("cpu", tile_elements):
        alone = it.linalg.qr(it.asarray(MATRIX))[1].numpy()
        q, r = it.linalg.qr(it.asarray(MATRIX))
        it.compute(q, r)
        np.testing.assert_array_equal(alone, r.numpy())
        np.testing.assert_allclose(q.numpy() @ alone, MATRIX, rtol=1e-12, atol=1e-12)

"""Graphs of recorded programs: in the order they were recorded, with what exists and is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import infinitensor as it
from infinitensor.ir.graph import Leaf
from infinitensor.ir.layout import DISK, HOST, Layout

from .sessions import prepared, strict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.ir.graph import Graph

CUTS = ((0, 2, 4),)


@pytest.fixture
def session() -> Iterator[it.Session]:
    with strict("cpu:2") as session:
        yield session


def check(graph: Graph) -> None:
    """Every value is there before it is read, and made once."""
    known = {leaf.value for leaf in graph.leaves}
    for node in graph.nodes:
        for operand in node.operands:
            assert (operand.value < 0) != (operand.scalar < 0)
            assert operand.value < 0 or operand.value in known
        assert not known & set(node.outs)
        known |= set(node.outs)
        assert len(node.shapes) == len(node.operands)
        assert [graph.specs[v] for v in node.outs] == list(node.call.outs)
    assert graph.kept <= known


def test_nodes_are_in_an_order_in_which_they_can_run(session: it.Session) -> None:
    x = it.asarray(np.arange(24.0).reshape(4, 6))
    y = (x * 2.5 + x.T.reshape(4, 6)).sum(axis=0)
    z = it.sqrt(y) - x[1:, ::2].max()
    graph = prepared(session, y, z).analysed.graph
    check(graph)
    assert len(graph.kept) == 2


def test_update_changes_the_tiles_of_the_version_before(session: it.Session) -> None:
    x = it.zeros((4, 6))
    x[1:3] = 7.0
    analysed = prepared(session, x).analysed
    graph = analysed.graph
    check(graph)
    (update,) = [node for node in graph.nodes if node.op.kind == "update"]
    assert update.in_place
    assert not any(node.in_place for node in graph.nodes if node is not update)
    assert analysed.roots[update.outs[0]] == analysed.roots[update.operands[0].value]
    np.testing.assert_array_equal(x.numpy()[:, 0], [0, 7, 7, 0])


@pytest.mark.parametrize("owner", [0, HOST, DISK])
@pytest.mark.parametrize("file", [True, False])
def test_leaf_comes_in_tiles_from_a_lower_tier_or_a_file_wherever_it_is(
    owner: int, file: bool
) -> None:
    leaf = Leaf(0, Layout(CUTS, (owner,)), donated=False, file=file)
    assert leaf.is_streamed == (file or owner < 0)
    assert leaf.in_piece
    assert not Leaf(0, Layout(CUTS, (owner,)), donated=False, whole=False).in_piece
    one = Leaf(0, Layout(((0, 4),), (owner,)), donated=False, file=file)
    assert not one.is_streamed
    assert not one.in_piece


def test_leaf_of_which_one_tile_is_lower_is_streamed() -> None:
    assert Leaf(0, Layout(CUTS, (0, HOST)), donated=False).is_streamed
    assert not Leaf(0, Layout(CUTS, (0, 1)), donated=False).is_streamed

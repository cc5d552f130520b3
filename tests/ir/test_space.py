"""The space of a group: labels, reads and results of its nodes, in the labels of the last."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.ir.space import points, space_like, space_of

from .sessions import prepared, strict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.ir.graph import Graph, Group


@pytest.fixture
def session() -> Iterator[it.Session]:
    with strict("cpu:1") as session:
        yield session


def last_group(session: it.Session, *made: Any) -> tuple[Graph, Group]:
    analysed = prepared(session, *made).analysed
    return analysed.graph, analysed.groups[-1]


def test_product_contracts_one_label_and_reads_in_two(session: it.Session) -> None:
    x, y = it.asarray(np.ones((4, 5))), it.asarray(np.ones((5, 6)))
    graph, group = last_group(session, x @ y)
    space = space_of(graph, group, graph.kept)
    (k,) = space.contracted
    (_, made), *others = space.outs
    assert not others
    left, right = space.reads
    assert (left.labels, right.labels) == ((made[0], k), (k, made[1]))
    assert [space.sizes[label] for label in (*made, k) if label is not None] == [4, 6, 5]
    assert k not in space.uncut
    assert points(space) == 120


def test_reduction_of_elementwise_nodes_reads_in_its_own_labels(session: it.Session) -> None:
    x, y = it.asarray(np.ones((4, 6))), it.asarray(np.ones(6))
    graph, group = last_group(session, (x * y + 1.0).sum(axis=0))
    assert len(group.nodes) > 1
    space = space_of(graph, group, graph.kept)
    by_shape = {read.shape: read.labels for read in space.reads}
    rows, columns = by_shape[4, 6]
    (row,) = (labels for shape, labels in by_shape.items() if shape != (4, 6))
    assert row[-1] == columns
    assert space.contracted == (rows,)
    assert [labels for _, labels in space.outs] == [(columns,)]
    assert points(space) == 24


def test_equal_reads_of_elementwise_nodes_are_one_and_values_inside_are_none(
    session: it.Session,
) -> None:
    x = it.asarray(np.ones((3, 4)))
    y = x * x
    graph, group = last_group(session, y + x)
    space = space_of(graph, group, graph.kept)
    assert len(space.reads) == 1
    inside = {value for n in group.nodes for value in graph.nodes[n].outs}
    assert not inside & {read.operand.value for read in space.reads}
    assert [value for value, _ in space.outs] == list(graph.kept)
    leaving = frozenset(inside)
    assert {value for value, _ in space_of(graph, group, leaving).outs} == inside


def test_axis_that_an_op_cannot_cut_stays_whole(session: it.Session) -> None:
    x = it.asarray(np.ones((4, 6)))
    graph, group = last_group(session, it.sort(x, axis=1))
    space = space_of(graph, group, graph.kept)
    (labels,) = [read.labels for read in space.reads]
    assert labels[1] in space.uncut
    assert labels[0] not in space.uncut


def test_space_of_a_node_like_another_is_its_own(session: it.Session) -> None:
    x, y, z = (it.asarray(np.ones((4, 4))) for _ in range(3))
    analysed = prepared(session, x @ y, y @ z).analysed
    graph = analysed.graph
    one, other = (space_of(graph, group, graph.kept) for group in analysed.groups)
    assert one != other
    assert space_like(one, other.last) == other
    assert points(one) == prod(one.sizes) == 64

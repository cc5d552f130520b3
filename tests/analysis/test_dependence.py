"""Which groups wait for which: by region and version, not by tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.analysis.graphs import leaf, recorded_graph
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.analysis.dependence import find_dependence, region_of, written_region
from infinitensor.analysis.versions import place_versions
from infinitensor.ir.graph import Group

if TYPE_CHECKING:
    from infinitensor.ir.graph import Dependence


def dependence(session: it.Session, *tensors: Any) -> Dependence:
    """Of the nodes of a program, each one a group."""
    graph, roots, shared = place_versions(recorded_graph(session, *tensors), renews=False)
    groups = tuple(Group((n,)) for n in range(len(graph.nodes)))
    return find_dependence(graph, groups, roots, shared)


def test_a_reader_waits_for_the_maker_and_leaves_are_waited_for_by_nobody() -> None:
    with strict("null") as session:
        x = leaf(6, 4)
        found = dependence(session, it.exp(it.sqrt(x + 1)))
        assert (found.n_nodes, found.n_edges, found.critical_path) == (3, 2, 3)
        found = dependence(session, x + 1, x + 2, x + 3)
        assert (found.n_edges, found.critical_path, found.widest_level) == (0, 1, 3)


def test_writes_of_rows_apart_wait_only_for_what_made_the_tensor() -> None:
    with strict("null") as session:
        made = it.zeros((6, 4))
        for k in range(6):
            made[k] = k
        found = dependence(session, made)
    assert (found.n_nodes, found.n_edges) == (7, 6)
    assert (found.critical_path, found.widest_level, found.versions_shared) == (2, 6, 6)


def test_writes_of_the_same_row_wait_for_each_other() -> None:
    with strict("null") as session:
        made = it.zeros((6, 4))
        for k in range(6):
            made[2] = k
        found = dependence(session, made)
    assert (found.critical_path, found.widest_level) == (7, 1)


@pytest.mark.parametrize(("rows", "path"), [(slice(0, 6, 2), 2), (slice(1, 6, 2), 3)])
def test_a_reader_of_every_second_row_waits_for_a_write_there_alone(rows: slice, path: int) -> None:
    with strict("null") as session:
        made = it.zeros((6, 4))
        made[1::2] = 5.0
        total = it.sum(made[rows], axis=0)
        found = dependence(session, total)
    assert found.critical_path == path


def test_a_write_waits_for_who_reads_what_was_there() -> None:
    with strict("null") as session:
        made = it.zeros((6, 4))
        before = it.exp(made[0])
        made[0] = 1.0
        found = dependence(session, made, before)
    assert (found.n_nodes, found.critical_path) == (3, 3)


def test_where_many_overlap_a_join_stands_for_them() -> None:
    with strict("null") as session:
        made = it.zeros((60, 4))
        for k in range(60):
            made[k] = k
        found = dependence(session, it.exp(made), it.sqrt(made))
    assert found.n_joins > 0
    assert found.n_edges < 60 + 2 * 60
    assert found.critical_path == 3  # a join is no group


def test_regions_are_those_of_the_base_and_none_where_nothing_is_touched() -> None:
    with strict("null") as session:
        made = it.zeros((6, 4))
        made[1:5:2] = 1.0
        made[3:3] = leaf(0, 4)
        total = it.sum(made[4:1:-1], axis=0)
        graph = recorded_graph(session, total)
    writes = [node for node in graph.nodes if node.op.kind == "update"]
    assert written_region(writes[0], (6, 4)) == ((1, 4, 2), (0, 4, 1))
    assert all(written_region(node, (0, 4)) is None for node in writes)
    assert len(writes) == 1 or written_region(writes[1], (6, 4)) is None
    reader = graph.nodes[-1]
    assert region_of(reader.operands[0], (6, 4), reader) == ((2, 5, 1), (0, 4, 1))
    assert region_of(reader.operands[0], (0, 4), reader) is None

"""Whose tiles hold each version of a tensor that is written to, and which writes copy first."""

from __future__ import annotations

import pytest
from tests.analysis.graphs import leaf, names, recorded_graph
from tests.ir.sessions import strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.analysis.versions import place_versions


def test_writes_that_nobody_else_sees_share_the_tiles_of_the_first_version() -> None:
    with strict("null") as session:
        x = it.zeros((6, 4))
        for k in range(3):
            x[k] = k
        found, roots, shared = place_versions(recorded_graph(session, x), renews=False)
    writes = [node for node in found.nodes if node.op.kind == "update"]
    assert shared == len(writes) == 3
    assert "_copy" not in names(found)
    made = found.nodes[0].outs[0]
    assert [roots[node.outs[0]] for node in writes] == [made] * 3


def test_a_version_that_is_kept_is_copied_once_and_then_shared() -> None:
    with strict("null") as session:
        x = it.zeros((6, 4))
        before = it.asarray(x, copy=True)
        x[0], x[1] = 5.0, 6.0
        graph = recorded_graph(session, x, before)
        found, roots, _ = place_versions(graph, renews=False)
    kept = {roots[value] for value in graph.kept}
    assert len(kept) == len(graph.kept) == 2
    assert names(found).count("_copy") == 1


def test_the_tiles_of_a_leaf_that_others_hold_are_never_written_to() -> None:
    with strict("null") as session:
        x = leaf(6, 4)
        y = x.copy()
        y[0] = 1.0
        graph = recorded_graph(session, y)
        found, roots, _ = place_versions(graph, renews=False)
    held = {one.value for one in graph.leaves if not one.donated}
    assert held
    for node in found.nodes:
        if node.in_place:
            assert roots[node.outs[0]] not in held


def test_a_write_by_index_of_what_it_writes_to_reads_a_copy() -> None:
    with strict("null") as session:
        x = it.zeros((6, 4))
        x[it.asarray([0, 2, 1])] = x[3:6]
        graph = recorded_graph(session, x)
        found, _, shared = place_versions(graph, renews=False)
    (write,) = [node for node in found.nodes if node.op.kind == "update"]
    read = {o.value for o in write.operands[1:]}
    assert write.operands[0].value not in read
    assert shared + names(found).count("_copy") - names(graph).count("_copy") == 1


@pytest.mark.parametrize(
    ("rows", "is_renewed"), [(slice(1, 5), True), (slice(0, 2), False), (slice(0, 6, 2), False)]
)
def test_only_a_write_of_computed_values_to_a_box_of_half_or_more_renews(
    rows: slice, is_renewed: bool
) -> None:
    with strict("null") as session:
        x = it.zeros((6, 4))
        x[rows] = it.sqrt(x[rows])
        graph = recorded_graph(session, x)
        found, roots, _ = place_versions(graph, renews=True)
        (write,) = [node for node in found.nodes if node.op.kind == "update"]
        assert write.renews == is_renewed
        assert (roots[write.outs[0]] == write.outs[0]) == is_renewed
        assert not any(node.renews for node in place_versions(graph, renews=False)[0].nodes)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("renews", [False, True])
def test_no_write_in_place_is_over_what_is_kept_or_read_later(seed: int, renews: bool) -> None:
    with strict("null") as session:
        tensors = recorded(seed)
        if not tensors:
            return
        graph = recorded_graph(session, *tensors)
    found, roots, shared = place_versions(graph, renews)
    assert len(roots) == len(found.specs)
    assert all(roots[root] == root for root in roots)
    lasting = set(graph.kept) | {one.value for one in graph.leaves if not one.donated}
    gone: set[int] = set()
    for node in found.nodes:
        assert gone.isdisjoint(o.value for o in node.operands)
        if node.in_place:
            before = node.operands[0].value
            assert before not in lasting
            assert roots[before] == roots[node.outs[0]]
            gone.add(before)
    n_copies = len(found.nodes) - len(graph.nodes)
    n_in_place = sum(node.in_place for node in found.nodes)
    assert shared + n_copies == n_in_place

"""Groups: nodes that share one iteration space and need not store what is between them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.analysis.graphs import leaf, recorded_graph
from tests.ir.sessions import strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.analysis import fusion
from infinitensor.analysis.fusion import JOINING, find_groups
from infinitensor.analysis.versions import place_versions


def groups(session: it.Session, *tensors: Any, renews: bool = False) -> list[list[str]]:
    """The names of the nodes of each group."""
    graph, roots, _ = place_versions(recorded_graph(session, *tensors), renews)
    return [[graph.nodes[n].op.name for n in g.nodes] for g in find_groups(graph, roots)]


def test_a_chain_joins_the_reduction_that_reads_it() -> None:
    with strict("null") as session:
        made = it.sum(it.sqrt(leaf(6, 4) + 1), axis=1)
        assert groups(session, made) == [["add", "sqrt", "sum"]]


def test_nothing_joins_a_reduction_from_behind() -> None:
    with strict("null") as session:
        total = it.sum(leaf(6, 4), axis=1, keepdims=True)
        assert groups(session, it.sqrt(total)) == [["sum"], ["sqrt"]]


def test_a_value_with_two_readers_joins_where_both_are_in_the_group() -> None:
    with strict("null") as session:
        shared = it.exp(leaf(6, 4))
        assert groups(session, it.sqrt(shared) * shared) == [["exp", "sqrt", "multiply"]]


def test_a_value_that_a_group_before_reads_too_stays_by_itself() -> None:
    with strict("null") as session:
        shared = it.exp(leaf(6, 4))
        total = it.cumsum(shared, axis=0)
        assert groups(session, total, shared + 1) == [["exp"], ["_scan_axis"], ["add"]]


def test_a_view_of_a_value_needs_all_of_it_so_it_is_stored() -> None:
    with strict("null") as session:
        made = it.exp(leaf(6, 6))
        assert groups(session, made + made.T) == [["exp"], ["add"]]


def test_another_iteration_space_does_not_join() -> None:
    with strict("null") as session:
        row = it.exp(leaf(4))
        assert groups(session, row + leaf(6, 4)) == [["exp"], ["add"]]


def test_a_write_between_a_reader_and_its_group_keeps_them_apart() -> None:
    with strict("null") as session:
        base = it.cumsum(leaf(6, 4), axis=0)
        before = it.exp(base)
        base[0] = 5.0
        found = groups(session, before + base, base)
    assert ["exp"] in found
    assert not any("exp" in group and "add" in group for group in found)


def test_a_group_has_at_most_so_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "MOST_GROUP_NODES", 3)
    with strict("null") as session:
        made = leaf(6, 4)
        for _ in range(7):
            made = it.sin(made)
        assert sorted(map(len, groups(session, made))) == [1, 3, 3]


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("renews", [False, True])
def test_groups_are_a_legal_order_and_only_their_last_node_is_of_another_kind(
    seed: int, renews: bool
) -> None:
    with strict("null") as session:
        tensors = recorded(seed)
        if not tensors:
            return
        graph, roots, _ = place_versions(recorded_graph(session, *tensors), renews)
    found = find_groups(graph, roots)
    order = [n for group in found for n in group.nodes]
    assert sorted(order) == list(range(len(graph.nodes)))
    assert [g.nodes[-1] for g in found] == sorted(g.nodes[-1] for g in found)
    at = {n: k for k, n in enumerate(order)}
    maker = {v: n for n, node in enumerate(graph.nodes) for v in node.outs}
    for group in found:
        assert all(graph.nodes[n].op.kind in JOINING for n in group.nodes[:-1])
        for n in group.nodes:
            for operand in graph.nodes[n].operands:
                assert at.get(maker.get(operand.value, -1), -1) < at[n]
                if maker.get(operand.value) in group.nodes:
                    assert operand.access is None  # inside, a value is the current tile
    for n, node in enumerate(graph.nodes):  # who reads a version comes before its write
        if node.in_place:
            root = roots[node.outs[0]]
            for r, reader in enumerate(graph.nodes[:n]):
                if any(o.value >= 0 and roots[o.value] == root for o in reader.operands):
                    assert at[r] < at[n]


def test_a_loop_is_one_group_however_many_turns_it_has() -> None:
    with strict("null") as session:
        made, n_turns = leaf(6, 4), fusion.MOST_GROUP_NODES
        for _ in range(n_turns):
            made = it.sqrt(made * 0.5) + 1
        assert groups(session, made) == [["multiply", "sqrt", "add"] * n_turns]


def test_what_is_no_loop_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "MOST_GROUP_NODES", 20)
    with strict("null") as session:
        made, kept = leaf(6, 4), []
        for _ in range(30):
            made = it.sqrt(made * 0.5) + 1
            kept.append(made)
        assert len(groups(session, *kept)) > 1
    with strict("null") as session:
        made = leaf(6, 4)
        for _ in range(60):
            made = made * 0.5
        assert len(groups(session, made)) == 1
        monkeypatch.setattr(fusion, "MOST_TURNS_NODES", 40)
        assert len(groups(session, made)) == 2

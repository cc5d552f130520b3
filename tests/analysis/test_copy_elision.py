"""Copies of what nobody else has are not made: what is copied has the name of the copy."""

from __future__ import annotations

import pytest
from tests.analysis.graphs import leaf, names, recorded_graph
from tests.ir.sessions import strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.analysis.copy_elision import drop_copies


def test_the_maker_of_a_value_makes_the_copy_instead() -> None:
    with strict("null") as session:
        x = leaf(6, 4)
        x[:] = it.exp(x)
        graph = recorded_graph(session, x)
    assert names(graph) == ["exp", "_copy"]
    found = drop_copies(graph)
    assert names(found) == ["exp"]
    assert found.nodes[0].outs == graph.nodes[1].outs
    assert set(found.nodes[0].outs) == graph.kept


def test_the_maker_of_copies_of_copies_makes_the_last_one() -> None:
    with strict("null") as session:
        made = it.exp(leaf(6, 4)).copy().copy().copy()
        graph = recorded_graph(session, made)
    assert names(graph).count("_copy") == 3
    found = drop_copies(graph)
    assert names(found) == ["exp"]
    assert found.nodes[0].outs == graph.nodes[-1].outs


def test_a_copy_of_a_leaf_stays() -> None:
    with strict("null") as session:
        graph = recorded_graph(session, leaf(6, 4).copy())
    assert drop_copies(graph) is graph
    assert names(graph) == ["_copy"]


def test_a_copy_of_a_part_stays() -> None:
    with strict("null") as session:
        graph = recorded_graph(session, it.exp(leaf(6, 4))[2:].copy())
    assert drop_copies(graph) is graph


def test_a_copy_of_what_is_kept_or_read_by_others_stays() -> None:
    with strict("null") as session:
        held = it.exp(leaf(6, 4))
        graph = recorded_graph(session, held, held.copy())
        assert drop_copies(graph) is graph
        made = it.exp(leaf(6, 4))
        both = made.copy(), made + 1
        del made  # nobody holds it
        graph = recorded_graph(session, *both)
        assert len(graph.kept) == 2
        assert drop_copies(graph) is graph


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_or_kept_is_still_made_and_once(seed: int) -> None:
    with strict("null") as session:
        tensors = recorded(seed)
        if not tensors:
            return
        graph = recorded_graph(session, *tensors)
    found = drop_copies(graph)
    made = [value for node in found.nodes for value in node.outs]
    assert len(made) == len(set(made))
    exists = {leaf.value for leaf in found.leaves}
    for node in found.nodes:
        assert {o.value for o in node.operands if o.value >= 0} <= exists
        exists.update(node.outs)
    assert graph.kept == found.kept <= exists
    assert len(graph.nodes) - len(found.nodes) == names(graph).count("_copy") - names(found).count(
        "_copy"
    )

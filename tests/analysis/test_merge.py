"""Equal nodes are computed once, and their readers read the first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.analysis.graphs import leaf, names, recorded_graph
from tests.ir.sessions import strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.analysis.merge import merge_equal


def test_equal_chains_become_one_and_the_map_says_what_stands_for_what() -> None:
    with strict("null") as session:
        x = leaf(6, 4)
        graph = recorded_graph(session, it.exp(x + x) * it.sqrt(it.exp(x + x)))
    found, merged = merge_equal(graph)
    assert names(graph) == ["add", "exp", "add", "exp", "sqrt", "multiply"]
    assert names(found) == ["add", "exp", "sqrt", "multiply"]
    outs = [node.outs[0] for node in graph.nodes]
    assert merged == {outs[2]: outs[0], outs[3]: outs[1]}
    assert [o.value for o in found.nodes[3].operands] == [outs[1], outs[4]]


@pytest.mark.parametrize(
    "other",
    [
        lambda x: it.sum(x, axis=1, keepdims=True),
        lambda x: it.sum(x[::-1], axis=0),
        lambda x: it.max(x, axis=0),
    ],
    ids=["parameters", "view", "op"],
)
def test_nodes_that_differ_stay_apart(other: object) -> None:
    with strict("null") as session:
        x = leaf(6, 4)
        graph = recorded_graph(session, it.sum(x, axis=0) + other(x))  # type: ignore[operator]
    found, merged = merge_equal(graph)
    assert not merged
    assert names(found) == names(graph)


def test_random_nodes_are_never_merged() -> None:
    with strict("null") as session:
        graph = recorded_graph(session, it.random.normal(size=(9,)) * 2)
    drawn = next(node for node in graph.nodes if node.op.random)
    twice = replace(drawn, outs=(len(graph.specs),))
    specs = (*graph.specs, graph.specs[drawn.outs[0]])
    doubled = replace(graph, specs=specs, nodes=(twice, *graph.nodes))
    assert merge_equal(doubled)[1] == {}


def test_kept_values_stay_apart() -> None:
    with strict("null") as session:
        x = leaf(6, 4)
        graph = recorded_graph(session, x + x, x + x)
    found, merged = merge_equal(graph)
    assert not merged
    assert names(found) == ["add", "add"]


def test_what_is_written_to_stays_apart() -> None:
    with strict("null") as session:
        x = leaf(6, 4)
        a, b = x + x, x + x
        a[0] = 5.0
        graph = recorded_graph(session, it.exp(a) + it.exp(b))
    found, merged = merge_equal(graph)
    assert not merged
    assert names(found).count("add") == 3


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_left_to_merge_and_all_that_is_read_is_made(seed: int) -> None:
    with strict("null") as session:
        tensors = recorded(seed)
        if not tensors:
            return
        graph = recorded_graph(session, *tensors)
    found, merged = merge_equal(graph)
    assert len(graph.nodes) - len(found.nodes) == len(merged)
    exists = {leaf.value for leaf in found.leaves}
    for node in found.nodes:
        assert {o.value for o in node.operands if o.value >= 0} <= exists
        exists.update(node.outs)
    assert graph.kept <= exists
    assert merged.keys().isdisjoint(exists)
    assert merge_equal(found)[1] == {}

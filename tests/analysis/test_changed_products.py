"""What may change products is seen in a program as it was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.analysis.graphs import leaf, recorded_graph
from tests.ir.sessions import strict

from infinitensor.analysis import changed_products, matvec_as_sum
from infinitensor.analysis.changed_products import changes_products
from infinitensor.analysis.matvec_as_sum import sum_products
from infinitensor.analysis.transpose_pushdown import push_transposes_down

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.graph import Graph, Node

CHANGED: dict[str, Callable[..., Any]] = {
    "a vector": lambda x, v: (x * 2 + 1) @ v,
    "a vector on the left": lambda x, v: v @ (x * 2),
    "computed of a transposed one": lambda x, v: (x.T * 2) @ x,
}
AS_RECORDED: dict[str, Callable[..., Any]] = {
    "stored": lambda x, v: x @ v,
    "transposed": lambda x, v: (x * 2) @ x.T,
    "a computed vector": lambda x, v: x @ (v * 2),
    "no product": lambda x, v: x.T * 2 + v[:4],
}


def graph_of(program: Callable[..., Any]) -> Graph:
    """The graph of a program of a square matrix and a vector."""
    with strict("cpu") as session:
        return recorded_graph(session, program(leaf(4, 4), leaf(4)))


def nodes_of_passes(graph: Graph) -> tuple[Node, ...]:
    """What both passes make of it."""
    return push_transposes_down(sum_products(graph, compiles=True)).nodes


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """These matrices are large; vectors are not."""
    for module in (changed_products, matvec_as_sum):
        monkeypatch.setattr(module, "COMPILED_MATRIX_ELEMENTS", 16)


@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize("name", CHANGED)
def test_a_product_that_a_pass_changes_is_seen(name: str) -> None:
    graph = graph_of(CHANGED[name])
    assert nodes_of_passes(graph) != graph.nodes
    assert changes_products(graph.nodes)


@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize("name", AS_RECORDED)
def test_products_that_no_pass_changes_are_as_they_were_recorded(name: str) -> None:
    graph = graph_of(AS_RECORDED[name])
    assert nodes_of_passes(graph) == graph.nodes
    assert not changes_products(graph.nodes)


def test_a_vector_times_a_small_computed_matrix_is_as_it_was_recorded() -> None:
    assert not changes_products(graph_of(CHANGED["a vector"]).nodes)

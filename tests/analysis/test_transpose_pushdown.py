"""Elementwise results of transposed matrices that only products read are stored transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.analysis import analyse, transpose_pushdown

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.graph import Graph


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these is small."""
    monkeypatch.setattr(it.config, "small_elements", 0)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Graph, Graph]]:
    """Graphs that were looked at, as they came and as they went."""
    seen: list[tuple[Graph, Graph]] = []
    before = transpose_pushdown.push_transposes_down

    def noted(graph: Graph) -> Graph:
        seen.append((graph, before(graph)))
        return seen[-1][1]

    module = __import__(analyse.__module__, fromlist=["push_transposes_down"])
    monkeypatch.setattr(module, "push_transposes_down", noted)
    return seen


def operands() -> list[Any]:
    rng = np.random.default_rng(2)
    return [rng.normal(size=shape) for shape in ((30, 20), (30, 10), (20, 30))]


MADE_STRAIGHT: dict[str, Callable[..., Any]] = {
    "scaled": lambda a, b, c: 0.1 * a.T @ b,
    "a chain": lambda a, b, c: np.exp(0.1 * a.T + 1) @ b,
    "of two": lambda a, b, c: (a.T * (a + 1).T) @ b,
    "on the right": lambda a, b, c: b.T @ (c.T - 1),
    "with a vector": lambda a, b, c: b[:, 0] @ (c.T * 3),
    "for two products": lambda a, b, c: (m := 2 * a.T) @ b + m @ (b + 1),
}
AS_BEFORE: dict[str, Callable[..., Any]] = {
    "summed too": lambda a, b, c: (m := 2 * a.T) @ b + m.sum(1, keepdims=True),
    "with one that is straight": lambda a, b, c: (a.T + c) @ b,
    "with a vector added": lambda a, b, c: (a.T + b[:, 0]) @ b,
    "a part": lambda a, b, c: (2 * a.T)[:5] @ b,
    "of a part": lambda a, b, c: (2 * (a + 1)[:, :7].T) @ b,
    "transposed again": lambda a, b, c: (2 * a.T).T @ c,
    "backwards": lambda a, b, c: (2 * a.T[::-1]) @ b,
    "nothing transposed": lambda a, b, c: (2 * c) @ b,
}


@pytest.mark.parametrize("case", MADE_STRAIGHT)
def test_products_turn_what_is_made_straight(case: str, graphs: list[tuple[Graph, Graph]]) -> None:
    given = operands()
    made = MADE_STRAIGHT[case](*map(it.asarray, given)).numpy()
    np.testing.assert_allclose(made, MADE_STRAIGHT[case](*given), rtol=1e-12, atol=1e-12)
    for node in graphs[0][1].nodes:
        if node.op.kind == "elementwise":
            assert all(operand.access != transpose_pushdown.TRANSPOSED for operand in node.operands)


@pytest.mark.parametrize("case", AS_BEFORE)
def test_what_others_read_or_is_read_otherwise_stays(
    case: str, graphs: list[tuple[Graph, Graph]]
) -> None:
    given = operands()
    made = AS_BEFORE[case](*map(it.asarray, given)).numpy()
    np.testing.assert_allclose(made, AS_BEFORE[case](*given), rtol=1e-12, atol=1e-12)
    assert graphs[0][0] is graphs[0][1]


def test_what_is_kept_has_the_shape_it_is_seen_in() -> None:
    a, b, _ = operands()
    scaled = 2 * it.asarray(a).T
    product = scaled @ it.asarray(b)
    it.compute(scaled, product)
    np.testing.assert_array_equal(scaled, 2 * a.T)
    np.testing.assert_allclose(product, 2 * a.T @ b)

"""How much of each value anybody reads: a box, passed on by elementwise nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.analysis.graphs import leaf, recorded_graph
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.analysis.slice_pushdown import find_needed
from infinitensor.analysis.versions import place_versions

if TYPE_CHECKING:
    from infinitensor.ir.region import Box


def needed(session: it.Session, *tensors: Any) -> dict[str, Box]:
    """By the name of the op that makes it, or `leaf`: the box of a value that is needed in part."""
    graph, roots, _ = place_versions(recorded_graph(session, *tensors), renews=False)
    made = {node.outs[0]: node.op.name for node in graph.nodes}
    return {made.get(v, "leaf"): box for v, box in find_needed(graph, roots).items()}


def test_elementwise_nodes_pass_their_need_on() -> None:
    with strict("null") as session:
        made = it.sum(it.sqrt(it.exp(leaf(20, 10)))[3:5, 1:4], axis=0)
        box = ((3, 5), (1, 4))
        assert needed(session, made) == {"sqrt": box, "exp": box, "leaf": box}


def test_other_ops_need_their_operands_whole() -> None:
    with strict("null") as session:
        made = it.sum(it.sort(it.exp(leaf(20, 10)), axis=1)[3:5], axis=0)
        found = needed(session, made)
    assert set(found.values()) == {((3, 5), (0, 10))}
    assert found.keys().isdisjoint({"exp", "leaf"})


def test_several_readers_need_the_hull_of_what_they_read() -> None:
    with strict("null") as session:
        made = it.exp(leaf(20, 10))
        parts = it.sum(made[2:4], axis=0), it.sum(made[9:7:-1], axis=0)
        del made  # what somebody holds is kept
        assert needed(session, *parts)["exp"] == ((2, 10), (0, 10))


def test_one_reader_of_all_makes_it_whole() -> None:
    with strict("null") as session:
        made = it.exp(leaf(20, 10))
        parts = it.sum(made[2:4], axis=0), it.sum(made, axis=0)
        del made
        assert needed(session, *parts) == {}


def test_what_is_kept_or_written_to_is_needed_whole() -> None:
    with strict("null") as session:
        made = it.exp(leaf(20, 10))
        assert needed(session, made, it.sum(made[2:4], axis=0)) == {}
        written = it.exp(leaf(20, 10))
        written[0] = 1.0
        total = it.sum(written[2:4], axis=0)
        del written
        assert "exp" not in needed(session, total)


def test_an_axis_of_one_that_is_stretched_is_read_whole() -> None:
    with strict("null") as session:
        column = it.exp(leaf(20, 1))
        made = it.sum((column + leaf(20, 10))[3:5, 2:3], axis=0)
        del column
        found = needed(session, made)
    assert found["add"] == ((3, 5), (2, 3))
    assert found["exp"] == ((3, 5), (0, 1))


@pytest.mark.parametrize("seed", range(6))
def test_a_program_reads_the_hull_of_its_views_and_has_numpys_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.random((9, 7))

    def part(n: int) -> slice:
        lo, hi = sorted(rng.choice(n + 1, 2, replace=False).tolist())
        step = int(rng.integers(1, 3))
        return slice(lo, hi, step) if rng.random() < 0.7 else slice(hi - 1, lo - 1 or None, -step)

    views = [(part(9), part(7)) for _ in range(3)]
    views = [(r, c) for r, c in views if a[r, c].size]
    with strict("cpu") as session:
        x = it.sqrt(it.asarray(a) + 1)
        totals = [it.sum(x[r, c]) for r, c in views]
        del x
        found = needed(session, *totals) if totals else {}
        for total, (r, c) in zip(totals, views, strict=True):
            np.testing.assert_allclose(total.numpy(), np.sqrt(a + 1)[r, c].sum())
    if totals:
        places = np.zeros((9, 7), bool)
        for r, c in views:
            places[r, c] = True
        rows, columns = np.flatnonzero(places.any(1)), np.flatnonzero(places.any(0))
        hull = ((rows[0], rows[-1] + 1), (columns[0], columns[-1] + 1))
        assert found.get("sqrt", ((0, 9), (0, 7))) == hull

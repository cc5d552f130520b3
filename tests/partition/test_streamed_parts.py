"""In which parts a product reads a matrix from a lower tier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.simulate_tiers import h200
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.analysis import analyse
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.ir.layout import HOST, Layout, single
from infinitensor.partition import choose

ROWS, INNER, COLUMNS = 48, 640, 512


def planned(
    program: Any, layout: Layout | None, part: int, dtype: Any = np.float32, number: int = -1
) -> Any:
    """The plan of a product of which the second matrix is on the host."""
    with strict("null", 0, 1 << 40) as session:
        x, y = it.ones((ROWS, INNER), dtype), it.ones((INNER, COLUMNS), dtype)
        transposed = it.ones((COLUMNS, INNER), dtype)
        it.compute(x, y, transposed)
        z = program(x, y, transposed)
        with session.guard():
            session.drain()
            graph = Bound(session, [z._version], True).detail().graph()
    second = graph.leaves[1]
    layout = layout or single(graph.specs[second.value].shape, HOST)
    leaves = (graph.leaves[0], replace(second, layout=layout))
    graph = replace(graph, leaves=leaves)
    return choose(analyse(graph, renews=False), h200(), 0, part).groups[number]


def test_parts_are_rows_of_what_is_stored_and_their_products_are_added() -> None:
    plan = planned(lambda x, y, _: x @ y, None, INNER * COLUMNS // 5)
    assert plan.chained == plan.space.contracted[0]
    assert plan.cuts[plan.chained] == (0, 128, 256, 384, 512, 640)
    assert [len(cut) for label, cut in enumerate(plan.cuts) if label != plan.chained] == [2, 2]


def test_parts_of_what_is_read_transposed_are_columns_of_the_result() -> None:
    plan = planned(lambda x, _, transposed: x @ transposed.T, None, INNER * COLUMNS // 4)
    assert plan.chained == -1
    assert plan.cuts[plan.space.contracted[0]] == (0, INNER)
    assert (0, 128, 256, 384, 512) in plan.cuts


def test_what_is_in_parts_is_read_in_those() -> None:
    layout = Layout(((0, 200, 640), (0, COLUMNS)), (0, HOST))
    plan = planned(lambda x, y, _: x @ y, layout, 1 << 62)
    assert plan.cuts[plan.chained] == (0, 200, 640)
    layout = Layout(((0, 200, COLUMNS), (0, INNER)), (0, HOST))
    plan = planned(lambda x, _, transposed: x @ transposed.T, layout, 1 << 62)
    assert (0, 200, COLUMNS) in plan.cuts


@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_what_is_added_in_another_dtype_is_read_whole(dtype: Any) -> None:
    plan = planned(lambda x, y, _: x @ y, None, INNER * COLUMNS // 4, dtype)
    assert plan.chained == -1
    assert all(len(cut) == 2 for cut in plan.cuts)


@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_columns_of_the_result_are_made_in_parts_in_any_dtype(dtype: Any) -> None:
    plan = planned(lambda x, _, transposed: x @ transposed.T, None, INNER * COLUMNS // 4, dtype)
    assert plan.chained == -1
    assert (0, 128, 256, 384, 512) in plan.cuts


def test_a_matrix_by_itself_is_read_whole() -> None:
    plan = planned(lambda x, y, _: x[:1] @ y @ (y.T @ y), None, INNER * COLUMNS // 4, number=1)
    assert len({read.operand.value for read in plan.space.reads}) == 1
    assert plan.chained == -1
    assert all(len(cut) == 2 for cut in plan.cuts)


def test_what_is_on_the_device_in_one_piece_is_read_whole() -> None:
    plan = planned(lambda x, y, _: x @ y, single((INNER, COLUMNS), 0), INNER * COLUMNS // 4)
    assert plan.chained == -1
    assert all(len(cut) == 2 for cut in plan.cuts)

"""Tasks as columns: what each reads, and a program whose columns fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import infinitensor as it
from infinitensor.ir.tasks import LANES, Column, TileSet

from .budget import examples
from .sessions import prepared, strict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.ir.tasks import Program


def span_column(lengths: list[int]) -> Column:
    borders = np.cumsum([0, *lengths])
    tiles = np.arange(100, 100 + borders[-1])
    first = np.array([100 + lo if n else -1 for lo, n in zip(borders, lengths, strict=False)])
    return Column(first, span=(borders, tiles))


columns = st.one_of(
    st.lists(st.integers(-1, 9), max_size=8).map(lambda tiles: Column(np.array(tiles, np.int32))),
    st.lists(st.integers(0, 9), max_size=8).map(
        lambda numbers: Column(np.array(numbers, np.int32), scalar=True)
    ),
    st.lists(st.integers(0, 3), max_size=6).map(span_column),
)


@given(columns)
@examples(120)
def test_what_all_tasks_touch_is_what_each_touches(column: Column) -> None:
    tasks, tiles = column.touched()
    each = [(i, tile) for i in range(len(column.tiles)) for tile in column.touched_by(i)]
    assert list(zip(tasks.tolist(), tiles.tolist(), strict=True)) == each


def test_scalars_and_tasks_that_get_nothing_touch_no_tile() -> None:
    assert Column(np.array([3, -1, 5])).touched()[0].tolist() == [0, 2]
    assert Column(np.array([3, -1])).touched_by(1) == []
    assert Column(np.array([0]), scalar=True).touched_by(0) == []


def test_tiles_are_as_many_as_their_devices() -> None:
    boxes = np.zeros((3, 2, 2), np.int64)
    assert TileSet(7, np.dtype("f4"), boxes, np.zeros(3, np.int32), value=0).n == 3


@pytest.fixture(params=["cpu:1", "cpu:2"])
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    with strict(request.param) as session:
        x = it.asarray(np.arange(60.0).reshape(6, 10))
        y = it.sort(x @ x.T, axis=1).sum(axis=0)
        yield prepared(session, y).program


def test_families_and_tiles_number_everything_once(program: Program) -> None:
    graph = program.graph
    tasks = [family.first + i for family in graph.families for i in range(family.n)]
    tiles = [found.first + i for found in graph.tiles for i in range(found.n)]
    assert sorted(tasks) == list(range(graph.n_tasks))
    assert sorted(tiles) == list(range(graph.n_tiles))
    assert all(family.lane < len(LANES) for family in graph.families)


def test_order_of_families_is_legal_and_every_tile_read_is_there(program: Program) -> None:
    graph = program.graph
    assert (graph.sources < graph.targets).all()
    made = {
        t
        for found in graph.tiles
        if found.leaf >= 0
        for t in range(found.first, found.first + found.n)
    }
    for family in graph.families:
        read = {tile for column in family.reads for tile in column.touched()[1].tolist()}
        many: Any = family.many[1].tolist() if family.many is not None else []
        assert read | set(many) <= made
        made |= {tile for column in family.writes for tile in column.tolist()}


def test_successors_are_the_dependences_and_as_many_as_are_waited_for(program: Program) -> None:
    n = program.graph.n_tasks
    after = [program.after[program.borders[t] : program.borders[t + 1]].tolist() for t in range(n)]
    waits = np.bincount(np.concatenate([*after, []]).astype(int), minlength=n)
    needed = program.needed
    np.testing.assert_array_equal(waits[needed], program.waits[needed])
    assert program.plan_bytes >= program.slots.nbytes + program.after.nbytes

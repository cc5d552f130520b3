"""Edges between tasks: by tile where it is written once, by region where it is written to again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from infinitensor.ir.tasks import COMPUTE, Column, Family, TileSet
from infinitensor.tasking.graph.edges import Edges


class Families:
    """Numbers tasks as they come."""

    def __init__(self, written: set[int]) -> None:
        self.made: list[Family] = []
        self.n_tasks = 0
        self.edges = Edges(self.add, written)

    def add(self, **columns: Any) -> Family:
        family = Family(first=self.n_tasks, **columns)
        self.n_tasks += family.n
        self.made.append(family)
        return family

    def tiles(self, first: int, value: int, *boxes: tuple[int, int]) -> None:
        where = np.asarray([[box] for box in boxes])
        self.edges.new_tiles(
            TileSet(first, np.dtype("f8"), where, np.zeros(len(boxes), np.int16), value)
        )

    def family(self, reads: list[Column], writes: list[int], n: int, **more: Any) -> Family:
        return self.add(
            op="op",
            site=None,
            lane=COMPUTE,
            devices=np.zeros(n, np.int16),
            run=lambda ins, outs, i: None,
            reads=tuple(reads),
            writes=(np.asarray(writes, np.int32),),
            **more,
        )

    def found(self) -> set[tuple[int, int]]:
        sources, targets = self.edges.columns()
        return set(zip(sources.tolist(), targets.tolist(), strict=True))


def column(*tiles: int, boxes: Any = None) -> Column:
    return Column(np.asarray(tiles, np.int32), None if boxes is None else np.asarray(boxes))


def test_a_task_waits_for_who_makes_its_tiles_and_for_nobody_on_leaves() -> None:
    made = Families(set())
    made.tiles(0, 0, (0, 4), (4, 8))
    made.tiles(2, 1, (0, 4), (4, 8))
    made.edges.of_columns(made.family([column(0, 1)], [2, 3], 2))
    assert made.found() == set()
    made.tiles(4, 2, (0, 4), (4, 8))
    made.edges.of_columns(made.family([column(3, 2), column(-1, 3)], [4, 5], 2))
    assert made.found() == {(1, 2), (0, 3), (1, 3)}


def written_twice(first: tuple[int, int], second: tuple[int, int]) -> Families:
    """A tile of eight that task 0 makes; tasks 1 and 2 write into boxes of it."""
    made = Families({7})
    made.tiles(0, 7, (0, 8))
    made.edges.of_columns(made.family([], [0], 1))
    for box in (first, second):
        made.family([], [0], 1, updates=True)
        tracker = made.edges.tracker(0)
        task = made.n_tasks - 1
        made.edges.link(tracker.write(task, ((*box, 1),)), task)
    return made


def test_writes_into_a_tile_wait_for_each_other_where_they_overlap() -> None:
    assert written_twice((0, 4), (4, 8)).found() == {(0, 1), (0, 2)}
    assert (1, 2) in written_twice((0, 5), (4, 8)).found()


def test_a_reader_of_a_region_waits_for_the_last_writes_there() -> None:
    made = written_twice((0, 4), (4, 8))
    made.tiles(1, 8, (0, 2))
    reader = made.family([column(0, boxes=[[[5, 7]]])], [1], 1)
    made.edges.of_columns(reader)
    waits = {s for s, t in made.found() if t == reader.first}
    assert 2 in waits
    assert 1 not in waits
    assert made.edges.is_tracked(0)
    assert not made.edges.is_tracked(1)


def test_the_part_of_a_region_in_a_tile_keeps_to_its_steps() -> None:
    made = Families(set())
    made.tiles(0, 0, (10, 20), (20, 20))
    inside = made.edges.inside
    assert inside(0, None) == ((10, 20, 1),)
    assert inside(0, ((1, 30, 4),)) == ((13, 20, 4),)
    assert inside(0, ((12, 15, 1),)) == ((12, 15, 1),)
    assert inside(0, ((0, 10, 1),)) is None
    assert inside(0, ((9, 31, 20),)) is None
    assert inside(0, ()) is None
    assert inside(1, None) is None


def test_a_task_with_many_inputs_waits_for_the_makers_of_all() -> None:
    made = Families(set())
    made.tiles(0, 0, (0, 1), (1, 2), (2, 3))
    made.edges.of_columns(made.family([], [0, 1, 2], 3))
    made.tiles(3, 1, (0, 2), (2, 3))
    many = (np.asarray([0, 2, 3]), np.asarray([0, 1, 2], np.int32))
    family = replace(made.family([], [3, 4], 2), many=many)
    made.edges.of_many(family, None)
    assert made.found() == {(0, 3), (1, 3), (2, 4)}
    assert made.edges.producers[[3, 4]].tolist() == [3, 4]


def test_a_join_is_a_task_that_makes_nothing_and_waits_for_all() -> None:
    made = Families(set())
    made.family([], [], 3)
    join = made.edges.new_join([0, 2])
    assert (made.made[-1].op, made.made[-1].writes) == ("join", ())
    assert made.found() == {(0, join), (2, join)}


def test_there_is_room_for_any_number_of_tiles() -> None:
    made = Families(set())
    made.tiles(0, 0, *((k, k + 1) for k in range(3000)))
    assert len(made.edges.producers) >= 3000
    assert (made.edges.producers == -1).all()
    assert made.edges.set_with(2999).first == 0

"""Tasks that the memory stage adds: families beside those of the graph, which stay as they are."""

from __future__ import annotations

import numpy as np
from tests.memory.task_graphs import task_graph

from infinitensor.ir.layout import DISK
from infinitensor.ir.tasks import EVICT, LOAD
from infinitensor.memory.added_tasks import Additions, Extra, patch_reads, repeat_tasks
from infinitensor.memory.uses import Uses

TASKS = [((0,), 1), ((1,), 2), ((1, 2), 3)]


def additions() -> Additions:
    return Additions(Uses(task_graph(TASKS, [4, 5, 6, 7], [3])))


def evicted_and_loaded() -> tuple[Additions, int, int, int, int]:
    """Tile 1 goes to a disk after task 1, and task 2 reads it from there."""
    added = additions()
    below, back = added.new_tile(1, DISK), added.new_tile(1, 0)
    load = added.new_task(Extra("load", below, back, 0, "load", None))
    evict = added.new_task(Extra("evict", 1, below, 0, "evict", None))
    added.edge(0, evict)
    added.edge(evict, load)
    added.edge(load, 2)
    added.read_instead(2, 1, back)
    return added, below, back, load, evict


def test_tiles_elsewhere_have_the_box_and_value_of_the_first() -> None:
    added, below, back, _, _ = evicted_and_loaded()
    graph = added.lower()[0]
    assert (below, back) == (4, 5)
    for tile, device in ((below, DISK), (back, 0)):
        tiles = graph.tiles[tile]
        assert (tiles.first, tiles.value, tiles.devices.tolist()) == (tile, 1, [device])
        assert tiles.boxes.tolist() == [[[0, 5]]]
    assert graph.n_tiles == 6


def test_evictions_and_loads_are_families_with_numbers_that_edges_follow() -> None:
    added, below, back, load, evict = evicted_and_loaded()
    graph, names, needed, producers = added.lower()
    assert [(f.op, f.lane, f.n) for f in graph.families[3:]] == [
        ("load", LOAD, 1),
        ("evict", EVICT, 1),
    ]
    edges = set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert {(0, int(names[evict])), (int(names[evict]), int(names[load]))} <= edges
    assert (int(names[load]), 2) in edges
    assert producers[[below, back]].tolist() == [names[evict], names[load]]
    assert needed.all()


def test_only_the_reader_that_was_named_reads_the_other_tile() -> None:
    added, _, back, _, _ = evicted_and_loaded()
    families = added.lower()[0].families
    assert families[1].reads[0].tiles.tolist() == [1]
    assert [c.tiles.tolist() for c in families[2].reads] == [[back], [2]]
    assert [c.tiles.tolist() for c in added._graph.families[2].reads] == [[1], [2]]


def test_nothing_waits_for_itself() -> None:
    added = additions()
    added.wait_for([0, 1, 2], 2)
    added.edge(1, 1)
    assert list(zip(added._sources, added._targets, strict=True)) == [(0, 2), (1, 2)]


def test_a_task_runs_once_more_into_another_tile() -> None:
    added = additions()
    place = added.new_tile(2, 0)
    added.read_instead(1, 1, added.new_tile(1, 0))
    again = added.new_task(Extra("again", 1, place, 0, "op 1", None))
    graph, names, _, producers = added.lower()
    family = graph.families[3]
    assert (family.op, family.first, family.values) == ("op 1", int(names[again]), ())
    assert family.reads[0].tiles.tolist() == [1]  # not what the first reads by now
    assert producers[place] == family.first
    assert producers[2] == 1
    out = np.zeros(6)
    family.run([np.full(6, 4.0)], [out], 0)
    assert out.tolist() == [5.0] * 6


def test_a_repeated_task_reads_what_it_read_though_others_read_elsewhere_now() -> None:
    family = task_graph(TASKS, [4, 5, 6, 7], [3]).families[2]
    members = [Extra("again", 2, 9, 0, "op 2", None)]
    assert [c.tiles.tolist() for c in repeat_tasks(family, 7, members).reads] == [[1], [2]]
    patched = patch_reads(family, {0: {2: 8}})
    assert [c.tiles.tolist() for c in patched.reads] == [[1], [8]]
    assert patched.writes[0].tolist() == [3]

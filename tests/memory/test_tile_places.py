"""Where tiles are: a task that reads one elsewhere waits for what brought it there."""

from __future__ import annotations

from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.memory.added_tasks import Additions
from infinitensor.memory.tile_places import Places
from infinitensor.memory.uses import Uses


def test_a_tile_is_read_where_its_values_are() -> None:
    with strict("null", 16) as session:
        tasks = prepared(session, it.cumsum(it.ones((8, 16)), axis=1)).program.graph
    added = Additions(Uses(tasks))
    places = Places(tasks.n_tiles, added)
    assert places.now == places.lower == places.slots == [-1] * tasks.n_tiles
    places.enter(0, 5)
    places.now[0] = 0
    places.read(7, 0)
    edges = list(zip(added._sources, added._targets, strict=True))
    place = places.new_tile(0, 0)
    assert place == tasks.n_tiles
    assert len(places.slots) == tasks.n_tiles + 1
    places.enter(place, 6)
    places.now[0], places.loaded_by[place] = place, 6
    places.read(7, 0)
    more = list(zip(added._sources, added._targets, strict=True))[len(edges) :]
    assert more == [(6, 7)]
    assert places.writers[place] == [6]
    assert places.users[place] == []

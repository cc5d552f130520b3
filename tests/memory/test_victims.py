"""Which tiles go first: by seconds, bytes and the time until they are used next."""

from __future__ import annotations

import numpy as np
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.memory.foresight import Foresight
from infinitensor.memory.uses import Uses
from infinitensor.memory.victims import Victims


def victims() -> tuple[Victims, Foresight]:
    """Of running sums of two tables of 64 tiles, in the order of the tasks."""
    with strict("null", 16) as session:
        x = it.cumsum(it.ones((64, 16)), axis=1)
        tasks = prepared(session, it.cumsum(x, axis=1) + x).program.graph
        mesh = session.engine.mesh_now()
    known = Foresight(Uses(tasks), np.arange(tasks.n_tasks), 1, mesh, 3)
    found = Victims(known, 1, mesh)
    for tile in range(tasks.n_tiles):
        if known.end[tile] > known.first[tile]:
            found.is_here[0][tile] = True
            found.weigh(tile, has_copy=False)
    return found, known


def test_what_is_used_last_goes_first() -> None:
    found, known = victims()
    written = [t for t in np.flatnonzero(found.is_here[0]) if not found.is_made_again(int(t))]
    order = [t for t in found.cheapest(0, 8, 0) if t in written and known.tile_bytes[t] == 128]
    next_uses = [known.at[known.first[t]] for t in order]
    assert len(order) > 8
    assert next_uses == sorted(next_uses, reverse=True)


def test_pinned_tiles_do_not_go() -> None:
    found, _ = victims()
    every = set(found.cheapest(0, 8, 0))
    pinned = set(sorted(every)[:3])
    found.pin(pinned)
    assert set(found.cheapest(0, 8, 0)) == every - pinned
    found.pin(set())
    assert set(found.cheapest(0, 8, 0)) == every


def test_what_has_a_copy_below_goes_before_what_has_to_be_written() -> None:
    found, known = victims()
    first = next(t for t in found.cheapest(0, 8, 0) if not found.is_made_again(t))
    others = [
        t
        for t in found.cheapest(0, 8, 0)
        if not found.is_made_again(t) and known.tile_bytes[t] == known.tile_bytes[first]
    ]
    last = others[1]
    found.weigh(last, has_copy=True)
    again = [t for t in found.cheapest(0, 8, 0) if t in (first, last)]
    assert again == [last, first]


def test_what_was_used_just_now_waits() -> None:
    found, _ = victims()
    first, second = [t for t in found.cheapest(0, 8, 50) if not found.is_made_again(t)][:2]
    found.used_at[first] = 50
    again = [t for t in found.cheapest(0, 8, 50) if t in (first, second)]
    assert again == [second, first]


def test_lower_tiers_have_no_victims() -> None:
    found, _ = victims()
    assert list(found.cheapest(-1, 8, 0)) == []

"""Lost tiles are made again from the nearest that are there, or it is said why they cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict
from tests.runtime.run.test_run import begin, no_tick, values

import infinitensor as it
from infinitensor.errors import LostTileError

pytestmark = pytest.mark.local
A = np.arange(60.0).reshape(10, 6)


def chain() -> Any:
    """Two scans, so that there are stored tiles between."""
    return it.cumsum(it.cumsum(it.asarray(A) + 1, axis=1), axis=1) * 2


WANTED = np.cumsum(np.cumsum(A + 1, axis=1), axis=1) * 2


@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
def test_all_tiles_of_a_result_are_made_again(devices: str) -> None:
    with strict(devices, 7, compile="never") as session:
        run, number = begin(session, chain())
        run.go(None, no_tick)
        first, layout = run.program.graph.held[number]
        for tile in range(first, first + layout.n_tiles):
            run.drop(tile)
        np.testing.assert_array_equal(values(session, run, number), WANTED)
        assert run.take_counts()["tiles_rebuilt"] == layout.n_tiles
        assert not run.tiles.directory.lost
        run.release()


def test_memory_beside_the_plan_is_counted_and_given_back() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, number = begin(session, chain())
        run.go(None, no_tick)
        first, _ = run.program.graph.held[number]
        before = [ledger.used_bytes for ledger in local(session).ledgers]
        run.drop(first)
        values(session, run, number)
        after = [ledger.used_bytes for ledger in local(session).ledgers]
        assert sum(run.rebuilder.beside_bytes) > 0
        assert [b - a for a, b in zip(before, after, strict=True)] == run.rebuilder.beside_bytes
        run.release()
        del run
        session.drain()


def test_a_tile_that_was_written_to_in_place_is_refused() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, number = begin(session, chain())
        run.go(None, no_tick)
        first, _ = run.program.graph.held[number]
        run.rebuilder.write(first, run.program.graph.n_tasks)
        run.drop(first)
        with pytest.raises(LostTileError, match="written to in place, and what was written over"):
            run.rebuilder.rebuild(first)
        run.release()


def test_a_tile_whose_source_is_being_written_to_is_refused() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, number = begin(session, chain())
        run.go(None, no_tick)
        first, _ = run.program.graph.held[number]
        step = run.steps[int(run.program.producers[first])]
        for source in step.sources():
            run.rebuilder.writing[source] = step.task + 1
        run.drop(first)
        with pytest.raises(LostTileError, match="what it was made from was written to in place"):
            run.rebuilder.rebuild(first)
        run.rebuilder.writing.clear()
        run.rebuilder.rebuild(first)
        np.testing.assert_array_equal(values(session, run, number), WANTED)
        run.release()


def test_a_stored_tile_that_nothing_makes_is_refused() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, _ = begin(session, chain())
        run.tiles.enter_leaves()
        leaf = next(tiles for tiles in run.program.graph.tiles if tiles.leaf >= 0)
        run.tiles.directory.leave(leaf.first)
        with pytest.raises(LostTileError, match="it was stored, and nothing here makes it"):
            run.rebuilder.rebuild(leaf.first)
        run.release()

"""The memory of a run's tiles: slots get memory as tasks need it, and give all of it back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict
from tests.runtime.run.test_run import begin, no_tick

import infinitensor as it
from infinitensor.devices import Ledger
from infinitensor.errors import DeviceOutOfMemoryError

pytestmark = pytest.mark.local


def scans() -> Any:
    x = it.asarray(np.arange(60.0).reshape(10, 6))
    return it.cumsum(it.cumsum(x + 1, axis=1), axis=1) * 2


def used(session: it.Session) -> list[int]:
    return [ledger.used_bytes for ledger in local(session).ledgers]


def test_tiles_of_leaves_are_the_arrays_of_their_tables() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, _ = begin(session, scans())
        run.tiles.enter_leaves()
        for tiles in run.program.graph.tiles:
            if tiles.leaf >= 0:
                arrays = run.tiles.leaves[tiles.leaf].arrays
                for k in range(tiles.n):
                    assert run.tiles.directory.values(tiles.first + k) is arrays[k]
        run.release()


def test_a_slot_takes_memory_once_and_the_next_tile_in_it_the_same() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, _ = begin(session, scans())
        before = sum(used(session))
        # (the first ones make their tiles where what they read is)
        task = next(t for t in range(run.program.graph.n_tasks) if run.tiles.takes_memory(t))
        (out,) = run.steps[task].outs
        made = run.tiles.output(out)
        taken = sum(used(session)) - before
        assert taken == run.program.slot_bytes[out.slot] >= made.nbytes
        assert made.shape == out.shape
        assert not run.tiles.takes_memory(task)
        again = run.tiles.output(out)
        assert sum(used(session)) - before == taken
        assert again.__array_interface__["data"] == made.__array_interface__["data"]
        run.release()


def test_all_that_is_planned_can_be_taken_before_the_first_task() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, _ = begin(session, scans())
        run.tiles.take_all()
        taken = used(session)
        for task in np.flatnonzero(run.program.needed).tolist():
            assert not run.tiles.takes_memory(task)
        run.go(None, no_tick)
        assert used(session) == taken
        for k, n_bytes in enumerate(taken):
            assert n_bytes <= run.program.peak_bytes[k]
        run.release()


def test_memory_that_is_refused_names_the_task_that_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with strict("cpu*2", 7, compile="never") as session:
        run, _ = begin(session, scans())

        def refuse(ledger: Ledger, n_bytes: int) -> Any:
            raise DeviceOutOfMemoryError("full", n_bytes)

        monkeypatch.setattr(Ledger, "take", refuse)
        with pytest.raises(DeviceOutOfMemoryError, match="full") as found:
            run.tiles.take_all()
        assert found.value.op in {family.op for family in run.program.graph.families}
        assert any("infinitensor: in" in note for note in found.value.__notes__)
        run.release()


def test_parts_of_one_piece_are_views_of_one_array() -> None:
    with strict("cpu", 7, compile="never") as session:
        run, number = begin(session, scans())
        first, layout = run.program.graph.held[number]
        outs = [run.steps.out(first + k) for k in range(layout.n_tiles)]
        assert layout.n_tiles > 1
        assert all(out.tiles.whole for out in outs)
        whole = run.tiles.whole_of(outs[0].tiles)
        assert whole.shape == (10, 6)
        for out in outs:
            part = run.tiles.output(out)
            assert np.shares_memory(part, whole)
            part[...] = out.tile
        assert np.unique(whole).tolist() == [first + k for k in range(layout.n_tiles)]
        run.release()


def test_release_gives_everything_back() -> None:
    with strict("cpu*2", 7, compile="never") as session:
        before = used(session)
        run, _ = begin(session, scans())
        run.tiles.take_all()
        assert sum(used(session)) > sum(before)
        run.tiles.release()
        del run
        session.drain()
        assert used(session) == before

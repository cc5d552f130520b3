"""Tiles that a run has read from a file and still holds are there for the next run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict
from tests.runtime.run.test_run import begin, no_tick

import infinitensor as it
from infinitensor.runtime.state.kept_reads import _as_many, tables_with_reads

if TYPE_CHECKING:
    from pathlib import Path

    from infinitensor.runtime import Run

pytestmark = pytest.mark.local
A = np.random.default_rng(1).random((400, 50))
TILE = 500
SHARE = 80_000
"""Half of the bytes of the file."""


def run_of(session: it.Session, path: Path) -> Run:
    run, _ = begin(session, it.sum(it.open(path) * 2, axis=0))
    run.go(None, no_tick)
    return run


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", A)
    return tmp_path / "a.npy"


@pytest.mark.parametrize("memory", [SHARE, 10 * A.nbytes])
def test_a_part_of_a_file_that_memory_has_room_for_stays(path: Path, memory: int) -> None:
    with strict("cpu", TILE, memory, "64MiB") as session:
        run = run_of(session, path)
        found = tables_with_reads(run.tiles)
        assert len(run.program.cached) > 0
        ((leaf, table),) = found.items()
        before = run.tiles.leaves[leaf]
        kept = [k for k in range(table.layout.n_tiles) if table.is_spare(k)]
        assert len(kept) == len(run.program.cached)
        assert table.layout.cuts == before.layout.cuts
        assert (len(kept) == table.layout.n_tiles) == (memory > A.nbytes)
        assert sum(getattr(table.buffers[k], "n_bytes", 0) for k in kept) <= memory
        values = table.read(((0, 400), (0, 50)), local(session).devices)
        np.testing.assert_array_equal(values, A)
        run.release()


def test_nothing_stays_of_what_is_in_memory_anyway() -> None:
    with strict("cpu", TILE) as session:
        run, _ = begin(session, it.sum(it.asarray(A) * 2, axis=0))
        run.go(None, no_tick)
        assert tables_with_reads(run.tiles) == {}
        run.release()


def test_a_table_that_keeps_little_more_than_before_is_not_made_anew(path: Path) -> None:
    with strict("cpu", TILE, SHARE, "64MiB") as session:
        run = run_of(session, path)
        ((leaf, table),) = tables_with_reads(run.tiles).items()
        run.tiles.leaves[leaf] = table  # as many as this run has read stayed before
        assert tables_with_reads(run.tiles) == {}
        run.release()


@pytest.mark.parametrize(("most", "n"), [(0, 0), (99, 0), (100, 1), (250, 2), (1000, 4)])
def test_as_many_tiles_stay_as_bytes_allow_the_first_ones(most: int, n: int) -> None:
    kept: dict[int, Any] = {k: (0, None, SimpleNamespace(n_bytes=100)) for k in (3, 5, 8, 9)}
    assert list(_as_many(kept, most)) == [3, 5, 8, 9][:n]

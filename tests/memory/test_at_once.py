"""Budgets hold for any number of workers: where memory is little, fewer tasks run at a time."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.config import config
from infinitensor.events import on
from infinitensor.ir.mesh import FEWEST, WORKER_BYTES, preset
from infinitensor.metrics import silhouette_score

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKERS = [1, 2, 3, 16, 64]
X = np.random.default_rng(0).normal(size=(4000, 96))
PROGRAMS: dict[str, Any] = {
    "columns from their mean": lambda x: ((x - x.mean(0)) ** 2).sum(0),
    "a product with itself": lambda x: x.T @ x,
    "sorted": lambda x: it.sort(x.reshape(-1))[::1000],
    "neighbours": lambda x: call_op("_pairs_top", x, it.arange(len(x)), x, 5)[1],
}


@pytest.fixture(params=WORKERS)
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    it.shutdown()
    monkeypatch.setattr(config, "workers", request.param)
    yield request.param
    it.shutdown()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_file_in_half_its_size_of_memory_fits_any_number_of_workers(
    name: str, workers: int, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", X)
    with it.init("cpu"):
        wanted = PROGRAMS[name](it.asarray(X)).numpy()
    budget = X.nbytes // 2
    threads: set[int] = set()
    with (
        it.init("cpu", memory=budget, disk="1GiB", spill_dir=str(tmp_path)),
        on("task_start", lambda **what: threads.add(threading.get_ident())),
    ):
        found = PROGRAMS[name](it.open(tmp_path / "x.npy")).numpy()
        assert max(it.stats()["peak_bytes"].values()) <= budget
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    lanes = 4  # those that read and write, and whoever asks
    assert len(threads) <= min(workers, FEWEST) + lanes


def test_scratch_in_a_tight_budget_is_for_fewer_tasks_not_for_smaller_promises(
    workers: int,
) -> None:
    x = X[:1500, :16]
    labels = np.arange(len(x)) % 7
    with it.init("cpu"):
        wanted = silhouette_score(x, labels, metric="braycurtis")
    with it.init("cpu", memory="32MiB", disk=0):
        assert silhouette_score(it.asarray(x), labels, metric="braycurtis") == pytest.approx(wanted)
        assert max(it.stats()["peak_bytes"].values()) <= 32 << 20


def test_where_memory_is_plenty_all_workers_work() -> None:
    mesh = preset("cpu", 1, 1 << 40, 64)
    assert mesh.frugal(1 << 40) is mesh
    assert mesh.frugal(16 * WORKER_BYTES).n_concurrent == 16
    assert mesh.frugal(1).n_concurrent == mesh.n_least == FEWEST
    assert replace(mesh, workers=1).frugal(1).n_concurrent == 1

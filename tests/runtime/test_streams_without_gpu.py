"""The lanes of a GPU where there is none: the same tests, on torch's CPU tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from benchmarks.bench_budgets import ROOM, make, run
from tests.fake_gpu import fake_gpu, with_tools
from tests.runtime.run.test_gpu_lanes import (
    test_a_fixed_order_gives_the_same_values,
    test_results_larger_than_the_device_are_on_the_host_and_then_on_disk,
    test_weights_larger_than_the_budget_give_the_same_values,
)

import infinitensor as it
from infinitensor import events
from infinitensor.api.record.late import call_op
from infinitensor.ir.mesh import Tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "test_a_fixed_order_gives_the_same_values",
    "test_results_larger_than_the_device_are_on_the_host_and_then_on_disk",
    "test_weights_larger_than_the_budget_give_the_same_values",
]


@pytest.fixture(autouse=True)
def on_a_fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(it.config, "compile", "never")
    with fake_gpu():
        yield


def test_points_in_one_piece_are_cut_however_many_centres_there_are() -> None:
    """The space of a search has points times centres: its tiles do not."""
    x, centers = np.ones((600_000, 32), np.float32), np.ones((16_000, 32), np.float32)
    memory = x.nbytes * 9 // 10
    with with_tools(Tools()), it.init("cuda:0", memory=memory):
        found = call_op("_nearest", it.asarray(x), np.zeros(32, np.float32), centers)
        assert max(it.plan(found).peak_bytes.values()) <= memory


@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128"])
@pytest.mark.parametrize("rows", [1000, 40_000])
def test_values_come_back_in_one_copy_or_in_parts(dtype: str, rows: int) -> None:
    x = np.random.default_rng(0).integers(0, 9, (rows, 500)).astype(dtype)
    with it.init("cuda:0"):
        given = it.asarray(x) + it.zeros((1, 500), dtype)
        np.testing.assert_array_equal(given.numpy(), x)
        np.testing.assert_array_equal(given[:, :300].numpy(), x[:, :300])


@pytest.mark.parametrize("name", ["sort", "cholesky"])
def test_lines_and_matrices_larger_than_the_device_are_cut(name: str, tmp_path: Path) -> None:
    make(name, 0.02, tmp_path)
    roomy = run(name, tmp_path, ROOM, "cuda:0")
    for share in (0.75, 0.25, 0.1):
        budget = int(share * roomy["plan"])
        found = run(name, tmp_path, budget, "cuda:0")
        assert found["ledger"] <= found["plan"] <= budget
        assert found["bits"] == roomy["bits"] or found["smaller"]


@pytest.mark.parametrize("memory", ["64MiB", "2MiB"])
def test_where_all_memory_is_refused_an_error_names_the_task_and_nothing_is_lost(
    memory: str,
) -> None:
    """Of the device, and pinned on the host: what has to make room goes to files."""
    it.config.small_elements = 0
    values = np.random.default_rng(0).normal(size=(300, 300))

    def refuse(device: str, n_bytes: int) -> None:
        raise it.DeviceOutOfMemoryError(f"{device} has no {n_bytes} bytes left", n_bytes)

    with it.init("cuda:0", memory=memory, host_memory="64MiB") as session:
        x = it.compute(it.asarray(values))
        asked = it.tanh(x @ x.T) @ x
        with (
            events.on("allocate", refuse),
            pytest.raises(it.DeviceOutOfMemoryError, match="cuda:0 has no") as caught,
        ):
            it.compute(asked)
        assert caught.value.op
        assert caught.value.tile >= 0
        assert "test_streams_without_gpu.py" in "".join(caught.value.__notes__)
        del caught
        np.testing.assert_allclose(asked.numpy(), np.tanh(values @ values.T) @ values)
        del asked
        session.drain()
        np.testing.assert_array_equal(x.numpy(), values)

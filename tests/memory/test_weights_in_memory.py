"""A stack of layers whose weights were made in memory and are more than the budget.

They are evicted in tiles of their own, rows; products read them by columns. What is read so stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

N_LAYERS, WIDTH, N_ROWS = 8, 256, 160
WEIGHT_BYTES = 4 * WIDTH * WIDTH
ROWS_BYTES = 4 * N_ROWS * WIDTH
TILE = 1 << 13
N_PASSES = 5

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "by columns": lambda h, w: np.tanh(h @ w),
    "by rows": lambda h, w: np.tanh(h @ w.T),
}


def network(rows: Any, weights: list[Any], layer: Callable[[Any, Any], Any]) -> Any:
    for weight in weights:
        rows = layer(rows, weight)
    return rows


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("share", [0.9, 0.5, 0.25])
def test_a_pass_loads_what_cannot_stay_and_writes_nothing(way: str, share: float) -> None:
    rng = np.random.default_rng(0)
    weights = [
        (rng.standard_normal((WIDTH, WIDTH)) / 16).astype(np.float32) for _ in range(N_LAYERS)
    ]
    rows = rng.standard_normal((N_ROWS, WIDTH)).astype(np.float32)
    wanted = network(rows, weights, WAYS[way])
    data_bytes = N_LAYERS * WEIGHT_BYTES + ROWS_BYTES
    beside = 6 * ROWS_BYTES  # what is made on the way, and what is read meanwhile
    memory = int(share * N_LAYERS * WEIGHT_BYTES) + beside
    with strict("cpu", TILE, memory, "16MiB") as session:
        held = [it.asarray(weight) for weight in weights]
        start = it.asarray(rows)
        passes = []
        for _ in range(N_PASSES):
            it.stats(reset=True)
            found = network(start, held, WAYS[way]).numpy()
            passes.append(it.stats())
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
        assert local(session).ledgers[0].peak_bytes <= memory
    for last in passes[-2:]:
        assert last["bytes_evicted"] == 0
        assert last["plan_misses"] == 0
        assert last["bytes_loaded"] <= max(data_bytes - memory, 0) + beside
    assert passes[-1]["bytes_loaded"] < max(data_bytes // 2, 1.1 * (1 - share) * data_bytes)

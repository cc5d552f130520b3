"""The lanes of a GPU where there is none: the same tests, on torch's CPU tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.runtime.test_streams import (
    test_a_fixed_order_gives_the_same_values,
    test_results_larger_than_the_device_lie_on_the_host_and_then_on_disk,
    test_weights_larger_than_the_budget_give_the_same_values,
)

import infinitensor as it
from infinitensor.api.assign import call_op
from infinitensor.ops import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "test_a_fixed_order_gives_the_same_values",
    "test_results_larger_than_the_device_lie_on_the_host_and_then_on_disk",
    "test_weights_larger_than_the_budget_give_the_same_values",
]


@pytest.fixture(autouse=True)
def on_a_fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(it.config, "compile", "never")
    with fake_gpu():
        yield


def test_points_in_one_piece_are_cut_however_many_centres_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The space of a search has points times centres: its tiles do not."""
    monkeypatch.setattr(nearest, "has_triton", lambda: True)
    x, centers = np.ones((600_000, 32), np.float32), np.ones((16_000, 32), np.float32)
    memory = x.nbytes * 9 // 10
    with it.init("cuda:0", memory=memory):
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

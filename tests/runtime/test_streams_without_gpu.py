"""The lanes of a GPU where there is none: the same tests, on torch's CPU tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fake_gpu import fake_gpu
from tests.runtime.test_streams import (
    test_a_fixed_order_gives_the_same_values,
    test_results_larger_than_the_device_lie_on_the_host_and_then_on_disk,
    test_weights_larger_than_the_budget_give_the_same_values,
)

import infinitensor as it

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

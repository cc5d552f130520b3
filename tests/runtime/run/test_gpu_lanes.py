"""Lanes of a GPU: what does not fit is copied to the host's memory and back while kernels run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import local, strict
from tests.tasking.programs import recorded

import infinitensor as it

pytestmark = pytest.mark.gpu


def layers(n: int, width: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [(rng.random((width, width), np.float32) - 0.5) / width**0.5 for _ in range(n)]


def passed(xp: Any, x: Any, weights: list[Any]) -> Any:
    for weight in weights:
        x = xp.maximum(x @ weight, 0)
    return x


@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0*2"])
@pytest.mark.parametrize("share", [1.5, 0.75, 0.5, 0.25])
def test_weights_larger_than_the_budget_give_the_same_values(devices: str, share: float) -> None:
    weights = layers(12, 512)
    x = np.random.default_rng(4).random((256, 512), np.float32)
    budget = int(share * sum(w.nbytes for w in weights)) + (4 << 20)
    with it.init(devices, memory=budget, host_memory="1GiB"):
        ours = [it.asarray(w) for w in weights]
        given = it.asarray(x)
        for _ in range(3):
            found = passed(it, given, ours).numpy()
            np.testing.assert_allclose(found, passed(np, x, weights), rtol=2e-4, atol=1e-5)
        stats = it.stats(reset=True)
        passed(it, given, ours).numpy()
        again = it.stats()
    assert again["bytes_evicted"] == 0, "weights are clean: nothing is written back"
    if share < 1:
        assert stats["bytes_loaded"] > 0
    assert again["bytes_loaded"] <= 2 * sum(w.nbytes for w in weights)


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_a_fixed_order_gives_the_same_values(share: float) -> None:
    weights = layers(12, 512)
    x = np.random.default_rng(4).random((256, 512), np.float32)
    budget = int(share * sum(w.nbytes for w in weights)) + (4 << 20)
    found = []
    for is_fixed in (False, True):
        with strict("cuda:0", 0, budget, 0, host="1GiB", fixed_order=is_fixed):
            ours = [it.asarray(w) for w in weights]
            for _ in range(3):
                y = passed(it, it.asarray(x), ours).numpy()
            found.append(y)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("seed", range(24))
def test_a_tight_budget_changes_no_value(seed: int) -> None:
    with strict("cuda:0", 7) as session:
        asked = recorded(seed)
        it.compute(*asked)
        roomy = [tensor.numpy() for tensor in asked]
        peak = local(session).ledgers[0].peak_bytes
    for share in (0.5, 0.25):
        with strict("cuda:0", 7, int(share * peak), 0, host="64MiB"):
            try:
                asked = recorded(seed)
                it.compute(*asked)
            except it.MemoryBudgetError:
                continue
            for a, tensor in zip(roomy, asked, strict=True):
                np.testing.assert_array_equal(a, tensor.numpy())


def test_results_larger_than_the_device_are_on_the_host_and_then_on_disk() -> None:
    values = np.random.default_rng(5).random((2048, 1024))
    with it.init("cuda:0", memory="8MiB", host_memory="8MiB", disk="64MiB") as session:
        x = it.asarray(values)
        y = x * 2
        it.compute(y)
        assert local(session).tiers.host.used_bytes > 0
        assert local(session).tiers.spilled_bytes > 0
        np.testing.assert_array_equal(y.numpy(), values * 2)
        np.testing.assert_array_equal(y[::7, 3].numpy(), values[::7, 3] * 2)

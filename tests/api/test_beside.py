"""Constants like a tensor on a GPU are made there; written to element by element, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = np.random.default_rng(0).normal(size=(300, 300))  # values of its size are no small ones
GIVEN = LARGE[:60, :50]


@pytest.fixture
def there() -> Iterator[it.Tensor]:
    """A tensor that is on a GPU."""
    with fake_gpu(), it.init("cuda:0"):
        x = it.asarray(LARGE)[:60, :50] * 1
        it.compute(x)
        yield x


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_constants_are_not_sent_to_a_gpu(name: str, there: Any) -> None:
    it.stats(reset=True)
    found = it.maximum(there, getattr(it, name)(there))
    assert it.stats()["small_calls"] == 0
    value = 1 if name == "ones_like" else 0
    np.testing.assert_array_equal(found.numpy(), np.maximum(GIVEN, value))


def test_those_like_what_is_on_the_host_and_short_ones_are_made_at_once(there: Any) -> None:
    it.stats(reset=True)
    on_the_host = it.asarray(GIVEN)
    assert float(it.ones_like(on_the_host)[3, 4]) == 1.0
    assert it.zeros_like(there[0]).tolist() == [0.0] * 50
    assert it.stats()["evaluations"] == 0


def test_writes_of_elements_cost_what_they_cost_on_the_host(there: Any) -> None:
    made, expected = it.zeros_like(there, dtype=np.int64), np.zeros((60, 50), np.int64)
    doubled = made + 1  # waits for what was there before
    it.stats(reset=True)
    for k in range(50):
        made[k, k] = expected[k, k] = k
        made[k % 7, 3:5] = expected[k % 7, 3:5] = (k, -k)
    assert it.stats()["evaluations"] == 0
    np.testing.assert_array_equal(made.numpy(), expected)
    np.testing.assert_array_equal((made + doubled).numpy(), expected + 1)


def test_large_writes_and_values_that_wait_go_to_the_gpu(there: Any) -> None:
    made, expected = it.zeros_like(there), np.zeros_like(GIVEN)
    made[1:-1] = there[1:-1] * 2
    expected[1:-1] = GIVEN[1:-1] * 2
    made[3, 4] = there[0].sum()
    expected[3, 4] = GIVEN[0].sum()
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-12)


@pytest.mark.gpu
def test_a_program_with_such_constants_is_replayed() -> None:
    with it.init("cuda:0"):
        x = it.asarray(LARGE)[:60, :50] * 1
        for _ in range(6):
            found = x
            for _ in range(5):
                found = it.maximum(found * 0.5, it.zeros_like(x)) + x
            np.testing.assert_array_equal(found.numpy(), _plain(GIVEN))


def _plain(x: np.ndarray) -> np.ndarray:
    found = x
    for _ in range(5):
        found = np.maximum(found * 0.5, np.zeros_like(x)) + x
    return found

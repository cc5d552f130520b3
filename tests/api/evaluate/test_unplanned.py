"""Little work runs at once the first time it comes, and is planned the second time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.little_work import N, misses, values

import infinitensor as it
from infinitensor.api.evaluate.unplanned import LONG_PROGRAM

pytestmark = pytest.mark.usefixtures("counted_session")


def test_a_program_is_planned_the_second_time_and_found_the_third() -> None:
    a = values()
    x = it.asarray(a)
    results = []
    for plans, hits in ((0, 0), (1, 0), (1, 1)):
        y = it.exp(x) * 2 + x[::-1]
        it.compute(y)
        counts = it.stats()
        assert (counts["plan_misses"], counts["plan_hits"]) == (plans, hits)
        results.append(y.numpy())
    np.testing.assert_allclose(results[0], np.exp(a) * 2 + a[::-1], 1e-12)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_loop_whose_shapes_change_needs_no_plans() -> None:
    a = values()
    x, y = it.asarray(a), a.copy()
    for k in range(1, 6):
        x[k:] = np.float64(0.5) * (x[k:] + x[:-k])
        it.compute(x)
        y[k:] = np.float64(0.5) * (y[k:] + y[:-k])
    np.testing.assert_array_equal(x.numpy(), y)
    assert misses() == 0


def test_a_write_to_what_nobody_else_reads_goes_in_place() -> None:
    x = it.asarray(values())
    piece = x._version.table
    assert piece is not None
    at = piece.whole.ctypes.data
    del piece
    x[: N // 2] = x[N // 2 :] * 2
    it.compute(x)
    host = x._version.host
    assert host is not None
    assert host.ctypes.data == at
    assert misses() == 0


def test_a_write_to_what_somebody_else_reads_goes_to_a_copy() -> None:
    a = values()
    x = it.asarray(a)
    before = x.numpy()
    later = x * 3
    x[: N // 2] = x[N // 2 :] * 2
    it.compute(x, later)
    np.testing.assert_array_equal(later.numpy(), before * 3)


def test_what_was_made_before_an_error_stays_and_the_error_is_repeated() -> None:
    x = it.asarray(values())
    x[: N // 2] = x[N // 2 :] + 1
    expected = x.numpy()
    good = x * 2
    bad = it.take(x, it.asarray(np.full(N, N)))
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds"):
            it.compute(good, bad)
    np.testing.assert_array_equal(good.numpy(), expected * 2)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_sums_that_round_by_tiles_are_planned() -> None:
    x = it.asarray(values(400_000))
    float(x.sum())
    assert misses() == 1


def test_small_writes_to_a_tensor_that_waits_happen_at_once() -> None:
    x, y = it.zeros((300, 400)), np.zeros((300, 400))
    for i in range(1, 300):
        x[i] = x[i - 1] + i
        x[i, ::2] *= 0.5
        y[i] = y[i - 1] + i
        y[i, ::2] *= 0.5
    assert it.stats()["evaluations"] == 1
    np.testing.assert_array_equal(x.numpy(), y)


def test_a_small_write_of_much_work_waits_with_it() -> None:
    a = values(400_000)
    x, sums = it.asarray(a), it.zeros(N)
    for i in range(4):
        sums[i] = (x * i).max()
    assert it.stats()["evaluations"] == 0
    np.testing.assert_array_equal(sums.numpy()[:5], [*((a * i).max() for i in range(4)), 0])


def covariance(xp: Any, data: Any) -> Any:
    """Means of columns, which a plan cuts, and then short products, each of other shapes."""
    n, m = data.shape
    data -= xp.mean(data, axis=0)
    made = xp.zeros((m, m), dtype=data.dtype)
    for i in range(m):
        made[i:, i] = made[i, i:] = data[:, i] @ data[:, i:] / (n - 1.0)
    return made


def test_a_long_program_of_short_calls_is_planned_the_eighth_time() -> None:
    given = np.random.default_rng(5).standard_normal((600, 260))
    results = []
    for k in range(9):
        x = it.asarray(given)
        results.append(covariance(it, x).numpy())
        assert it.stats()["ways"]["unplanned"] > 0
        # first the means alone; the whole the eighth time
        assert misses() == (1 if k < 7 else 2)
        np.testing.assert_array_equal(results[k], results[0])
    expected = covariance(np, given.copy())
    np.testing.assert_allclose(results[0], expected, 1e-9, 1e-12)


def test_the_same_calls_again_and_again_are_no_long_program() -> None:
    x = it.asarray(values())
    for n_plans in (0, 1, 1):
        y = x
        for _ in range(LONG_PROGRAM // 2):
            y = y * 0.5 + 1
        it.compute(y)
        assert misses() == max(n_plans, 1)  # much work: 25 million elements


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_products_without_a_plan_have_the_bits_of_planned_ones(dtype: str, order: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        m, k, n = (int(2 ** rng.uniform(0, 9.5)) for _ in range(3))
        a = rng.standard_normal((m, k)).astype(dtype)
        a = np.asfortranarray(a) if order == "F" else a
        b = rng.standard_normal((k, n)).astype(dtype)
        x, y = it.asarray(a), it.asarray(b)
        made = [(x[::-1] @ y * 2).numpy() for _ in range(3)]
        np.testing.assert_array_equal(made[0], made[1])
        np.testing.assert_array_equal(made[0], made[2])
        line = [(x[:, 0] @ x[:, k // 2 :]).numpy() for _ in range(3)]
        np.testing.assert_array_equal(line[0], line[1])
        np.testing.assert_array_equal(line[0], line[2])

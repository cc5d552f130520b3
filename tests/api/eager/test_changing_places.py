"""Calls at places whose shapes change run at once and are not recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.little_work import N, misses, values

import infinitensor as it
from infinitensor.api.eager import changing_places
from infinitensor.config import config

pytestmark = [
    pytest.mark.usefixtures("counted_session"),
    pytest.mark.skipif(config.compile != "auto", reason="everything is planned"),
]


def test_a_loop_whose_shapes_change_stops_recording_what_somebody_waits_for() -> None:
    n = 450
    a = np.random.default_rng(1).random((n, n)) + n * np.eye(n)
    x = it.asarray(a)
    for b in (a, x):
        for k in range(60):
            b[k + 1 :, k] /= b[k, k]
            b[k + 1 :, k + 1 :] -= b[k + 1 :, k, None] * b[k, k + 1 :]
    assert np.array_equal(x.numpy(), a)
    counts = it.stats()
    assert counts["evaluations"] <= 10
    assert counts["plan_misses"] == 0


def test_few_places_of_a_large_tensor_are_written_by_masks_and_indices_at_once() -> None:
    a = np.zeros((3000, 50))
    x = it.zeros((3000, 50))
    for b in (a, x):
        mask = (np if b is a else it).arange(3000) % 7 == 0
        b[mask, 3] = 2.0
        b[mask, 3] += b[mask, 4] + 1.0
        b[[2, 5, 5], 1:3] = 4.0
    assert np.array_equal(x.numpy(), a)
    assert it.stats()["evaluations"] == 1


def test_shapes_that_come_round_again_are_planned_no_more_than_before() -> None:
    a = values()
    for _ in range(3):
        x, y = it.asarray(a), a.copy()
        for k in range(1, 5):
            x += 0.5
            x = x[x < 2 - 0.1 * k]
            y += 0.5
            y = y[y < 2 - 0.1 * k]
        np.testing.assert_array_equal(x.numpy(), y)
    assert misses() == 0


def test_a_loop_over_bins_of_several_sizes_makes_no_plans_for_them() -> None:
    a, bins = values(), np.random.default_rng(1).integers(0, 6, N) ** 2
    x, where = it.asarray(a), it.asarray(bins)
    for turn in range(3):
        means, wanted = it.zeros(36), np.zeros(36)
        for i in range(36):
            if turn == 1 and i == 0:
                it.stats(reset=True)
            means[i] = x[where == i].sum()
            wanted[i] = a[bins == i].sum()
        np.testing.assert_allclose(means.numpy(), wanted, rtol=1e-12)
    assert misses() <= 4


@pytest.mark.parametrize("dtype", ["complex128", "float32", "int64"])
def test_a_loop_that_compacts_by_masks_reads_and_writes_at_once(dtype: str) -> None:
    given = (np.random.default_rng(2).random(2 * N) * 100).astype(dtype)

    def compacted(xp: Any, z: Any) -> tuple[Any, ...]:
        i = xp.arange(len(z))
        rows = xp.stack([z, z, z], axis=1)
        at, left = xp.zeros(2 * N, dtype=np.int64), xp.zeros(2 * N, dtype=z.dtype)
        kept = []
        for step in range(6):
            xp.multiply(z, 2, z)
            xp.add(z, z.dtype.type(step), out=z)
            far = abs(z) > 180 + step
            at[i[far]] = step + 1
            left[i[far]] = z[far]
            kept.append(rows[far])
            xp.logical_not(far, far)
            z, i, rows = z[far], i[far], rows[far]
            xp.divide(z, 2, out=z, casting="unsafe")
        return (at, left, z, i, rows, *kept)

    wanted = compacted(np, given.copy())
    for turn in range(4):
        if turn == 3:
            it.stats(reset=True)
        found = compacted(it, it.asarray(given))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    assert misses() == 0


def test_a_ufunc_stores_into_what_is_on_the_host_and_nobody_reads() -> None:
    a = np.arange(12.0).reshape(3, 4)
    x, y = it.asarray(a) + 0, a.copy()
    assert it.add(x, x[0], x) is x
    np.add(y, y[0], y)
    it.multiply(x[:, 1:], 2, out=x[:, :-1])
    np.multiply(y[:, 1:], 2, out=y[:, :-1])
    np.testing.assert_array_equal(x.numpy(), y)
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
        it.add(x, 1j, out=x)
    with pytest.raises(ValueError, match="non-broadcastable output operand"):
        it.add(x, x, out=x[0])
    with pytest.raises(ValueError, match="read-only"):
        it.add(x[0], 1, out=it.broadcast_to(x[0], (3, 4)))
    np.testing.assert_array_equal(x.numpy(), y)


def test_what_waits_to_be_read_is_not_stored_into() -> None:
    a = values()
    x = it.asarray(a)
    for k in range(1, 5):  # shapes that change: these places are known for it
        z = x[k:] * 2
        it.compute(z)
        before = z + 1
        it.add(z, 1, out=z)
        after = z * 1
        np.testing.assert_array_equal(before.numpy(), a[k:] * 2 + 1)
        np.testing.assert_array_equal(after.numpy(), a[k:] * 2 + 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i2", "u1", "?"])
def test_ufuncs_at_places_of_changing_shapes_have_numpys_values_dtypes_and_errors(
    dtype: str,
) -> None:
    given = (np.random.default_rng(5).random(N) * 100).astype(dtype)

    def steps(xp: Any, x: Any) -> list[Any]:
        found = []
        for k in range(1, 6):
            z = x[k:] + x[:-k]
            if xp is it:
                it.compute(z)
            w = abs(z)
            found += [z, w, w > 2, z + 1, z * 2.5, xp.logical_not(z), z * z[::-1], z == z[:1]]
        return found

    wanted = steps(np, given)
    for turn in range(2):
        if turn == 1:
            it.stats(reset=True)
        found = steps(it, it.asarray(given))
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.numpy(), b)
    assert it.stats()["small_calls"] > 5 * 5
    x = it.asarray(given)
    for k in range(3):
        with pytest.raises(ValueError, match="broadcast"):
            x + x[k + 1 :]


def test_what_was_selected_is_computed_before_it_is_selected_from() -> None:
    a, n = values(), np.arange(N)
    x, i = it.asarray(a), it.arange(N)
    at, wanted = it.zeros(N), np.zeros(N)
    for k in range(4):
        near, close = x < 2 - k / 2, a < 2 - k / 2
        x, i, a, n = x[near], i[near], a[close], n[close]
        at[i] = x
        wanted[n] = a
    assert i._version.node is None
    np.testing.assert_array_equal(at.numpy(), wanted)
    nothing = x > 100
    at[i[nothing]] = x[nothing]  # an index of nothing
    np.testing.assert_array_equal(at.numpy(), wanted)
    assert misses() == 0


def test_few_sizes_that_are_repeated_are_recorded_and_planned() -> None:
    """As where a function is called for several tables, or the last batch is smaller: the lines of
    it had calls of other sizes before, and are as fast again as if they had not."""
    rng = np.random.default_rng(5)
    sizes = [N, N + 1000, N + 2000]
    given = [rng.random(n) for n in sizes]
    tensors = [it.compute(it.asarray(a)) for a in given]

    def scaled(a: Any) -> Any:
        return (a - 0.5) * 2.0 + a

    def run(k: int) -> None:
        found = it.compute(scaled(tensors[k]))
        np.testing.assert_array_equal(found.numpy(), scaled(given[k]))

    for _ in range(3):
        for k in range(len(sizes)):
            run(k)
    assert it.stats()["ways"]["changing_shapes"] > 0
    for _ in range(changing_places.TIMES_AT_ONCE + 3):
        for k in range(len(sizes)):
            run(k)
    it.stats(reset=True)
    for k in range(len(sizes)):
        run(k)
    ways = it.stats()["ways"]
    assert ways["changing_shapes"] == ways["unplanned"] == ways["planned"] == 0
    assert ways["repeated"] == len(sizes)


def test_many_sizes_stay_at_once_however_often_they_come() -> None:
    a = it.compute(it.asarray(np.random.default_rng(6).random(N + 100)))
    n = changing_places.MOST_SIZES + 2
    for _ in range(changing_places.TIMES_AT_ONCE + 2):
        for k in range(n):
            it.compute(a[k:] * 3.0 - 1.0)
    assert misses() == 0
    assert it.stats()["ways"]["planned"] == 0

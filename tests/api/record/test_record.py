"""Small calls: they run at once, are counted, and leave nothing behind."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import infinitensor as it

pytestmark = pytest.mark.local


def test_a_small_value_goes_with_its_tensor() -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(6.0)) + 1
        version = weakref.ref(x._version)
        x = x * 2
        assert version() is None
        version = weakref.ref(x._version)
        x[1:] = 0
        assert version() is x._version, "nobody else reads it: written in place"
        del x
        assert version() is None


def test_small_calls_are_counted_and_make_no_tasks() -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(6.0))
        it.stats(reset=True)
        y = (x + 1)[3] * x.copy().sum()
        assert y.item() == 60
        counts = it.stats()
        assert (counts["small_calls"], counts["tasks"]) == (5, 0)


def test_few_values_of_stored_tiles_are_read_without_a_task() -> None:
    with it.init("cpu*2"):
        x = it.asarray(np.arange(40_000.0).reshape(200, 200))
        it.stats(reset=True)
        trace: Any = 0.0
        for i in range(200):
            trace += it.sqrt(x[i, i])
        row = x[7, ::2].copy()
        x[7] = 0
        assert row.numpy().tolist() == list(range(1400, 1600, 2))
        assert float(trace) == pytest.approx(np.sqrt(np.arange(0, 40_000, 201.0)).sum())
        assert it.stats()["tasks"] == 0


def test_a_shape_given_as_a_list_is_found_again() -> None:
    with it.init("cpu"):
        it.stats(reset=True)
        for _ in range(4):
            it.compute(it.empty([400, 500], dtype=np.float32) * 0 + it.full([400, 1], 2.0))
        assert it.stats()["plan_misses"] == 1


def test_a_loop_that_reads_small_parts_of_a_tensor_that_waits_computes_it() -> None:
    a = np.random.default_rng(1).standard_normal((300, 400))
    with it.init("cpu"):
        x = it.asarray(a)
        for waits in (2, 100):
            y = it.sqrt(x * x + 1)
            it.stats(reset=True)
            rows = [y[i] * y[i, 0] for i in range(waits)]
            assert it.stats()["evaluations"] == (waits > 10)
            for i, row in enumerate(rows):
                wanted = np.sqrt(a[i] * a[i] + 1)
                np.testing.assert_allclose(row.numpy(), wanted * wanted[0], rtol=1e-14)


def test_parts_of_a_large_tensor_that_waits_are_read_without_the_rest() -> None:
    with it.init("cpu", memory=1 << 28):
        huge = it.arange(1 << 40) * 2.0
        parts = [huge[i : i + 10] + 1 for i in range(50)]
        assert [float(part[1]) for part in parts] == [2.0 * i + 3 for i in range(50)]


@pytest.mark.parametrize("f", [it.median, it.mean, lambda row: it.sort(row)[3]])
def test_a_tensor_whose_rows_are_read_in_a_loop_is_computed(f: Any) -> None:
    """Each row alone is a plan of its own: 45 times NumPy's time."""
    x = np.random.default_rng(0).standard_normal((500, 300))
    with it.init("cpu"):
        y = it.exp(it.asarray(x))
        first = f(y[0])
        assert y._version.node is not None  # one part of it is no loop
        rest = [f(y[i]) for i in range(1, 40)]
        assert y._version.node is None
        made = [float(one) for one in (first, *rest)]
    np.testing.assert_allclose(made, [float(f(row)) for row in np.exp(x[:40])])

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

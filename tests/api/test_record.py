"""Small calls: they run at once, are counted, and leave nothing behind."""

from __future__ import annotations

import weakref

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

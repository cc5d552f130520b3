"""Orders by several keys and partial orders: what each promises."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


def test_the_last_key_counts_most_and_ties_keep_their_order() -> None:
    keys = [RNG.integers(0, 3, 40) for _ in range(3)]
    agree(lambda xp, *k: xp.lexsort(k), *keys)
    order = it.lexsort(tuple(map(it.asarray, keys))).numpy()
    rows = [tuple(int(key[i]) for key in keys[::-1]) for i in order]
    assert rows == sorted(rows)
    for a, b in pairwise(order):
        assert a < b or tuple(k[a] for k in keys) != tuple(k[b] for k in keys)


def test_lines_along_any_axis_are_ordered_on_their_own() -> None:
    keys = RNG.integers(0, 3, (2, 4, 9))
    agree(lambda xp, k: xp.lexsort(k, axis=0), keys)
    agree(lambda xp, k: xp.lexsort(k, axis=-1), keys)


@pytest.mark.parametrize("dtype", ["i2", "u8", "f4", "c16"])
@pytest.mark.parametrize("kth", [0, 11, -1, (3, 20), (7, 7)])
def test_smaller_values_are_before_the_rank_and_larger_behind(kth: Any, dtype: str) -> None:
    x = RNG.integers(0, 30, 24).astype(dtype)
    found = it.partition(it.asarray(x), kth).numpy()
    by_index = x[it.argpartition(it.asarray(x), kth).numpy()]
    for line in (found, by_index):
        np.testing.assert_array_equal(np.sort(line), np.sort(x))
        for k in np.atleast_1d(kth):
            k = int(k) % 24
            assert line[k] == np.sort(x)[k]
            assert (line[:k] <= line[k]).all()
            assert (line[k:] >= line[k]).all()


def test_nan_comes_last_and_flattened_is_one_line() -> None:
    x = RNG.normal(size=(3, 9))
    x[1, [2, 5]] = np.nan
    found = it.partition(it.asarray(x), 6).numpy()
    assert np.isnan(found[1, 7:]).all()
    flat = it.partition(it.asarray(x), 13, axis=None).numpy()
    assert flat[13] == np.sort(x, axis=None)[13]


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f4", "f8", "c8"])
def test_complex_sorts_have_numpys_dtype(dtype: str) -> None:
    agree(lambda xp, a: xp.sort_complex(a), RNG.integers(0, 9, (3, 8)).astype(dtype))


def test_what_is_no_rank_or_key_is_refused_as_by_numpy() -> None:
    x = np.arange(5.0)
    refuse(lambda xp, a: xp.partition(a, 5), x, match="out of bounds")
    refuse(lambda xp, a: xp.partition(a, 1.5), x, match="must be integer")
    refuse(lambda xp, a: xp.argpartition(a, 1, kind="quick"), x, match="introselect")
    refuse(lambda xp, a: xp.lexsort(()), x, match="len > 0")
    refuse(lambda xp, a: xp.lexsort((a, a[1:])), x, match="same shape")

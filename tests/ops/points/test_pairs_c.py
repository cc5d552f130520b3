"""Searches in C: rows in place or copied, float32 or float64, find what all pairs say."""

from __future__ import annotations

import numpy as np
import pytest

from infinitensor.ops.points import pairs_c, pairs_numpy
from infinitensor.ops.points.pairs_c import Search, is_compiled, is_plain, rows64, scratch_of

RNG = np.random.default_rng(24)
needs_c = pytest.mark.skipif(not is_compiled(), reason="no C compiler")


def test_rows_in_order_are_read_in_place_and_others_copied() -> None:
    x = RNG.normal(size=(6, 4))
    assert is_plain(x)
    assert is_plain(x.astype("f4"))
    assert not is_plain(x.T)
    assert not is_plain(x.astype("i4"))
    assert rows64(x) is x
    np.testing.assert_array_equal(rows64(x.T.astype("f4")), x.T.astype("f4"))


@needs_c
@pytest.mark.parametrize("d", [2, 7, 8, 20])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_counts_are_those_of_all_pairs(d: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_c, "rows_at_once", lambda d: 9)
    x, y = ((RNG.normal(size=(n, d)) * 3).astype(dtype) for n in (50, 70))
    squares = pairs_numpy.squared_distances(np, x.astype("f8"), y.astype("f8"))
    limit = float(np.median(squares))
    total = np.zeros(50)
    Search("count", x, y, limit, sum=total, enough=np.inf).run()
    np.testing.assert_array_equal(total, (squares <= limit).sum(1))


@needs_c
@pytest.mark.parametrize("d", [3, 12])
def test_least_labels_are_those_of_all_pairs(d: int) -> None:
    x, y = (RNG.integers(0, 4, (n, d)).astype("f8") for n in (30, 40))
    label, limit = RNG.permutation(40), float(d)
    least = np.full(30, 99)
    Search("least", x, y, limit, label=label, least=least).run()
    np.testing.assert_array_equal(least, pairs_numpy.least_label(np, x, y, label, limit, 99))


@needs_c
def test_nothing_is_found_where_there_is_nothing() -> None:
    total = np.zeros(4)
    assert Search("count", np.ones((4, 2)), np.ones((0, 2)), 1.0, sum=total).run() == 0
    assert Search("count", np.ones((0, 2)), np.ones((4, 2)), 1.0, sum=total[:0]).run() == 0
    np.testing.assert_array_equal(total, 0)


def test_memory_of_a_search_grows_with_points_and_features() -> None:
    for d in (2, 7, 8, 64):
        assert scratch_of(100, d) < scratch_of(10_000, d)
        assert scratch_of(100, d) < scratch_of(100, d, is_narrow=True)
        wide = 4 if d > pairs_c.FEW_FEATURES else 8
        assert scratch_of(10_000, d) >= wide * 10_000 * d
    assert pairs_c.rows_at_once(1 << 20) == 256
    assert pairs_c.rows_at_once(4) * 4 == pairs_c.COPIED_NUMBERS

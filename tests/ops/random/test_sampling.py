"""Random integers, orders and choices: within bounds, none lost, as likely as asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import infinitensor as it

pytestmark = pytest.mark.parametrize(
    "in_small_tiles", [("cpu*3", 50)], indirect=True, scope="module"
)


@pytest.fixture(scope="module", autouse=True)
def seeded(in_small_tiles: None) -> None:
    """The same numbers in every run."""
    it.random.seed(24)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "u8"])
def test_integers_of_the_whole_range_of_a_dtype_stay_in_it(dtype: str) -> None:
    low, high = (0, 1) if dtype == "?" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    found = it.random.integers(low, high, 200, dtype=dtype, endpoint=True).numpy()
    assert found.dtype == np.dtype(dtype)
    assert len(np.unique(found)) > 1
    if dtype != "?":
        assert int(found.max()) - int(found.min()) > (high - low) // 2


def test_integers_are_equally_likely_and_ends_are_as_asked() -> None:
    for found, values in [
        (it.random.integers(3, 8, 900), range(3, 8)),
        (it.random.randint(5, size=900), range(5)),
        (it.random.random_integers(4, size=900), range(1, 5)),
    ]:
        number = np.bincount(found.numpy(), minlength=max(values) + 1)[min(values) :]
        assert stats.chisquare(number).pvalue > 1e-5
        assert set(found.tolist()) == set(values)


def test_bounds_are_broadcast() -> None:
    low = np.array([[0], [100]])
    most = np.add(low, [1, 2, 3])
    found = it.random.integers(low, most).numpy()
    assert found.shape == (2, 3)
    assert ((found >= low) & (found < most)).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_orders_lose_no_slice_and_shuffling_is_in_place(axis: int) -> None:
    x = np.arange(60).reshape(6, 10)
    found = it.random.permutation(it.asarray(x), axis=axis).numpy()
    np.testing.assert_array_equal(np.sort(found, axis), x)
    lines = it.random.permuted(it.asarray(x), axis=axis).numpy()
    np.testing.assert_array_equal(np.sort(lines, axis), x)
    t = it.asarray(x.copy())
    it.random.shuffle(t, axis)
    np.testing.assert_array_equal(np.sort(t.numpy(), axis), x)
    assert (np.sort(it.random.permutation(200).numpy()) == np.arange(200)).all()


def test_choices_without_replacement_are_distinct() -> None:
    for p in (None, np.arange(1, 31) / 465):
        found = it.random.choice(30, 20, replace=False, p=p).tolist()
        assert len(set(found)) == 20
    assert sorted(it.random.choice(9, 9, replace=False).tolist()) == list(range(9))


def test_choices_are_as_likely_as_they_should_be() -> None:
    p = np.array([0.5, 0.0, 0.3, 0.2])
    found = it.random.choice(it.asarray([10, 11, 12, 13]), 900, p=p).numpy()
    number = np.bincount(found - 10, minlength=4)
    assert number[1] == 0
    assert stats.chisquare(number[p > 0], 900 * p[p > 0]).pvalue > 1e-5


def test_what_cannot_be_drawn_is_refused_as_by_numpy() -> None:
    rng, r = np.random.default_rng(0), it.random
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
        ("integers", (5, 5), {}, "low >= high"),
        ("integers", (6, 5), {"endpoint": True}, "low > high"),
        ("integers", (0, 300), {"dtype": "u1"}, "high is out of bounds"),
        ("integers", (-1, 3), {"dtype": "u1"}, "low is out of bounds"),
        ("integers", (3,), {"dtype": "f8"}, "Unsupported dtype"),
        ("choice", (3, 4), {"replace": False}, "larger sample"),
        ("choice", (3,), {"p": [0.5, 0.5]}, "same size"),
        ("choice", (2,), {"p": [0.5, 0.6]}, "sum to 1"),
        ("choice", (2,), {"p": [1.5, -0.5]}, "non-negative"),
        ("choice", (2,), {"p": [np.nan, 1]}, "NaN"),
        ("choice", (0,), {}, "positive integer"),
        ("choice", (3, 2), {"p": [1, 0, 0], "replace": False}, "Fewer non-zero"),
    ]
    for word, args, kwargs, match in calls:
        with pytest.raises((ValueError, TypeError), match=r".") as error:
            getattr(rng, word)(*args, **kwargs)
        with pytest.raises(error.type, match=match):
            getattr(r, word)(*args, **kwargs)

"""`x.flat`: the elements in C order, to iterate over, index and assign, as NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

X = np.arange(24).reshape(4, 6)
KEYS: list[Any] = [
    5, -1, slice(3, 20, 4), slice(None, None, -3), [1, 7, 7, -2], np.arange(24) % 5 == 0, ...,
]  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
def test_elements_come_in_c_order_whatever_the_strides(transposed: bool) -> None:
    x = X.T if transposed else X
    t = it.asarray(X).T if transposed else it.asarray(X)
    assert [int(value) for value in t.flat] == list(x.flat)
    assert len(t.flat) == 24


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_every_index_reads_and_writes_what_numpys_does(key: Any) -> None:
    want, found = X.copy(), it.asarray(X)
    np.testing.assert_array_equal(np.asarray(found.flat[key]), want.flat[key])
    want.flat[key] = 99
    found.flat[key] = 99
    np.testing.assert_array_equal(found.numpy(), want)


def test_short_values_are_repeated_and_views_reach_their_base() -> None:
    want, found = X.copy(), it.asarray(X)
    want.flat[:] = [1, 2, 3, 4, 5]
    found.flat[:] = [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(found.numpy(), want)
    want[1:, ::2].flat[[0, 8]] = -1
    found[1:, ::2].flat[[0, 8]] = -1
    np.testing.assert_array_equal(found.numpy(), want)


def test_what_names_no_element_is_refused_as_by_numpy() -> None:
    x = it.asarray(X)
    with pytest.raises(IndexError, match="out of bounds"):
        x.flat[24]
    with pytest.raises(IndexError, match="only integers, slices"):
        x.flat[None]
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x.flat[0] = 1
    np.testing.assert_array_equal(x.numpy(), X)

"""Makers of indices and iterators over them: NumPy's grids, pieces, orders and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.outcomes import assert_alike, assert_same, tensors, values

import infinitensor as it

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")


X = np.arange(12.0).reshape(3, 4)


def test_grids_are_numpys() -> None:
    for key in (
        np.s_[0:3, 1:4],
        np.s_[0:5],
        np.s_[0:1:3j, 2:4],
        np.s_[0:2, 0:2.0, 5:6],
        np.s_[3:0],
    ):
        assert_same(values(it.mgrid[key]), np.mgrid[key], "mgrid")
        assert_same(values(it.ogrid[key]), np.ogrid[key], "ogrid")
    assert it.s_[1:3, ...] == np.s_[1:3, ...]
    assert it.index_exp[2] == (2,)


def test_r_and_c_put_pieces_together() -> None:
    line: Any = np.arange(3)
    table: Any = X[:, :3]
    keys: list[Any] = [(0, slice(1, 4), line), (line, 2.5)]
    keys += [("0,2", line, line), ("1,2,0", line, line)]
    for key in keys:
        assert_same(values(it.r_[tensors(key)]), np.r_[key], "r_")
    keys = [(line, line), (table, line), (table, table, 2 * table)]
    for key in keys:
        assert_same(values(it.c_[tensors(key)]), np.c_[key], "c_")
    with pytest.raises(ValueError, match="asks for a matrix"):
        it.r_["r", line]


def test_ix_selects_by_one_sequence_for_each_axis() -> None:
    x = it.asarray(X)
    mask, columns = np.array([True, False, True]), np.array([0, 3])
    np.testing.assert_array_equal(x[it.ix_(mask, columns)].numpy(), X[np.ix_(mask, columns)])
    x[it.ix_([0, 2], [1])] = -1
    assert x.numpy()[[0, 2], 1].tolist() == [-1, -1]
    assert it.ix_([], [1])[0].shape == (0, 1)
    with pytest.raises(ValueError, match="1 dimensional"):
        it.ix_([[1]])


def test_iterators_give_indices_and_values() -> None:
    x = it.asarray(X)
    assert list(it.ndindex(2, 2)) == list(np.ndindex(2, 2))
    assert list(it.ndenumerate(x)) == list(np.ndenumerate(X))
    both = it.broadcast(x, it.arange(4))
    assert (both.shape, both.ndim, both.size, both.numiter) == ((3, 4), 2, 12, 2)
    assert list(both) == list(np.broadcast(X, np.arange(4)))


def test_nditer_reads_and_writes_elements() -> None:
    x, y = it.asarray(X), X.copy()
    with it.nditer(x, flags=["multi_index"], op_flags=["readwrite"]) as elements:
        for element in elements:
            element[...] = element + elements.multi_index[0]
    np.testing.assert_array_equal(x.numpy(), y + np.arange(3)[:, None])
    sums = [float(a + b) for a, b in it.nditer([x[0], it.asarray([1.0])])]
    np.testing.assert_array_equal(sums, y[0] + 1)
    with pytest.raises(ValueError, match="read-only"):
        next(iter(it.nditer(x)))[...] = 3
    with pytest.raises(ValueError, match="external_loop"):
        it.nditer(x, flags=["external_loop"])


def test_fromfunction_gets_coordinates() -> None:
    assert_alike("fromfunction", lambda i, j: i * 10 + j, (3, 4))
    assert_alike("fromfunction", lambda i: i, (3,), dtype=int)

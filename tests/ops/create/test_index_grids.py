"""Grids of indices: each way of naming elements is the inverse of another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (1, 6, 1)])
def test_unravel_and_ravel_are_inverse(shape: tuple[int, ...], order: Any) -> None:
    flat = RNG.permutation(int(np.prod(shape)))
    places = it.unravel_index(it.asarray(flat), shape, order)
    back = it.ravel_multi_index(list(places), shape, order=order)
    np.testing.assert_array_equal(back.numpy(), flat)
    agree(lambda xp, i: xp.unravel_index(i, shape, order), flat)


@pytest.mark.parametrize("k", [-9, -2, 0, 1, 9])
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (0, 3), (1, 1)])
def test_triangles_share_no_element_and_leave_none(shape: tuple[int, int], k: int) -> None:
    n, m = shape
    low, high = it.tril_indices(n, k, m), it.triu_indices(n, k + 1, m)
    seen = np.zeros(shape, int)
    for rows, columns in (low, high):
        np.add.at(seen, (rows.numpy(), columns.numpy()), 1)
    np.testing.assert_array_equal(seen, 1)
    agree(lambda xp: xp.tri(n, m, k, dtype="int8"))


def test_a_sparse_grid_broadcasts_to_the_dense_one() -> None:
    dense = it.indices((3, 4, 5)).numpy()
    for axis, found in zip(it.indices((3, 4, 5), sparse=True), dense, strict=True):
        np.testing.assert_array_equal(np.broadcast_to(axis.numpy(), (3, 4, 5)), found)


def test_diagonal_indices_read_and_write_the_diagonal() -> None:
    x = RNG.normal(size=(5, 5, 5))
    t = it.asarray(x.copy())
    np.testing.assert_array_equal(t[it.diag_indices_from(t)].numpy(), np.einsum("iii->i", x))
    t[it.diag_indices(5, 3)] = 0.0
    x[np.diag_indices(5, 3)] = 0.0
    np.testing.assert_array_equal(t.numpy(), x)


def test_geometric_steps_meet_both_ends_and_have_one_ratio() -> None:
    for start, stop in [(1.0, 1000.0), (1000.0, 0.1), (-2.0, -512.0)]:
        found = it.geomspace(start, stop, 19).numpy()
        assert (found[0], found[-1]) == (start, stop)
        ratios = found[1:] / found[:-1]
        np.testing.assert_allclose(ratios, ratios[0], 1e-12)
    agree(lambda xp: xp.logspace(-2, 3, 17, base=2.5), rtol=1e-13)


def test_powers_times_coefficients_are_the_polynomial() -> None:
    x, p = RNG.normal(size=11), RNG.normal(size=4)
    found = it.vander(it.asarray(x), 4) @ it.asarray(p)
    np.testing.assert_allclose(found.numpy(), np.polyval(p, x), 1e-12, 1e-12)
    rising = it.vander(it.asarray(x), 4, increasing=True).numpy()
    np.testing.assert_array_equal(rising, it.vander(it.asarray(x), 4).numpy()[:, ::-1])


def test_what_is_no_index_is_refused_as_by_numpy() -> None:
    refuse(lambda xp, i: xp.unravel_index(i, (2, 3))[0], [0, 6], match="out of bounds")
    refuse(lambda xp, i: xp.unravel_index(i, (2, 3))[0], [-1], match="out of bounds")
    refuse(lambda xp, i: xp.unravel_index(i, (2, 3), "K")[0], [1], match="only 'C' or 'F'")
    refuse(lambda xp, i: xp.ravel_multi_index((i, i), (3, 4)), [3], match="invalid entry")
    refuse(lambda xp, i: xp.ravel_multi_index((i, i), (3, 0)), [0], match="zero entries")
    refuse(lambda xp, i: xp.ravel_multi_index((i,), (3,), mode="x"), [0], match="clipmode")
    refuse(lambda xp, x: xp.diag_indices_from(x)[0], np.ones((2, 3)), match="equal length")
    refuse(lambda xp, x: xp.vander(x, -1), [1.0], match="negative dimensions")
    refuse(lambda xp: xp.geomspace(1.0, 0.0, 3), match="cannot include zero")

"""Sets: their algebra, the facts of distinct values, and NaN."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import strict
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


A, B = RNG.integers(0, 12, 30), RNG.integers(6, 18, 25)


def test_two_sets_divide_their_union_as_sets_do() -> None:
    a, b = it.asarray(A), it.asarray(B)
    both, either = set(it.intersect1d(a, b).tolist()), set(it.union1d(a, b).tolist())
    one, other = set(it.setdiff1d(a, b).tolist()), set(it.setxor1d(a, b).tolist())
    assert both == set(A) & set(B)
    assert either == set(A) | set(B)
    assert one == set(A) - set(B)
    assert other == either - both


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f4", "c8"])
def test_values_and_inverse_make_the_array_again(dtype: str) -> None:
    x = RNG.integers(0, 5, (4, 9)).astype(dtype)
    values, first, inverse, counts = it.unique_all(it.asarray(x))
    np.testing.assert_array_equal(values[inverse].numpy(), x)
    np.testing.assert_array_equal(x.reshape(-1)[first.numpy()], values.numpy())
    assert int(counts.sum()) == x.size
    agree(lambda xp, a: xp.unique(a, True, True, True), x)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_distinct_slices_along_an_axis_are_numpys(axis: int) -> None:
    x = RNG.integers(0, 2, (9, 3)) if axis == 0 else RNG.integers(0, 2, (3, 9))
    agree(lambda xp, a: xp.unique(a, True, True, True, axis=axis), x)


@pytest.mark.parametrize("equal_nan", [True, False])
def test_nans_are_one_value_or_many(equal_nan: bool) -> None:
    x = np.array([np.nan, 2.0, np.nan, 1.0, 2.0, np.nan, -0.0, 0.0, np.inf])
    agree(lambda xp, a: xp.unique(a, equal_nan=equal_nan), x)
    agree(lambda xp, a: xp.unique(a, return_counts=True, equal_nan=equal_nan), x)
    agree(lambda xp, a: xp.unique_values(a).shape, x)


def test_membership_and_its_opposite_leave_nothing_out() -> None:
    inside = it.isin(it.asarray(A), it.asarray(B)).numpy()
    outside = it.isin(it.asarray(A), it.asarray(B), invert=True).numpy()
    np.testing.assert_array_equal(inside, ~outside)
    np.testing.assert_array_equal(inside, [value in set(B) for value in A])
    agree(lambda xp, a: xp.isin(a, [np.nan, 3]), A * 1.0)
    agree(lambda xp, a: xp.isin(a, []), A)
    refuse(lambda xp, a: xp.isin(a, a, kind="best"), A, match="Invalid kind")


def test_the_union_with_itself_and_with_nothing_is_the_set() -> None:
    a, none = it.asarray(A), it.asarray(np.zeros(0, A.dtype))
    np.testing.assert_array_equal(it.union1d(a, a).numpy(), np.unique(A))
    np.testing.assert_array_equal(it.union1d(a, none).numpy(), np.unique(A))
    assert it.intersect1d(a, none).shape == (0,)
    assert it.setdiff1d(a, a).shape == (0,)


def test_shared_values_are_found_first_where_numpy_finds_them() -> None:
    agree(lambda xp, a, b: xp.intersect1d(a, b, return_indices=True), A, B)
    agree(lambda xp, a, b: xp.setdiff1d(a, b, assume_unique=True), np.array([5, 1, 9, 3]), [9])


@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u2", "?"])
def test_a_gpu_finds_distinct_values_in_one_program(dtype: str, equal_nan: bool) -> None:
    x = RNG.integers(0, 3000, 100_000).astype(dtype)
    if dtype[0] == "f":
        x[::1000] = np.nan
    with fake_gpu(), strict("cuda:0", 0, small_elements=1 << 16):
        a = it.asarray(x)
        it.stats(reset=True)
        made = it.unique(a, equal_nan=equal_nan)
        assert it.stats()["evaluations"] == 1
        np.testing.assert_array_equal(made.numpy(), np.unique(x, equal_nan=equal_nan), strict=True)

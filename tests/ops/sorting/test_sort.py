"""Sorting and searching: every case in pieces, on both kinds of kernel, runs and merges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.ir.sessions import strict
from tests.ops.programs import Cut, check_cases, ops_of

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import NUMPYS
from infinitensor.ops.sorting.sort import (
    order_by_numbers,
    sort_into,
    sorted_order,
    split_positions,
)

STEPS = [1, 2, 7, 1000]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("name", [*ops_of("sort") + ops_of("rank_select"), *ops_of("searchsorted")])
def test_pieces_give_the_value_of_the_whole(name: str, kind: str, step: int) -> None:
    for block in (2, 8, 1024):
        check_cases(name, step, block, kind)


def _holes(dtype: Any, rng: Any) -> Any:
    x = rng.integers(-5, 6, 40).astype(dtype)
    if x.dtype.kind == "f":
        x[::7], x[1::9], x[2::11] = np.nan, np.inf, -np.inf
    if x.dtype.kind == "c":
        x += (1j * rng.integers(-2, 3, 40)).astype(dtype)
        x[::7], x[1::9], x[3::11] = complex(np.nan, 1), complex(1, np.nan), complex(np.nan, np.nan)
    if x.dtype.kind == "u":
        x[0] = np.iinfo(dtype).max
    return x


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("block", [4, 64])
@pytest.mark.parametrize("dtype", NUMPYS, ids=str)
def test_every_dtype_is_sorted_as_numpy_sorts_it(dtype: Any, block: int, kind: str) -> None:
    x = _holes(dtype, np.random.default_rng(1))
    xp = Cut(7, block, kind)
    np.testing.assert_array_equal(xp.sort(x), np.sort(x))
    np.testing.assert_array_equal(xp.argsort(x), np.argsort(x, kind="stable"))
    a = np.sort(x)
    for side in ("left", "right"):
        got = xp.searchsorted(a, x, side)
        np.testing.assert_array_equal(got, np.searchsorted(a, x, side))
    if x.dtype.kind != "c":  # NumPy keeps one of several unequal complex NaNs, as we do
        np.testing.assert_array_equal(xp.unique(x), np.unique(x))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 16, 31, 32, 33])
@pytest.mark.parametrize("dtype", NUMPYS, ids=str)
def test_short_lines_are_sorted_as_numpy_sorts_them_whatever_their_strides(
    dtype: Any, n: int
) -> None:
    values = np.resize(_holes(dtype, np.random.default_rng(n)), 70 * 40)
    shapes = (((n, 70), 0), ((70, n), 1), ((3, n, 5), 1), ((2, 3, n), 2), ((n, 1), 0), ((0, n), 1))
    for shape, axis in shapes:
        x = np.random.default_rng(2).permutation(values)[: np.prod(shape)].reshape(shape)
        if x.dtype.kind == "f":
            x[x == 0] *= -1
        for seen in (x, x[..., ::-1], np.asfortranarray(x), x[::2] if axis else x[:, ::2]):
            wanted = np.sort(seen, axis)
            apart = np.empty((*seen.shape, 2), dtype)[..., 0]
            for out in (np.empty(seen.shape, dtype), np.empty(seen.shape[::-1], dtype).T, apart):
                sort_into(np, seen, out, axis)
                np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "u1"])
def test_short_columns_are_the_same_in_any_tiles(dtype: str) -> None:
    x = (np.random.default_rng(3).normal(size=(2, 9, 500)) * 50).astype("i8").astype(dtype)
    for tile_elements in (64, 1000, 1 << 20):
        with strict("cpu", tile_elements):
            for given_, axis in ((x, 1), (x[0], 0), (x[0].T, 1), (x[:, :, ::3], 1)):
                found = it.sort(it.asarray(given_), axis=axis).numpy()
                np.testing.assert_array_equal(found, np.sort(given_, axis))


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.int8, st.integers(0, 60), elements=st.integers(0, 6)),
    st.integers(1, 12),
    st.integers(0, 60),
)
def test_split_positions_are_exact_and_stable(x: Any, run: int, rank: int) -> None:
    rank = min(rank, len(x))
    runs = [np.sort(x[i : i + run]) for i in range(0, len(x), run)]
    line = np.concatenate([*runs, np.zeros(0, np.int8)])
    found = split_positions(line, run, rank)
    first = np.argsort(line, kind="stable")[:rank]
    wanted = [np.count_nonzero(first // run == i) for i in range(len(runs))]
    assert found.tolist() == wanted


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(np.float32, st.integers(0, 70), elements=st.sampled_from([0, 1, -1, np.nan, 2])),
    st.sampled_from([1, 2, 8, 32]),
    st.sampled_from(STEPS),
)
def test_long_lines_are_sorted_stably(x: Any, block: int, step: int) -> None:
    xp = Cut(step, block)
    np.testing.assert_array_equal(xp.sort(x), np.sort(x))
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(xp.argsort(x), order)
    falling = np.argsort(-x, kind="stable")  # NaN last
    np.testing.assert_array_equal(xp.sort(x, descending=True), x[falling])
    np.testing.assert_array_equal(xp.argsort(x, descending=True), falling)
    np.testing.assert_array_equal(xp.unique(x), np.unique(x))
    assert len(xp.unique_values(x)) == len(np.unique(x, equal_nan=False))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_long_axis_among_others_is_merged_line_by_line(axis: int) -> None:
    x = np.random.default_rng(0).integers(0, 9, (5, 6, 7))
    xp = Cut(3, 2)
    np.testing.assert_array_equal(xp.sort(x, axis), np.sort(x, axis))
    assert "_merge_runs" in xp.called
    np.testing.assert_array_equal(xp.argsort(x, axis), np.argsort(x, axis, kind="stable"))


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("sort", (np.ones(2), 2), np.exceptions.AxisError, "axis 2 is out of bounds"),
        ("sort", (np.array(1.0),), np.exceptions.AxisError, "axis -1 is out of bounds"),
        ("sort", (np.ones(2), 0, "bubble"), ValueError, "sort kind must be one of"),
        ("searchsorted", (np.ones((2, 2)), 1), ValueError, "object too deep"),
        ("searchsorted", (np.ones(2), 1, "x"), ValueError, "search side must be"),
        ("searchsorted", (np.ones(2), 1, "left", np.zeros(3, int)), ValueError, "sorter.size"),
    ],
)
def test_bad_arguments_raise_at_the_call(name: str, args: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        Cut().run(name, args, {})


def test_argsort_of_a_scalar_is_one_index() -> None:
    np.testing.assert_array_equal(Cut().argsort(np.array(3.0)), [0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_zeros_of_both_signs_are_merged_from_runs(dtype: str) -> None:
    """NumPy's sort leaves their order open; merging goes by bits, and would lose elements."""
    x = np.where(np.arange(4000) % 3 == 0, -0.0, 0.0).astype(dtype)
    x[::7], x[::11] = 1, np.nan
    for axis, shape in ((0, (4000,)), (0, (2000, 2)), (1, (2, 2000))):
        with strict("cpu", 300):
            made = it.sort(it.asarray(x.reshape(shape)), axis).numpy()
        np.testing.assert_array_equal(made, np.sort(x.reshape(shape), axis))


def test_a_long_axis_that_is_not_the_last_is_merged_where_it_is_contiguous() -> None:
    """Else every tile of the result copied the whole axis, which takes quadratic time."""
    x = np.random.default_rng(0).standard_normal((2000, 3))
    with strict("cpu", 300):
        made = it.argpartition(it.asarray(x), 5, axis=0).numpy()
    np.testing.assert_array_equal(made, np.argsort(x, 0))


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("n", [1, 2, 33, 3000])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u8", "i4", "u4", "i2", "u1"])
def test_numbers_of_key_and_place_give_the_stable_order(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    if dtype[0] == "f":
        holes = rng.choice([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0], (3, n))
        wide = np.exp(20 * rng.standard_normal((3, n)))
        close = np.where(rng.random((3, n)) < 0.1, -1e30, 1 + 1e-13 * rng.standard_normal((3, n)))
        given = [a.astype(dtype) for a in (holes, wide, close)]
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        given = [rng.integers(least, high, (3, n), dtype=dtype) for high in (least + 5, most)]
    for x in given:
        wanted = np.argsort(x, axis=1, kind="stable")
        order, values = np.empty(x.shape, np.int64), np.empty_like(x)
        if order_by_numbers(x, values, order, 7):
            np.testing.assert_array_equal(order, wanted + 7)
            assert values.tobytes() == np.take_along_axis(x, wanted, 1).tobytes()
        np.testing.assert_array_equal(sorted_order(np, x, 1), wanted)
        across = np.asfortranarray(x)
        np.testing.assert_array_equal(sorted_order(np, across.T, 0), wanted.T)


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u8", "u2"])
def test_a_long_line_has_the_same_bits_whoever_sorts_it(dtype: str, workers: int) -> None:
    rng = np.random.default_rng(workers)
    x = (rng.normal(size=(1 << 18) + 5) * 1000).astype("i8").astype(dtype)
    if dtype[0] == "f":
        x[::7] = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf], len(x[::7]))
    made = []
    for n in (1, workers, 9):
        with strict("cpu", 0, workers=n):
            given_ = it.asarray(x)
            found = it.sort(given_)
            is_shared = n == workers and x.itemsize > 2
            if is_shared and native.compiler() is not None:
                assert "_sort_line" in found.explain()
            made.append(found.numpy())
            np.testing.assert_array_equal(it.sort(given_[::-1]).numpy(), made[-1])
    np.testing.assert_array_equal(made[0], np.sort(x))
    assert made[0].tobytes() == made[1].tobytes() == made[2].tobytes()


@pytest.mark.parametrize("n", [0, 1, 2, 7, 12, 13, 32, 33])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u8", "u1"])
def test_many_short_rows_and_columns_are_ordered_at_once(dtype: str, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 20, (300, n)).astype(dtype)
    if dtype[0] == "f":
        x[x == 3] = np.nan
        x[x == 4] = -0.0
    for seen, axis in ((x, 1), (np.ascontiguousarray(x.T), 0), (x[:, ::-1], 1), (x[::2], -1)):
        made = it.argsort(it.asarray(seen), axis=axis)
        np.testing.assert_array_equal(made.numpy(), np.argsort(seen, axis, kind="stable"))
        made = it.sort(it.asarray(seen), axis=axis)
        np.testing.assert_array_equal(made.numpy(), np.sort(seen, axis))


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
def test_lines_of_keys_that_are_alike_but_for_their_last_bits_are_ordered_otherwise() -> None:
    x = np.array([-1.0] + [1.0 + k * 2.0**-52 for k in range(5000, 0, -1)])
    order = np.empty(x.shape, np.int64)
    assert not order_by_numbers(x, None, order)
    np.testing.assert_array_equal(sorted_order(np, x, 0), np.argsort(x, kind="stable"))

"""Rows moved in C: NumPy's results, or nothing done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor.dtypes import bfloat16
from infinitensor.ops.move import moved_rows

DTYPES = ("float32", "float64", "float16", "int8", "uint16", "int32", "int64", "complex128", "bool")
pytestmark = pytest.mark.skipif(
    not hasattr(moved_rows.join, "__self__"), reason="needs a C compiler"
)
RNG = np.random.default_rng(0)


def values(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (200, 1), (100, 3, 2), (3, 0), (7, 501)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_joins_along_every_axis_are_numpys(dtype: Any, shape: tuple[int, ...], n: int) -> None:
    arrays = [values(shape, dtype) for _ in range(n)]
    for is_new, like in ((False, np.concatenate), (True, np.stack)):
        for axis in range(-len(shape), len(shape) + is_new):
            wanted = like(arrays, axis)
            made = moved_rows.join(arrays, axis, is_new, 1 << 20)
            assert made.dtype == wanted.dtype
            assert np.array_equal(made, wanted)
            out = np.zeros_like(wanted)
            if axis >= 0 and out.size:
                assert moved_rows.join_into(arrays, axis, out)
                assert np.array_equal(out, wanted)


def test_joins_of_several_lengths_and_on_all_cores() -> None:
    for shapes, axis in (
        (((2, 5), (0, 5), (300, 5)), 0),
        (((300, 5), (300, 1), (300, 0)), 1),
        (((4, 300_000), (4, 3)), 1),
        (((90_000, 3), (90_000, 8)), 1),
    ):
        arrays = [values(shape, "float32") for shape in shapes]
        wanted = np.concatenate(arrays, axis)
        assert np.array_equal(moved_rows.join(arrays, axis, False, 1 << 30), wanted)


def test_a_join_of_more_than_is_asked_for_is_a_shape() -> None:
    x = values((5, 4), "int32")
    assert moved_rows.join([x, x], -1, False, 39) == (5, 8)
    assert moved_rows.join([x, x], -1, True, 39) == (5, 4, 2)


def test_what_does_not_fit_is_not_joined() -> None:
    x = values((5, 4), "int32")
    for others, axis in (
        ([x, x.astype("int64")], 0),
        ([x, x.T], 0),
        ([x, x[:, ::2]], 1),
        ([x, x[0]], 0),
        ([x, x], 2),
        ([x, x], -3),
        ([x, 3], 0),
        ([], 0),
    ):
        assert moved_rows.join(others, axis, False, 1 << 20) is None
    assert moved_rows.join([x, x[:4]], 0, True, 1 << 20) is None
    assert not moved_rows.join_into([x, x], 0, np.empty((9, 4), "int32"))
    assert not moved_rows.join_into([x, x], 0, np.empty((4, 10), "int32").T)


@pytest.mark.parametrize("dtype", [*DTYPES, bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(9,), (9, 1), (9, 5), (4, 9, 3), (4, 9), (2, 70_000)])
def test_rows_by_index_are_numpys(dtype: Any, shape: tuple[int, ...]) -> None:
    x = values(shape, dtype)
    for axis, n in enumerate(shape):
        for index_shape in ((7,), (2, 3), ()):
            index = RNG.integers(-n, n, index_shape)
            wanted = np.take(x, index, axis)
            out = np.zeros_like(wanted)
            assert moved_rows.take(x, np.asarray(index), axis, out)
            assert np.array_equal(out, wanted)


@pytest.mark.parametrize("dtype", [*DTYPES, bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(9,), (9, 5), (4, 9, 3), (30_000, 8)])
def test_elements_along_an_axis_are_numpys(dtype: Any, shape: tuple[int, ...]) -> None:
    x = values(shape, dtype)
    for axis, n in enumerate(shape):
        for length in (1, 4):
            index = RNG.integers(-n, n, (*shape[:axis], length, *shape[axis + 1 :]))
            wanted = np.take_along_axis(x, index, axis)
            out = np.zeros_like(wanted)
            assert moved_rows.take_along(x, index, axis, out)
            assert np.array_equal(out, wanted)


def test_an_index_out_of_bounds_or_of_another_kind_is_left() -> None:
    x = values((9, 4), "float64")
    for wrong in (9, -10, 1 << 40):
        index = np.asarray([0, wrong, 2])
        assert not moved_rows.take(x, index, 0, np.empty((3, 4)))
        assert not moved_rows.take_along(x, np.repeat(index[:, None], 4, 1), 0, np.empty((3, 4)))
        before = x.copy()
        assert not moved_rows.add_at(x, index, np.ones((3, 4)))
        assert np.array_equal(x, before)
    index = np.asarray([0, 1, 2])
    assert not moved_rows.take(x, index.astype("int32"), 0, np.empty((3, 4)))
    assert not moved_rows.take(x[:, ::2], index, 0, np.empty((3, 2)))
    assert not moved_rows.take(x, index, 2, np.empty((3, 4)))
    assert not moved_rows.take(x, index, 0, np.empty((3, 4), "float32"))
    assert not moved_rows.take(np.empty((0, 4)), index[:0], 0, np.empty((0, 4)))
    assert not moved_rows.take_along(x, index[:, None], 0, np.empty((3, 1)))


@pytest.mark.parametrize("dtype", DTYPES[:2] + DTYPES[3:8])
@pytest.mark.parametrize("shape", [(9,), (9, 1), (9, 5), (3, 70_000), (6, 2, 50)])
def test_rows_are_added_in_the_order_of_the_index(dtype: str, shape: tuple[int, ...]) -> None:
    for index_shape in ((20,), (4, 5), (0,)):
        index = RNG.integers(-shape[0], shape[0], index_shape)
        rows = (RNG.random((*index_shape, *shape[1:])) * 50).astype(dtype)
        made = values(shape, dtype)
        wanted = made.copy()
        np.add.at(wanted, index, rows)
        assert moved_rows.add_at(made, index, rows)
        assert made.tobytes() == wanted.tobytes()


def test_what_numpy_adds_in_another_way_is_left_to_it() -> None:
    index = np.asarray([0, 1])
    x = values((9, 4), "float64")
    assert not moved_rows.add_at(x, index, np.ones(4))
    assert not moved_rows.add_at(x, index, np.ones((2, 4), "float32"))
    assert not moved_rows.add_at(x, index, x[:2])
    assert not moved_rows.add_at(values((9,), "bool"), index, np.ones(2, "bool"))
    assert not moved_rows.add_at(values((9,), "float16"), index, np.ones(2, "float16"))
    x.flags.writeable = False
    assert not moved_rows.add_at(x, index, np.ones((2, 4)))

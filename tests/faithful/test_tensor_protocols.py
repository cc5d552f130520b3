"""What Python and NumPy ask of a Tensor, one protocol at a time."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]


def table(n: int = 3, m: int = 4) -> Array:
    return np.arange(n * m, dtype=np.float64).reshape(n, m) - 2.5


def assert_equal(actual: Any, expected: Any) -> None:
    """A Tensor with the values, shape and dtype of the array."""
    assert isinstance(actual, it.Tensor)
    expected = np.asarray(expected)
    assert np.dtype(actual.dtype) == expected.dtype
    assert tuple(actual.shape) == expected.shape
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12)


# ---------------------------------------------------------------- attributes


def test_attributes_are_numpys() -> None:
    array = np.zeros((2, 3, 4), np.float32)
    t = it.asarray(array)
    assert tuple(t.shape) == (2, 3, 4)
    assert (t.ndim, t.size, t.nbytes, t.itemsize) == (3, 24, 96, 4)
    assert np.dtype(t.dtype) == np.float32


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (2, 1, 3)])
def test_attributes_of_small_shapes_are_numpys(shape: tuple[int, ...]) -> None:
    array = np.ones(shape, np.int8)
    t = it.asarray(array)
    assert (tuple(t.shape), t.ndim, t.size, t.nbytes) == (shape, array.ndim, array.size, array.size)


def test_attributes_compute_nothing() -> None:
    t = it.asarray(table(300, 400)) * 2 + 1
    it.stats(reset=True)
    assert (t.shape, t.ndim, t.size, t.nbytes, len(t)) == ((300, 400), 2, 120000, 960000, 300)
    assert (t.T.shape, t.real.shape, t[::2, 0].shape) == ((400, 300), (300, 400), (150,))
    assert it.stats()["tasks"] == 0


def test_a_shape_that_is_set_is_a_view_with_that_shape() -> None:
    t = it.asarray(table(3, 4))
    seen = t[1:]
    seen.shape = (2, 2, 2)
    seen[1] = 0
    expected = table(3, 4)
    expected[2] = 0
    assert_equal(t, expected)
    seen.shape = -1
    assert seen.shape == (8,)


def test_a_shape_that_needs_a_copy_cannot_be_set() -> None:
    t = it.asarray(table(3, 4)).T
    with pytest.raises(AttributeError, match="Incompatible shape for in-place modification"):
        t.shape = (12,)
    with pytest.raises(ValueError, match="cannot reshape array of size 12"):
        t.shape = (5,)


def test_ndarray_called_with_a_shape_makes_a_tensor_to_be_filled() -> None:
    t = it.ndarray((2, 3), dtype=np.float32)
    t[:] = 1
    assert_equal(t, np.ones((2, 3), np.float32))
    assert it.ndarray(4).dtype == np.float64


def test_device_names_a_device() -> None:
    assert it.asarray([1, 2]).device is not None
    assert str(it.asarray([1, 2]).device)


def test_transposes_are_views() -> None:
    t = it.asarray(table())
    assert_equal(t.T, table().T)
    assert_equal(t.mT, table().T)
    t.T[1, 0] = 99.0
    t.mT[0, 2] = 98.0
    assert float(t[0, 1]) == 99.0
    assert float(t[2, 0]) == 98.0


def test_matrix_transpose_needs_two_axes() -> None:
    with pytest.raises(ValueError, match=r"(?i)matrix transpose|ndim|two|2"):
        it.asarray([1, 2]).mT  # noqa: B018


def test_real_and_imag_are_views_of_complex_numbers() -> None:
    t = it.asarray([1 + 2j, 3 - 4j])
    t.real[0] = 7.0
    t.imag[1] = 0.5
    t.imag[:1] += 1
    assert_equal(t, [7 + 3j, 3 + 0.5j])
    assert np.dtype(t.real.dtype) == np.float64


def test_real_and_imag_can_be_set() -> None:
    t = it.asarray([1 + 2j, 3 - 4j])
    t.real = 5
    t.imag = np.array([1.5, -1.5])
    assert_equal(t, [5 + 1.5j, 5 - 1.5j])


def test_real_of_real_is_the_array_itself() -> None:
    t = it.asarray([1.0, 2.0])
    t.real[0] = 9.0
    assert_equal(t, [9.0, 2.0])
    assert_equal(it.asarray([1.0, 2.0]).imag, [0.0, 0.0])


def test_flat_reads_and_writes_in_c_order() -> None:
    t = it.asarray(table()).T
    expected = table().T
    for key in (3, -1, slice(1, 9, 3), [0, 5, 5]):
        np.testing.assert_array_equal(np.asarray(t.flat[key]), expected.flat[key])
    t.flat[5] = 100.0
    expected.flat[5] = 100.0
    t.flat[::4] = -1
    expected.flat[::4] = -1
    t.flat[[1, 2]] = [7.0, 8.0]
    expected.flat[[1, 2]] = [7.0, 8.0]
    assert_equal(t, expected)
    assert [float(x) for x in t.flat] == expected.ravel().tolist()
    assert len(t.flat) == 12


def test_flat_repeats_short_values() -> None:
    t, expected = it.zeros((2, 3)), np.zeros((2, 3))
    t.flat[0:5] = [1.0, 2.0]
    expected.flat[0:5] = [1.0, 2.0]
    assert_equal(t, expected)
    t.flat = [3.0, 4.0]
    expected[...] = [[3.0, 4.0, 3.0], [4.0, 3.0, 4.0]]
    assert_equal(t, expected)


def test_dtype_cannot_be_set() -> None:
    t = it.asarray(table())
    with pytest.raises(AttributeError, match=r"(?i)dtype|set"):
        t.dtype = np.float32  # type: ignore[misc,assignment]


# ---------------------------------------------------------- sequence and scalars


def test_len_is_the_first_axis() -> None:
    assert len(it.zeros((3, 4))) == 3
    assert len(it.zeros((0, 4))) == 0
    with pytest.raises(TypeError, match=r"len\(\) of (unsized|a 0-d|0-d)"):
        len(it.asarray(1.0))


def test_iteration_gives_rows_that_are_views() -> None:
    t = it.asarray(table())
    for i, row in enumerate(t):
        assert_equal(row, table()[i])
        row[0] = i
    np.testing.assert_array_equal(t.numpy()[:, 0], [0.0, 1.0, 2.0])


def test_iteration_over_a_vector_gives_values() -> None:
    t = it.asarray([1, 2, 3])
    values = list(t)
    t[...] = 0
    assert [int(value) for value in values] == [1, 2, 3]


def test_iteration_unpacks() -> None:
    first, second = it.asarray(table(2, 3))
    assert_equal(first, table(2, 3)[0])
    assert_equal(second, table(2, 3)[1])


def test_a_scalar_cannot_be_iterated() -> None:
    with pytest.raises(TypeError, match=r"iteration over a 0-d"):
        iter(it.asarray(1.0))


def test_contains_asks_for_any_equal_element() -> None:
    t = it.asarray(table())
    assert -2.5 in t
    assert 100 not in t
    assert math.nan not in it.asarray([math.nan])
    assert 1 not in it.zeros((0, 3))


@pytest.mark.parametrize("value", [0, 1, -3])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "float64"])
def test_scalars_become_python_numbers(value: int, dtype: str) -> None:
    array = np.array(value).astype(dtype)
    t = it.asarray(array)
    for kind in (bool, int, float, complex):
        found = kind(t)
        assert type(found) is kind
        assert found == kind(array)


def test_elements_become_python_numbers() -> None:
    t = it.asarray(table())
    assert float(t[1, 2]) == 3.5
    assert int(t[-1, -1]) == 8
    assert complex(it.asarray([1 + 2j])[0]) == 1 + 2j


def test_index_is_for_integers_only() -> None:
    t = it.asarray([2, 1])
    assert operator.index(t[0]) == 2
    assert ["a", "b", "c"][t[0]] == "c"
    assert list(range(t[0])) == [0, 1]
    with pytest.raises(TypeError, match=r"(?i)integer"):
        operator.index(it.asarray(2.0))
    with pytest.raises(TypeError, match=r"(?i)integer|scalar"):
        operator.index(t)


@pytest.mark.parametrize("kind", [int, float, complex])
def test_only_scalars_become_python_numbers(kind: Any) -> None:
    for array in (np.zeros(3), np.zeros(1), np.zeros((0,))):
        with pytest.raises(TypeError, match=r"(?i)0-d|only .*scalar|size"):
            kind(it.asarray(array))


def test_a_complex_number_is_not_real() -> None:
    for kind in (int, float):
        with pytest.raises(TypeError, match=r"(?i)complex"):
            kind(it.asarray(1 + 2j))


def test_the_truth_of_one_element_only() -> None:
    assert bool(it.asarray([3]))
    assert not it.asarray([[0.0]])
    with pytest.raises(ValueError, match=r"truth value of an array with more than one element"):
        bool(it.asarray([1, 2]))
    with pytest.raises(ValueError, match=r"truth value of an empty array"):
        bool(it.zeros((0,)))


def test_item_and_tolist_give_python_values() -> None:
    t = it.asarray(table())
    assert type(t[0, 0].item()) is float
    assert t.item(5) == 2.5
    assert t.item(1, 2) == 3.5
    assert t.tolist() == table().tolist()
    assert it.asarray(True).tolist() is True
    assert it.zeros((2, 0)).tolist() == [[], []]
    with pytest.raises(ValueError, match=r"(?i)size 1"):
        t.item()


def test_format_is_that_of_the_number() -> None:
    assert f"{it.asarray(1.5):.3f}" == "1.500"
    assert f"{it.asarray(7):05d}" == "00007"
    assert f"{it.asarray(1.5)}" == "1.5"
    with pytest.raises(TypeError, match=r"unsupported format string"):
        format(it.asarray([1.5, 2.5]), ".3f")


def test_str_of_an_array_shows_its_values() -> None:
    text = str(it.asarray([1, 2, 3]))
    assert all(digit in text for digit in "123")
    assert "1.5" in f"{it.asarray([1.5])}"


def test_a_tensor_is_not_hashable() -> None:
    with pytest.raises(TypeError, match=r"unhashable"):
        hash(it.asarray([1]))


# ------------------------------------------------------------------ comparison


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparison_is_elementwise(name: str) -> None:
    op = getattr(operator, name)
    t, array = it.asarray(table()), table()
    for other in (1.5, 0, np.float32(2.5), array.T.copy().T, array[0], np.nan):
        assert_equal(op(t, other), op(array, other))
    assert_equal(op(t, it.asarray(array[0])), op(array, array[0]))
    assert_equal(op(1.5, t), op(1.5, array))


def test_comparison_with_what_the_dtype_cannot_hold() -> None:
    array = np.array([1, 200, 255], np.uint8)
    t = it.asarray(array)
    assert_equal(t < 300, array < 300)
    assert_equal(t == -1, array == -1)
    assert_equal(t > -5, array > -5)


def test_comparison_with_something_else_is_false() -> None:
    same: Any = it.asarray(1.0) == None  # noqa: E711
    assert same is False or not bool(same)
    assert it.asarray([1, 2]) is not None


def test_comparison_of_shapes_that_do_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"(?i)shape|broadcast"):
        it.asarray([1, 2]) == it.asarray([1, 2, 3])  # noqa: B015


# ------------------------------------------------------------------- operators


def test_numpy_arrays_and_scalars_on_the_left_give_tensors() -> None:
    t, array = it.asarray(table()), table()
    assert_equal(np.float64(2) * t, 2 * array)
    assert_equal(array - t, array - array)
    assert_equal(np.float32(1) / (t + 10), np.float32(1) / (array + 10))
    assert_equal(2 ** it.asarray([1, 2, 3]), 2 ** np.array([1, 2, 3]))


def test_lists_are_operands() -> None:
    assert_equal(it.asarray([1, 2]) + [3, 4], [4, 6])  # noqa: RUF005


@pytest.mark.parametrize(
    ("dtype", "scalar"),
    [
        ("int32", 1.5), ("float32", 1.5), ("float32", np.float64(1.5)), ("int8", np.int64(3)),
        ("uint8", 7), ("bool", True), ("bool", 2), ("bool", 1.5), ("float32", 1j), ("int64", 1j),
        ("uint8", np.int8(-1)), ("float32", np.int32(3)), ("float32", np.int64(3)),
        ("complex128", np.float32(2)), ("int64", True), ("uint8", np.uint8(200)),
    ],
    ids=repr,
)  # fmt: skip
def test_scalars_promote_as_in_numpy(dtype: str, scalar: Any) -> None:
    array = np.array([0, 1, 1]).astype(dtype)
    t = it.asarray(array)
    assert_equal(t + scalar, array + scalar)
    assert_equal(scalar * t, scalar * array)
    assert_equal(it.add(t, scalar), np.add(array, scalar))
    big = it.zeros((200, 200), dtype=np.dtype(dtype))
    assert np.dtype((big + scalar).dtype) == (array + scalar).dtype, "depends on the size"


@pytest.mark.parametrize("value", [300, -1])
def test_an_integer_that_does_not_fit_is_an_overflow(value: int) -> None:
    t = it.asarray(np.array([1, 2], np.uint8))
    with pytest.raises(OverflowError, match=r"out of bounds for uint8"):
        t + value
    with pytest.raises(OverflowError, match=r"out of bounds for uint8"):
        t[0] = value
    with pytest.raises(OverflowError, match=r"out of bounds for uint8"):
        t += value
    assert_equal(t, np.array([1, 2], np.uint8))


@pytest.mark.parametrize(
    ("dtype", "op", "other"),
    [
        ("int32", "iadd", 1.5), ("int32", "itruediv", 2), ("bool", "iadd", 1),
        ("float32", "imul", 1j), ("uint8", "iadd", np.int8(-1)), ("int8", "isub", np.array([1.0])),
    ],
    ids=repr,
)  # fmt: skip
def test_in_place_operators_cast_only_within_a_kind(dtype: str, op: str, other: Any) -> None:
    t = it.ones((3,), dtype=np.dtype(dtype))
    with pytest.raises(TypeError, match=r"Cannot cast ufunc"):
        getattr(operator, op)(t, other)
    assert_equal(t, np.ones(3, dtype))


def test_in_place_operators_keep_dtype_and_identity() -> None:
    t = it.ones((3,), dtype=np.dtype("float32"))
    same, view = t, t[1:]
    t += np.float64(1.5)
    t *= 2
    t -= np.array([1, 2, 3])
    assert same is t
    assert_equal(t, np.array([4, 3, 2], np.float32))
    assert_equal(view, np.array([3, 2], np.float32))


def test_in_place_operators_do_not_grow_the_target() -> None:
    t = it.ones((3,))
    with pytest.raises(ValueError, match=r"(?i)broadcast|shape"):
        t += np.ones((2, 3))


def test_in_place_at_an_element_casts_as_a_write_does() -> None:
    """In NumPy `x[0] += 1.5` is a scalar sum and a write, which truncates."""
    t, expected = it.asarray([1, 2, 3]), np.array([1, 2, 3])
    t[0] += 1.5
    expected[0] += 1.5
    assert_equal(t, expected)


def test_booleans_have_no_minus() -> None:
    t = it.asarray([True, False])
    with pytest.raises(TypeError, match=r"(?i)boolean|bool"):
        operator.sub(t, t)
    with pytest.raises(TypeError, match=r"(?i)boolean|bool"):
        operator.neg(t)


def test_an_integer_to_a_negative_power_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"(?i)negative integer powers|negative"):
        it.compute(it.asarray([1, 2]) ** -1)


def test_the_least_integer_divided_by_minus_one_wraps() -> None:
    array = np.array([-(2**31), 5, -7], np.int32)
    with np.errstate(all="ignore"):
        assert_equal(it.asarray(array) // -1, array // np.int32(-1))
        assert_equal(it.asarray(array) % -1, array % np.int32(-1))


def test_integers_divided_by_zero_are_zero() -> None:
    array = np.array([-3, 0, 5])
    assert_equal(it.asarray(array) // 0, np.zeros(3, int))
    assert_equal(it.asarray(array) % 0, np.zeros(3, int))


def test_divmod_is_both() -> None:
    q, r = divmod(it.asarray([7, -7]), 3)
    assert_equal(q, [2, -3])
    assert_equal(r, [1, 2])


# --------------------------------------------------------------------- copies


@pytest.mark.parametrize("how", ["copy", "deepcopy", "method", "pickle", "array", "flatten"])
def test_a_copy_shares_nothing(how: str) -> None:
    t = it.asarray(table())
    ways: dict[str, Callable[[], Any]] = {
        "copy": lambda: copy.copy(t),
        "deepcopy": lambda: copy.deepcopy(t),
        "method": lambda: t.copy(),
        "pickle": lambda: pickle.loads(pickle.dumps(t)),
        "array": lambda: it.array(t),
        "flatten": lambda: t.flatten(),
    }
    made = ways[how]()
    t[...] = 0
    assert_equal(made, table().ravel() if how == "flatten" else table())
    made[0] = 5.0
    assert_equal(t, np.zeros((3, 4)))


def test_a_lazy_view_can_be_pickled() -> None:
    t = (it.asarray(table()) * 2)[::-1, 1:].T
    assert_equal(pickle.loads(pickle.dumps(t)), (table() * 2)[::-1, 1:].T)


def test_deepcopy_keeps_what_is_shared_in_a_container() -> None:
    t = it.asarray(table())
    first, second = copy.deepcopy([t, t])
    assert first is second
    assert first is not t


# -------------------------------------------------------------- import and export


def test_asarray_copies_what_may_change() -> None:
    array = table()
    t, u = it.asarray(array), it.array(array)
    v = t * 2 + 1
    array[...] = 99.0
    for made, expected in ((t, table()), (u, table()), (v, table() * 2 + 1)):
        assert_equal(made, expected)


def test_writes_do_not_reach_the_source() -> None:
    array = table()
    t = it.asarray(array)
    t += 1
    t[0] = 0
    it.compute(t)
    np.testing.assert_array_equal(array, table())


@pytest.mark.parametrize("export", [np.asarray, np.array, lambda t: t.numpy()])
def test_an_exported_array_keeps_its_values(export: Any) -> None:
    t = it.asarray(table())
    first = export(t)
    t += 1
    t[0] = -9
    second = export(t[1:])
    t[...] = 0
    it.compute(t)
    np.testing.assert_array_equal(first, table())
    np.testing.assert_array_equal(second, table()[1:] + 1)
    assert type(first) is np.ndarray


def test_an_exported_array_outlives_its_tensor() -> None:
    exported = (it.asarray(table()) * 2).numpy()
    for _ in range(20):
        it.compute(it.zeros((3, 4)) + 7)
    np.testing.assert_array_equal(exported, table() * 2)


def test_np_asarray_takes_dtype_and_copy() -> None:
    t = it.asarray(table())
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    made = np.array(t, copy=True)
    made[...] = 0
    assert_equal(t, table())


def test_dlpack_goes_both_ways() -> None:
    t = it.asarray(table())
    np.testing.assert_array_equal(np.from_dlpack(t), table())
    assert_equal(it.from_dlpack(table()), table())


# -------------------------------------------------------------- repr computes a corner


def test_repr_looks_like_numpys() -> None:
    t = it.asarray([[1, 2], [3, 4]])
    for number in "1234":
        assert number in repr(t)
    assert "float32" in repr(it.zeros((2,), dtype=np.dtype("float32")))
    assert repr(it.zeros((0, 3)))
    assert repr(it.asarray(1.5))


def test_repr_of_a_large_lazy_tensor_runs_few_tasks() -> None:
    t = it.zeros((3000, 1000)) + 1.5
    it.stats(reset=True)
    text = repr(t)
    corner = it.stats()["tasks"]
    assert "1.5" in text
    assert "..." in text
    assert corner < 200, "repr computed more than a corner"
    assert len(text) < 5000


def test_repr_leaves_the_tensor_as_it_was() -> None:
    t = it.asarray(table()) * 2
    repr(t)
    t[0] = 7
    expected = table() * 2
    expected[0] = 7
    assert_equal(t, expected)


def test_html_shows_shape_dtype_and_layout() -> None:
    page = (it.zeros((300, 400), dtype=np.dtype("float32")) + 1)._repr_html_()
    assert "<" in page
    assert "300" in page
    assert "400" in page
    assert "float32" in page


# --------------------------------------------------------------- values and views


def test_full_integer_indexing_gives_a_value() -> None:
    t = it.asarray(table())
    value, zero_d = t[0, 0], it.asarray(5.0)[()]
    t[...] = 99
    assert float(value) == -2.5
    assert float(zero_d) == 5.0
    assert isinstance(value, it.Tensor)
    assert value.shape == ()


def test_full_indexing_with_an_ellipsis_gives_a_view() -> None:
    t, array = it.asarray(table()), table()
    view, expected = t[0, 0, ...], array[0, 0, ...]
    t[0, 0] = array[0, 0] = 99
    assert float(view) == float(expected) == 99


def test_a_value_can_be_changed_without_changing_its_source() -> None:
    t = it.asarray(table())
    value = t[0, 0]
    value += 1
    assert float(value) == -1.5
    assert float(t[0, 0]) == -2.5


def test_views_of_views_write_the_base() -> None:
    t, array = it.asarray(table(4, 6)), table(4, 6)
    for x in (t, array):
        x[1:, ::-2].T[1:, None, ::-1][..., 0] = -1
        x.reshape(2, 2, 6)[1, :, 3:].reshape(6)[::5] += 100
        x.ravel()[3] = 77
    assert_equal(t, array)


def test_a_reshape_that_numpy_copies_is_a_copy() -> None:
    t = it.asarray(table())
    flat = t.T.reshape(12)
    flat[...] = 0
    assert_equal(t, table())
    assert_equal(t.T.ravel(), table().T.ravel())


def test_writing_through_a_diagonal_writes_the_base() -> None:
    t = it.asarray(table(3, 4))
    t.diagonal()[...] = 0
    t.diagonal(1)[0] = 50
    expected = table(3, 4)
    np.fill_diagonal(expected, 0)
    expected[0, 1] = 50
    assert_equal(t, expected)


def test_a_write_reads_all_before_it_writes() -> None:
    t, array = it.asarray(np.arange(10)), np.arange(10)
    for x in (t, array):
        x[1:] = x[:-1]
        x[:-2] += x[2:]
        x[...] = x[::-1]
        x[::2] = x[1::2]
    assert_equal(t, array)


def test_the_last_of_equal_indices_wins() -> None:
    t = it.zeros((4,))
    t[[0, 1, 0, 2, 0]] = [1.0, 2.0, 3.0, 4.0, 5.0]
    t[np.array([3, 3])] += 1
    assert_equal(t, [5.0, 2.0, 4.0, 1.0])


def test_writing_through_a_mask_of_itself() -> None:
    t, array = it.asarray(table()), table()
    t[t < 0] = 0
    array[array < 0] = 0
    t[t > 5] *= -1
    array[array > 5] *= -1
    assert_equal(t, array)


def test_broadcast_views_are_read_only() -> None:
    t = it.broadcast_to(it.asarray([1.0, 2.0]), (3, 2))
    for write in (
        lambda: operator.setitem(t, 0, 1.0),  # type: ignore[call-overload]
        lambda: operator.setitem(t[1:], ..., 1.0),  # type: ignore[call-overload]
        lambda: t.__iadd__(1.0),
        lambda: t.fill(0.0),
    ):
        with pytest.raises(ValueError, match=r"read-only"):
            write()
    with pytest.raises(ValueError, match=r"assignment destination is read-only"):
        t[0, 0] = 1.0
    assert_equal(t, np.broadcast_to([1.0, 2.0], (3, 2)))


def test_a_broadcast_view_sees_writes_to_its_base() -> None:
    base = it.asarray([1.0, 2.0])
    wide = it.broadcast_to(base, (3, 2))
    base[0] = 9.0
    assert_equal(wide, np.broadcast_to([9.0, 2.0], (3, 2)))


def test_a_failed_write_changes_nothing() -> None:
    t = it.asarray(table())
    with pytest.raises(ValueError, match=r"(?i)broadcast|shape"):
        t[0] = np.zeros(3)
    with pytest.raises(IndexError, match=r"(?i)out of bounds|out of range"):
        t[7] = 0
    with pytest.raises(IndexError, match=r"(?i)out of bounds|out of range"):
        t[[0, 3]] = 0
    with pytest.raises(IndexError, match=r"(?i)too many|indices"):
        t[0, 0, 0] = 0
    with pytest.raises(IndexError, match=r"(?i)boolean|mask|shape"):
        t[np.array([True, False])] = 0
    assert_equal(t, table())


# ---------------------------------------------------------------------- methods

METHODS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "sum": ((1,), {}),
    "mean": ((), {"axis": 0, "keepdims": True}),
    "min": ((), {}),
    "max": ((0,), {}),
    "argmin": ((1,), {}),
    "argmax": ((), {}),
    "any": ((), {}),
    "all": ((1,), {}),
    "std": ((0,), {"ddof": 1}),
    "var": ((), {}),
    "prod": ((), {"axis": -1}),
    "cumsum": ((), {"axis": 1}),
    "cumprod": ((0,), {}),
    "reshape": ((2, -1), {}),
    "transpose": ((1, 0), {}),
    "ravel": ((), {}),
    "flatten": ((), {}),
    "squeeze": ((), {}),
    "astype": ((np.dtype("int8"),), {}),
    "copy": ((), {}),
    "take": (([2, 0, 0],), {"axis": 0}),
    "argsort": ((), {"axis": 0}),
    "round": ((), {}),
    "clip": ((-1.0, 4.0), {}),
    "conj": ((), {}),
    "diagonal": ((), {}),
    "repeat": ((2,), {"axis": 1}),
    "swapaxes": ((0, -1), {}),
    "trace": ((), {}),
}


@pytest.mark.parametrize("name", METHODS)
def test_method_is_numpys(name: str) -> None:
    args, kwargs = METHODS[name]
    t, array = it.asarray(table()), table()
    assert_equal(getattr(t, name)(*args, **kwargs), getattr(array, name)(*args, **kwargs))
    assert_equal(t, array)


def test_method_dot_is_numpys() -> None:
    assert_equal(it.asarray(table()).dot(it.asarray(table().T)), table() @ table().T)


def test_method_sort_is_in_place() -> None:
    t, array = it.asarray(table()[:, ::-1]), table()[:, ::-1].copy()
    assert t.sort() is None  # type: ignore[func-returns-value]
    array.sort()
    assert_equal(t, array)
    t[::-1].sort(0)
    array[::-1].sort(0)
    assert_equal(t, array)


def test_method_fill_is_in_place() -> None:
    t = it.asarray(table())
    assert t[1:].fill(3) is None  # type: ignore[func-returns-value]
    expected = table()
    expected[1:] = 3
    assert_equal(t, expected)


def test_method_nonzero_gives_an_index_for_each_axis() -> None:
    t, array = it.asarray(table().round()), table().round()
    found = t.nonzero()
    assert isinstance(found, tuple)
    for one, other in zip(found, array.nonzero(), strict=True):
        assert_equal(one, other)


def test_method_searchsorted_is_numpys() -> None:
    edges = np.array([-1.0, 0.0, 3.0])
    values = table().ravel()
    for side in ("left", "right"):
        found = it.asarray(edges).searchsorted(it.asarray(values), side=side)
        assert_equal(found, edges.searchsorted(values, side=side))


def test_reductions_take_small_integers_wider() -> None:
    array = np.full((50,), 100, np.int8)
    assert_equal(it.asarray(array).sum(), array.sum())
    assert_equal(it.asarray(array.astype(bool)).sum(), array.astype(bool).sum())
    assert_equal(it.asarray(array.view(np.uint8)).prod(), array.view(np.uint8).prod())
    assert_equal(it.asarray(array).mean(), array.mean())


def test_reductions_of_nothing() -> None:
    empty = it.zeros((0, 3))
    assert_equal(empty.sum(), 0.0)
    assert_equal(empty.prod(axis=0), np.ones(3))
    assert_equal(empty.sum(axis=1), np.zeros(0))
    assert not empty.any()
    assert empty.all()
    for name in ("max", "min", "argmax"):
        with pytest.raises(ValueError, match=r"(?i)zero-size|empty"):
            getattr(empty, name)()


def test_an_axis_that_is_not_there_is_an_axis_error() -> None:
    t = it.asarray(table())
    for method, axis in (("sum", 2), ("argmax", -3), ("squeeze", 5), ("cumsum", 2), ("sort", 2)):
        with pytest.raises(np.exceptions.AxisError, match=r"axis -?\d is out of bounds"):
            getattr(t, method)(axis=axis)


def test_nan_wins_in_max_and_argmax() -> None:
    array = np.array([1.0, math.nan, 3.0, math.nan, -math.inf])
    t = it.asarray(array)
    for name in ("max", "min", "argmax", "argmin", "sum", "mean"):
        np.testing.assert_equal(getattr(t, name)().numpy(), getattr(array, name)())
    np.testing.assert_equal(it.sort(t).numpy(), np.sort(array))


# ------------------------------------------------------------------ unknown names


@pytest.mark.parametrize(
    ("wrong", "near"), [("summ", "sum"), ("arrange", "arange"), ("concatenat", "concat")]
)
def test_an_unknown_function_names_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(AttributeError, match=near):
        getattr(it, wrong)


@pytest.mark.parametrize(("wrong", "near"), [("summ", "sum"), ("reshap", "reshape")])
def test_an_unknown_method_names_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(AttributeError, match=near):
        getattr(it.asarray([1]), wrong)


def test_unknown_names_are_absent_to_hasattr() -> None:
    assert not hasattr(it, "no_such_function_at_all")
    assert not hasattr(it.asarray([1]), "no_such_method_at_all")


def test_a_name_of_numpys_that_we_lack_says_so() -> None:
    with pytest.raises(AttributeError, match=r"busday_count"):
        it.busday_count  # type: ignore[attr-defined] # noqa: B018

"""Programs that random ones were cut down to when they failed: none may come back."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.local,
    pytest.mark.usefixtures("settings_name"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's; ours come as errors below
]


def reversed_onto_itself(xp: Any) -> Any:
    b = xp.asarray(np.array([1.0, 2.0, 4.0])) + 0
    b += b[::-1]
    return b


def minus_its_reverse(xp: Any) -> Any:
    b = xp.asarray(np.array([1.0, 2.0, 4.0])) * 2
    return b - b[::-1]


def minus_its_transpose(xp: Any) -> Any:
    b = xp.asarray(np.arange(9.0).reshape(3, 3)) * 2
    return b - b.T


def reversed_slice_onto_itself(xp: Any) -> Any:
    b = xp.asarray(np.arange(22)) == 2
    b[::-1] |= b
    return b


def shifted_onto_itself(xp: Any) -> Any:
    b = xp.asarray(np.arange(9.0)) * 2
    b[1:] += b[:-1]
    return b


def transposed_onto_itself(xp: Any) -> Any:
    b = xp.asarray(np.arange(9.0).reshape(3, 3)) * 2
    b -= b.T
    return b


def sum_of_an_outer_product(xp: Any) -> Any:
    return xp.sum(xp.outer(xp.full((4,), -8.0), xp.asarray(np.array([-3, 1], np.int32))))


def ravel_of_a_reversed_column(xp: Any) -> Any:
    a = xp.asarray(np.arange(4).reshape(4, 1))
    flat = a[::-1].ravel()
    flat[...] = 7
    return a


def ravel_of_a_broadcast_view(xp: Any) -> Any:
    a = xp.asarray(np.array(-2, np.int8))
    flat = xp.broadcast_to(a[None], (1, 4)).ravel()
    a[...] = 5
    return flat


def reshape_of_a_reversed_column(xp: Any) -> Any:
    a = xp.asarray(np.arange(4).reshape(4, 1))
    a[::-1].reshape(4)[0] = 7
    return a


def zero_d_written_with_a_new_axis(xp: Any) -> Any:
    a = xp.asarray(np.array(5))
    a[None] = a + 1
    return a


def flat_of_nothing(xp: Any) -> Any:
    return xp.ones((0, 4), dtype=np.dtype("complex128")).flat[:]


def flat_element_written(xp: Any) -> Any:
    a = xp.asarray(np.array([0, 3], np.uint8))
    a.flat[1] = 7
    return a


def numpy_scalar_that_wraps_written_to_nothing(xp: Any) -> Any:
    a = xp.ones((5, 0, 3), dtype=np.dtype("int8"))
    a.flat[::3] = np.int32(2**31 - 1)
    return a


def small_power_of_booleans(xp: Any) -> Any:
    return xp.zeros((5, 3), dtype=np.dtype("bool")) ** 2


def argmin_beside_an_empty_axis(xp: Any) -> Any:
    return xp.zeros((4, 0, 3), dtype=np.dtype("bool")).argmin(axis=2)


def triangle_of_booleans(xp: Any) -> Any:
    return xp.tril(xp.full((4, 3, 3), True, dtype=np.dtype("bool")), k=1)


def matmul_with_no_columns(xp: Any) -> Any:
    return xp.arange(29) @ np.zeros((29, 0), np.int32)


def gather_written_through_a_transpose(xp: Any) -> Any:
    a = xp.zeros((6, 3), dtype=np.dtype("uint8"))
    a.T[np.array([[1, -1], [2, -2]]), ::2] += np.array(11, np.uint8)
    return a


def whole_numbers_too_large_for_half(xp: Any) -> Any:
    b = xp.acos(xp.asarray(np.array([False, True])))
    b[np.array([1])] = np.array([2**31 - 1], np.int32)
    return b


def einsum_with_no_columns(xp: Any) -> Any:
    return xp.einsum("ij,jk->ik", xp.zeros((2, 1)), xp.asarray(np.zeros((1, 0), bool)))


def rows_by_mask_from_the_last_reversed(xp: Any) -> Any:
    a = xp.asarray(np.arange(6).reshape(2, 3)) * 2
    a[np.array([True, False])] = a[None, -1, ::-1]
    return a


def rows_by_index_from_all_reversed(xp: Any) -> Any:
    a = xp.asarray(np.arange(12).reshape(4, 3)) * 2
    a[np.array([3, 1, 0, 2])] = a[::-1, ::-1]
    return a


def one_value_written_where_a_mask_of_a_slice_holds(xp: Any) -> Any:
    a = xp.asarray(np.arange(81).reshape(3, 3, 9))[np.eye(3) > 0]
    mask = np.arange(21).reshape(3, 7) % 2 == 1
    a[:, :-2][mask] = xp.asarray(np.array([2.5]))
    return a


FOUND: list[Callable[[Any], Any]] = [
    minus_its_reverse,
    minus_its_transpose,
    reversed_onto_itself,
    reversed_slice_onto_itself,
    shifted_onto_itself,
    transposed_onto_itself,
    sum_of_an_outer_product,
    ravel_of_a_reversed_column,
    ravel_of_a_broadcast_view,
    reshape_of_a_reversed_column,
    zero_d_written_with_a_new_axis,
    flat_of_nothing,
    flat_element_written,
    numpy_scalar_that_wraps_written_to_nothing,
    small_power_of_booleans,
    argmin_beside_an_empty_axis,
    triangle_of_booleans,
    matmul_with_no_columns,
    gather_written_through_a_transpose,
    whole_numbers_too_large_for_half,
    einsum_with_no_columns,
    rows_by_mask_from_the_last_reversed,
    rows_by_index_from_all_reversed,
    one_value_written_where_a_mask_of_a_slice_holds,
]


@pytest.mark.parametrize("program", FOUND, ids=lambda program: program.__name__)
def test_a_program_that_once_failed(program: Callable[[Any], Any]) -> None:
    expected, actual = np.asarray(program(np)), program(it)
    assert isinstance(actual, it.Tensor)
    found = actual.numpy()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_a_minimum_over_an_empty_axis_is_an_error_at_the_call() -> None:
    empty = it.zeros((3, 1, 0), dtype=np.dtype("complex128"))
    with pytest.raises(ValueError, match=r"zero-size"):
        empty.min(axis=(0, -1))
    with pytest.raises(ValueError, match=r"zero-size"):
        it.zeros((0, 0)).max(axis=-1)
    with pytest.raises(ValueError, match=r"empty sequence"):
        it.zeros((0, 0)).argmax(axis=0)
    assert it.zeros((3, 0)).max(axis=0).shape == (0,)


def test_an_index_out_of_bounds_is_an_error_at_the_call() -> None:
    t = it.ones((2, 1, 2))
    with pytest.raises(IndexError, match=r"out of bounds"):
        it.take_along_axis(t, np.array([[[2, 0, 1]]]), axis=-1)
    with pytest.raises(IndexError, match=r"out of bounds"):
        it.take(t, np.array([2]), axis=0)


@pytest.mark.parametrize("given", [np.asarray, it.asarray], ids=["array", "tensor"])
@pytest.mark.parametrize("key", [slice(0, 0), slice(None, 1, -2)])
def test_an_index_out_of_bounds_is_an_error_where_nothing_is_selected(given: Any, key: Any) -> None:
    t = it.zeros((2, 1))
    index = given(np.array([1, 2]))
    with pytest.raises(IndexError, match=r"index 2 is out of bounds for axis 0 with size 2"):
        t[index, key].numpy()
    with pytest.raises(IndexError, match=r"index 2 is out of bounds for axis 0 with size 2"):
        t[:, :0][index].numpy()
    with pytest.raises(IndexError, match=r"index 2 is out of bounds for axis 0 with size 2"):
        _written(t[:, :0], index)
    assert t[index[:, None], it.zeros((1, 0), dtype=np.dtype("int64"))].shape == (2, 0)


@pytest.mark.parametrize("mode", ["raise", "clip"])
@pytest.mark.parametrize("index", [[7], [0, -1], []])
@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0), (2, 0, 3), (2, 0, 0), (0, 0, 2)])
def test_take_checks_as_many_indices_as_numpy(
    shape: tuple[int, ...], index: list[int], mode: Any
) -> None:
    where = np.array(index, np.int64)
    for given in (where, it.asarray(where)):
        try:
            expected = np.take(np.zeros(shape), where, axis=1, mode=mode).shape
        except IndexError:
            with pytest.raises(IndexError, match=r"out of bounds|from an empty axes"):
                it.take(it.zeros(shape), given, axis=1, mode=mode).numpy()
        else:
            assert it.take(it.zeros(shape), given, axis=1, mode=mode).numpy().shape == expected


def _written(t: it.Tensor, index: Any) -> None:
    t = t.copy()
    t[index] = 1
    t.numpy()


@pytest.mark.parametrize("kind", [np.complex128, np.float64, np.bool_])
def test_an_element_of_a_read_only_view_is_so_whatever_it_is_set_to(kind: Any) -> None:
    c = it.broadcast_to(it.asarray(np.ones(3, kind)), (3,))
    for value in (it.asarray(np.ones(3, kind)), np.ones(3, kind), 1):
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            c[2] = value


def test_a_broadcast_view_of_the_same_elements_is_read_only_too() -> None:
    b = it.broadcast_to(it.asarray(np.array([1, 2], np.int8)), (1, 2))
    with pytest.raises(ValueError, match=r"read-only"):
        b <<= 2


@pytest.mark.parametrize("dtype", ["bool", "int8", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2,), (1, 1)])
def test_an_element_takes_what_numpys_takes(dtype: str, shape: tuple[int, ...]) -> None:
    for key in ((0, -1), (Ellipsis, 0, 1), (np.int64(1), 0)):
        ours, numpys = it.zeros((2, 2), dtype=np.dtype(dtype)), np.zeros((2, 2), dtype)
        try:
            numpys[key] = np.ones(shape, dtype)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error), match=r"array element|0-dimensional|broadcast"):
                ours[key] = np.ones(shape, dtype)
            with pytest.raises(type(error), match=r"array element|0-dimensional|broadcast"):
                ours[key] = it.ones(shape, dtype=np.dtype(dtype))
        else:
            ours[key] = it.ones(shape, dtype=np.dtype(dtype))
        np.testing.assert_array_equal(ours.numpy(), numpys)


def test_a_tensor_of_no_axes_takes_a_number_too() -> None:
    a = it.asarray(np.array(3))
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        a[()] = it.ones(1, dtype=np.dtype("int64"))
    a[...] = it.ones(1, dtype=np.dtype("int64"))
    assert int(a) == 1


def test_a_real_part_too_large_is_infinite_without_a_warning() -> None:
    half = it.log10(it.asarray(np.array([True, False])))
    half.real = np.int32(-(2**31))
    assert half.numpy().tolist() == [-np.inf, -np.inf]


def test_a_complex_number_is_not_written_into_reals() -> None:
    t = it.asarray(np.array([1.0, 2.0], np.float32))
    with pytest.raises((TypeError, ValueError), match=r"(?i)complex|setting"):
        t.flat[-2] = 1j
    with pytest.raises(TypeError, match=r"complex"):
        t[0] = 1j


def test_a_transpose_that_was_pickled_is_transposed_back() -> None:
    a = np.arange(6, dtype=np.int16).reshape(2, 3)
    t = pickle.loads(pickle.dumps(it.asarray(a).T))
    np.testing.assert_array_equal(t.numpy(), a.T)
    np.testing.assert_array_equal(t.T.numpy(), a)
    np.testing.assert_array_equal(t[1:].numpy(), a.T[1:])


def test_where_nothing_is_taken_along_an_axis_no_index_is_looked_at() -> None:
    c = it.broadcast_to(it.zeros((), dtype=np.dtype(bool)), (2, 0))
    assert it.take_along_axis(c, np.array([[2], [1]]), axis=-2).numpy().shape == (2, 0)
    it.zeros((0, 2))[::-1].fill(1)  # a view of nothing is written to


@pytest.mark.parametrize("dtype", ["bool", "int8", "float64", "complex64"])
def test_the_element_of_a_0_d_tensor_takes_no_array(dtype: str) -> None:
    ours, numpys = it.zeros((), dtype=np.dtype(dtype)), np.zeros((), dtype)
    if dtype == "bool":
        ours[()] = np.ones(1, dtype)
        numpys[()] = np.ones(1, dtype)
    else:
        kind = TypeError if dtype == "complex64" else ValueError
        with pytest.raises(kind, match=r"array element|0-dimensional"):
            ours[()] = it.ones(1, dtype=np.dtype(dtype))
    ours[...] = it.ones(1, dtype=np.dtype(dtype))
    numpys[...] = np.ones(1, dtype)
    np.testing.assert_array_equal(ours.numpy(), numpys)


def test_a_real_part_overflows_without_a_word() -> None:
    t = it.zeros(2, dtype=np.dtype(np.float16))
    t.real = np.int32(-2147483648)
    assert np.isneginf(t.numpy()).all()

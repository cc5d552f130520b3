"""Corner cases that other projects' tests ask for (tests/suites), each as NumPy has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.modes import assert_alike, mode  # noqa: F401 - a fixture

import infinitensor as it

pytestmark = pytest.mark.usefixtures("mode")
NUMBER = np.array(5)


@pytest.mark.parametrize("axis", [0, -1, 1, None])
@pytest.mark.parametrize("dtype", ["i4", "f8", "c8", "?"])
def test_a_number_has_one_axis_to_take_repeat_and_compress(axis: Any, dtype: str) -> None:
    x = NUMBER.astype(dtype)
    assert_alike(lambda xp, x, **o: xp.take(x, [0, 0], **o), x, axis=axis)
    assert_alike(lambda xp, x, **o: x.take(0, **o), x, axis=axis)
    assert_alike(lambda xp, x, **o: xp.repeat(x, 3, **o), x, axis=axis)
    assert_alike(lambda xp, x, **o: xp.compress([True], x, **o), x, axis=axis)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("axis", [0, -1, None, 1])
@pytest.mark.parametrize("include_initial", [False, True])
def test_a_number_runs_along_one_axis(name: str, axis: Any, include_initial: bool) -> None:
    assert_alike(
        lambda xp, x, **o: getattr(xp, name)(x, **o),
        NUMBER,
        axis=axis,
        include_initial=include_initial,
    )


@pytest.mark.parametrize("n_axes", [1, 2, 3])
@pytest.mark.parametrize("n_slices", [0, 1, 2, 3])
def test_a_mask_and_slices_beside_it_take_no_more_axes_than_there_are(
    n_axes: int, n_slices: int
) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    mask = x[(slice(None),) * n_axes + (0,) * (3 - n_axes)] % 2 == 0

    def written(xp: Any, x: Any, mask: Any) -> Any:
        x = x.copy()
        x[(mask, *[slice(None)] * n_slices)] = 7
        return x

    assert_alike(lambda xp, x, mask: x[(mask, *[slice(None)] * n_slices)], x, mask)
    assert_alike(written, x, mask)


def test_broadcast_is_an_iterator_that_begins_again_when_reset() -> None:
    def walked(xp: Any, x: Any, y: Any) -> Any:
        both = xp.broadcast(x, y)
        seen = [next(both), both.index, list(both), both.index, list(both), both.numiter]
        both.reset()
        return [*seen, both.index, list(both)] == [
            *((0, 0), 1, [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)], 6, [], 2),
            *(0, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]),
        ]

    x, y = np.arange(3).reshape(3, 1), np.arange(2)
    assert walked(np, x, y)
    assert walked(it, it.asarray(x), it.asarray(y))
    both = it.broadcast(it.asarray(x), it.asarray(y))
    assert [int(flat[3]) for flat in both.iters] == [1, 1]


@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
@pytest.mark.parametrize("axis", [0, -1, 1, -2])
def test_a_line_between_two_numbers_has_one_axis(name: str, axis: int) -> None:
    assert_alike(lambda xp, **o: getattr(xp, name)(1, 8, 4, **o), axis=axis)


@pytest.mark.parametrize("n_weights", [2, 3, 4])
def test_a_histogram_of_points_has_a_weight_for_each(n_weights: int) -> None:
    points, weights = np.linspace(0, 1, 6).reshape(3, 2), np.arange(n_weights) + 0.5

    def counted(xp: Any, points: Any, weights: Any) -> Any:
        return xp.histogramdd(points, bins=2, weights=weights)[0]

    def counted_in_two(xp: Any, points: Any, weights: Any) -> Any:
        return xp.histogram2d(points[:, 0], points[:, 1], bins=2, weights=weights)[0]

    assert_alike(counted, points, weights)
    assert_alike(counted_in_two, points, weights)


def test_a_mode_of_none_is_to_raise() -> None:
    choices, index = np.array([[1, 2], [3, 4]]), np.array([0, 1])
    assert_alike(lambda xp, a, c: xp.choose(a, c, mode=None), index, choices)
    assert_alike(lambda xp, a, c: np.asarray(xp.choose(a + 5, c, mode=None)), index, choices)
    assert_alike(lambda xp, a, c: xp.take(c, a, mode=None), index, choices)


@pytest.mark.parametrize("kind", ["f8", "i4", "c8"])
def test_choose_copies_into_an_out_of_any_kind(kind: str) -> None:
    choices, index = np.array([[1.5, 2], [3, 4]]), np.array([0, 1])

    def chosen(xp: Any, a: Any, c: Any) -> Any:
        out = xp.empty(2, kind)
        assert xp.choose(a, c, out=out) is out
        return out

    assert_alike(chosen, index, choices)


@pytest.mark.parametrize("mask", [[True, False, True], [[True, False, True]], True])
def test_insert_takes_a_mask_of_one_axis(mask: Any) -> None:
    assert_alike(lambda xp, x, mask: xp.insert(x, mask, 9), np.arange(3), np.array(mask))


@pytest.mark.filterwarnings("ignore:numpy.fix:DeprecationWarning")
@pytest.mark.parametrize("name", ["isposinf", "isneginf", "fix"])
@pytest.mark.parametrize("kind", ["f8", "i8", "?"])
def test_functions_that_end_in_a_ufunc_broadcast_to_out(name: str, kind: str) -> None:
    def made(xp: Any, x: Any) -> Any:
        return getattr(xp, name)(x, out=xp.empty((2, 3), kind))

    assert_alike(made, np.array([np.inf, -np.inf, 1.5]))
    assert_alike(made, np.array(-np.inf))


def test_no_values_leave_a_diagonal_as_it_is() -> None:
    def filled(xp: Any, x: Any, values: Any) -> Any:
        x = x.copy()
        xp.fill_diagonal(x, values, wrap=True)
        return x

    assert_alike(filled, np.ones((5, 2)), np.empty(0))
    assert_alike(filled, np.ones((5, 2)), np.empty((0, 3)))


def test_flags_have_numpys_names() -> None:
    for name in ("C", "F", "W", "A", "X", "B", "CA", "FA", "FNC", "FORC", "BEHAVED", "CARRAY"):
        for x in (np.ones((2, 3)), np.ones((2, 3)).T, np.ones(3)):
            ours = it.asarray(np.ones((2, 3))).T if x.shape == (3, 2) else it.asarray(x)
            assert ours.flags[name] == x.flags[name], (name, x.shape)
    assert it.ones((2, 3)).T.flags.farray
    assert not it.broadcast_to(it.ones(1), (3,)).flags.behaved


def test_vectors_of_no_components_have_no_cross_product() -> None:
    with pytest.raises(ValueError, match=r"product\n\(dimension must be 2 or 3\)"):
        it.cross(it.asarray([]), it.asarray([1, 2, 3]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy 2.5 takes them, and warns
@pytest.mark.parametrize("k", [0, 2, -1, 2.5, -2.5, 3.0, np.float32(-1.5), np.int8(1), "1", 1j])
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_a_triangle_begins_at_any_number(name: str, k: Any) -> None:
    assert_alike(lambda xp, x: getattr(xp, name)(x, k), np.ones((4, 5)))
    assert_alike(lambda xp: getattr(xp, f"{name}_indices")(4, k, 5))


@pytest.mark.parametrize("N", [-1, 0, 1, 4, None])
def test_a_vandermonde_matrix_has_no_fewer_columns_than_none(N: Any) -> None:
    assert_alike(lambda xp, x: xp.vander(x, N), np.arange(3.0))


@pytest.mark.parametrize("axes", [[], [1], ([], []), ([1], [0]), (1, 0), [1, 0, 0]])
def test_tensordot_takes_two_lists_of_axes(axes: Any) -> None:
    assert_alike(lambda xp, a, b: xp.tensordot(a, b, axes), np.ones((2, 3)), np.ones((3, 2)))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("initial", [2, 2.5, [2], [2, 3]])
def test_a_reduction_begins_with_one_number(name: str, initial: Any) -> None:
    assert_alike(lambda xp, x: getattr(xp, name)(x, initial=initial), np.ones(3))


@pytest.mark.parametrize(("ndmin", "ndmax"), [(0, 1), (0, 2), (3, 1), (2, 2), (0, -1), (3, 4)])
def test_arrays_have_axes_between_two_numbers(ndmin: int, ndmax: int) -> None:
    try:
        np.array([1], ndmax=2)
    except TypeError:
        pytest.skip("NumPy has ndmax from 2.4 on")
    if ndmax == 1 and not ndmin:
        assert_alike(lambda xp: xp.array([1, 2], ndmin=ndmin, ndmax=ndmax))
        return
    assert_alike(lambda xp: xp.array([[1, 2]], ndmin=ndmin, ndmax=ndmax))


def test_a_tensor_is_never_a_copy_to_be_written_back() -> None:
    with pytest.raises(ValueError, match="cannot set WRITEBACKIFCOPY flag to True"):
        it.ones(3).setflags(uic=True)
    assert it.ones((2, 3)).T.flags.fortran

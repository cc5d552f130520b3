"""The order of sums: which axes one loop goes along, by shapes alone."""

from __future__ import annotations

import pytest

from infinitensor.ops.forms.fold_order import has_short_rows, is_short, line_axes


@pytest.mark.parametrize(
    ("shape", "axes", "line"),
    [
        ((4, 100), (), (-1,)),
        ((50, 40, 3), (-2,), (-2,)),
        ((50, 40, 3), (-1,), (-1,)),
        ((3,), (), (-1,)),
        ((), (), (-1,)),
        ((1000, 13), (-2,), (-2,)),
    ],
)
def test_the_inner_loop_is_along_the_last_axis_that_is_long(
    shape: tuple[int, ...], axes: tuple[int, ...], line: tuple[int, ...]
) -> None:
    assert line_axes(shape, axes) == line


@pytest.mark.parametrize(
    ("shape", "axes", "line"),
    [
        ((1000, 13), (-2, -1), (-2, -1)),
        ((1000, 20), (-2, -1), (-2, -1)),
        ((1000, 64), (-2, -1), (-1,)),
        ((5, 1000, 1, 13), (-3, -1), (-3, -1)),
        ((5, 1000, 2, 20), (-3, -1), (-1,)),
        ((5, 4, 3), (-3, -2, -1), (-3, -2, -1)),
    ],
)
def test_reduced_neighbours_of_a_short_axis_are_one_line_with_it(
    shape: tuple[int, ...], axes: tuple[int, ...], line: tuple[int, ...]
) -> None:
    assert line_axes(shape, axes) == line


def test_many_rows_are_short_that_are_reduced_by_themselves() -> None:
    assert has_short_rows((10, 63))
    assert not has_short_rows((10, 64))
    assert not has_short_rows((63,))
    assert is_short((10, 3), (-1,))
    assert not is_short((10, 3), (-2, -1))

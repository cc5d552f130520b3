"""The cuts of operands' layouts, as cuts of the labels along them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from infinitensor.ir.graph import Operand
from infinitensor.ir.layout import Layout
from infinitensor.ir.space import Read
from infinitensor.ir.view import Access
from infinitensor.partition.operand_cuts import base_axis, common_borders, layout_borders


def layout(*cuts: tuple[int, ...]) -> Layout:
    return Layout(cuts, (0,))


def test_a_whole_operand_gives_its_own_borders_and_none_where_nothing_is_cut() -> None:
    read = Read(Operand(0), (1, 0), (10, 6))
    cut = layout((0, 4, 10), (0, 6))
    assert layout_borders(read, 1, cut) == (0, 4, 10)
    assert layout_borders(read, 0, cut) is None
    assert layout_borders(read, 2, cut) is None


@pytest.mark.parametrize(
    ("start", "step", "n"), [(0, 1, 20), (3, 1, 12), (1, 3, 6), (19, -1, 20), (17, -4, 5)]
)
def test_borders_of_a_view_part_it_just_where_the_tile_of_the_base_changes(
    start: int, step: int, n: int
) -> None:
    borders = (0, 5, 11, 20)
    tile = [
        next(k for k, (a, b) in enumerate(pairwise(borders)) if a <= start + i * step < b)
        for i in range(n)
    ]
    wanted = (0, *(i for i in range(1, n) if tile[i] != tile[i - 1]), n)
    access = Access(((0, start, step),), (-1,))
    read = Read(Operand(0, access), (0,), (n,))
    assert layout_borders(read, 0, layout(borders)) == (wanted if len(wanted) > 2 else None)


def test_an_axis_that_a_view_added_is_cut_nowhere() -> None:
    access = Access((None, (0, 0, 1)), (-1,))
    read = Read(Operand(0, access), (0, 1), (1, 20))
    cut = layout((0, 5, 20))
    assert layout_borders(read, 0, cut) is None
    assert layout_borders(read, 1, cut) == (0, 5, 20)
    assert (base_axis(read, 0), base_axis(read, 1)) == (-1, 0)
    assert base_axis(Read(Operand(0), (0, 1), (1, 20)), 1) == 1


def test_most_of_the_large_operands_say_where_a_label_is_cut() -> None:
    reads = [Read(Operand(k), (0,), (n,)) for k, n in enumerate((20, 20, 20, 4))]
    mine, other = layout((0, 10, 20)), layout((0, 7, 20))
    small = layout((0, 2, 4))
    layouts = dict(zip(reads, (other, mine, mine, small), strict=True))
    assert common_borders(reads, 0, layouts) == (0, 10, 20)
    layouts[reads[2]] = layout((0, 20))  # one each: the largest one's, which comes first
    assert common_borders(reads, 0, layouts) == (0, 7, 20)
    assert common_borders(reads, 1, layouts) is None
